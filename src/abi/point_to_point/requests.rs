//! Section 3.7.5: waiting for several requests and testing them.

use std::ffi::c_int;

use crate::abi::common::arguments::{array, array_mut, count, give, present};
use crate::abi::common::constants::*;
use crate::abi::common::errors;
use crate::abi::common::handle;
use crate::abi::common::procedure::mpi;
use crate::abi::common::status;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request::{end, lookup, queried, retire, tell_query};
use crate::abi::process;
use crate::base::error::{Error, Result};
use crate::engine::Engine;
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::instance::Instance;

/// The requests of an array of handles, all checked before anything is done with any.
fn lookup_all(instance: &Instance, requests: &[MPI_Request]) -> Result<Vec<Option<RequestId>>> {
    let engine = instance.engine();
    requests
        .iter()
        .enumerate()
        .map(|(at, &request)| {
            lookup(&engine, request)
                .map_err(|error| Error::new(error.class, format!("array_of_requests[{at}]: {error}")))
        })
        .collect()
}

/// The array of statuses, or none.
///
/// # Safety
/// The pointer is `MPI_STATUSES_IGNORE` or valid for more than `at` statuses.
unsafe fn status_at(statuses: *mut MPI_Status, at: usize) -> *mut MPI_Status {
    if statuses.is_null() {
        return statuses;
    }
    // SAFETY: the caller's array has so many statuses, so that one of them begins there.
    unsafe { statuses.add(at) }
}

/// The statuses of a call that ends several requests, in the order of the requests. `MPI_ERROR` is left alone
/// unless one of them has failed: then the call returns `MPI_ERR_IN_STATUS`, and all of them have it (section 3.2.5).
struct Statuses {
    name: &'static str,
    /// The user's array, or null.
    to: *mut MPI_Status,
    written: usize,
    /// What the call returns.
    failed: Option<Error>,
}

impl Statuses {
    fn new(name: &'static str, to: *mut MPI_Status) -> Statuses {
        Statuses {
            name,
            to,
            written: 0,
            failed: None,
        }
    }

    /// Adds the next one: of the request at this index of its array.
    ///
    /// # Safety
    /// The array is null or has room for one more.
    #[inline]
    unsafe fn add(&mut self, at: usize, outcome: Outcome) {
        if !self.to.is_null() {
            // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
            unsafe { status::write(self.to.add(self.written), &outcome) };
        }
        if outcome.error.is_some() || self.failed.is_some() {
            // SAFETY: the caller's pointers are null or valid for writing.
            unsafe { self.add_code(at, outcome) };
        }
        self.written += 1;
    }

    /// # Safety
    /// As for [`Statuses::add`].
    #[cold]
    unsafe fn add_code(&mut self, at: usize, outcome: Outcome) {
        let code = match &outcome.error {
            Some(error) => errors::code_of(self.name, error),
            None => MPI_SUCCESS,
        };
        let first = match self.failed {
            None => 0,
            Some(_) => self.written,
        };
        for place in first..self.written {
            // SAFETY: written before.
            unsafe { status::write_error(status_at(self.to, place), MPI_SUCCESS) };
        }
        // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
        unsafe { status::write_error(status_at(self.to, self.written), code) };
        if let Some(error) = outcome.error {
            self.failed.get_or_insert_with(|| Error {
                context: error.context,
                in_status: Some(code),
                ..err!(InStatus, "array_of_requests[{at}] failed: {error}")
            });
        }
    }

