//! Compiles the modules: their files belong to one compiler, and to one version of it, so this is done where they are used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::modules::{Compiler, f08, include, mpi, types};

/// The modules in the order in which they are compiled.
const MODULES: [&str; 3] = ["weft_mpi_types", "mpi_f08", "mpi"];

/// The name of the archive with their code, as `-l` takes it.
pub const ARCHIVE: &str = "weft_modules";

/// What has become of the modules.
#[derive(Clone, Debug)]
pub struct Built {
    /// The compiler, in its own words.
    pub compiler: String,
    /// Why the compiler gets the interface without descriptors, if it does.
    pub without_descriptors: Option<String>,
}

/// A compiler's command, which may be several words.
fn command(compiler: &str) -> Command {
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("gfortran"));
    command.args(words);
    command
}

/// Runs a command, and returns what it printed, or why it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(said(&output.stdout))
    } else {
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        Err(format!("{shown}: {}\n{out}{err}", output.status))
    }
}

/// The first line that the compiler says of its version.
fn version(compiler: &str) -> Result<String, String> {
    let said = run(command(compiler).arg("--version"))?;
    let line = said.lines().find(|line| !line.trim().is_empty());
    line.map(|line| line.trim().to_owned())
        .ok_or_else(|| format!("{compiler} --version prints nothing"))
}

/// The name of the folder for a compiler's modules, such as `gfortran-12`: the compiler and its major version, with which the format of
/// module files may change.
pub fn folder_name(compiler: &str) -> Result<String, String> {
    Ok(name_of(&version(compiler)?))
}

/// The name of the folder, from the first line of `--version`.
fn name_of(line: &str) -> String {
    // The word that has digits on both sides of a dot, as in 12.2.0. What a distribution adds is in parentheses, before it or behind it.
    let mut depth = 0;
    let plain: String = line
        .chars()
        .filter(|&c| {
            depth += i32::from(c == '(');
            let outside = depth == 0;
            depth -= i32::from(c == ')');
            outside
        })
        .collect();
    let major = plain
        .split_whitespace()
        .find_map(|word| word.split_once('.').map(|(major, _)| major))
        .filter(|major| !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit()));
    let family = if line.contains("GNU Fortran") {
        "gfortran"
    } else if line.contains("flang") {
        "flang"
    } else if line.contains("IFX") || line.contains("ifx") {
        "ifx"
    } else {
        ""
    };
    match (family, major) {
        (family, Some(major)) if !family.is_empty() => format!("{family}-{major}"),
        _ => line
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '-'
                }
            })
            .collect(),
    }
}

/// A program that passes a known section of an array to the library, which says whether it is what it sees.
const PROBE: &str = "\
program probe
  implicit none
  interface
    integer function weft_probe(buffer) bind(c, name=\"weft_probe\")
      type(*), dimension(..), asynchronous :: buffer
    end function weft_probe
  end interface
  integer, asynchronous :: array(10, 6), scalar
  if (weft_probe(array(2:8:3, 1:5:2)) /= 0) stop 1
  if (weft_probe(scalar) /= 1) stop 2
end program probe
";

/// Whether the compiler's descriptors are what the library reads: why not, if they are not.
fn probe(compiler: &str, library: &Path, folder: &Path) -> Result<(), String> {
    let (source, program) = (folder.join("probe.f90"), folder.join("probe"));
    fs::write(&source, PROBE).map_err(|error| format!("{}: {error}", source.display()))?;
    run(command(compiler)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", library.display()))
        .args(["-lweft_fortran", "-lmpi_abi"])
        .arg(format!("-Wl,-rpath,{}", library.display())))?;
    run(&mut Command::new(&program))
        .map(|_| ())
        .map_err(|why| format!("its descriptors are not as the library reads them: {why}"))
}

/// Writes the sources of the modules, and `mpif.h`, into a folder.
pub fn write_sources(folder: &Path, compiler: Compiler) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("weft_mpi_types.f90"), types::module(compiler))?;
    fs::write(folder.join("mpi_f08.f90"), f08::module(compiler))?;
    fs::write(folder.join("mpi.f90"), mpi::module(compiler))?;
    write_include(folder)
}

/// Writes `mpif.h` into a folder.
pub fn write_include(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("mpif.h"), include::file())
}

/// Compiles the modules into a folder, which is made if it is not there. Other files in it stay as they are. `library` is the folder of `libweft_fortran.so` and
/// `libmpi_abi.so`.
pub fn build(compiler: &str, library: &Path, folder: &Path) -> Result<Built, String> {
    let version = version(compiler)?;
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut work = folder.as_os_str().to_owned();
    work.push(format!(".new-{}", std::process::id()));
    let work = PathBuf::from(work);
    fs::create_dir_all(&work).map_err(|error| failed(&work, error))?;
    let result = in_folder(compiler, version, library, &work).and_then(|built| {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        for entry in fs::read_dir(&work).map_err(|error| failed(&work, error))? {
            let name = entry.map_err(|error| failed(&work, error))?.file_name();
            let target = folder.join(&name);
            fs::rename(work.join(&name), &target).map_err(|error| failed(&target, error))?;
        }
        Ok(built)
    });
    let _ = fs::remove_dir_all(&work);
    result
}

fn in_folder(compiler: &str, version: String, library: &Path, work: &Path) -> Result<Built, String> {
    let failed = |error: io::Error| format!("{}: {error}", work.display());
    let without_descriptors = probe(compiler, library, work).err();
    let can = Compiler {
        descriptors: without_descriptors.is_none(),
    };
    write_sources(work, can).map_err(failed)?;
    let mut archive = Command::new("ar");
    archive
        .arg("rcs")
        .arg(format!("lib{ARCHIVE}.a"))
        .current_dir(work);
    for module in MODULES {
        // Shared libraries of the user's may contain this code.
        run(command(compiler)
            .args(["-O", "-fPIC", "-c"])
            .arg(format!("{module}.f90"))
            .current_dir(work))?;
        archive.arg(format!("{module}.o"));
    }
    run(&mut archive)?;
    // What stays is what a user's compiler and linker read.
    for entry in fs::read_dir(work).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let keep = path
            .extension()
            .is_some_and(|extension| ["mod", "smod", "a"].iter().any(|kept| extension == *kept));
        if !keep {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(Built {
        compiler: version,
        without_descriptors,
    })
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn compilers_are_told_apart_by_name_and_major_version() {
        for (line, name) in [
            ("GNU Fortran (Debian 12.2.0-14+deb12u1) 12.2.0", "gfortran-12"),
            (
                "GNU Fortran (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)",
                "gfortran-11",
            ),
            ("GNU Fortran (GCC) 13.0.1 20230401 (experimental)", "gfortran-13"),
            ("Debian flang-new version 19.1.7 (3~deb12u1)", "flang-19"),
            ("ifx (IFX) 2024.0.0 20231017", "ifx-2024"),
            ("another 1", "another-1"),
        ] {
            assert_eq!(name_of(line), name, "{line}");
        }
    }
}
