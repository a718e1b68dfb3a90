//! Copy and delete functions of attributes (section 7.7).
//!
//! C gets a function of ours for each, and as extra state a [`Keyval`]: which procedures of the user's to call, with which extra state, and
//! how large their integers are. Keyvals with the same content are one, and they stay until the process ends: nobody tells when the last
//! attribute under a key is gone.
//!
//! The delete function is always one of ours, since it frees the attribute's cell too (see [`cells`](super::cells)).

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::cells::{self, Value};
use super::{Procedure, predefined};
use crate::abi::{Aint, Function, Handle, Int, Logical, SUCCESS};
use crate::convert::truth;

/// How large the integers of the callbacks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Default integers: the deprecated interface.
    Default,
    /// Address-sized.
    Address,
}

/// What to do when an attribute is copied, where it is copied at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Copying {
    Duplicate,
    Call(Procedure),
}

/// A key that Fortran made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Keyval {
    size: Size,
    copy: Option<Copying>,
    delete: Option<Procedure>,
    extra_state: Aint,
}

/// All there were.
static KEYVALS: Mutex<BTreeSet<&'static Keyval>> = Mutex::new(BTreeSet::new());

impl Keyval {
    fn interned(self) -> &'static Self {
        let mut all = KEYVALS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&self) {
            return known;
        }
        let new: &'static Self = Box::leak(Box::new(self));
        all.insert(new);
        new
    }
}

/// What C gets for a new key.
pub struct Callbacks {
    /// The copy function.
    pub copy: Function,
    /// The delete function.
    pub delete: Function,
    /// The extra state of both.
    pub extra_state: *mut c_void,
}

/// The callbacks for keys on objects of this kind: those that Fortran passed, or what they stand for if they are predefined.
pub fn callbacks<H: Handle>(
    named: &predefined::Callbacks,
    size: Size,
    copy_fn: Function,
    delete_fn: Function,
    extra_state: Aint,
) -> Callbacks {
    let copying = if copy_fn == named.null_copy {
        None
    } else if copy_fn == named.dup {
        Some(Copying::Duplicate)
    } else {
        Some(Copying::Call(Procedure::new(copy_fn)))
    };
    let deleting = (delete_fn != named.null_delete).then(|| Procedure::new(delete_fn));
    let keyval = Keyval {
        size,
        copy: copying,
        delete: deleting,
        extra_state,
    };
    Callbacks {
        // C's constants for no copy are null.
        copy: if copying.is_some() {
            copy::<H> as Function
        } else {
            ptr::null()
        },
        delete: delete::<H> as Function,
        extra_state: ptr::from_ref(keyval.interned()).cast_mut().cast(),
    }
}

/// A copy function in Fortran, whose integers are `T`s.
type Copy<T> = unsafe extern "C" fn(
    oldcomm: *mut Int,
    keyval: *mut Int,
    extra_state: *mut T,
    attribute_val_in: *mut T,
    attribute_val_out: *mut T,
    flag: *mut Logical,
    ierror: *mut Int,
);

/// A delete function in Fortran.
type Delete<T> = unsafe extern "C" fn(
    comm: *mut Int,
    keyval: *mut Int,
    attribute_val: *mut T,
    extra_state: *mut T,
    ierror: *mut Int,
);

/// The copy function for C.
unsafe extern "C" fn copy<H: Handle>(
    object: H,
    mut keyval: Int,
    extra_state: *mut c_void,
    value_in: *mut c_void,
    value_out: *mut *mut c_void,
    flag: *mut Int,
) -> Int {
    // SAFETY: C passes the extra state that it got, and a `Keyval` is never freed.
    let known = unsafe { &*extra_state.cast::<Keyval>() };
    let mut error = SUCCESS;
    let copied = match known.copy {
        None => None,
        // A cell belongs to one attribute only. C's pointer stays as it is.
        Some(Copying::Duplicate) => Some(cells::look(value_in).map_or(value_in, cells::new)),
        Some(Copying::Call(procedure)) => {
            let mut object = object.to_int();
            let mut yes: Logical = 0;
            let value = match known.size {
                Size::Address => {
                    let (mut state, mut old, mut new) = (known.extra_state, cells::word(value_in), 0);
                    // SAFETY: the user's word that it is a copy function with address-sized integers.
                    unsafe {
                        procedure.typed::<Copy<Aint>>()(
                            &mut object,
                            &mut keyval,
                            &mut state,
                            &mut old,
                            &mut new,
                            &mut yes,
                            &mut error,
                        );
                    }
                    Value::Address(new)
                }
                // The least significant part of each (section 19.3.7).
                Size::Default => {
                    let (mut state, mut old) = (known.extra_state as Int, cells::word(value_in) as Int);
                    let mut new = 0;
                    // SAFETY: the user's word that it is a copy function with default integers.
                    unsafe {
                        procedure.typed::<Copy<Int>>()(
                            &mut object,
                            &mut keyval,
                            &mut state,
                            &mut old,
                            &mut new,
                            &mut yes,
                            &mut error,
                        );
                    }
                    Value::Default(new)
                }
            };
            (error == SUCCESS && truth(yes) != 0).then(|| cells::new(value))
        }
    };
    // SAFETY: C passes the addresses of a pointer and of an integer.
    unsafe {
        *flag = Int::from(copied.is_some());
        if let Some(copied) = copied {
            *value_out = copied;
        }
    }
    error
}

/// The delete function for C. If the user's returns an error, the attribute stays, and so does its cell.
unsafe extern "C" fn delete<H: Handle>(
    object: H,
    mut keyval: Int,
    value: *mut c_void,
    extra_state: *mut c_void,
) -> Int {
    // SAFETY: C passes the extra state that it got, and a `Keyval` is never freed.
    let known = unsafe { &*extra_state.cast::<Keyval>() };
    let mut error = SUCCESS;
    if let Some(procedure) = known.delete {
        let mut object = object.to_int();
        match known.size {
            Size::Address => {
                let (mut state, mut old) = (known.extra_state, cells::word(value));
                // SAFETY: the user's word that it is a delete function with address-sized integers.
                unsafe {
                    procedure.typed::<Delete<Aint>>()(
                        &mut object,
                        &mut keyval,
                        &mut old,
                        &mut state,
                        &mut error,
                    );
                }
            }
            Size::Default => {
                let (mut state, mut old) = (known.extra_state as Int, cells::word(value) as Int);
                // SAFETY: the user's word that it is a delete function with default integers.
                unsafe {
                    procedure.typed::<Delete<Int>>()(
                        &mut object,
                        &mut keyval,
                        &mut old,
                        &mut state,
                        &mut error,
                    );
                }
            }
        }
    }
    if error == SUCCESS {
        cells::free(value);
    }
    error
}