    fn end(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// Ends some requests of an array: handles, statuses and their error codes. If any has an error, the result is
/// `MPI_ERR_IN_STATUS`.
///
/// # Safety
/// The statuses are `MPI_STATUSES_IGNORE` or valid for as many as there are outcomes.
unsafe fn end_some(
    name: &'static str,
    outcomes: Vec<(usize, Outcome)>,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
) -> Result<()> {
    let mut statuses = Statuses::new(name, statuses);
    for (at, outcome) in outcomes {
        // SAFETY: an element of the user's array.
        let outcome = unsafe { retire(&mut requests[at], outcome) };
        // SAFETY: the caller's pointers are null or valid for writing.
        unsafe { statuses.add(at, outcome) };
    }
    statuses.end()
}

/// Which of these have ended, in the order of the array.
fn ended(engine: &Engine, ids: &[Option<RequestId>]) -> Vec<usize> {
    let has_ended = |id: &RequestId| engine.is_complete(*id) == Some(true);
    (0..ids.len())
        .filter(|&at| ids[at].as_ref().is_some_and(has_ended))
        .collect()
}

fn take_all(engine: &mut Engine, ids: &[Option<RequestId>], which: Vec<usize>) -> Vec<(usize, Outcome)> {
    which
        .into_iter()
        .map(|at| {
            let id = ids[at].expect("not null");
            (at, engine.take(id).unwrap_or(Outcome::EMPTY))
        })
        .collect()
}

/// Whether a request of the engine has ended; `None`: it is none.
#[inline(always)]
fn has_ended(engine: &Engine, request: MPI_Request) -> Option<bool> {
    let (index, generation) = handle::request_place(request)?;
    engine.has_ended(index, generation, handle::REQUEST_GENERATION_MASK)
}

/// Waits until requests of the engine have ended, of which those before `next` have. (Inside its caller, it would take
/// registers from loops that matter more.)
#[inline(never)]
fn wait_from(instance: &Instance, all: &[MPI_Request], mut next: usize) {
    let is_one = |id: RequestId, request: MPI_Request| {
        let place = handle::request_place(request);
        place.is_some_and(|(index, generation)| {
            (index, generation) == (id.index, id.generation & handle::REQUEST_GENERATION_MASK)
        })
    };
    let needs = |id| all.iter().any(|&request| is_one(id, request));
    instance.wait_for_all(needs, |engine| {
        let under_way = |&request: &MPI_Request| has_ended(engine, request) == Some(false);
        next += all[next..]
            .iter()
            .take_while(|request| !under_way(request))
            .count();
        (next == all.len()).then_some(())
    });
}

/// Ends requests of the engine that have ended all: handles, statuses and their error codes. (By itself for its registers, as above.)
///
/// # Safety
/// The statuses are `MPI_STATUSES_IGNORE` or valid for as many as there are requests.
#[inline(never)]
unsafe fn end_own(
    engine: &mut Engine,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
    name: &'static str,
) -> Result<()> {
    let mut statuses = Statuses::new(name, statuses);
    for (at, request) in requests.iter_mut().enumerate() {
        // The same handle twice in one array: the second finds nothing.
        let outcome = handle::request_place(*request).and_then(|(index, generation)| {
            let mask = handle::REQUEST_GENERATION_MASK;
            let well = engine.take_well_ended(index, generation, mask);
            well.or_else(|| {
                let id = engine.find_request(index, generation, mask)?;
                engine.take(id)
            })
        });
        *request = MPI_REQUEST_NULL;
        // SAFETY: the statuses are ignored or as many as the requests, as the caller says; each request has its own.
        unsafe { statuses.add(at, outcome.unwrap_or(Outcome::EMPTY)) };
    }
    statuses.end()
}

/// Waits for requests of which none is persistent or generalized; otherwise returns `None` and does nothing.
///
/// # Safety
/// The statuses are `MPI_STATUSES_IGNORE` or valid for as many as there are requests.
unsafe fn wait_all_own(
    instance: &Instance,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
    name: &'static str,
) -> Option<Result<()>> {
    let mut engine = instance.engine();
    // The number of requests at the front that have ended.
    let mut next = 0;
    for (at, &request) in requests.iter().enumerate() {
        match has_ended(&engine, request) {
            Some(false) => {}
            None if request != MPI_REQUEST_NULL => return None,
            _ if next == at => next += 1,
            _ => {}
        }
    }
    if next < requests.len() {
        drop(engine);
        wait_from(instance, requests, next);
        engine = instance.engine();
    }
    // SAFETY: as the caller says.
    Some(unsafe { end_own(&mut engine, requests, statuses, name) })
}

mpi! {
    /// Section 3.7.5.
    small fn MPI_Waitall(number: c_int, requests: *mut MPI_Request, statuses: *mut MPI_Status) local {
        let number = count(number, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array_mut(requests, number, "array_of_requests") }?;
        let instance = process::instance()?;
        // SAFETY: the user's statuses are ignored or as many as its requests.
        if let Some(result) = unsafe { wait_all_own(&instance, requests, statuses, "MPI_Waitall") } {
            return result;
        }
        let ids = lookup_all(&instance, requests)?;
        let mut next = 0;
        let needs = |id| ids.contains(&Some(id));
        instance.wait_for_all(needs, |engine| {
            while let Some(id) = ids.get(next) {
                if id.is_some_and(|id| engine.is_complete(id) == Some(false)) {
                    return None;
                }
                next += 1;
            }
            Some(())
        });
        // SAFETY: the user's statuses are ignored or as many as its requests.
        unsafe { end_all(&instance, &ids, requests, statuses, "MPI_Waitall") }
    }

    /// Section 3.7.5.
    small fn MPI_Testall(number: c_int, requests: *mut MPI_Request, flag: *mut c_int, statuses: *mut MPI_Status)
        local {
        let number = count(number, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array_mut(requests, number, "array_of_requests") }?;
        present(flag, "flag")?;
        let instance = process::instance()?;
        let ids = lookup_all(&instance, requests)?;
        let pending = || {
            let engine = instance.engine();
            ids.iter().flatten().any(|&id| engine.is_complete(id) == Some(false))
        };
        let mut all = !pending();
        if !all {
            instance.step();
            all = !pending();
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, all.into(), "flag") }?;
        if !all {
            return Ok(());
        }
        // SAFETY: the user's statuses are ignored or as many as its requests.
        unsafe { end_all(&instance, &ids, requests, statuses, "MPI_Testall") }
    }

    /// Section 3.7.5.
    small fn MPI_Waitany(number: c_int, requests: *mut MPI_Request, index: *mut c_int, status: *mut MPI_Status)
        local {
        let number = count(number, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array_mut(requests, number, "array_of_requests") }?;
        present(index, "index")?;
        let instance = process::instance()?;
        let ids = lookup_all(&instance, requests)?;
        let first = match ids.iter().any(Option::is_some) {
            false => None,
            true => Some(instance.wait_for(|engine| first_ended(engine, &ids))),
        };
        // SAFETY: `index` is null or an `int` of the user's; the status is ignored or the user's.
        unsafe { end_any(&instance, &ids, first, requests, index, status) }
    }

    /// Section 3.7.5.
    small fn MPI_Testany(number: c_int, requests: *mut MPI_Request, index: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status) local {
        let number = count(number, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array_mut(requests, number, "array_of_requests") }?;
        present(index, "index")?;
        present(flag, "flag")?;
        let instance = process::instance()?;
        let ids = lookup_all(&instance, requests)?;
        let none = ids.iter().all(Option::is_none);
        let mut first = first_ended(&instance.engine(), &ids);
        if first.is_none() && !none {
            instance.step();
            first = first_ended(&instance.engine(), &ids);
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, (none || first.is_some()).into(), "flag") }?;
        if first.is_none() && !none {
            // SAFETY: null or an `int` of the user's.
            return unsafe { give(index, MPI_UNDEFINED, "index") };
        }
        // SAFETY: `index` is null or an `int` of the user's; the status is ignored or the user's.
        unsafe { end_any(&instance, &ids, first, requests, index, status) }
    }

