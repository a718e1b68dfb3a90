//! The measuring programs: their sources, which this binary carries, and their compilation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! sources {
    ($($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../", $name)))),+]
    };
}

/// All files of `benches/programs`, and what they include.
const SOURCES: &[(&str, &str)] = sources![
    "loops/datatype.c",
    "programs/bench.h",
    "programs/collective.c",
    "programs/idle.c",
    "programs/latency.c",
    "programs/layouts.c",
    "programs/matching.c",
    "programs/one_sided.c",
    "programs/probe.c",
    "programs/startup.c",
    "programs/stream.c",
    "programs/threads.c"
];
/// The folder of the programs among them.
const PROGRAMS: &str = "programs";

/// Compiles all programs below a new folder of that name; the folder that they are in.
///
/// # Errors
///
/// The compiler does not start, or refuses a program: then with what it said.
pub fn compile(compiler: &Path, folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("cannot write to {}: {error}", folder.display());
    for (name, text) in SOURCES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        fs::write(path, text).map_err(failed)?;
    }
    let programs = folder.join(PROGRAMS);
    for (name, _) in SOURCES {
        let file = Path::new(name).strip_prefix(PROGRAMS).ok();
        let Some(program) = file.and_then(|file| file.to_str()?.strip_suffix(".c")) else {
            continue;
        };
        let done = Command::new(compiler)
            .args(["-O2", "-pthread", "-o", program])
            .arg(format!("{program}.c"))
            .current_dir(&programs)
            .output()
            .map_err(|error| format!("cannot run the compiler {}: {error}", compiler.display()))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!(
                "{} cannot compile {program}.c: {}",
                compiler.display(),
                said.trim()
            ));
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_carries_every_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
        let mut there: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let carried: Vec<_> = SOURCES
            .iter()
            .filter_map(|(name, _)| Some(name.strip_prefix(PROGRAMS)?.strip_prefix('/')?.to_string()))
            .collect();
        assert_eq!(carried, there);
    }
}
