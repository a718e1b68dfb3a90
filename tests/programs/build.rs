//! Compiles the C and Fortran programs, once, however many tests and processes want them: a lock per program, and file times.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use libtest_mimic::Failed;
use weft_fortran_generator::compile;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A source file of `tests/c`.
pub fn source(name: &str) -> PathBuf {
    root().join("tests/c").join(name).with_extension("c")
}

/// The folder of what is built here, beside the library of the same profile.
fn folder() -> Result<PathBuf, Failed> {
    let program = std::env::current_exe()?;
    let deps = program.parent().ok_or("this program lies in no folder")?;
    let folder = deps.with_file_name("programs");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The folder where the library is `libmpi_abi.so.1`, for programs to find it at run time.
pub fn library_folder() -> Result<PathBuf, Failed> {
    let folder = folder()?.join("lib");
    fs::create_dir_all(&folder)?;
    let _lock = lock(&folder.join("lock"))?;
    for (built, names) in [
        ("libweft.so", ["libmpi_abi.so.1", "libmpi_abi.so"]),
        (
            "libweft_fortran.so",
            ["libweft_fortran.so.1", "libweft_fortran.so"],
        ),
    ] {
        let library = std::env::current_exe()?.with_file_name(built);
        if !library.exists() {
            return Err(format!("the library is not built: {}", library.display()).into());
        }
        for name in names {
            let link = folder.join(name);
            if fs::read_link(&link).ok().as_deref() != Some(&library) {
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(&library, &link)?;
            }
        }
    }
    Ok(folder)
}

/// Lines that are the same for all processes of a run: from the file `name` if it is of that run, or else made, and kept there.
pub fn kept_for(run: &str, name: &str, make: impl Fn() -> Vec<String>) -> Result<Vec<String>, Failed> {
    let file = folder()?.join(name);
    let text = fs::read_to_string(&file).unwrap_or_default();
    if let Some((of, lines)) = text.split_once('\n')
        && of == run
    {
        return Ok(lines.lines().map(str::to_owned).collect());
    }
    let made = make();
    // Whole, or not at all.
    let new = file.with_extension(std::process::id().to_string());
    fs::write(&new, format!("{run}\n{}", made.join("\n")))?;
    fs::rename(&new, &file)?;
    Ok(made)
}

/// Held until the file is dropped.
fn lock(path: &Path) -> Result<File, Failed> {
    let file = File::create(path)?;
    file.lock()?;
    Ok(file)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// What every C file of ours is compiled with.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
];

/// Compiles a program or library of `tests/c` with `compiler` into `output` if it is not newer than its sources.
fn compile_c(compiler: &OsStr, name: &str, output: &Path, options: &[String]) -> Result<(), Failed> {
    let _lock = lock(&output.with_extension("lock"))?;
    let sources = [
        source(name),
        root().join("tests/c/check.h"),
        root().join("tests/c/windows.h"),
        root().join("tests/c/rma.h"),
        root().join("include/mpi.h"),
    ];
    let newest = sources.iter().filter_map(|path| modified(path)).max();
    if modified(output) > newest {
        return Ok(());
    }
    let result = Command::new(compiler)
        .args(FLAGS)
        .arg(&sources[0])
        .arg("-o")
        .arg(output)
        .args(options)
        .output()
        .map_err(|error| format!("{}: {error}", compiler.to_string_lossy()))?;
    if !result.status.success() {
        let _ = fs::remove_file(output);
        return Err(format!("{name}.c: {}", String::from_utf8_lossy(&result.stderr)).into());
    }
    Ok(())
}

/// A program linked with Weft, by the C compiler itself.
pub fn program(name: &str) -> Result<PathBuf, Failed> {
    let (output, library) = (folder()?.join(name), library_folder()?);
    let options = [
        format!("-I{}", root().join("include").display()),
        format!("-L{}", library.display()),
        format!("-Wl,-rpath,{}", library.display()),
        "-Wl,--enable-new-dtags".into(),
        "-lmpi_abi".into(),
        "-lm".into(),
    ];
    compile_c(OsStr::new("cc"), name, &output, &options)?;
    Ok(output)
}

/// A library to preload, not linked with any MPI.
pub fn preloaded(name: &str) -> Result<PathBuf, Failed> {
    let output = folder()?.join(format!("lib{name}.so"));
    let options = [
        format!("-I{}", root().join("include").display()),
        "-shared".into(),
        "-fPIC".into(),
    ];
    compile_c(OsStr::new("cc"), name, &output, &options)?;
    Ok(output)
}

/// A program as a compiler wrapper makes it; `suffix` keeps it apart.
pub fn wrapped(wrapper: &Path, name: &str, suffix: &str) -> Result<PathBuf, Failed> {
    let output = folder()?.join(format!("{name}-{suffix}"));
    compile_c(wrapper.as_os_str(), name, &output, &[])?;
    Ok(output)
}

/// Weft's `mpicc`, in a prefix that has what it needs.
pub fn mpicc() -> Result<PathBuf, Failed> {
    let prefix = folder()?.join("prefix");
    fs::create_dir_all(prefix.join("bin"))?;
    let _lock = lock(&prefix.join("lock"))?;
    for (name, target) in [("include", root().join("include")), ("lib", library_folder()?)] {
        let link = prefix.join(name);
        if fs::read_link(&link).ok().as_deref() != Some(&target) {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(&target, &link)?;
        }
    }
    let (script, wrapper) = (root().join("tools/mpicc"), prefix.join("bin/mpicc"));
    // Other tests run it meanwhile: what runs must not be open for writing ("Text file busy"), so a new file takes its place.
    if fs::read(&wrapper).ok() != Some(fs::read(&script)?) {
        let new = prefix.join("mpicc.new");
        fs::copy(&script, &new)?;
        fs::rename(&new, &wrapper)?;
    }
    Ok(wrapper)
}

/// The Fortran compiler of the tests.
pub fn fortran_compiler() -> String {
    std::env::var("WEFT_TEST_FC").unwrap_or_else(|_| "gfortran".to_owned())
}

/// Whether there is a Fortran compiler here.
pub fn has_fortran() -> bool {
    compile::folder_name(&fortran_compiler()).is_ok()
}

/// The folder of the Fortran modules, newer than what they are made from.
pub fn fortran_modules() -> Result<PathBuf, Failed> {
    let (compiler, libraries) = (fortran_compiler(), library_folder()?);
    let folder = folder()?.join("fortran").join(compile::folder_name(&compiler)?);
    fs::create_dir_all(folder.parent().ok_or("a folder in another")?)?;
    let _lock = lock(&folder.with_extension("lock"))?;
    // The generator is a part of this program.
    let program = modified(&std::env::current_exe()?);
    if modified(&folder) < program {
        let built = compile::build(&compiler, &libraries, &folder)?;
        if let Some(why) = built.without_descriptors {
            eprintln!("programs: {compiler} gets no descriptors: {why}");
        }
        compile::write_include(&folder)?;
    }
    Ok(folder)
}

/// Compiles these files of `tests/fortran`, or of the path given, into a program; `suffix` keeps apart what is made of the same files
/// with other options.
pub fn fortran(name: &str, files: &[&Path], suffix: &str, options: &[&str]) -> Result<PathBuf, Failed> {
    let (modules, library) = (fortran_modules()?, library_folder()?);
    let by = compile::folder_name(&fortran_compiler())?;
    let output = folder()?.join(format!("fortran-{name}{suffix}-{by}"));
    let sources: Vec<_> = files
        .iter()
        .map(|file| root().join("tests/fortran").join(file))
        .collect();
    let included =
        ["interface.h", "check.inc", "checks.inc"].map(|name| root().join("tests/fortran").join(name));
    let others = included.into_iter().chain([modules.clone()]).collect::<Vec<_>>();
    let newest = sources
        .iter()
        .chain(&others)
        .filter_map(|path| modified(path))
        .max();
    let _lock = lock(&output.with_extension("lock"))?;
    if modified(&output) > newest {
        return Ok(output);
    }
    // Module files that the programs make go where no other compilation is.
    let own = tempfile::tempdir()?;
    let mut command = Command::new(fortran_compiler());
    command
        .arg("-g")
        .arg(format!("-I{}", modules.display()))
        .arg(format!("-I{}", root().join("include").display()))
        .args(options)
        .args(&sources)
        .arg("-o")
        .arg(&output)
        .arg(format!("-L{}", modules.display()))
        .arg(format!("-L{}", library.display()))
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args([
            "-Wl,--enable-new-dtags",
            "-lweft_modules",
            "-lweft_fortran",
            "-lmpi_abi",
        ])
        .current_dir(own.path());
    let result = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if !result.status.success() {
        let _ = fs::remove_file(&output);
        return Err(format!("{command:?}\n{}", String::from_utf8_lossy(&result.stderr)).into());
    }
    Ok(output)
}
