//! Reduction operations (MPI 5.0, section 6.9): the predefined ones on every type that the standard gives them, and
//! the user's.
//!
//! A predefined operation on a predefined type is a kernel, a plain function over arrays: `kernels` has those on
//! numbers, `logical` those on Fortran's truth values, `location` those on pairs, `half`, `longdouble` and `binary128` the arithmetic that Rust lacks. `loops` has the loops, which are compiled
//! several times, and `level` says for which processor. Buffers need no alignment. `update` is for elements that others may update at the
//! same time, and `single` the short way for one of them.
//!
//! What does not belong here: in which order the elements of several processes are combined (`objects::collective`), handles and arguments
//! (`abi::collective`), and which types there are (`data::datatype`).

mod binary128;
mod half;
mod kernels;
mod level;
mod location;
mod logical;
#[cfg(target_arch = "x86_64")]
mod longdouble;
mod loops;
mod predefined;
mod single;
mod update;
mod word;

/// C's `long double`, as [`Representation::LongDouble`](crate::data::datatype::Representation) has it.
#[cfg(not(target_arch = "x86_64"))]
use binary128::Binary128 as LongDouble;
#[cfg(target_arch = "x86_64")]
use longdouble::LongDouble;

use crate::base::error::Result;
use crate::data::datatype::Datatype;
#[cfg(feature = "sim")]
use crate::data::datatype::Element;
use crate::err;
pub use level::Level;
use parking_lot::RwLock;
use predefined::PredefinedKind;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
pub use update::{
    AT_ONCE, Guard, Held, MANY, Sharing, can_compare_and_swap, check_compare_and_swap, compare_and_swap,
};

/// A user's reduction function, in the form that `MPI_Op_create` or `MPI_Op_create_c` was given. The last argument
/// points to an `MPI_Datatype`, which is as wide as a pointer.
#[derive(Clone, Copy, Debug)]
pub enum UserFunction {
    /// `MPI_User_function`: counts are `int`.
    Int(unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut usize)),
    /// `MPI_User_function_c`: counts are `MPI_Count`.
    Large(unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut usize)),
}

/// Lends a user's function a handle for a datatype whose own handle the user has freed: a reduction that was under way
/// then completes as if it had not been (MPI 5.0, section 5.1.9), and the function may ask the datatype for its extent.
#[derive(Clone, Copy, Debug)]
pub struct Lender {
    /// A handle for the datatype.
    pub lend: fn(&Arc<Datatype>) -> usize,
    /// Ends it.
    pub end: fn(usize),
}

impl Lender {
    /// Lends no handles.
    #[cfg(feature = "sim")]
    pub const NOBODY: Lender = Lender {
        lend: |_| 0,
        end: |_| {},
    };
}

#[derive(Debug)]
enum Function {
    Predefined(PredefinedKind),
    User(UserFunction, Lender),
}

/// A reduction operation.
#[derive(Debug)]
pub struct Op {
    function: Function,
    commutes: bool,
    handle: AtomicUsize,
    name: RwLock<Cow<'static, str>>,
}

impl Op {
    fn new(function: Function, commutes: bool, handle: usize, name: &'static str) -> Arc<Op> {
        Arc::new(Op {
            function,
            commutes,
            handle: AtomicUsize::new(handle),
            name: RwLock::new(Cow::Borrowed(name)),
        })
    }

    /// An operation of the user's (`MPI_Op_create`, `MPI_Op_create_c`).
    ///
    /// # Safety
    /// As long as the result exists, the function may be called from any thread, and does what the standard says of it (MPI 5.0
    /// section 6.9.5) with any elements of the datatypes that the operation is applied to: it reads `input` and writes `inout`, as
    /// many as it is told.
    pub unsafe fn user(function: UserFunction, commutes: bool, lender: Lender) -> Arc<Op> {
        Op::new(Function::User(function, lender), commutes, 0, "")
    }

    /// Whether it commutes. Every operation is taken to be associative.
    pub fn commutes(&self) -> bool {
        self.commutes
    }

