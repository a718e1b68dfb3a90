//! Attributes (sections 7.7 and 19.3.7).
//!
//! C stores a pointer. What Fortran sets is an integer, in a cell whose address C stores (see [`cells`]); what C set, Fortran reads as the
//! address; and of the predefined attributes, which C reads through pointers, Fortran reads the values.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{Aint, Comm, Datatype, Function, Handle, Int, Logical, SUCCESS, Win};
use crate::bindings::{Library, Pmpi};
use crate::callback::cells::{self, Value};
use crate::callback::keyvals::{Size, callbacks};
use crate::callback::predefined;
use crate::convert::{logical, set};

/// What a predefined attribute's pointer points to.
enum Predefined {
    Default,
    Address,
    /// The pointer is the value.
    Pointer,
}

/// An object that has attributes.
trait Object: Handle {
    /// The callbacks that Fortran has for keys on such objects.
    fn callbacks() -> predefined::Callbacks;
    /// What kind of predefined attribute the key is for, if for one.
    fn predefined(keyval: Int) -> Option<Predefined>;
    unsafe fn create_keyval<A: Library>(
        copy: Function,
        delete: Function,
        keyval: *mut Int,
        extra_state: *mut c_void,
    ) -> Int;
    unsafe fn set_attr<A: Library>(self, keyval: Int, value: *mut c_void) -> Int;
    unsafe fn get_attr<A: Library>(self, keyval: Int, value: *mut c_void, flag: *mut Int) -> Int;
}

macro_rules! objects {
    ($($object:ident $callbacks:ident $create:ident $set:ident $get:ident { $($keys:tt)* };)+) => {$(
        impl Object for $object {
            fn callbacks() -> predefined::Callbacks {
                predefined::$callbacks()
            }

            fn predefined(keyval: Int) -> Option<Predefined> {
                match keyval {
                    $($keys)*
                    _ => None,
                }
            }

            unsafe fn create_keyval<A: Library>(
                copy: Function,
                delete: Function,
                keyval: *mut Int,
                extra_state: *mut c_void,
            ) -> Int {
                unsafe { A::$create(copy, delete, keyval, extra_state) }
            }

            unsafe fn set_attr<A: Library>(self, keyval: Int, value: *mut c_void) -> Int {
                unsafe { A::$set(self, keyval, value) }
            }

            unsafe fn get_attr<A: Library>(self, keyval: Int, value: *mut c_void, flag: *mut Int) -> Int {
                unsafe { A::$get(self, keyval, value, flag) }
            }
        }
    )+};
}

objects! {
    Comm comm MPI_Comm_create_keyval MPI_Comm_set_attr MPI_Comm_get_attr {
        // From MPI_TAG_UB to MPI_UNIVERSE_SIZE.
        501..=507 => Some(Predefined::Default),
    };
    Datatype datatype MPI_Type_create_keyval MPI_Type_set_attr MPI_Type_get_attr {};
    Win win MPI_Win_create_keyval MPI_Win_set_attr MPI_Win_get_attr {
        // MPI_WIN_BASE.
        601 => Some(Predefined::Pointer),
        // MPI_WIN_SIZE.
        603 => Some(Predefined::Address),
        // MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL.
        602 | 604 | 605 => Some(Predefined::Default),
    };
}

/// Makes a key.
unsafe fn create_keyval<A: Library, H: Object>(
    copy: Function,
    delete: Function,
    keyval: *mut Int,
    extra_state: Aint,
) -> Int {
    let callbacks = callbacks::<H>(&H::callbacks(), Size::Address, copy, delete, extra_state);
    unsafe { H::create_keyval::<A>(callbacks.copy, callbacks.delete, keyval, callbacks.extra_state) }
}

/// Sets an attribute by this function of C's. After an error the cell is C's no more: what was there before stays.
fn put(value: Value, put: impl FnOnce(*mut c_void) -> Int) -> Int {
    let cell = cells::new(value);
    let error = put(cell);
    if error != SUCCESS {
        cells::free(cell);
    }
    error
}

