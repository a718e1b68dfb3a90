//! Section 11.3: the Sessions Model. (Error handlers of sessions: section 9.3.4.)

use std::ffi::{c_char, c_int};
use std::sync::{Arc, OnceLock};

use crate::abi::common::arguments::{give, give_text, read, text};
use crate::abi::common::calls;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::process;
use crate::abi::process::LIFETIME;
use crate::base::error::Result;
use crate::err;
use crate::instance::User;
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::{Errhandler, Object};
use crate::objects::info::Info;
use crate::objects::memory_kinds;
use crate::objects::session::{ProcessSet, Session};

/// The info key that asks for a thread level, and its values.
const THREAD_LEVEL: &str = "thread_level";
const THREAD_LEVELS: [&str; 4] = [
    "MPI_THREAD_SINGLE",
    "MPI_THREAD_FUNNELED",
    "MPI_THREAD_SERIALIZED",
    "MPI_THREAD_MULTIPLE",
];

/// What a session provides of what was asked for. What the launcher asks for counts where the info says nothing
/// (section 11.4.3).
fn provided(asked: Option<&Info>, launcher_kinds: Option<&str>) -> Result<Arc<Info>> {
    let make = |level: &str, kinds: &str| {
        Arc::new(Info::of([
            (THREAD_LEVEL.to_string(), level.to_string()),
            (memory_kinds::KEY.to_string(), memory_kinds::supported(kinds)),
        ]))
    };
    let launcher_kinds = launcher_kinds.unwrap_or(memory_kinds::DEFAULT);
    let level = asked.and_then(|info| info.get(THREAD_LEVEL));
    let kinds = asked.and_then(|info| info.get(memory_kinds::KEY));
    if level.is_none() && kinds.is_none() {
        // The launcher says the same each time, so most sessions share what they provide.
        static USUAL: OnceLock<Arc<Info>> = OnceLock::new();
        return Ok(USUAL
            .get_or_init(|| make(THREAD_LEVELS[3], launcher_kinds))
            .clone());
    }
    let level = level.as_deref().unwrap_or(THREAD_LEVELS[3]);
    if !THREAD_LEVELS.contains(&level) {
        return Err(err!(
            InfoValue,
            "the info key {THREAD_LEVEL} has the value '{level}': expected one of {}",
            THREAD_LEVELS.join(", ")
        ));
    }
    Ok(make(level, kinds.as_deref().unwrap_or(launcher_kinds)))
}

/// The session of a handle.
fn session(handle: MPI_Session) -> Result<Arc<Session>> {
    objects::session(handle)
}

/// A session and the process set of a name.
///
/// # Safety
/// The pointer is null or a string of the user's.
unsafe fn process_set(handle: MPI_Session, name: *const c_char) -> Result<(Arc<Session>, ProcessSet)> {
    let session = session(handle)?;
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let name = unsafe { text(name, "pset_name") }?;
    let set = ProcessSet::of_name(name, session.instance().job())?;
    Ok((session, set))
}

/// A new session.
fn open(info: MPI_Info, handler: &Errhandler) -> Result<MPI_Session> {
    let asked = objects::optional_info(info)?;
    let instance = LIFETIME.acquire(User::Session)?;
    // Another session may be another thread's, whatever each of them says of its own.
    instance.engine().set_several_threads();
    let made = provided(asked.as_deref(), instance.job().memory_alloc_kinds.as_deref())
        .map(|info| Session::new(instance, handler.clone(), info))
        .and_then(objects::new_session);
    if made.is_err() {
        LIFETIME.release(false)?;
    }
    made
}

/// Ends a session. An error of its end leaves nothing of it, either.
fn close(session: &Session, handle: MPI_Session) -> Result<()> {
    let instance = session.instance();
    // What the user did not detach is detached here. That its messages leave is a part of the end, of each communicator by
    // itself: one of them may be received only after this process has parted from another.
    let mut buffers = match session.has_derived() {
        true => objects::take_buffers(session.number()),
        false => Vec::new(),
    };
    buffers.extend(session.attachment().take());
    if !LIFETIME.has_other_users() {
        buffers.extend(instance.attachment().take());
    }
    let ended = match session.has_derived() {
        true => instance.block_on_turns(session.finalize()),
        false => Ok(()),
    };
    let lost = instance.flush_all(&buffers);
    if objects::SESSIONS.remove(handle).is_none() {
        return Err(err!(
            Session,
            "the session was finalized by another thread at the same time"
        ));
    }
    if session.has_derived() {
        objects::forget_session(session.number());
    }
    ended.and(LIFETIME.release(false)).and(lost)
}