    /// Whether it is one of the standard's, which must not be freed.
    pub fn is_predefined(&self) -> bool {
        matches!(self.function, Function::Predefined(_))
    }

    /// Whether it is for one-sided communication only: `MPI_REPLACE` and `MPI_NO_OP` (section 6.9.2).
    pub fn is_accumulate_only(&self) -> bool {
        matches!(
            self.function,
            Function::Predefined(PredefinedKind::Replace | PredefinedKind::NoOp)
        )
    }

    /// The ABI handle; 0 until the bindings set it.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Sets the ABI handle.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// The constant's name; empty for a user's operation.
    pub fn name(&self) -> Cow<'static, str> {
        self.name.read().clone()
    }

    /// Whether this operation is defined on elements of `datatype` (section 6.9.2).
    ///
    /// # Errors
    /// `MPI_ERR_OP`, naming both.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        let Function::Predefined(kind) = self.function else {
            return Ok(());
        };
        if self.is_accumulate_only() {
            return Ok(());
        }
        match datatype.element() {
            Some(element) if kind.kernels(element).is_some() => Ok(()),
            Some(_) => Err(err!(
                Op,
                "{} is not defined on {}",
                self.name(),
                datatype.describe()
            )),
            None => Err(err!(
                Op,
                "{} is not defined on {}: a predefined operation takes predefined datatypes only",
                self.name(),
                datatype.describe()
            )),
        }
    }

    /// `inout[i] = input[i] op inout[i]` for `count` elements. [`check`](Self::check) has been passed; where it was
    /// not, `inout` stays as it is.
    ///
    /// A user's function is called with the datatype's handle, or one that its lender lends, in pieces of at most `i32::MAX` elements if it counts in
    /// `int`. No lock is held meanwhile.
    ///
    /// # Safety
    /// Both buffers hold `count` elements of `datatype` (the pointers are buffer addresses as the standard has them: data
    /// starts at the true lower bound), initialized, `inout` writable, and do not overlap. A user's function does with
    /// them what the standard lets it.
    pub unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: u64, datatype: &Arc<Datatype>) {
        match (&self.function, datatype.element()) {
            // SAFETY: the caller says that the bytes of these elements are valid.
            (Function::User(function, lender), _) => unsafe {
                match datatype.handle() {
                    0 => {
                        let handle = (lender.lend)(datatype);
                        call(*function, input, inout, count, datatype, handle);
                        (lender.end)(handle);
                    }
                    handle => call(*function, input, inout, count, datatype, handle),
                }
            },
            (Function::Predefined(PredefinedKind::NoOp), _) => {}
            // SAFETY: the caller says that the bytes of these elements are valid.
            (Function::Predefined(PredefinedKind::Replace), _) => unsafe {
                replace(input, inout, count, datatype)
            },
            (Function::Predefined(kind), Some(element)) => {
                if let Some(levels) = kind.kernels(element) {
                    let kernels = &levels[Level::here() as usize];
                    // SAFETY: the kernel is that of the element type, of which the caller vouches for `count`, and of this machine.
                    unsafe { (kernels.pairwise)(input, inout, count as usize) };
                }
            }
            (Function::Predefined(_), None) => {}
        }
    }

    /// `output[i] = inputs[0][i] op (inputs[1][i] op (… op inputs[last][i]))` for `count` elements: bit for bit what `output` as a copy
    /// of the last input has after [`apply`](Self::apply) of the one before it, and so on down to the first, but for the payload of a NaN of which two
    /// operands are NaN. One input is copied; with none, `output` stays as it is. [`check`](Self::check) has been passed.
    ///
    /// A predefined operation reads each input once and writes `output` once, whatever the number of inputs. A user's function is applied
    /// input by input.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for all of the inputs, except that `output` need not be initialized. `output` overlaps no input,
    /// but may be the same address as the last one, or, if the operation is predefined, as any of them. Inputs may overlap each other.
    pub unsafe fn combine_many(
        &self,
        inputs: &[*const u8],
        output: *mut u8,
        count: u64,
        datatype: &Arc<Datatype>,
    ) {
        let Some((&last, others)) = inputs.split_last() else {
            return;
        };
        if let (Function::Predefined(kind), Some(element), false) =
            (&self.function, datatype.element(), others.is_empty())
            && let Some(levels) = kind.kernels(element)
        {
            let kernels = &levels[Level::here() as usize];
            // SAFETY: the kernel is that of the element type, of which the caller vouches for `count` in each buffer, and of this machine.
            unsafe { (kernels.many)(inputs.as_ptr(), inputs.len(), output, count as usize) };
            return;
        }
        // SAFETY: the caller vouches for all inputs and the output, which the last input is copied to before it is combined.
        unsafe {
            if !std::ptr::eq(last, output) {
                replace(last, output, count, datatype);
            }
            for &input in others.iter().rev() {
                self.apply(input, output, count, datatype);
            }
        }
    }

    /// The kernel's work on `count` elements that lie one after the other, with the instructions of a level, for measurements. Returns whether
    /// the operation is defined on `element`.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for an array of `element`; [`Level::is_here`] is true of the level.
    #[cfg(feature = "sim")]
    pub unsafe fn apply_at(
        &self,
        level: Level,
        input: *const u8,
        inout: *mut u8,
        count: u64,
        element: Element,
    ) -> bool {
        let Function::Predefined(kind) = self.function else {
            return false;
        };
        match kind.kernels(element) {
            Some(levels) => {
                let kernels = &levels[level as usize];
                // SAFETY: the kernel is that of the element type, of which the caller vouches for `count`, and of a level that
                // the machine has.
                unsafe { (kernels.pairwise)(input, inout, count as usize) };
                true
            }
            None => false,
        }
    }
}

