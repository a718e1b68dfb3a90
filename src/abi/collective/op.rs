//! Section 6.9: reduction operations.

use std::ffi::c_int;

use crate::abi::common::arguments;
use crate::abi::common::arguments::{count, give, read};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, new_op};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::data::op::{Lender, Op, UserFunction};
use crate::err;
use crate::objects::collective::elements_overlap;

mpi! {
    /// Section 6.9.5.
    small fn MPI_Op_create(function: Option<MPI_User_function>, commute: c_int, op: *mut MPI_Op) local {
        let function = function.ok_or_else(|| err!(Arg, "user_fn is a null pointer"))?;
        // SAFETY: the function is as the standard asks for, until the operation is freed and all that use it have ended.
        let new = unsafe { Op::user(UserFunction::Int(function), commute != 0, LENDER) };
        // SAFETY: null or a handle of the user's.
        unsafe { give(op, new_op(new)?, "op") }
    }

    /// Section 6.9.5.
    small fn MPI_Op_create_c(function: Option<MPI_User_function_c>, commute: c_int, op: *mut MPI_Op) local {
        let function = function.ok_or_else(|| err!(Arg, "user_fn is a null pointer"))?;
        // SAFETY: as in `MPI_Op_create`.
        let new = unsafe { Op::user(UserFunction::Large(function), commute != 0, LENDER) };
        // SAFETY: null or a handle of the user's.
        unsafe { give(op, new_op(new)?, "op") }
    }

    /// Section 6.9.5.
    small fn MPI_Op_free(op: *mut MPI_Op) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(op, "op") }?;
        if objects::op(handle)?.is_predefined() {
            return Err(err!(Op, "a predefined operation can't be freed"));
        }
        objects::OPS.remove(handle);
        // SAFETY: read from above.
        unsafe { op.write(MPI_OP_NULL) };
        Ok(())
    }

    /// Section 6.9.6.
    small fn MPI_Op_commutative(op: MPI_Op, commute: *mut c_int) local {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(commute, objects::op(op)?.commutes().into(), "commute") }
    }

    /// Section 6.9.7.
    large fn MPI_Reduce_local(inbuf: *const std::ffi::c_void, inoutbuf: *mut std::ffi::c_void, count: Count,
        datatype: MPI_Datatype, op: MPI_Op) local {
        let datatype = objects::committed(datatype)?;
        let op = objects::op(op)?;
        op.check(&datatype)?;
        let number = self::count(count, "count")?;
        for (buffer, name) in [(inbuf, "inbuf"), (inoutbuf.cast_const(), "inoutbuf")] {
            if buffer == MPI_IN_PLACE {
                return Err(err!(Buffer, "{name} can't be MPI_IN_PLACE here"));
            }
            arguments::memory(buffer, number, &datatype, name)?;
        }
        if elements_overlap(inbuf.cast(), inoutbuf.cast(), number, &datatype) {
            return Err(err!(Buffer, "inbuf and inoutbuf overlap, but must be apart"));
        }
        // SAFETY: the user gives `number` elements in both; the operation is defined on the type.
        unsafe { op.apply(inbuf.cast(), inoutbuf.cast(), number, &datatype) };
        Ok(())
    }
}

/// For datatypes that were freed while a reduction was under way.
const LENDER: Lender = Lender {
    // With too many datatypes there is no handle to lend.
    lend: |datatype| {
        objects::DATATYPES
            .insert(datatype.clone())
            .unwrap_or(MPI_DATATYPE_NULL)
    },
    end: |handle| {
        objects::DATATYPES.remove(handle);
    },
};