/// A communicator of a group; `None` for an empty one.
///
/// # Safety
/// The pointer is null or a string of the user's.
unsafe fn from_group(
    group: MPI_Group,
    tag: *const c_char,
    info: MPI_Info,
) -> Result<Option<Arc<Communicator>>> {
    let group = objects::group(group)?;
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let tag = unsafe { string_tag(tag) }?;
    objects::optional_info(info)?;
    let instance = process::instance()?;
    if group.size() == 0 {
        return Ok(None);
    }
    let new = instance.block_on(Communicator::from_group(instance.clone(), group, tag))?;
    new.ok_or_else(|| err!(Group, "this process is not in the group"))
        .map(Some)
}

/// Waits until all that was sent on a communicator has arrived, at this process and at the others. Inside the result is
/// whether a message of its buffer was lost, which keeps nobody from parting.
fn disconnect(parting: &Arc<Communicator>, handle: MPI_Comm) -> Result<Result<()>> {
    objects::delete_attributes(parting, handle)?;
    let instance = parting.instance();
    let buffer = parting.attachment().take();
    instance.block_on_turns(Communicator::disconnect_all(instance, vec![parting.clone()]))?;
    let lost = instance.flush_all(buffer.as_slice());
    if let Some(session) = objects::session_of(parting) {
        session.disconnect(parting);
    }
    objects::COMMUNICATORS.remove(handle);
    Ok(lost)
}

/// The text by which processes without a communicator find each other.
///
/// # Safety
/// As for [`text`].
pub unsafe fn string_tag<'a>(from: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let tag = unsafe { text(from, "stringtag") }?;
    if tag.is_empty() || tag.len() >= MPI_MAX_STRINGTAG_LEN as usize {
        return Err(err!(
            Arg,
            "stringtag has {} bytes, but must have 1 to {} (MPI_MAX_STRINGTAG_LEN - 1)",
            tag.len(),
            MPI_MAX_STRINGTAG_LEN - 1
        ));
    }
    Ok(tag)
}

