//! Chapter 9: error handlers, error codes and classes, memory, names.
//!
//! - `added`: error classes, codes and strings that the user adds
//!
//! What does not belong here: how an error handler is called and an error code is made (`abi::common`), what the library says of itself
//! in attributes (`abi::communicator`), the clock and the versions (`trivial`), and which error handler a session has (`process::session`).

pub mod added;

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::common::arguments::{give, give_text, read};
use crate::abi::common::calls;
use crate::abi::common::constants::*;
use crate::abi::common::errors;
use crate::abi::common::objects::{self, early_communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::{Class, Error, Result};
use crate::err;
use crate::objects::allocation::{self, Allocation};
use crate::objects::errhandler::{Errhandler, Object, UserHandler};

mpi! {
    /// Section 9.1.2.
    small fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) local {
        let mut bytes = [0u8; MPI_MAX_PROCESSOR_NAME as usize];
        // SAFETY: `bytes` is that long; the last byte stays zero.
        let failed = unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len() - 1) } != 0;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
        let host = if failed { "localhost".into() } else { String::from_utf8_lossy(&bytes[..end]) };
        // SAFETY: the standard asks for MPI_MAX_PROCESSOR_NAME bytes.
        unsafe { give_text(name, MPI_MAX_PROCESSOR_NAME as usize, resultlen, &host, "name") }
    }

    /// Section 9.2.
    small fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) local {
        let asked = objects::optional_info(info)?;
        let bytes = usize::try_from(size).map_err(|_| err!(Arg, "size is {size}, but must not be negative"))?;
        if baseptr.is_null() {
            return Err(err!(Arg, "baseptr is a null pointer"));
        }
        let memory = Allocation::new(bytes, asked.as_deref())?.into_raw();
        // SAFETY: `baseptr` is the address of a pointer of the user's.
        unsafe { give(baseptr.cast::<*mut c_void>(), memory, "baseptr") }
    }

    /// Section 9.2.
    small fn MPI_Free_mem(base: *mut c_void) local {
        // SAFETY: the user got it from MPI_Alloc_mem, or it is null.
        unsafe { allocation::free(base) };
        Ok(())
    }

    /// Section 9.3.1.
    small fn MPI_Comm_create_errhandler(function: Callback, errhandler: *mut MPI_Errhandler) local {
        // SAFETY: the user's function is null or such an error handler function; the pointer is null or valid for a handle.
        unsafe { create_errhandler(function, Object::Communicator, errhandler) }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Errhandler_create(function: Callback, errhandler: *mut MPI_Errhandler) local {
        // SAFETY: the user's function is null or such an error handler function; the pointer is null or valid for a handle.
        unsafe { create_errhandler(function, Object::Communicator, errhandler) }
    }

    /// Section 9.3.2.
    small fn MPI_Win_create_errhandler(function: Callback, errhandler: *mut MPI_Errhandler) local {
        // SAFETY: the user's function is null or such an error handler function; the pointer is null or valid for a handle.
        unsafe { create_errhandler(function, Object::Window, errhandler) }
    }

    /// Section 9.3.3.
    small fn MPI_File_create_errhandler(function: Callback, errhandler: *mut MPI_Errhandler) local {
        // SAFETY: the user's function is null or such an error handler function; the pointer is null or valid for a handle.
        unsafe { create_errhandler(function, Object::File, errhandler) }
    }

    /// Section 9.3.4.
    small fn MPI_Session_create_errhandler(function: Callback, errhandler: *mut MPI_Errhandler) always {
        // SAFETY: the user's function is null or such an error handler function; the pointer is null or valid for a handle.
        unsafe { create_errhandler(function, Object::Session, errhandler) }
    }

    /// Section 9.3.1.
    small fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) comm(comm) {
        set_errhandler(comm, errhandler)
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Errhandler_set(comm: MPI_Comm, errhandler: MPI_Errhandler) comm(comm) {
        set_errhandler(comm, errhandler)
    }

    /// Section 9.3.1.
    small fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) comm(comm) {
        // SAFETY: null or a handle of the user's.
        unsafe { get_errhandler(comm, errhandler) }
    }

    /// Removed in MPI 3.0; programs still use it.
    small fn MPI_Errhandler_get(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) comm(comm) {
        // SAFETY: null or a handle of the user's.
        unsafe { get_errhandler(comm, errhandler) }
    }

    /// Section 9.3.2.
    small fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) win(win) {
        let window = objects::window(win)?;
        *window.errhandler().lock() = objects::errhandler(errhandler, Object::Window)?;
        Ok(())
    }

    /// Section 9.3.2.
    small fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: *mut MPI_Errhandler) win(win) {
        let handler = objects::window(win)?.errhandler().lock().clone();
        // SAFETY: null or a handle of the user's.
        unsafe { give(errhandler, objects::handle_of_errhandler(&handler)?, "errhandler") }
    }

    /// Section 9.3.3. That of `MPI_FILE_NULL` is the default for new files.
    small fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) file(file) {
        let known = (file != MPI_FILE_NULL).then(|| objects::file(file)).transpose()?;
        let place = known.as_ref().map_or(&calls::FILE_ERRHANDLER, |file| file.errhandler());
        *place.lock() = objects::errhandler(errhandler, Object::File)?;
        Ok(())
    }

    /// Section 9.3.3.
    small fn MPI_File_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) file(file) {
        let handler = file_errhandler(file)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(errhandler, objects::handle_of_errhandler(&handler)?, "errhandler") }
    }

    /// Section 9.3.5.
    small fn MPI_Errhandler_free(errhandler: *mut MPI_Errhandler) always {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(errhandler, "errhandler") }?;
        match handle {
            MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN => {}
            _ => {
                let handler = objects::ERRHANDLERS
                    .get(handle)
                    .ok_or_else(|| err!(Errhandler, "the error handler {handle:#x} is not valid"))?;
                if handler.references.fetch_sub(1, Ordering::Relaxed) == 1 {
                    objects::ERRHANDLERS.remove(handle);
                }
            }
        }
        // SAFETY: read from above.
        unsafe { errhandler.write(MPI_ERRHANDLER_NULL) };
        Ok(())
    }

    /// Section 9.5.
    small fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) comm(comm) {
        let comm = early_communicator(comm)?;
        let handler = comm.errhandler().lock().clone();
        calls::call(&handler, objects::handle_of_communicator(&comm), "MPI_Comm_call_errhandler", errorcode);
        Ok(())
    }

    /// Section 9.5.
    small fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) win(win) {
        let handler = objects::window(win)?.errhandler().lock().clone();
        calls::call(&handler, win, "MPI_Win_call_errhandler", errorcode);
        Ok(())
    }

    /// Section 9.5.
    small fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) file(fh) {
        calls::call(&file_errhandler(fh)?, fh, "MPI_File_call_errhandler", errorcode);
        Ok(())
    }

    /// Section 9.4.
    small fn MPI_Error_class(errorcode: c_int, errorclass: *mut c_int) always {
        let class = errors::class_of(errorcode).ok_or_else(|| unknown_code(errorcode))?;
        // SAFETY: null or an `int` of the user's.
        unsafe { give(errorclass, class, "errorclass") }
    }

    /// Section 9.4.
    small fn MPI_Error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) always {
        let text = errors::text_of(errorcode).ok_or_else(|| unknown_code(errorcode))?;
        // SAFETY: the standard asks for MPI_MAX_ERROR_STRING bytes.
        unsafe { give_text(string, MPI_MAX_ERROR_STRING as usize, resultlen, &text, "string") }
    }
}

