//! Section 14.2: files; section 14.6: their consistency. (Error handlers: `environment`.)

use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;
use std::sync::Arc;

use crate::abi::common::arguments::{give, present, read};
use crate::abi::common::calls;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, FILES, file};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::{give_info, supported_memory_kinds};
use crate::base::error::Result;
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::file::{self, Amode, File, Part};
use crate::objects::info::Info;
use crate::objects::memory_kinds;

mpi! {
    /// Section 14.2.1. Collective.
    small fn MPI_File_open(comm: MPI_Comm, filename: *const c_char, amode: c_int, info: MPI_Info, fh: *mut MPI_File)
        no_file {
        let parent = objects::intracommunicator(comm, "comm")?;
        let part = || {
            present(fh, "fh")?;
            Ok(Part {
                // SAFETY: null or a string of the user's.
                name: unsafe { self::name(filename) }?,
                amode: Amode::new(amode)?,
                asked: objects::optional_info(info)?,
            })
        };
        let opened = open(&parent, part());
        let handle = *opened.as_ref().unwrap_or(&MPI_FILE_NULL);
        // SAFETY: null or a handle of the user's.
        unsafe { opened.and(give(fh, handle, "fh")) }
    }

    /// Section 14.2.2. Collective. The file is closed even if there is an error.
    small fn MPI_File_close(fh: *mut MPI_File) no_file {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(fh, "fh") }?;
        let closing = file(handle)?;
        let closed = close(&closing, handle);
        // SAFETY: read from above.
        unsafe { fh.write(MPI_FILE_NULL) };
        closed.map_err(|error| {
            let handler = closing.errhandler().lock().clone();
            calls::raise_with(&handler, handle, "MPI_File_close", error)
        })
    }

    /// Section 14.2.3. Local.
    small fn MPI_File_delete(filename: *const c_char, info: MPI_Info) no_file {
        // SAFETY: null or a string of the user's.
        let name = unsafe { self::name(filename) }?;
        objects::optional_info(info)?;
        file::delete(&name)
    }

    /// Section 14.2.4. Collective.
    small fn MPI_File_set_size(fh: MPI_File, size: MPI_Offset) file(fh) {
        let file = file(fh)?;
        file.communicator().instance().block_on(file.set_size(size))
    }

    /// Section 14.2.5. Collective.
    small fn MPI_File_preallocate(fh: MPI_File, size: MPI_Offset) file(fh) {
        let file = file(fh)?;
        file.communicator().instance().block_on(file.preallocate(size))
    }

    /// Section 14.2.6. Local.
    small fn MPI_File_get_size(fh: MPI_File, size: *mut MPI_Offset) file(fh) {
        let file = file(fh)?;
        present(size, "size")?;
        // SAFETY: an `MPI_Offset` of the user's.
        unsafe { give(size, file.size()?.cast_signed(), "size") }
    }

    /// Section 14.2.7.
    small fn MPI_File_get_group(fh: MPI_File, group: *mut MPI_Group) file(fh) {
        let members = file(fh)?.group().clone();
        present(group, "group")?;
        // SAFETY: a handle of the user's.
        unsafe { give(group, objects::new_group(members)?, "group") }
    }

    /// Section 14.2.7.
    small fn MPI_File_get_amode(fh: MPI_File, amode: *mut c_int) file(fh) {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(amode, file(fh)?.amode().number(), "amode") }
    }

    /// Section 14.2.8. Collective, but nothing has to be agreed on: the hints that Weft knows are about how a file is opened.
    small fn MPI_File_set_info(fh: MPI_File, info: MPI_Info) file(fh) {
        file(fh)?;
        objects::info(info)?;
        Ok(())
    }

    /// Section 14.2.8.
    small fn MPI_File_get_info(fh: MPI_File, info_used: *mut MPI_Info) file(fh) {
        let file = file(fh)?;
        let hints = Info::of(file.hints().entries());
        hints.set(memory_kinds::KEY, supported_memory_kinds(file.communicator()));
        // SAFETY: null or a handle of the user's.
        unsafe { give_info(info_used, hints) }
    }

    /// Section 14.5.1. Every file has the native representation, whose extents are those of the memory.
    large fn MPI_File_get_type_extent(fh: MPI_File, datatype: MPI_Datatype, extent: *mut Address) file(fh) {
        file(fh)?;
        let found = objects::datatype(datatype)?;
        // SAFETY: null or a number of the user's.
        unsafe { give(extent, found.extent() as Address, "extent") }
    }

    /// Section 14.6.1. Collective.
    small fn MPI_File_set_atomicity(fh: MPI_File, flag: c_int) file(fh) {
        let file = file(fh)?;
        file.communicator().instance().block_on(file.set_atomicity(flag != 0))
    }

    /// Section 14.6.1.
    small fn MPI_File_get_atomicity(fh: MPI_File, flag: *mut c_int) file(fh) {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, file(fh)?.is_atomic().into(), "flag") }
    }

    /// Section 14.6.1. Collective.
    small fn MPI_File_sync(fh: MPI_File) file(fh) {
        let file = file(fh)?;
        file.communicator().instance().block_on(file.sync())
    }
}