mpi! {
    /// Section 11.3.1. Local, and may be called at any time, from any thread.
    small fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: *mut MPI_Session) always {
        let handler = objects::errhandler(errhandler, Object::Session)?;
        let opened = match session.is_null() {
            true => Err(err!(Arg, "session is a null pointer")),
            false => open(info, &handler),
        };
        match opened {
            // SAFETY: a handle of the user's.
            Ok(handle) => unsafe { give(session, handle, "session") },
            // The handler of the call's own argument gets this error, and nobody else.
            Err(error) => Err(calls::raise_with(&handler, MPI_SESSION_NULL, "MPI_Session_init", error)),
        }
    }

    /// Section 11.3.1.
    small fn MPI_Session_finalize(session: *mut MPI_Session) always {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(session, "session") }?;
        let ending = self::session(handle)?;
        let closed = close(&ending, handle);
        // SAFETY: read from above.
        unsafe { session.write(MPI_SESSION_NULL) };
        closed.map_err(|error| {
            let handler = ending.errhandler().lock().clone();
            calls::raise_with(&handler, handle, "MPI_Session_finalize", error)
        })
    }

    /// Section 11.3.1.
    small fn MPI_Session_get_info(session: MPI_Session, info_used: *mut MPI_Info) session(session) {
        let copy = Info::of(self::session(session)?.info().entries());
        // SAFETY: null or a handle of the user's.
        unsafe { give(info_used, objects::new_info(copy)?, "info_used") }
    }

    /// Section 11.3.3.
    small fn MPI_Session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: *mut c_int)
        session(session) {
        let session = self::session(session)?;
        objects::optional_info(info)?;
        let count = ProcessSet::of(session.instance().job()).count();
        // SAFETY: null or an `int` of the user's.
        unsafe { give(npset_names, count as c_int, "npset_names") }
    }

    /// Section 11.3.3. `pset_len` counts the zero byte; 0 asks for it.
    small fn MPI_Session_get_nth_pset(session: MPI_Session, info: MPI_Info, n: c_int, pset_len: *mut c_int,
        pset_name: *mut c_char) session(session) {
        let session = self::session(session)?;
        objects::optional_info(info)?;
        let job = session.instance().job();
        let found = usize::try_from(n).ok().and_then(|n| ProcessSet::of(job).nth(n));
        let found = found.ok_or_else(|| {
            let count = ProcessSet::of(job).count();
            err!(Arg, "n is {n}, but this process is in {count} process sets, counted from 0")
        })?;
        let name = found.name(job);
        // SAFETY: null or an `int` of the user's.
        let room = unsafe { read(pset_len, "pset_len") }?;
        if room < 0 {
            return Err(err!(Arg, "pset_len is {room}, but must not be negative"));
        }
        if room > 0 {
            let mut len = 0;
            // SAFETY: the user gives room for so many bytes.
            unsafe { give_text(pset_name, room as usize, &mut len, name, "pset_name") }?;
        }
        // SAFETY: read from above.
        unsafe { pset_len.write(name.len() as c_int + 1) };
        Ok(())
    }

    /// Section 11.3.3.
    small fn MPI_Session_get_pset_info(session: MPI_Session, pset_name: *const c_char, info: *mut MPI_Info)
        session(session) {
        // SAFETY: null or a string of the user's.
        let (session, set) = unsafe { process_set(session, pset_name) }?;
        let size = session.size(set).to_string();
        let facts = Info::of([("mpi_size".to_string(), size)]);
        // SAFETY: null or a handle of the user's.
        unsafe { give(info, objects::new_info(facts)?, "info") }
    }

    /// Section 7.3.2. `MPI_GROUP_NULL` where there is no such set.
    small fn MPI_Group_from_session_pset(session: MPI_Session, pset_name: *const c_char, newgroup: *mut MPI_Group)
        session(session) {
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, MPI_GROUP_NULL, "newgroup") }?;
        // SAFETY: null or a string of the user's.
        let (session, set) = unsafe { process_set(session, pset_name) }?;
        // SAFETY: a handle of the user's.
        unsafe { give(newgroup, objects::new_group(session.group(set))?, "newgroup") }
    }

    /// Section 7.4.2. Collective over the group only.
    small fn MPI_Comm_create_from_group(group: MPI_Group, stringtag: *const c_char, info: MPI_Info,
        errhandler: MPI_Errhandler, newcomm: *mut MPI_Comm) always {
        let handler = objects::errhandler(errhandler, Object::Communicator)?;
        let create = || {
            if newcomm.is_null() {
                return Err(err!(Arg, "newcomm is a null pointer"));
            }
            // SAFETY: null or a string of the user's.
            let new = unsafe { from_group(group, stringtag, info) }?;
            if let Some(new) = &new {
                *new.errhandler().lock() = handler.clone();
            }
            objects::new_communicator(new)
        };
        match create() {
            // SAFETY: a handle of the user's.
            Ok(handle) => unsafe { give(newcomm, handle, "newcomm") },
            // The handler that the new communicator would have had gets this error.
            Err(error) => Err(calls::raise_with(&handler, MPI_COMM_NULL, "MPI_Comm_create_from_group", error)),
        }
    }

    /// Section 11.10.4. Collective.
    small fn MPI_Comm_disconnect(comm: *mut MPI_Comm) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(comm, "comm") }?;
        if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
            return Err(err!(Comm, "a predefined communicator can't be disconnected"));
        }
        let parting = communicator(handle)?;
        let raise = |error| calls::raise_at(&parting, "MPI_Comm_disconnect", error);
        let lost = disconnect(&parting, handle).map_err(raise)?;
        // SAFETY: read from above.
        unsafe { comm.write(MPI_COMM_NULL) };
        lost.map_err(raise)
    }

    /// Section 9.3.4.
    small fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) session(session) {
        let session = self::session(session)?;
        *session.errhandler().lock() = objects::errhandler(errhandler, Object::Session)?;
        Ok(())
    }

    /// Section 9.3.4.
    small fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: *mut MPI_Errhandler) session(session) {
        let handler = self::session(session)?.errhandler().lock().clone();
        // SAFETY: null or a handle of the user's.
        unsafe { give(errhandler, objects::handle_of_errhandler(&handler)?, "errhandler") }
    }

    /// Section 9.5. It may be called at any time.
    small fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) always {
        let handler: Errhandler = self::session(session)?.errhandler().lock().clone();
        calls::call(&handler, session, "MPI_Session_call_errhandler", errorcode);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(asked: Option<&str>, launcher: Option<&str>) -> Option<String> {
        let asked = asked.map(|kinds| Info::of([(memory_kinds::KEY.into(), kinds.into())]));
        provided(asked.as_ref(), launcher).unwrap().get(memory_kinds::KEY)
    }

    #[test]
    fn the_info_counts_before_the_launcher() {
        assert_eq!(kinds(None, None).as_deref(), Some("mpi,system"));
        assert_eq!(
            kinds(Some("mpi:alloc_mem"), Some("mpi:win_allocate")).as_deref(),
            Some("mpi,system,mpi:alloc_mem")
        );
    }

    #[test]
    fn a_bad_thread_level_is_named() {
        let asked = Info::of([(THREAD_LEVEL.into(), "many".into())]);
        let error = provided(Some(&asked), None).unwrap_err();
        assert!(
            error.message.contains("many") && error.message.contains("MPI_THREAD_SERIALIZED"),
            "{error}"
        );
    }
}
