//! Where ranks find Weft's library if their program does not name its folder: one that Cargo linked, or that was compiled before Weft's
//! folder was moved.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, ReadCache};

/// The library of the standard ABI.
const LIBRARY: &str = "libmpi_abi.so.1";

/// The `LD_LIBRARY_PATH` with which a program finds the library: at the end of what is `set`, the folder beside the launcher's own.
/// `None`: unchanged, because the library is not there, or the program or the path names a folder that has one.
pub fn search_path(set: Option<OsString>, program: &Path) -> Option<OsString> {
    let launcher = std::env::current_exe().ok()?;
    with_folder(set, &launcher.parent()?.parent()?.join("lib"), program)
}

fn with_folder(set: Option<OsString>, own: &Path, program: &Path) -> Option<OsString> {
    own.join(LIBRARY).exists().then_some(())?;
    // An empty variable counts as unset; an empty part of one would be the working directory.
    let set = set.filter(|set| !set.is_empty());
    let mut folders: Vec<PathBuf> = set.iter().flat_map(std::env::split_paths).collect();
    let mut named = folders.iter().cloned().chain(folders_of(program));
    if named.any(|folder| folder.join(LIBRARY).exists()) {
        return None;
    }
    folders.push(own.to_path_buf());
    std::env::join_paths(folders).ok()
}

/// The folders that a program itself names for the loader (the linker's option `-rpath`). The loader does that after `LD_LIBRARY_PATH`.
/// For a script there are none.
fn folders_of(program: &Path) -> Vec<PathBuf> {
    let paths = File::open(program).ok().and_then(|file| {
        let data = ReadCache::new(file);
        let header = FileHeader64::<Endianness>::parse(&data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &data).ok()?;
        let table = sections.dynamic_table(endian, &data).ok()?;
        let paths = table
            .into_iter()
            .filter(|entry| [DT_RPATH, DT_RUNPATH].contains(&entry.tag));
        let paths = paths.filter_map(|entry| table.string(entry).ok());
        Some(paths.map(<[u8]>::to_vec).collect::<Vec<_>>())
    });
    let origin = program.parent().unwrap_or(Path::new("/"));
    let folders = paths.iter().flatten().flat_map(|path| {
        let folders = std::env::split_paths(OsStr::from_bytes(path));
        folders.filter(|folder| !folder.as_os_str().is_empty())
    });
    folders
        .map(|folder| {
            let below = ["$ORIGIN", "${ORIGIN}"]
                .iter()
                .find_map(|word| folder.strip_prefix(word).ok());
            below.map_or(folder.clone(), |below| origin.join(below))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_own_folder_comes_last_and_only_where_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str, library: bool| {
            let made = folder.path().join(name);
            std::fs::create_dir_all(&made).unwrap();
            if library {
                File::create(made.join(LIBRARY)).unwrap();
            }
            made
        };
        let (own, other, empty) = (made("own", true), made("other", true), made("empty", false));
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let found = |set: Option<&str>, program: &Path| {
            let found = with_folder(set.map(OsString::from), &own, program);
            found.map(|found| found.into_string().unwrap())
        };
        let text = |path: &Path| path.to_str().unwrap().to_string();
        assert_eq!(found(None, &script), Some(text(&own)));
        assert_eq!(found(Some(""), &script), Some(text(&own)));
        let (named, expected) = (text(&empty), format!("{}:{}", text(&empty), text(&own)));
        assert_eq!(found(Some(&named), &script), Some(expected));
        assert_eq!(found(Some(&format!("{named}:{}", text(&other))), &script), None);
        assert_eq!(found(Some(&text(&own)), &script), None);
        assert_eq!(with_folder(None, &empty, &script), None);
        assert_eq!(found(None, &folder.path().join("nowhere")), Some(text(&own)));

        // A program that names a folder of its own.
        let source = folder.path().join("main.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        for (rpath, expected) in [
            (text(&other), None),
            ("$ORIGIN/other".to_string(), None),
            ("${ORIGIN}/empty:$ORIGIN/other".to_string(), None),
            (text(&empty), Some(text(&own))),
        ] {
            for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
                let program = folder.path().join("program");
                let status = Command::new("cc")
                    .args([&source, Path::new("-o"), &program])
                    .arg(format!("-Wl,{tags},-rpath,{rpath}"))
                    .status();
                assert!(status.unwrap().success());
                assert_eq!(found(None, &program), expected, "{rpath}");
            }
        }
    }
}
