//! Section 9.5: error classes, codes and strings that the user adds.
//!
//! Both kinds of numbers come from one counter above `MPI_ERR_LASTCODE`. A number is never used again, so one that is
//! still used after it was removed is detected.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Mutex;

use crate::abi::common::arguments::{give, text};
use crate::abi::common::constants::*;
use crate::abi::common::errors;
use crate::abi::common::procedure::mpi;
use crate::base::error::{Error, Result};
use crate::err;

/// A class or code of the user's.
struct Added {
    /// The class of a code. `None`: it is a class itself.
    class: Option<c_int>,
    text: Option<String>,
}

struct Registry {
    next: c_int,
    entries: BTreeMap<c_int, Added>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: MPI_ERR_LASTCODE + 1,
    entries: BTreeMap::new(),
});

/// The value of `MPI_LASTUSEDCODE`: the user may keep the pointer, which is the attribute.
static LAST_USED: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

/// The largest existing class or code, including the user's.
pub fn last_used() -> &'static AtomicI32 {
    &LAST_USED
}

/// The class of a class or code of the user's.
pub fn class_of(number: c_int) -> Option<c_int> {
    REGISTRY
        .lock()
        .entries
        .get(&number)
        .map(|added| added.class.unwrap_or(number))
}

/// The text of a class or code of the user's: empty until the user sets it.
pub fn text_of(number: c_int) -> Option<String> {
    REGISTRY
        .lock()
        .entries
        .get(&number)
        .map(|added| added.text.clone().unwrap_or_default())
}

mpi! {
    /// Section 9.5.
    small fn MPI_Add_error_class(errorclass: *mut c_int) always {
        // SAFETY: null or an `int` of the user's.
        unsafe { add(None, errorclass, "errorclass") }
    }

    /// Section 9.5. Only a class that no code belongs to any more, and that has no string.
    small fn MPI_Remove_error_class(errorclass: c_int) always {
        REGISTRY.lock().remove(errorclass, true)
    }

    /// Section 9.5.
    small fn MPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) always {
        // SAFETY: null or an `int` of the user's.
        unsafe { add(Some(errorclass), errorcode, "errorcode") }
    }

    /// Section 9.5. Only a code that has no string.
    small fn MPI_Remove_error_code(errorcode: c_int) always {
        REGISTRY.lock().remove(errorcode, false)
    }

    /// Section 9.5. Replaces a string that was added before.
    small fn MPI_Add_error_string(errorcode: c_int, string: *const c_char) always {
        // SAFETY: null or a string of the user's.
        let string = unsafe { text(string, "string") }?;
        if string.len() >= MPI_MAX_ERROR_STRING as usize {
            return Err(err!(
                Arg,
                "string has {} bytes, more than MPI_MAX_ERROR_STRING ({MPI_MAX_ERROR_STRING}) has room for",
                string.len()
            ));
        }
        REGISTRY.lock().find(errorcode)?.text = Some(string.to_string());
        Ok(())
    }

    /// Section 9.5.
    small fn MPI_Remove_error_string(errorcode: c_int) always {
        match REGISTRY.lock().find(errorcode)?.text.take() {
            Some(_) => Ok(()),
            None => Err(err!(Arg, "no string was added to the error class or code {errorcode}")),
        }
    }
}

/// A new class, or a new code of a class.
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn add(class: Option<c_int>, to: *mut c_int, name: &str) -> Result<()> {
    if to.is_null() {
        return Err(err!(Arg, "{name} is a null pointer"));
    }
    let mut registry = REGISTRY.lock();
    if let Some(class) = class {
        let known = match registry.entries.get(&class) {
            Some(added) => added.class.is_none(),
            None => errors::is_class(class),
        };
        if !known {
            return Err(err!(Arg, "errorclass {class} is not a valid error class"));
        }
    }
    let number = registry.next;
    registry.next = number
        .checked_add(1)
        .ok_or_else(|| err!(Other, "all numbers for error classes and codes have been used"))?;
    registry.entries.insert(number, Added { class, text: None });
    registry.note_last();
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, number, name) }
}

impl Registry {
    fn find(&mut self, number: c_int) -> Result<&mut Added> {
        self.entries.get_mut(&number).ok_or_else(|| not_added(number))
    }

    /// Removes a class, or a code.
    fn remove(&mut self, number: c_int, class: bool) -> Result<()> {
        let what = if class { "class" } else { "code" };
        let codes = self
            .entries
            .values()
            .filter(|added| added.class == Some(number))
            .count();
        let added = self.find(number)?;
        if added.class.is_none() != class {
            let other = if class { "code" } else { "class" };
            return Err(err!(Arg, "{number} is an error {other}, not an error {what}"));
        }
        if codes > 0 {
            return Err(err!(
                Arg,
                "the error class {number} still has {codes} error codes, which must be removed first"
            ));
        }
        if added.text.is_some() {
            return Err(err!(
                Arg,
                "the error {what} {number} still has a string, which must be removed first"
            ));
        }
        self.entries.remove(&number);
        self.note_last();
        Ok(())
    }

    fn note_last(&self) {
        let last = self
            .entries
            .last_key_value()
            .map_or(MPI_ERR_LASTCODE, |(&number, _)| number);
        LAST_USED.store(last, Ordering::Relaxed);
    }
}

#[cold]
fn not_added(number: c_int) -> Error {
    match number {
        0..=MPI_ERR_LASTCODE => err!(Arg, "the error class or code {number} was not added by the user"),
        _ => err!(
            Arg,
            "the error class or code {number} was not added, or was removed"
        ),
    }
}
