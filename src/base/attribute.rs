//! Attribute caching (MPI 5.0 section 7.7): values of the user's, kept with an object under a key.
//!
//! A [`Keyval`] is a key: for which kind of object it is, and how its callbacks are called, which depends on the language
//! that it was made in. [`Attributes`] is what one object carries. Callbacks may do anything, also with the attributes of the same object, so no lock is held
//! while one runs. An attribute whose delete callback runs can still be read, and is gone for all else: it is neither
//! copied nor deleted a second time, and another one may take its place.
//!
//! A key that the user frees lives on until its last attribute has gone: the user's handle and every attribute are a
//! reference each, and the last one that goes retires the key's number.
//!
//! What does not belong here: the predefined attributes, the table of keys, and how a callback is called (`abi::communicator`).

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::base::error::{Error, Result};
use crate::err;

/// Kinds of objects that have attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// Communicators.
    Communicator,
    /// Datatypes.
    Datatype,
    /// Windows.
    Window,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Communicator => "communicators",
            ObjectKind::Datatype => "datatypes",
            ObjectKind::Window => "windows",
        })
    }
}

/// What a callback is called for.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The handle of the object: for a copy, of the old one.
    pub object: usize,
    /// The key.
    pub key: c_int,
    /// What the user gave when the key was made.
    pub extra_state: usize,
    /// The attribute's value.
    pub value: usize,
}

/// How the user's copy functions of one language are called: takes the function's address, and gives the copy's value
/// (`None`: there shall be no copy) or the code that the function returned. Each language that keys are made in has its
/// own.
pub type CopyCaller = unsafe fn(function: usize, call: &Call) -> Result<Option<usize>, c_int>;

/// As [`CopyCaller`], for delete functions.
pub type DeleteCaller = unsafe fn(function: usize, call: &Call) -> Result<(), c_int>;

/// How an attribute is copied when its object is duplicated.
#[derive(Clone, Copy, Debug)]
pub enum CopyFunction {
    /// Not at all (`MPI_COMM_NULL_COPY_FN`).
    Never,
    /// With the same value (`MPI_COMM_DUP_FN`).
    Same,
    /// By a function of the user's.
    User {
        /// Its address.
        function: usize,
        /// How its language has it called.
        caller: CopyCaller,
    },
}

/// What is done when an attribute goes.
#[derive(Clone, Copy, Debug)]
pub enum DeleteFunction {
    /// Nothing (`MPI_COMM_NULL_DELETE_FN`).
    Nothing,
    /// A function of the user's is called.
    User {
        /// Its address.
        function: usize,
        /// How its language has it called.
        caller: DeleteCaller,
    },
}

/// A key.
#[derive(Debug)]
pub struct Keyval {
    /// For attributes of which objects.
    pub kind: ObjectKind,
    copy: CopyFunction,
    delete: DeleteFunction,
    extra_state: usize,
    /// What the user knows it by.
    number: AtomicI32,
    references: AtomicUsize,
    freed: AtomicBool,
    retire: fn(i32),
}

impl Keyval {
    /// A key with one reference: the user's. `retire` is called with the key's number when the last reference has
    /// gone.
    ///
    /// # Safety
    /// The functions may be called by their callers, from any thread, until `retire` is called.
    pub unsafe fn new(
        kind: ObjectKind,
        copy: CopyFunction,
        delete: DeleteFunction,
        extra_state: usize,
        retire: fn(i32),
    ) -> Arc<Keyval> {
        Arc::new(Keyval {
            kind,
            copy,
            delete,
            extra_state,
            number: AtomicI32::new(0),
            references: AtomicUsize::new(1),
            freed: AtomicBool::new(false),
            retire,
        })
    }

    /// What the user knows it by.
    pub fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Sets what the user knows it by.
    pub fn set_number(&self, number: i32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Gives the user's reference back; attributes keep theirs. Once that is done it does nothing more: a delete callback may free
    /// the key that it is called for, whether or not the program has (MPICH and Open MPI take that).
    pub fn free(&self) {
        if !self.freed.swap(true, Ordering::AcqRel) {
            self.release();
        }
    }

    fn release(&self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.retire)(self.number());
        }
    }

    fn call(&self, object: usize, value: usize) -> Call {
        Call {
            object,
            key: self.number(),
            extra_state: self.extra_state,
            value,
        }
    }

    /// The value that a copy of the attribute has; `None`: there shall be no copy.
    fn copied(&self, object: usize, value: usize) -> Result<Option<usize>> {
        match self.copy {
            CopyFunction::Never => Ok(None),
            CopyFunction::Same => Ok(Some(value)),
            CopyFunction::User { function, caller } => {
                // SAFETY: the promise of `new`.
                unsafe { caller(function, &self.call(object, value)) }
                    .map_err(|code| self.failed("copy", code))
            }
        }
    }

    fn deleted(&self, object: usize, value: usize) -> Result<()> {
        match self.delete {
            DeleteFunction::Nothing => Ok(()),
            DeleteFunction::User { function, caller } => {
                // SAFETY: the promise of `new`.
                unsafe { caller(function, &self.call(object, value)) }
                    .map_err(|code| self.failed("delete", code))
            }
        }
    }

    #[cold]
    fn failed(&self, which: &str, code: c_int) -> Error {
        Error {
            code: Some(code),
            ..err!(
                Other,
                "the {which} callback of the key {:#x} returned {code}",
                self.number()
            )
        }
    }
}

/// A reference of an attribute to its key.
#[derive(Debug)]
struct Use(Arc<Keyval>);