/// The error handler of a file, or of `MPI_FILE_NULL`.
fn file_errhandler(handle: MPI_File) -> Result<Errhandler> {
    Ok(match handle {
        MPI_FILE_NULL => calls::FILE_ERRHANDLER.lock().clone(),
        _ => objects::file(handle)?.errhandler().lock().clone(),
    })
}

#[cold]
fn unknown_code(code: c_int) -> Error {
    Error::new(Class::Arg, format!("errorcode {code} is not a valid error code"))
}

fn set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<()> {
    let comm = early_communicator(comm)?;
    *comm.errhandler().lock() = objects::errhandler(errhandler, Object::Communicator)?;
    Ok(())
}

/// # Safety
/// The pointer is null or valid for writing.
unsafe fn get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> Result<()> {
    let handler = early_communicator(comm)?.errhandler().lock().clone();
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(errhandler, objects::handle_of_errhandler(&handler)?, "errhandler") }
}

/// # Safety
/// The function is null or an error handler function for such objects, which stays; the pointer is null or valid for writing.
unsafe fn create_errhandler(
    function: Callback,
    object: Object,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    if function == 0 {
        return Err(err!(Arg, "the error handler function is a null pointer"));
    }
    // SAFETY: the caller's promise.
    let handler = Arc::new(unsafe { UserHandler::new(function, object) });
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe {
        give(
            errhandler,
            objects::handle_of_errhandler(&Errhandler::User(handler))?,
            "errhandler",
        )
    }
}
