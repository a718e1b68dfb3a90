//! Section 7.7: attribute caching; section 9.1.2: what the library says about itself in attributes; section 16.2.1: the
//! deprecated names.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::abi::common::arguments::{give, read};
use crate::abi::common::constants::*;
use crate::abi::common::handle::{self, Table};
use crate::abi::common::objects::{datatype, early_communicator, window};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::environment::added;
use crate::base::attribute::{Attributes, Call, CopyFunction, DeleteFunction, Keyval, ObjectKind};
use crate::base::error::Result;
use crate::err;
use crate::objects::communicator::{Communicator, TAG_UB};
use crate::objects::window::Window;

/// The keys that the user has, and those that attributes still use.
static KEYVALS: Table<Keyval> = Table::new(handle::HandleKind::Keyval);

mpi! {
    /// Section 7.7.2.
    small fn MPI_Comm_create_keyval(copy_fn: Callback, delete_fn: Callback, keyval: *mut c_int,
        extra_state: *mut c_void) local {
        // SAFETY: the user's functions, and null or an `int` of the user's.
        unsafe { create(ObjectKind::Communicator, copy_fn, delete_fn, extra_state, keyval) }
    }

    /// Section 7.7.2. The key lives on until its last attribute has gone.
    small fn MPI_Comm_free_keyval(keyval: *mut c_int) local {
        // SAFETY: null or an `int` of the user's.
        unsafe { free(ObjectKind::Communicator, keyval) }
    }

    /// Section 7.7.2.
    small fn MPI_Comm_set_attr(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) comm(comm) {
        set(ObjectKind::Communicator, early_communicator(comm)?.attributes(), comm, keyval, attribute_val)
    }

    /// Section 7.7.2. In nanoseconds, however many keys there are.
    small fn MPI_Comm_get_attr(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) comm(comm) {
        // SAFETY: each is null or the user's.
        unsafe { get_of_communicator(comm, keyval, attribute_val, flag) }
    }

    /// Section 7.7.2. It is not an error if there is nothing to delete, as long as there is such a key; likewise below.
    small fn MPI_Comm_delete_attr(comm: MPI_Comm, keyval: c_int) comm(comm) {
        delete(ObjectKind::Communicator, early_communicator(comm)?.attributes(), comm, keyval)
    }

    /// Section 7.7.3.
    small fn MPI_Win_create_keyval(copy_fn: Callback, delete_fn: Callback, keyval: *mut c_int,
        extra_state: *mut c_void) local {
        // SAFETY: the user's functions, and null or an `int` of the user's.
        unsafe { create(ObjectKind::Window, copy_fn, delete_fn, extra_state, keyval) }
    }

    /// Section 7.7.3. The key lives on until its last attribute has gone.
    small fn MPI_Win_free_keyval(keyval: *mut c_int) local {
        // SAFETY: null or an `int` of the user's.
        unsafe { free(ObjectKind::Window, keyval) }
    }

    /// Section 7.7.3.
    small fn MPI_Win_set_attr(win: MPI_Win, keyval: c_int, attribute_val: *mut c_void) win(win) {
        set(ObjectKind::Window, window(win)?.attributes(), win, keyval, attribute_val)
    }

    /// Section 7.7.3. In nanoseconds, however many keys there are.
    small fn MPI_Win_get_attr(win: MPI_Win, keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) win(win) {
        let found = window(win)?;
        let value = match found.attributes().get(keyval) {
            None => absent_of_window(&found, keyval)?,
            value => value,
        };
        // SAFETY: each is null or the user's.
        unsafe { give_value(value, attribute_val, flag) }
    }

    /// Section 7.7.3.
    small fn MPI_Win_delete_attr(win: MPI_Win, keyval: c_int) win(win) {
        delete(ObjectKind::Window, window(win)?.attributes(), win, keyval)
    }

    /// Section 7.7.4.
    small fn MPI_Type_create_keyval(copy_fn: Callback, delete_fn: Callback, keyval: *mut c_int,
        extra_state: *mut c_void) local {
        // SAFETY: the user's functions, and null or an `int` of the user's.
        unsafe { create(ObjectKind::Datatype, copy_fn, delete_fn, extra_state, keyval) }
    }

    /// Section 7.7.4. The key lives on until its last attribute has gone.
    small fn MPI_Type_free_keyval(keyval: *mut c_int) local {
        // SAFETY: null or an `int` of the user's.
        unsafe { free(ObjectKind::Datatype, keyval) }
    }

    /// Section 7.7.4.
    small fn MPI_Type_set_attr(type_: MPI_Datatype, keyval: c_int, attribute_val: *mut c_void) local {
        set(ObjectKind::Datatype, datatype(type_)?.attributes(), type_, keyval, attribute_val)
    }

    /// Section 7.7.4. In nanoseconds, however many keys there are.
    small fn MPI_Type_get_attr(type_: MPI_Datatype, keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) local {
        let found = datatype(type_)?;
        let value = match found.attributes().get(keyval) {
            None => lookup(ObjectKind::Datatype, keyval).map(|_| None)?,
            value => value,
        };
        // SAFETY: each is null or the user's.
        unsafe { give_value(value, attribute_val, flag) }
    }

    /// Section 7.7.4.
    small fn MPI_Type_delete_attr(type_: MPI_Datatype, keyval: c_int) local {
        delete(ObjectKind::Datatype, datatype(type_)?.attributes(), type_, keyval)
    }

    /// Section 16.2.1.
    small fn MPI_Keyval_create(copy_fn: Callback, delete_fn: Callback, keyval: *mut c_int,
        extra_state: *mut c_void) local {
        // SAFETY: the user's functions, and null or an `int` of the user's.
        unsafe { create(ObjectKind::Communicator, copy_fn, delete_fn, extra_state, keyval) }
    }

    /// Section 16.2.1. The key lives on until its last attribute has gone.
    small fn MPI_Keyval_free(keyval: *mut c_int) local {
        // SAFETY: null or an `int` of the user's.
        unsafe { free(ObjectKind::Communicator, keyval) }
    }

    /// Section 16.2.1.
    small fn MPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) comm(comm) {
        set(ObjectKind::Communicator, early_communicator(comm)?.attributes(), comm, keyval, attribute_val)
    }

    /// Section 16.2.1. In nanoseconds, however many keys there are.
    small fn MPI_Attr_get(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) comm(comm) {
        // SAFETY: each is null or the user's.
        unsafe { get_of_communicator(comm, keyval, attribute_val, flag) }
    }

    /// Section 16.2.1.
    small fn MPI_Attr_delete(comm: MPI_Comm, keyval: c_int) comm(comm) {
        delete(ObjectKind::Communicator, early_communicator(comm)?.attributes(), comm, keyval)
    }
}

