//! The copies that operations in progress work on, and the arrays of handles that C was given and may still read, by the Fortran numbers of
//! their requests.
//!
//! The procedures that complete requests take the copies out before they call C, since C may give the number of a completed request to
//! another thread's, and bring those back whose requests are still there. So a request has to be completed, and a persistent one started,
//! by a procedure of Fortran's: if C is given the request and does it, what was received does not get to the section.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::staged::Staged;
use crate::abi::{Datatype, Handle, Int, Request, SUCCESS};
use crate::bindings::pmpi;

/// What has to stay until an operation is complete.
#[derive(Default)]
struct Kept {
    copies: Vec<Staged>,
    /// C's forms of arrays of datatypes (`MPI_Ialltoallw`).
    arrays: Vec<Vec<Datatype>>,
}

static TABLE: Mutex<BTreeMap<Int, Kept>> = Mutex::new(BTreeMap::new());
/// How many requests have something here, taken out or not. A program learns of a request by what orders this, too.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);
/// What requests have that were freed while they were active: nothing tells when these are complete.
static ABANDONED: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn table() -> MutexGuard<'static, BTreeMap<Int, Kept>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the operation of a request is complete, or there is none.
fn is_complete(request: Int) -> bool {
    let mut done = 0;
    // SAFETY: the request is one that the program passed as such; a null pointer stands for `MPI_STATUS_IGNORE`.
    let error =
        unsafe { pmpi::PMPI_Request_get_status(Request::from_int(request), &mut done, std::ptr::null_mut()) };
    error == SUCCESS && done != 0
}

/// Keeps copies until the request is complete.
pub fn keep(request: Int, copies: Vec<Staged>) {
    let arrays = Vec::new();
    keep_all(request, Kept { copies, arrays });
}

/// Keeps an array that C was given until the request is complete.
pub fn keep_array(request: Int, array: Vec<Datatype>) {
    let (copies, arrays) = (Vec::new(), vec![array]);
    keep_all(request, Kept { copies, arrays });
}

fn keep_all(request: Int, new: Kept) {
    let mut table = table();
    let kept = table.entry(request).or_insert_with(|| {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        Kept::default()
    });
    // A library may give one number to several requests if their operations are complete from the beginning.
    kept.copies.extend(new.copies);
    kept.arrays.extend(new.arrays);
}

/// What some requests have, taken out.
#[must_use]
pub struct Taken(Vec<(usize, Kept)>);

/// Takes the copies of these requests out.
#[inline(always)]
pub fn take(requests: &[Int]) -> Taken {
    if REQUESTS.load(Ordering::Relaxed) == 0 {
        Taken(Vec::new())
    } else {
        take_out(requests)
    }
}

#[cold]
fn take_out(requests: &[Int]) -> Taken {
    let mut table = table();
    let mut taken = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        if let Some(kept) = table.remove(request) {
            taken.push((index, kept));
        }
    }
    Taken(taken)
}

impl Taken {
    /// After the call: which returned this error code, left these in place of the requests, and, if there was no error, says which
    /// operations are complete.
    ///
    /// # Safety
    ///
    /// It must be the call before which the copies were taken out.
    #[inline(always)]
    pub unsafe fn end(self, requests: &[Int], error: Int, complete: impl Fn(usize) -> bool) {
        if !self.0.is_empty() {
            // SAFETY: as promised.
            unsafe { self.store(requests, error, &complete) };
        }
    }

    #[cold]
    unsafe fn store(self, requests: &[Int], error: Int, complete: &dyn Fn(usize) -> bool) {
        for (index, mut kept) in self.0 {
            let request = requests[index];
            let gone = request == Request::NULL.to_int();
            // After an error nothing but the library can tell.
            let done = gone
                || if error == SUCCESS {
                    complete(index)
                } else {
                    is_complete(request)
                };
            if done {
                for copy in &mut kept.copies {
                    // SAFETY: the operation is complete, and until the program is told so, the buffer has to be there.
                    unsafe { copy.store() };
                }
            }
            REQUESTS.fetch_sub(1, Ordering::Relaxed);
            if !gone {
                keep_all(request, kept);
            }
        }
    }

    /// Before `MPI_Request_free`: whether the copies may be freed after it.
    pub fn are_idle(&self, request: Int) -> bool {
        self.0.is_empty() || is_complete(request)
    }

    /// After `MPI_Request_free` of this request, which returned this error code.
    pub fn freed(self, request: Int, error: Int, idle: bool) {
        for (_, kept) in self.0 {
            REQUESTS.fetch_sub(1, Ordering::Relaxed);
            if error != SUCCESS {
                keep_all(request, kept);
            } else if !idle {
                ABANDONED
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(kept);
            }
        }
    }
}

/// After `MPI_Request_get_status` and its like, which leave the requests as they are, so that several threads may ask for one: what complete
/// operations stored goes to their sections.
///
/// # Safety
///
/// The call must have returned this error code, and, if that is none, said which operations are complete.
#[inline(always)]
pub unsafe fn completed(requests: &[Int], error: Int, complete: impl Fn(usize) -> bool) {
    if error == SUCCESS && REQUESTS.load(Ordering::Relaxed) != 0 {
        // SAFETY: as promised.
        unsafe { store_in_place(requests, &complete) };
    }
}

#[cold]
unsafe fn store_in_place(requests: &[Int], complete: &dyn Fn(usize) -> bool) {
    let mut table = table();
    for (index, request) in requests.iter().enumerate() {
        if let Some(kept) = table.get_mut(request)
            && complete(index)
        {
            for copy in &mut kept.copies {
                // SAFETY: the operation is complete, and until the program is told so, the buffer has to be there.
                unsafe { copy.store() };
            }
        }
    }
}

/// Copies the sections of these persistent requests, before they are started.
///
/// # Safety
///
/// The requests must be ones that may be started.
#[inline(always)]
pub unsafe fn start(requests: &[Int]) {
    if REQUESTS.load(Ordering::Relaxed) != 0 {
        // SAFETY: as promised.
        unsafe { fill(requests) };
    }
}

#[cold]
unsafe fn fill(requests: &[Int]) {
    for request in requests {
        // What is active can't be started, and C says so.
        if !table().contains_key(request) || !is_complete(*request) {
            continue;
        }
        // Without the lock, since it may take a while.
        let mut copies = match table().get_mut(request) {
            Some(kept) => mem::take(&mut kept.copies),
            None => continue,
        };
        for copy in &mut copies {
            // SAFETY: the operation is not in progress, and the buffer of one that may be started is there.
            unsafe { copy.fill() };
        }
        if let Some(place) = table().get_mut(request) {
            place.copies = copies;
        }
    }
}