    /// Section 3.7.5.
    small fn MPI_Waitsome(incount: c_int, requests: *mut MPI_Request, outcount: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status) local {
        // SAFETY: the user's arrays are null, ignored or have `incount` elements; `outcount` is null or an `int` of the user's.
        unsafe { some(incount, requests, outcount, indices, statuses, true, "MPI_Waitsome") }
    }

    /// Section 3.7.5.
    small fn MPI_Testsome(incount: c_int, requests: *mut MPI_Request, outcount: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status) local {
        // SAFETY: the user's arrays are null, ignored or have `incount` elements; `outcount` is null or an `int` of the user's.
        unsafe { some(incount, requests, outcount, indices, statuses, false, "MPI_Testsome") }
    }

    /// Section 3.7.6.
    small fn MPI_Request_get_status_all(number: c_int, requests: *const MPI_Request, flag: *mut c_int,
        statuses: *mut MPI_Status) local {
        let number = count(number, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array(requests, number, "array_of_requests") }?;
        let instance = process::instance()?;
        let ids = lookup_all(&instance, requests)?;
        instance.step();
        let outcomes: Option<Vec<Outcome>> = {
            let engine = instance.engine();
            let outcome = |id: &Option<RequestId>| match id {
                Some(id) => engine.outcome(*id).cloned(),
                None => Some(Outcome::EMPTY),
            };
            ids.iter().map(outcome).collect()
        };
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, outcomes.is_some().into(), "flag") }?;
        let outcomes = outcomes.into_iter().flatten().enumerate();
        // SAFETY: the user's statuses are ignored or as many as its requests.
        unsafe { tell_queries("MPI_Request_get_status_all", requests, outcomes, statuses, |_, at| at) }
    }

    /// Section 3.7.6.
    small fn MPI_Request_get_status_any(number: c_int, requests: *const MPI_Request, index: *mut c_int,
        flag: *mut c_int, status: *mut MPI_Status) local {
        let number = count(number, "count")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array(requests, number, "array_of_requests") }?;
        let instance = process::instance()?;
        let ids = lookup_all(&instance, requests)?;
        instance.step();
        let none = ids.iter().all(Option::is_none);
        let first = {
            let engine = instance.engine();
            first_ended(&engine, &ids)
                .and_then(|at| Some((at, engine.outcome(ids[at].expect("not null"))?.clone())))
        };
        let at = first.as_ref().map_or(MPI_UNDEFINED, |(at, _)| *at as c_int);
        // SAFETY: each is null or an `int` of the user's.
        unsafe {
            give(index, at, "index")?;
            give(flag, (first.is_some() || none).into(), "flag")?;
        }
        match first {
            // SAFETY: the status is ignored or the user's.
            Some((at, outcome)) => unsafe { tell_query(requests[at], outcome, status) }?,
            // SAFETY: the status is ignored or the user's.
            None if none => unsafe { status::write_empty(status) },
            None => {}
        }
        Ok(())
    }

    /// Section 3.7.6.
    small fn MPI_Request_get_status_some(incount: c_int, requests: *const MPI_Request, outcount: *mut c_int,
        indices: *mut c_int, statuses: *mut MPI_Status) local {
        let number = count(incount, "incount")? as usize;
        // SAFETY: an array of the user's.
        let requests = unsafe { array(requests, number, "array_of_requests") }?;
        present(outcount, "outcount")?;
        let instance = process::instance()?;
        let ids = lookup_all(&instance, requests)?;
        if ids.iter().all(Option::is_none) {
            // SAFETY: null or an `int` of the user's.
            return unsafe { give(outcount, MPI_UNDEFINED, "outcount") };
        }
        present(indices, "array_of_indices")?;
        instance.step();
        let outcomes: Vec<(usize, Outcome)> = {
            let engine = instance.engine();
            let ended = ended(&engine, &ids).into_iter();
            ended.filter_map(|at| Some((at, engine.outcome(ids[at]?)?.clone()))).collect()
        };
        // SAFETY: an array of the user's.
        let indices = unsafe { array_mut(indices, outcomes.len(), "array_of_indices") }?;
        for (nth, (at, _)) in outcomes.iter().enumerate() {
            indices[nth] = *at as c_int;
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(outcount, outcomes.len() as c_int, "outcount") }?;
        let outcomes = outcomes.into_iter();
        // SAFETY: the user's statuses are ignored or as many as its requests.
        unsafe { tell_queries("MPI_Request_get_status_some", requests, outcomes, statuses, |nth, _| nth) }
    }
}

