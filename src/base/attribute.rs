//! Attribute caching (MPI 5.0 section 7.7): values of the user's, kept with an object under a key.
//!
//! A [`Keyval`] is a key: it has the kind of object that it is for, and how its callbacks are called, which depends on
//! the language in which it was made. [`Attributes`] is what one object carries. Callbacks may do anything, also with the
//! attributes of the same object, so no lock is held while one runs. While the delete callback of an attribute runs, the
//! attribute can still be read, but it counts as gone for all other purposes: it is neither copied nor deleted a second
//! time, and another one may take its place.
//!
//! A key that the user frees lives on until its last attribute has gone: the user's handle and every attribute hold one
//! reference each, and when the last reference goes, the key's number is retired.
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

/// Calls the user's copy functions of one language: takes the function's address, and returns the copy's value (`None`:
/// no copy is to be made) or the code that the function returned. Each language in which keys are made has its own.
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
        /// The caller for its language.
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
        /// The caller for its language.
        caller: DeleteCaller,
    },
}

/// A key.
#[derive(Debug)]
pub struct Keyval {
    /// The kind of object that its attributes are for.
    pub kind: ObjectKind,
    copy: CopyFunction,
    delete: DeleteFunction,
    extra_state: usize,
    /// The number by which the user knows it.
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

    /// The number by which the user knows it.
    pub fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Sets the number by which the user knows it.
    pub fn set_number(&self, number: i32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Gives up the user's reference; attributes keep theirs. A second call does nothing: a delete callback may free the
    /// key that it is called for, whether or not the program has freed it (MPICH and Open MPI accept that).
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

    /// The value that a copy of the attribute has; `None`: no copy is to be made.
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
    /// The key by order of setting, of all that are not being deleted.
    by_order: BTreeMap<u64, i32>,
    next: u64,
}

impl Entries {
    /// Adds one as the latest, in place of one that is being deleted.
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

    /// Begins to delete the one under a key. `None`: there is none, or its deletion has begun already.
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

    /// Begins to delete the last one set.
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
            // The operation that ends here has failed already and returns its own error.
            let _ = last.keyval.deleted(object, last.value);
            self.settle(&last, true);
        }
    }

    /// Adds the copies that the copy callbacks want to `new`, in the order in which the originals were set.
    ///
    /// # Errors
    /// The first that a copy callback returns: `new` has what was copied before.
    pub fn copy_to(&self, object: usize, new: &Attributes) -> Result<()> {
        let keys: Vec<i32> = self.entries.read().by_order.values().copied().collect();
        for number in keys {
            // An earlier callback may have deleted it, and this one may: the key must stay meanwhile.
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
