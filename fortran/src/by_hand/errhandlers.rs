//! Error handlers (section 9.3).

use crate::abi::{Comm, Errhandler, File, Function, Handle, Int, SUCCESS, Session, Win};
use crate::bindings::Library;
use crate::callback::pool::{Handled, PLACES, error_handler_of};
use crate::convert::set;
use crate::errors::{ERR_NO_MEM, On, raise};

unsafe fn create<H: Handled>(
    procedure: &str,
    function: Function,
    errhandler: *mut Int,
    create: impl FnOnce(Function, *mut Errhandler) -> Int,
) -> Int {
    let Some(handler) = error_handler_of::<H>(function) else {
        return raise(
            On::Nothing,
            ERR_NO_MEM,
            &format!(
                "{procedure}: no place for this error handler: a process can use {PLACES} different procedures in Fortran"
            ),
        );
    };
    let mut created = Errhandler::NULL;
    let error = create(handler, &mut created);
    if error == SUCCESS {
        unsafe { *errhandler = created.to_int() };
    }
    error
}

macro_rules! procedures {
    ($($object:ident $name:ident $c:ident $text:literal;)+) => {$(
        #[doc = concat!("`", $text, "` (section 9.3).")]
        pub unsafe fn $name<A: Library>(function: Function, errhandler: *mut Int, ierror: *mut Int) {
            unsafe {
                let error = create::<$object>($text, function, errhandler, |handler, created| {
                    A::$c(handler, created)
                });
                set(ierror, error);
            }
        }
    )+};
}

procedures! {
    Comm comm_create_errhandler MPI_Comm_create_errhandler "MPI_Comm_create_errhandler";
    File file_create_errhandler MPI_File_create_errhandler "MPI_File_create_errhandler";
    Session session_create_errhandler MPI_Session_create_errhandler "MPI_Session_create_errhandler";
    Win win_create_errhandler MPI_Win_create_errhandler "MPI_Win_create_errhandler";
}
