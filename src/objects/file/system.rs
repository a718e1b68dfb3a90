//! The calls of the operating system that files need, and the classes of MPI for its errors.

use std::ffi::{CStr, OsStr};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Amode;
use crate::base::error::{Class, Error, Result};
use crate::err;

/// The class of an error that a call returned.
fn class(error: &io::Error) -> Class {
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT => Class::NoSuchFile,
        libc::EEXIST => Class::FileExists,
        libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => Class::BadFile,
        libc::EACCES | libc::EPERM => Class::Access,
        libc::ENOSPC | libc::EFBIG => Class::NoSpace,
        libc::EDQUOT => Class::Quota,
        libc::EROFS => Class::ReadOnly,
        libc::ETXTBSY | libc::EBUSY => Class::FileInUse,
        libc::ESPIPE | libc::ENODEV | libc::EOPNOTSUPP => Class::UnsupportedOperation,
        libc::ENOMEM => Class::NoMem,
        _ => Class::Io,
    }
}

/// A path for messages, short enough that a reason can follow it.
pub fn shown(path: &Path) -> String {
    const LONGEST: usize = 200;
    let text = path.display().to_string();
    let length = text.chars().count();
    match length > LONGEST {
        true => text
            .chars()
            .take(LONGEST / 2)
            .chain("...".chars())
            .chain(text.chars().skip(length - LONGEST / 2))
            .collect(),
        false => text,
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let text = format!("the file '{}' can't be {what}: {error}", shown(path));
    Error::new(class(error), text)
}

/// A name from the user, as a path of the operating system.
///
/// # Errors
/// `MPI_ERR_BAD_FILE` for an empty one.
pub fn path(name: &CStr) -> Result<PathBuf> {
    match name.is_empty() {
        true => Err(err!(BadFile, "filename is empty")),
        false => Ok(OsStr::from_bytes(name.to_bytes()).into()),
    }
}

/// The path that stays the same when the process's working directory changes.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| failed("found", path, &error))
}

fn options(amode: Amode) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(amode.may_read()).write(amode.may_write());
    options
}

fn open(options: &OpenOptions, path: &Path, what: &str) -> Result<fs::File> {
    let file = options.open(path).map_err(|error| failed(what, path, &error))?;
    // To read one there are other calls.
    let is_folder = file.metadata().is_ok_and(|metadata| metadata.is_dir());
    match is_folder {
        true => Err(err!(BadFile, "'{}' is a directory", shown(path))),
        false => Ok(file),
    }
}

/// Opens a file, or creates it, as the first of its processes. Returns whether it was created.
pub fn open_first(path: &Path, amode: Amode, permissions: u32) -> Result<(fs::File, bool)> {
    let mut options = options(amode);
    if !amode.has(Amode::CREATE) {
        return Ok((open(&options, path, "opened")?, false));
    }
    options.mode(permissions);
    match open(options.clone().create_new(true), path, "created") {
        // Or it is a link to a file that does not exist, which is then created.
        Err(error) if error.class == Class::FileExists && !amode.has(Amode::EXCL) => {
            // An existing file is kept.
            Ok((open(options.create(true).truncate(false), path, "opened")?, false))
        }
        created => Ok((created?, true)),
    }
}

/// Opens a file that the first of its processes has opened, and perhaps created.
pub fn open_next(path: &Path, amode: Amode) -> Result<fs::File> {
    open(&options(amode), path, "opened").map_err(|error| match error.class {
        Class::NoSuchFile => Error {
            message: format!("{error}, though rank 0 has opened one of that name").into(),
            ..error
        },
        _ => error,
    })
}

/// Deletes a file.
///
/// # Errors
/// `MPI_ERR_NO_SUCH_FILE` where there is none, and others of the operating system.
pub fn delete(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|error| failed("deleted", path, &error))
}

/// Gives a file a size.
pub fn resize(file: &fs::File, path: &Path, size: u64) -> Result<()> {
    match file.set_len(size) {
        // Files without a size to set: a device, a pipe.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(err!(
            UnsupportedOperation,
            "the file '{}' can't be resized to {size} bytes: {error}",
            shown(path)
        )),
        resized => resized.map_err(|error| failed(&format!("resized to {size} bytes"), path, &error)),
    }
}

/// Allocates storage for the first `size` bytes of a file.
pub fn preallocate(file: &fs::File, path: &Path, size: u64) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    loop {
        match nix::fcntl::posix_fallocate(file, 0, size.cast_signed()) {
            Ok(()) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => {
                let what = format!("given storage for {size} bytes");
                return Err(failed(&what, path, &error.into()));
            }
        }
    }
}

