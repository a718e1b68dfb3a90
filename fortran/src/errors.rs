//! Errors that are found here, before C is called: raised where C would raise those of the call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::abi::{Comm, File, Handle, Int, SUCCESS, Win};
use crate::bindings::pmpi;
use crate::convert::Text;

/// `MPI_ERR_BUFFER`.
pub const ERR_BUFFER: Int = 1;
/// `MPI_ERR_COUNT`.
pub const ERR_COUNT: Int = 2;
/// `MPI_ERR_ARG`.
pub const ERR_ARG: Int = 13;
/// `MPI_ERR_NO_MEM`.
pub const ERR_NO_MEM: Int = 39;

/// `MPI_COMM_SELF`.
const COMM_SELF: Int = 0x102;

/// The object at which an error is raised, by its Fortran handle.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// A communicator.
    Comm(Int),
    /// A window.
    Win(Int),
    /// A file.
    File(Int),
    /// None: so it is raised at `MPI_COMM_SELF` (section 9.3).
    Nothing,
}

/// Raises an error of this class, with this text. Returns its code, if the error handler does.
pub fn raise(on: On, class: Int, text: &str) -> Int {
    let code = code(class, text);
    // SAFETY: C checks the handles, and takes any code.
    unsafe {
        match on {
            On::Comm(comm) => pmpi::PMPI_Comm_call_errhandler(Comm::from_int(comm), code),
            On::Win(win) => pmpi::PMPI_Win_call_errhandler(Win::from_int(win), code),
            On::File(file) => pmpi::PMPI_File_call_errhandler(File::from_int(file), code),
            On::Nothing => pmpi::PMPI_Comm_call_errhandler(Comm::from_int(COMM_SELF), code),
        };
    }
    code
}

/// An error code with this text: the same each time.
fn code(class: Int, text: &str) -> Int {
    static CODES: Mutex<BTreeMap<String, Int>> = Mutex::new(BTreeMap::new());
    let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_code = 0;
    // SAFETY: the functions take any code and class, and addresses of integers and of a string with its zero.
    unsafe {
        if let Some(&code) = codes.get(text)
            && pmpi::PMPI_Error_class(code, &mut of_code) == SUCCESS
            && of_code == class
        {
            return code;
        }
        let mut code = class;
        let string = Text::new(text.as_bytes());
        if pmpi::PMPI_Add_error_code(class, &mut code) != SUCCESS
            || pmpi::PMPI_Add_error_string(code, string.as_ptr()) != SUCCESS
        {
            return class;
        }
        codes.insert(text.to_owned(), code);
        code
    }
}