/// # Safety
/// The functions are the user's, or stand for predefined ones; the pointer is null or valid for writing.
unsafe fn create(
    kind: ObjectKind,
    copy_fn: Callback,
    delete_fn: Callback,
    extra_state: *mut c_void,
    to: *mut c_int,
) -> Result<()> {
    if to.is_null() {
        return Err(err!(Arg, "keyval is a null pointer"));
    }
    let copy = match copy_fn {
        MPI_COMM_NULL_COPY_FN => CopyFunction::Never,
        MPI_COMM_DUP_FN => CopyFunction::Same,
        function => CopyFunction::User {
            function,
            caller: copy_by_c,
        },
    };
    let delete = match delete_fn {
        MPI_COMM_NULL_DELETE_FN => DeleteFunction::Nothing,
        MPI_COMM_DUP_FN => {
            return Err(err!(
                Arg,
                "the delete callback is MPI_COMM_DUP_FN, which is a copy callback"
            ));
        }
        function => DeleteFunction::User {
            function,
            caller: delete_by_c,
        },
    };
    let retire = |number| {
        KEYVALS.remove(number as usize);
    };
    // SAFETY: the user's functions stay callable for as long as the key is used.
    let keyval = unsafe { Keyval::new(kind, copy, delete, extra_state.expose_provenance(), retire) };
    let handle = KEYVALS
        .insert(keyval.clone())
        .ok_or_else(|| err!(Other, "there are too many keys at once (more than 1048576)"))?;
    // Bit 31 is for requests alone.
    let number = handle as c_int;
    keyval.set_number(number);
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, number, "keyval") }
}

/// # Safety
/// The pointer is null or valid.
unsafe fn free(kind: ObjectKind, keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointer is null or valid for reading.
    let number = unsafe { read(keyval, "keyval") }?;
    changeable(number)?;
    lookup(kind, number)?.free();
    // SAFETY: writable, as the caller says; it was read from above.
    unsafe { keyval.write(MPI_KEYVAL_INVALID) };
    Ok(())
}

/// Calls a copy function by C's convention.
///
/// # Safety
/// The address is that of a [`CopyAttrFunction`].
unsafe fn copy_by_c(function: usize, call: &Call) -> Result<Option<usize>, c_int> {
    // SAFETY: the caller's address is that of such a function.
    let function = unsafe { std::mem::transmute::<usize, CopyAttrFunction>(function) };
    let (mut copy, mut flag): (usize, c_int) = (0, 0);
    // SAFETY: the last two pointers are to locals. Values are whatever the user gave, and are handed back as pointers
    // because C declares them so.
    let code = unsafe {
        function(
            call.object,
            call.key,
            pointer(call.extra_state),
            pointer(call.value),
            (&raw mut copy).cast(),
            &mut flag,
        )
    };
    match code {
        MPI_SUCCESS => Ok((flag != 0).then_some(copy)),
        _ => Err(code),
    }
}

/// Calls a delete function by C's convention.
///
/// # Safety
/// The address is that of a [`DeleteAttrFunction`].
unsafe fn delete_by_c(function: usize, call: &Call) -> Result<(), c_int> {
    // SAFETY: the caller's address is that of such a function.
    let function = unsafe { std::mem::transmute::<usize, DeleteAttrFunction>(function) };
    // SAFETY: as in `copy_by_c`.
    match unsafe {
        function(
            call.object,
            call.key,
            pointer(call.value),
            pointer(call.extra_state),
        )
    } {
        MPI_SUCCESS => Ok(()),
        code => Err(code),
    }
}