/// Calls a user's function.
///
/// # Safety
/// As [`Op::apply`].
unsafe fn call(
    function: UserFunction,
    input: *const u8,
    inout: *mut u8,
    count: u64,
    datatype: &Datatype,
    handle: usize,
) {
    // Its own copies: the function gets pointers to them, and may write there.
    let (mut input, mut inout, mut left) = (input, inout, count);
    while left > 0 {
        let mut handle = handle;
        let piece = match function {
            UserFunction::Int(function) => {
                let mut length = c_int::try_from(left).unwrap_or(c_int::MAX);
                let piece = length as u64;
                // SAFETY: the caller vouches for the buffers; the pointers to length and handle are to locals.
                unsafe {
                    function(
                        input.cast_mut().cast(),
                        inout.cast(),
                        &raw mut length,
                        &raw mut handle,
                    )
                };
                piece
            }
            UserFunction::Large(function) => {
                let mut length = i64::try_from(left).unwrap_or(i64::MAX);
                let piece = length as u64;
                // SAFETY: as for `Int`.
                unsafe {
                    function(
                        input.cast_mut().cast(),
                        inout.cast(),
                        &raw mut length,
                        &raw mut handle,
                    )
                };
                piece
            }
        };
        left -= piece;
        // The extent may be negative, and the last step may lead past the buffer: it is only an address.
        let step = (piece as isize).wrapping_mul(datatype.extent() as isize);
        input = input.wrapping_offset(step);
        inout = inout.wrapping_offset(step);
    }
}

/// Copies the data of `count` elements.
///
/// # Safety
/// As [`Op::apply`].
unsafe fn replace(input: *const u8, inout: *mut u8, count: u64, datatype: &Arc<Datatype>) {
    let mut piece = [0; 4096];
    let mut done = 0;
    loop {
        // SAFETY: the caller vouches for both buffers; `piece` is no part of them.
        let packed = unsafe {
            let packed = datatype.pack(input, count, done, &mut piece[..]);
            datatype.unpack(inout, count, done, &piece[..packed])
        };
        if packed == 0 {
            return;
        }
        done += packed as u64;
    }
}

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;
