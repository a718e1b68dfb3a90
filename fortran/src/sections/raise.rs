//! Errors of a section: raised where C would raise those of the call.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::abi::{Comm, File, Handle, Int, SUCCESS, Win};
use crate::bindings::pmpi;

/// `MPI_ERR_BUFFER`.
pub const BUFFER: Int = 1;
/// `MPI_ERR_COUNT`.
pub const COUNT: Int = 2;
/// `MPI_ERR_NO_MEM`.
pub const NO_MEMORY: Int = 39;
/// `MPI_COMM_SELF`.
const SELF: Int = 0x102;

/// The object at which an error is raised, by its Fortran handle.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum On {
    Comm(Int),
    Win(Int),
    File(Int),
    Nothing,
}

/// Raises an error of this class. Returns its code, if its handler returns.
pub fn raise(on: On, class: Int, text: &str) -> Int {
    let code = error_code(class, text);
    // SAFETY: C checks the handles.
    unsafe {
        match on {
            On::Comm(comm) => pmpi::PMPI_Comm_call_errhandler(Comm::from_int(comm), code),
            On::Win(win) => pmpi::PMPI_Win_call_errhandler(Win::from_int(win), code),
            On::File(file) => pmpi::PMPI_File_call_errhandler(File::from_int(file), code),
            // Section 9.3: what belongs to no object is raised here.
            On::Nothing => pmpi::PMPI_Comm_call_errhandler(Comm::from_int(SELF), code),
        };
    }
    code
}

/// The error code of this class with this text. Each is made once, since an error code can't go away while a program may have it.
fn error_code(class: Int, text: &str) -> Int {
    static MADE: Mutex<BTreeMap<String, Int>> = Mutex::new(BTreeMap::new());

    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = made.get(text) {
        return *code;
    }
    let Ok(string) = CString::new(text) else {
        return class;
    };
    let mut code = class;
    // SAFETY: C gets what it says.
    unsafe {
        if pmpi::PMPI_Add_error_code(class, &mut code) != SUCCESS
            || pmpi::PMPI_Add_error_string(code, string.as_ptr()) != SUCCESS
        {
            return class;
        }
    }
    made.insert(text.to_owned(), code);
    code
}