/// The size of a file.
pub fn size(file: &fs::File, path: &Path) -> Result<u64> {
    let metadata = file.metadata();
    metadata
        .map(|metadata| metadata.len())
        .map_err(|error| failed("looked at", path, &error))
}

/// Whether a file is there under another name, too.
pub fn has_other_names(file: &fs::File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 1)
}

/// Writes all changes to the disk.
pub fn sync(file: &fs::File, path: &Path) -> Result<()> {
    match file.sync_all() {
        // Files that keep nothing: a pipe, most devices.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => Ok(()),
        synchronized => synchronized.map_err(|error| failed("synchronized", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amode(bits: i32) -> Amode {
        Amode::new(bits).expect("valid")
    }

    #[test]
    fn what_was_created_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let create = amode(Amode::RDWR | Amode::CREATE);
        assert_eq!(
            open_first(&path, amode(Amode::RDWR), 0o666).unwrap_err().class,
            Class::NoSuchFile
        );
        assert!(open_first(&path, create, 0o600).unwrap().1);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        fs::write(&path, "there").unwrap();
        assert!(!open_first(&path, create, 0o666).unwrap().1);
        assert_eq!(fs::read(&path).unwrap(), b"there", "it was truncated");
        let exclusive = amode(Amode::RDWR | Amode::CREATE | Amode::EXCL);
        assert_eq!(
            open_first(&path, exclusive, 0o666).unwrap_err().class,
            Class::FileExists
        );
        // Without creating it, nothing is exclusive.
        open_first(&path, amode(Amode::RDWR | Amode::EXCL), 0o666).unwrap();
        // A link to nowhere.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("target"), &link).unwrap();
        assert_eq!(
            open_first(&link, exclusive, 0o666).unwrap_err().class,
            Class::FileExists
        );
        assert!(!open_first(&link, create, 0o666).unwrap().1);
        assert!(folder.path().join("target").exists());
    }

    #[test]
    fn storage_is_there_and_the_size_grows_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (file, _) = open_first(&path, amode(Amode::RDWR | Amode::CREATE), 0o666).unwrap();
        preallocate(&file, &path, 0).unwrap();
        assert_eq!(size(&file, &path).unwrap(), 0);
        preallocate(&file, &path, 100_000).unwrap();
        assert_eq!(size(&file, &path).unwrap(), 100_000);
        let blocks = file.metadata().unwrap().blocks();
        assert!(blocks * 512 >= 100_000, "{blocks} blocks");
        preallocate(&file, &path, 10).unwrap();
        assert_eq!(size(&file, &path).unwrap(), 100_000);
        resize(&file, &path, 10).unwrap();
        assert_eq!(size(&file, &path).unwrap(), 10);
        sync(&file, &path).unwrap();
    }

    #[test]
    fn errors_have_their_classes() {
        let of = |code| class(&io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::EACCES), Class::Access);
        assert_eq!(of(libc::EROFS), Class::ReadOnly);
        assert_eq!(of(libc::EDQUOT), Class::Quota);
        assert_eq!(of(libc::ENOSPC), Class::NoSpace);
        assert_eq!(of(libc::ETXTBSY), Class::FileInUse);
        assert_eq!(of(libc::ENAMETOOLONG), Class::BadFile);
        assert_eq!(of(libc::EIO), Class::Io);
        assert_eq!(of(libc::EMFILE), Class::Io);
    }

    #[test]
    fn a_long_path_leaves_room_for_the_reason() {
        let long = "\u{e4}/".repeat(3000);
        assert_eq!(shown(Path::new(&long)).chars().count(), 203);
        assert_eq!(shown(Path::new("short")), "short");
        let error = open_first(Path::new(&long), amode(Amode::RDONLY), 0o666).unwrap_err();
        assert!(
            error.message.len() < 512 && error.message.contains("too long"),
            "{error}"
        );
    }

    #[test]
    fn a_directory_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        for bits in [Amode::RDONLY, Amode::WRONLY, Amode::RDWR | Amode::CREATE] {
            let error = open_first(folder.path(), amode(bits), 0o666).unwrap_err();
            assert_eq!(error.class, Class::BadFile, "{error}");
        }
        assert_eq!(path(c"").unwrap_err().class, Class::BadFile);
    }

    #[test]
    fn a_device_has_no_size_to_set_and_keeps_nothing() {
        let path = Path::new("/dev/null");
        let (file, created) = open_first(path, amode(Amode::WRONLY | Amode::CREATE), 0o666).unwrap();
        assert!(!created);
        assert_eq!(
            resize(&file, path, 10).unwrap_err().class,
            Class::UnsupportedOperation
        );
        sync(&file, path).unwrap();
    }
}