/// The same for some requests of an array, with error codes in the statuses.
///
/// # Safety
/// The statuses are `MPI_STATUSES_IGNORE` or valid for as many as there are requests.
unsafe fn tell_queries(
    name: &'static str,
    requests: &[MPI_Request],
    outcomes: impl Iterator<Item = (usize, Outcome)>,
    statuses: *mut MPI_Status,
    status_place: impl Fn(usize, usize) -> usize,
) -> Result<()> {
    let mut result = Ok(());
    for (nth, (at, outcome)) in outcomes.enumerate() {
        let before = outcome.error.is_some();
        let outcome = queried(requests[at], outcome);
        // SAFETY: the statuses are ignored or as many as the requests, as the caller says; each ended request has its own.
        unsafe { tell(name, &outcome, status_at(statuses, status_place(nth, at))) };
        match outcome.error {
            Some(error) if !before && result.is_ok() => {
                result = Err(err!(InStatus, "array_of_requests[{at}]: {error}"));
            }
            _ => {}
        }
    }
    result
}

/// One status of an array, with its error code.
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing.
unsafe fn tell(name: &'static str, outcome: &Outcome, to: *mut MPI_Status) {
    let code = outcome
        .error
        .as_deref()
        .map_or(MPI_SUCCESS, |error| errors::code_of(name, error));
    // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
    unsafe {
        status::write(to, outcome);
        status::write_error(to, code);
    }
}