/// A file name, which is a path of the operating system's and need not be text.
///
/// # Safety
/// The pointer is null or to a string that ends with a zero byte.
unsafe fn name(from: *const c_char) -> Result<PathBuf> {
    present(from, "filename")?;
    // SAFETY: not null, so the user's handle, readable and writable.
    file::path(unsafe { CStr::from_ptr(from) })
}

/// A handle for a file that is opened. A process takes part even if its own arguments are wrong, so that no other
/// process waits for it.
fn open(parent: &Arc<Communicator>, part: Result<Part>) -> Result<MPI_File> {
    let (handle, part) = match (part, FILES.reserve()) {
        (Ok(part), Some(handle)) => (handle, Ok(part)),
        (Ok(_), None) => (0, Err(objects::too_many())),
        (Err(error), handle) => (handle.unwrap_or(0), Err(error)),
    };
    let opened = parent.instance().block_on(File::open(parent.clone(), part));
    let file = opened.inspect_err(|_| FILES.give_up(handle))?;
    *file.errhandler().lock() = calls::FILE_ERRHANDLER.lock().clone();
    objects::note_connection(file.communicator());
    FILES.fill(handle, file);
    Ok(handle)
}

/// Closes a file on all its processes. The first error is the result; even then no process waits, and the file is open nowhere.
fn close(closing: &Arc<File>, handle: MPI_File) -> Result<()> {
    let communicator = closing.communicator();
    let instance = communicator.instance();
    let ended = instance.block_on(closing.close());
    let disconnected =
        instance.block_on_turns(Communicator::disconnect_all(instance, vec![communicator.clone()]));
    objects::forget_connection(communicator);
    match FILES.remove(handle) {
        Some(_) => ended.and(disconnected),
        None => Err(err!(
            File,
            "the file was closed by another thread at the same time"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::file::Amode;

    #[test]
    fn the_numbers_of_access_modes_are_those_of_the_abi() {
        for (own, abi) in [
            (Amode::APPEND, MPI_MODE_APPEND),
            (Amode::CREATE, MPI_MODE_CREATE),
            (Amode::DELETE_ON_CLOSE, MPI_MODE_DELETE_ON_CLOSE),
            (Amode::EXCL, MPI_MODE_EXCL),
            (Amode::RDONLY, MPI_MODE_RDONLY),
            (Amode::RDWR, MPI_MODE_RDWR),
            (Amode::SEQUENTIAL, MPI_MODE_SEQUENTIAL),
            (Amode::UNIQUE_OPEN, MPI_MODE_UNIQUE_OPEN),
            (Amode::WRONLY, MPI_MODE_WRONLY),
        ] {
            assert_eq!(own, abi);
        }
    }
}