/// Reads an attribute by this function of C's. Returns the error code, and the value if there is one.
///
/// A pointer that is no cell's address is C's own; or it was that of a cell that another thread has removed since C gave it. So C is asked
/// again, until no cell was removed meanwhile.
unsafe fn get<H: Object>(
    object: H,
    keyval: Int,
    first: impl FnOnce(*mut c_void, *mut Int) -> Int,
) -> (Int, Option<Aint>) {
    let (mut pointer, mut flag) = (ptr::null_mut::<c_void>(), 0);
    let error = first((&raw mut pointer).cast(), &mut flag);
    if error != SUCCESS || flag == 0 {
        return (error, None);
    }
    // SAFETY: what the pointers of predefined attributes point to is written in sections 9.1 and 12.2.
    let word = unsafe {
        match H::predefined(keyval) {
            Some(Predefined::Default) => *pointer.cast::<Int>() as Aint,
            Some(Predefined::Address) => *pointer.cast::<Aint>(),
            Some(Predefined::Pointer) => pointer.addr() as Aint,
            None => {
                let mut before = None;
                loop {
                    match cells::look(pointer) {
                        Ok(value) => break value.word(),
                        Err(removed) if before == Some(removed) => break pointer.addr() as Aint,
                        Err(removed) => before = Some(removed),
                    }
                    let error = object.get_attr::<Pmpi>(keyval, (&raw mut pointer).cast(), &mut flag);
                    if error != SUCCESS || flag == 0 {
                        return (error, None);
                    }
                }
            }
        }
    };
    (SUCCESS, Some(word))
}

macro_rules! procedures {
    ($($object:ident: $create:ident $create_name:literal $set:ident $set_name:literal $get:ident $get_name:literal;)+) => {$(
        #[doc = concat!("`", $create_name, "` (section 7.7).")]
        pub unsafe fn $create<A: Library>(
            copy: Function,
            delete: Function,
            keyval: *mut Int,
            extra_state: *const Aint,
            ierror: *mut Int,
        ) {
            unsafe { set(ierror, create_keyval::<A, $object>(copy, delete, keyval, *extra_state)) };
        }

        #[doc = concat!("`", $set_name, "` (section 7.7).")]
        pub unsafe fn $set<A: Library>(object: *const Int, keyval: *const Int, value: *const Aint, ierror: *mut Int) {
            unsafe {
                let object = $object::from_int(*object);
                let error = put(Value::Address(*value), |cell| object.set_attr::<A>(*keyval, cell));
                set(ierror, error);
            }
        }

        #[doc = concat!("`", $get_name, "` (section 7.7).")]
        pub unsafe fn $get<A: Library>(
            object: *const Int,
            keyval: *const Int,
            value: *mut Aint,
            flag: *mut Logical,
            ierror: *mut Int,
        ) {
            unsafe {
                let object = $object::from_int(*object);
                let (error, word) = get(object, *keyval, |to, found| object.get_attr::<A>(*keyval, to, found));
                if error == SUCCESS {
                    *flag = logical(word.is_some().into());
                    if let Some(word) = word {
                        *value = word;
                    }
                }
                set(ierror, error);
            }
        }
    )+};
}

procedures! {
    Comm: comm_create_keyval "MPI_Comm_create_keyval" comm_set_attr "MPI_Comm_set_attr" comm_get_attr "MPI_Comm_get_attr";
    Datatype: type_create_keyval "MPI_Type_create_keyval" type_set_attr "MPI_Type_set_attr" type_get_attr "MPI_Type_get_attr";
    Win: win_create_keyval "MPI_Win_create_keyval" win_set_attr "MPI_Win_set_attr" win_get_attr "MPI_Win_get_attr";
}

/// `MPI_Keyval_create` (section 16.1).
pub unsafe fn keyval_create<A: Library>(
    copy: Function,
    delete: Function,
    keyval: *mut Int,
    extra_state: *const Int,
    ierror: *mut Int,
) {
    unsafe {
        let callbacks = callbacks::<Comm>(
            &predefined::deprecated(),
            Size::Default,
            copy,
            delete,
            *extra_state as Aint,
        );
        let error = A::MPI_Keyval_create(callbacks.copy, callbacks.delete, keyval, callbacks.extra_state);
        set(ierror, error);
    }
}

/// `MPI_Attr_put` (section 16.1).
pub unsafe fn attr_put<A: Library>(
    comm: *const Int,
    keyval: *const Int,
    value: *const Int,
    ierror: *mut Int,
) {
    unsafe {
        let comm = Comm::from_int(*comm);
        let error = put(Value::Default(*value), |cell| {
            A::MPI_Attr_put(comm, *keyval, cell)
        });
        set(ierror, error);
    }
}

/// `MPI_Attr_get` (section 16.1): the least significant part of the value (section 19.3.7).
pub unsafe fn attr_get<A: Library>(
    comm: *const Int,
    keyval: *const Int,
    value: *mut Int,
    flag: *mut Logical,
    ierror: *mut Int,
) {
    unsafe {
        let comm = Comm::from_int(*comm);
        let (error, word) = get(comm, *keyval, |to, found| {
            A::MPI_Attr_get(comm, *keyval, to, found)
        });
        if error == SUCCESS {
            *flag = logical(word.is_some().into());
            if let Some(word) = word {
                *value = word as Int;
            }
        }
        set(ierror, error);
    }
}