fn pointer(value: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(value)
}

fn set(
    kind: ObjectKind,
    attributes: &Attributes,
    object: usize,
    number: c_int,
    value: *mut c_void,
) -> Result<()> {
    changeable(number)?;
    attributes.set(object, &lookup(kind, number)?, value.expose_provenance())
}

/// It is not an error if there is nothing to delete, as long as there is such a key.
fn delete(kind: ObjectKind, attributes: &Attributes, object: usize, number: c_int) -> Result<()> {
    changeable(number)?;
    if !attributes.delete(object, number)? {
        lookup(kind, number)?;
    }
    Ok(())
}

/// # Safety
/// Each pointer is null or valid for writing; the first is that to a pointer.
unsafe fn get_of_communicator(
    comm: MPI_Comm,
    number: c_int,
    to: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let comm = early_communicator(comm)?;
    let value = match comm.attributes().get(number) {
        None => absent(&comm, number)?,
        value => value,
    };
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give_value(value, to, flag) }
}

/// The key of a number.
fn lookup(kind: ObjectKind, number: c_int) -> Result<Arc<Keyval>> {
    if number == MPI_KEYVAL_INVALID {
        return Err(err!(Keyval, "the key is MPI_KEYVAL_INVALID"));
    }
    let found = usize::try_from(number)
        .ok()
        .and_then(|handle| KEYVALS.get(handle));
    match found {
        Some(keyval) if keyval.kind == kind => Ok(keyval),
        Some(keyval) => Err(err!(
            Keyval,
            "the key {number:#x} was made for {}, not for {kind}",
            keyval.kind
        )),
        None => Err(match predefined(number) {
            Some(its) => err!(Keyval, "the predefined key {number} is for {its}, not for {kind}"),
            None => err!(
                Keyval,
                "the key {number:#x} is not valid: it was freed, or never was one"
            ),
        }),
    }
}

/// The objects that a key of the library is for.
fn predefined(number: c_int) -> Option<ObjectKind> {
    match number {
        MPI_TAG_UB..=MPI_UNIVERSE_SIZE => Some(ObjectKind::Communicator),
        MPI_WIN_BASE..=MPI_WIN_MODEL => Some(ObjectKind::Window),
        _ => None,
    }
}

/// Refuses the keys of the library.
fn changeable(number: c_int) -> Result<()> {
    match predefined(number) {
        Some(_) => Err(err!(
            Keyval,
            "the key {number} is predefined: its attribute can only be read"
        )),
        None => Ok(()),
    }
}

/// A communicator's value under a key for which the user has set none.
fn absent(comm: &Communicator, number: c_int) -> Result<Option<usize>> {
    static VALUES: [AtomicI32; (MPI_UNIVERSE_SIZE - MPI_TAG_UB + 1) as usize] =
        [const { AtomicI32::new(0) }; (MPI_UNIVERSE_SIZE - MPI_TAG_UB + 1) as usize];
    let job = comm.instance().job();
    let value = match number {
        MPI_TAG_UB => Some(TAG_UB),
        // Every process can use the language's own input and output.
        MPI_IO => Some(MPI_ANY_SOURCE),
        MPI_HOST => Some(MPI_PROC_NULL),
        // The monotonic clock is the same for the whole machine.
        MPI_WTIME_IS_GLOBAL => Some(job.local_only.into()),
        MPI_APPNUM => job.appnum,
        MPI_LASTUSEDCODE => return Ok(Some(added::last_used().as_ptr().expose_provenance())),
        MPI_UNIVERSE_SIZE => job.universe_size.map(|size| size as c_int),
        _ => {
            lookup(ObjectKind::Communicator, number)?;
            return Ok(None);
        }
    };
    // In C the attribute is a pointer to the value.
    Ok(value.map(|value| {
        let place = &VALUES[(number - MPI_TAG_UB) as usize];
        place.store(value, Ordering::Relaxed);
        place.as_ptr().expose_provenance()
    }))
}

/// A window's value under a key for which the user has set none (section 12.2.6).
fn absent_of_window(window: &Window, number: c_int) -> Result<Option<usize>> {
    let facts = window.facts();
    Ok(Some(match number {
        // The others are pointers to values; this one is the value.
        MPI_WIN_BASE => window.exposed().base().expose_provenance(),
        MPI_WIN_SIZE => facts.size.as_ptr().expose_provenance(),
        MPI_WIN_DISP_UNIT => facts.disp_unit.as_ptr().expose_provenance(),
        MPI_WIN_CREATE_FLAVOR => facts.flavor.as_ptr().expose_provenance(),
        MPI_WIN_MODEL => facts.model.as_ptr().expose_provenance(),
        _ => {
            lookup(ObjectKind::Window, number)?;
            return Ok(None);
        }
    }))
}

/// # Safety
/// Each pointer is null or valid for writing; the first is that to a pointer.
unsafe fn give_value(value: Option<usize>, to: *mut c_void, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe {
        if let Some(value) = value {
            give(to.cast::<usize>(), value, "attribute_val")?;
        }
        give(flag, value.is_some().into(), "flag")
    }
}
