//! Finds PMIx's library: beside the launcher, else by its name where the system knows it. A client of another version than the server's
//! works, but a server of 5.0 prints errors about one of 4.2 (`PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weft_libfabric_sys::pmix as sys;

use crate::base::error::Result;
use crate::err;

/// Variables that name the folder in which a launcher with its PMIx is installed.
const PREFIXES: [&str; 4] = ["PMIX_PREFIX", "PRTE_PREFIX", "OPAL_PREFIX", "OPAL_LIBDIR"];
/// How far up launchers are looked for: there may be scripts and the shell of `sh -c` in between.
const ANCESTORS_MAX: usize = 8;

/// The library, which stays loaded for the life of the process.
pub(super) fn load(environment: impl Fn(&str) -> Option<String>) -> Result<&'static sys::Symbols> {
    static LOADED: OnceLock<std::result::Result<sys::Symbols, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let mut names = beside(environment, &launchers());
        names.push(sys::NAME.to_string());
        first_of(&names)
    });
    loaded.as_ref().map_err(|why| {
        err!(
            Other,
            "the launcher speaks PMIx, and its library can't be loaded ({why}). Install it (Debian, Ubuntu: apt install \
             libpmix2; Fedora, RHEL: pmix), or name its directory in LD_LIBRARY_PATH; or start the program with Weft's \
             mpiexec, or with srun --mpi=pmi2"
        )
    })
}

fn first_of(names: &[String]) -> std::result::Result<sys::Symbols, String> {
    let mut tried = Vec::new();
    for name in names {
        // SAFETY: the constructors of PMIx and of what it is linked to have no preconditions, and a library of this name is PMIx 4 or 5.
        match unsafe { sys::Symbols::new(name) } {
            Ok(symbols) => return Ok(symbols),
            // The text names the library.
            Err(error) => tried.push(match error {
                libloading::Error::DlOpen { desc } | libloading::Error::DlSym { desc } => {
                    format!("{desc:?}").trim_matches('"').replace('\n', " ")
                }
                other => format!("{name}: {other}"),
            }),
        }
    }
    Err(tried.join("; "))
}

/// Where the library may be if the launcher brought it: files that exist.
fn beside(environment: impl Fn(&str) -> Option<String>, launchers: &[PathBuf]) -> Vec<String> {
    let named = PREFIXES
        .iter()
        .filter_map(|name| environment(name))
        .map(PathBuf::from);
    // PREFIX/bin/prted
    let found = launchers
        .iter()
        .filter_map(|program| Some(program.parent()?.parent()?.to_path_buf()));
    let mut names: Vec<String> = named
        .chain(found)
        .filter(|prefix| prefix.is_absolute())
        .flat_map(|prefix| {
            ["lib", "lib64", "lib/openmpi", ""].map(|folder| prefix.join(folder).join(sys::NAME))
        })
        .filter(|path| path.is_file())
        .filter_map(|path| path.into_os_string().into_string().ok())
        .collect();
    names.dedup();
    names
}

/// The programs of the processes above this one that are PMIx launchers.
fn launchers() -> Vec<PathBuf> {
    let mut launchers = Vec::new();
    let mut pid = nix::unistd::getppid().as_raw();
    for _ in 0..ANCESTORS_MAX {
        if pid <= 1 {
            break;
        }
        let folder = Path::new("/proc").join(pid.to_string());
        if let Ok(program) = std::fs::read_link(folder.join("exe"))
            && let Some(name) = program.file_name().and_then(|name| name.to_str())
            && ["prte", "mpirun", "mpiexec"]
                .iter()
                .any(|launcher| name.starts_with(launcher))
        {
            launchers.push(program);
        }
        // "PID (NAME) STATE PARENT …", where the name may have anything in it.
        let parent = std::fs::read_to_string(folder.join("stat"))
            .ok()
            .and_then(|stat| {
                let (_, rest) = stat.rsplit_once(')')?;
                rest.split_ascii_whitespace().nth(1)?.parse().ok()
            });
        let Some(parent) = parent else { break };
        pid = parent;
    }
    launchers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_all_that_was_tried() {
        let names = [
            "libno-such-pmix.so.2".to_string(),
            "/no/such/libpmix.so.2".to_string(),
        ];
        let why = first_of(&names).err().unwrap();
        assert!(names.iter().all(|name| why.contains(name.as_str())), "{why}");
        assert!(!why.contains('\n'), "{why}");
    }

    #[test]
    fn a_library_is_found_beside_its_launcher() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path();
        std::fs::create_dir_all(prefix.join("lib/openmpi")).unwrap();
        let library = prefix.join("lib/openmpi").join(sys::NAME);
        std::fs::write(&library, "").unwrap();
        let expected = [library.to_str().unwrap().to_string()];
        assert_eq!(beside(|_| None, &[prefix.join("bin/prted")]), expected);
        let named = |name: &str| (name == "PMIX_PREFIX").then(|| prefix.to_str().unwrap().to_string());
        assert_eq!(beside(named, &[]), expected);
        assert!(beside(|_| Some("relative".into()), &[PathBuf::from("prted")]).is_empty());
    }
}
