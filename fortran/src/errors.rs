//! Errors that are found here, before C is called: raised as C's are that belong to no object, at `MPI_COMM_SELF` (section 9.3).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::abi::{Comm, Handle, Int, SUCCESS};
use crate::bindings::pmpi;
use crate::convert::Text;

/// `MPI_ERR_ARG`.
pub const ERR_ARG: Int = 13;
/// `MPI_ERR_NO_MEM`.
pub const ERR_NO_MEM: Int = 39;

/// `MPI_COMM_SELF`.
const COMM_SELF: Int = 0x102;

/// Raises an error of this class, with this text. Returns its code, if the error handler does.
pub fn raise(class: Int, text: &str) -> Int {
    let code = code(class, text);
    // SAFETY: the function takes any code, and the handle is a constant.
    unsafe { pmpi::PMPI_Comm_call_errhandler(Comm::from_int(COMM_SELF), code) };
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
