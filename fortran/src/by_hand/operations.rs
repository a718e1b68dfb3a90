//! Operations of the user's (section 6.9.5).

use crate::abi::{Count, Function, Handle, Int, Logical, Op, SUCCESS};
use crate::bindings::Library;
use crate::callback::pool::{Counting, PLACES, operation_of};
use crate::convert::{set, truth};
use crate::errors::{ERR_NO_MEM, On, raise};

unsafe fn create<C: Counting>(
    procedure: &str,
    function: Function,
    op: *mut Int,
    create: impl FnOnce(Function, *mut Op) -> Int,
) -> Int {
    let Some(operation) = operation_of::<C>(function) else {
        return raise(
            On::Nothing,
            ERR_NO_MEM,
            &format!(
                "{procedure}: no place for this function: a process can use {PLACES} different procedures in Fortran"
            ),
        );
    };
    let mut created = Op::NULL;
    let error = create(operation, &mut created);
    if error == SUCCESS {
        unsafe { *op = created.to_int() };
    }
    error
}

/// `MPI_Op_create` (section 6.9.5).
pub unsafe fn op_create<A: Library>(
    function: Function,
    commute: *const Logical,
    op: *mut Int,
    ierror: *mut Int,
) {
    unsafe {
        let error = create::<Int>("MPI_Op_create", function, op, |operation, created| {
            A::MPI_Op_create(operation, truth(*commute), created)
        });
        set(ierror, error);
    }
}

/// `MPI_Op_create_c` (section 6.9.5).
pub unsafe fn op_create_c<A: Library>(
    function: Function,
    commute: *const Logical,
    op: *mut Int,
    ierror: *mut Int,
) {
    unsafe {
        let error = create::<Count>("MPI_Op_create_c", function, op, |operation, created| {
            A::MPI_Op_create_c(operation, truth(*commute), created)
        });
        set(ierror, error);
    }
}