impl Use {
    /// `None`: the key is gone.
    fn of(keyval: &Arc<Keyval>) -> Option<Use> {
        keyval
            .references
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |references| {
                (references > 0).then_some(references + 1)
            })
            .ok()
            .map(|_| Use(keyval.clone()))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[derive(Debug)]
struct Attribute {
    keyval: Use,
    value: usize,
    /// Larger than that of every attribute that was set before.
    order: u64,
    /// Its delete callback is running.
    going: bool,
}

/// An attribute whose delete callback is to be called.
struct Going {
    keyval: Arc<Keyval>,
    value: usize,
    order: u64,
}

/// The attributes of one object, by the numbers of their keys.
#[derive(Debug, Default)]
pub struct Attributes {
    entries: RwLock<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: FxHashMap<i32, Attribute>,
    /// Key by order of setting, of all that are not going.
    by_order: BTreeMap<u64, i32>,
    next: u64,
}

impl Entries {
    /// Adds one that is younger than all, in the place of one that is going.
    fn insert(&mut self, keyval: Use, value: usize) {
        let (number, order) = (keyval.0.number(), self.next);
        self.next += 1;
        self.by_order.insert(order, number);
        let going = false;
        self.by_key.insert(
            number,
            Attribute {
                keyval,
                value,
                order,
                going,
            },
        );
    }

    /// The one under a key begins to go. `None`: there is none, or it does already.
    fn begin(&mut self, number: i32) -> Option<Going> {
        let attribute = self
            .by_key
            .get_mut(&number)
            .filter(|attribute| !attribute.going)?;
        attribute.going = true;
        self.by_order.remove(&attribute.order);
        Some(Going {
            keyval: attribute.keyval.0.clone(),
            value: attribute.value,
            order: attribute.order,
        })
    }

    /// The last one set begins to go.
    fn begin_last(&mut self) -> Option<Going> {
        let (_, &number) = self.by_order.last_key_value()?;
        self.begin(number)
    }
}

impl Attributes {
    /// The value under a key.
    #[inline]
    pub fn get(&self, number: i32) -> Option<usize> {
        self.entries
            .read()
            .by_key
            .get(&number)
            .map(|attribute| attribute.value)
    }

    /// Puts a value under a key; one that is there is deleted first. `object` is the handle for callbacks.
    ///
    /// # Errors
    /// The delete callback's, and nothing has changed; `MPI_ERR_KEYVAL` if the key is gone.
    pub fn set(&self, object: usize, keyval: &Arc<Keyval>, value: usize) -> Result<()> {
        let number = keyval.number();
        let new = Use::of(keyval).ok_or_else(|| err!(Keyval, "the key {number:#x} was freed"))?;
        loop {
            let mut entries = self.entries.write();
            let Some(old) = entries.begin(number) else {
                entries.insert(new, value);
                return Ok(());
            };
            drop(entries);
            self.end(object, old)?;
        }
    }

    /// Deletes the value under a key. `false`: there was none.
    ///
    /// # Errors
    /// The delete callback's, and nothing has changed.
    pub fn delete(&self, object: usize, number: i32) -> Result<bool> {
        let old = self.entries.write().begin(number);
        match old {
            None => Ok(false),
            Some(old) => self.end(object, old).map(|()| true),
        }
    }

    /// Deletes all, the last one set first; what callbacks set meanwhile, too.
    ///
    /// # Errors
    /// The first that a delete callback returns: that attribute and those set before it are still there.
    pub fn delete_all(&self, object: usize) -> Result<()> {
        while let Some(last) = self.begin_last() {
            self.end(object, last)?;
        }
        Ok(())
    }

    /// As [`Attributes::delete_all`], but no callback can stop it.
    pub fn discard(&self, object: usize) {
        while let Some(last) = self.begin_last() {
            // The operation that this is the end of has failed already, and tells why.
            let _ = last.keyval.deleted(object, last.value);
            self.settle(&last, true);
        }
    }

    /// Gives the copies that the copy callbacks want to `new`, in the order in which the originals were set.
    ///
    /// # Errors
    /// The first that a copy callback returns: `new` has what was copied before.
    pub fn copy_to(&self, object: usize, new: &Attributes) -> Result<()> {
        let keys: Vec<i32> = self.entries.read().by_order.values().copied().collect();
        for number in keys {
            // An earlier callback may have deleted it, and this one may: meanwhile the key must not go.
            let present = self
                .entries
                .read()
                .by_key
                .get(&number)
                .filter(|attribute| !attribute.going)
                .and_then(|attribute| Some((Use::of(&attribute.keyval.0)?, attribute.value)));
            if let Some((keyval, value)) = present
                && let Some(copy) = keyval.0.copied(object, value)?
            {
                new.entries.write().insert(keyval, copy);
            }
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.read().by_key.is_empty()
    }

    fn begin_last(&self) -> Option<Going> {
        self.entries.write().begin_last()
    }

    /// Calls the delete callback of an attribute; where that fails it stays.
    fn end(&self, object: usize, old: Going) -> Result<()> {
        let deleted = old.keyval.deleted(object, old.value);
        self.settle(&old, deleted.is_ok());
        deleted
    }

    /// Takes an attribute out, or back, unless another one has taken its place.
    fn settle(&self, old: &Going, gone: bool) {
        let mut entries = self.entries.write();
        let Entries { by_key, by_order, .. } = &mut *entries;
        let Entry::Occupied(mut place) = by_key.entry(old.keyval.number()) else {
            return;
        };
        if place.get().order != old.order {
            return;
        }
        if gone {
            let attribute = place.remove();
            // Its key may go with it, which asks for other locks.
            drop(entries);
            drop(attribute);
        } else {
            place.get_mut().going = false;
            by_order.insert(old.order, old.keyval.number());
        }
    }
}

#[cfg(test)]
mod tests;