fn first_ended(engine: &Engine, ids: &[Option<RequestId>]) -> Option<usize> {
    ids.iter()
        .position(|id| id.is_some_and(|id| engine.is_complete(id) == Some(true)))
}

/// # Safety
/// `index` is null or valid for writing, `to_status` `MPI_STATUS_IGNORE` or valid for writing.
unsafe fn end_any(
    instance: &Instance,
    ids: &[Option<RequestId>],
    first: Option<usize>,
    requests: &mut [MPI_Request],
    index: *mut c_int,
    to_status: *mut MPI_Status,
) -> Result<()> {
    match first {
        None => {
            // SAFETY: the caller's pointers are null, MPI_STATUS_IGNORE or valid for writing.
            unsafe {
                status::write_empty(to_status);
                give(index, MPI_UNDEFINED, "index")
            }
        }
        Some(at) => {
            let outcome = instance
                .engine()
                .take(ids[at].expect("not null"))
                .unwrap_or(Outcome::EMPTY);
            // SAFETY: the caller's pointers are null or valid for writing.
            unsafe {
                give(index, at as c_int, "index")?;
                end(outcome, &mut requests[at], to_status)
            }
        }
    }
}

/// # Safety
/// The statuses are `MPI_STATUSES_IGNORE` or valid for as many as there are requests.
unsafe fn end_all(
    instance: &Instance,
    ids: &[Option<RequestId>],
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
    name: &'static str,
) -> Result<()> {
    let outcomes: Vec<(usize, Outcome)> = {
        let mut engine = instance.engine();
        ids.iter()
            .enumerate()
            // The same handle twice in one array: the second finds nothing.
            .map(|(at, id)| (at, id.and_then(|id| engine.take(id)).unwrap_or(Outcome::EMPTY)))
            .collect()
    };
    // SAFETY: the statuses are ignored or as many as the requests, as the caller says, each of which has one outcome.
    unsafe { end_some(name, outcomes, requests, statuses) }
}

/// # Safety
/// The requests and the indices are null or valid for `incount` elements, the statuses `MPI_STATUSES_IGNORE` or valid for as many;
/// `outcount` is null or valid for writing.
unsafe fn some(
    incount: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
    wait: bool,
    name: &'static str,
) -> Result<()> {
    let number = count(incount, "incount")? as usize;
    // SAFETY: an array of the user's.
    let requests = unsafe { array_mut(requests, number, "array_of_requests") }?;
    present(outcount, "outcount")?;
    let instance = process::instance()?;
    let ids = lookup_all(&instance, requests)?;
    if ids.iter().all(Option::is_none) {
        // SAFETY: null or an `int` of the user's.
        return unsafe { give(outcount, MPI_UNDEFINED, "outcount") };
    }
    present(indices, "array_of_indices")?;
    let which = if wait {
        instance.wait_for(|engine| Some(ended(engine, &ids)).filter(|which| !which.is_empty()))
    } else {
        instance.step();
        ended(&instance.engine(), &ids)
    };
    let outcomes = take_all(&mut instance.engine(), &ids, which);
    // SAFETY: an array of the user's.
    let indices = unsafe { array_mut(indices, outcomes.len(), "array_of_indices") }?;
    for (nth, (at, _)) in outcomes.iter().enumerate() {
        indices[nth] = *at as c_int;
    }
    // SAFETY: `outcount` is null or valid for writing, and the statuses are ignored or as many as the requests, as the caller says.
    unsafe {
        give(outcount, outcomes.len() as c_int, "outcount")?;
        end_some(name, outcomes, requests, statuses)
    }
}
