//! Section 11.3: the Sessions Model. (Error handlers of sessions: section 9.3.4.)

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use crate::abi::common::arguments::{give, give_text, read, text};
use crate::abi::common::calls;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::process;
use crate::abi::process::LIFETIME;
use crate::base::error::Result;
use crate::engine::buffered::SendBuffer;
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::{Errhandler, Object};
use crate::objects::info::Info;
use crate::objects::session::{self, ProcessSet, Session};

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
    let session = Session::open(&LIFETIME, handler.clone(), asked.as_deref())?;
    match objects::new_session(session.clone()) {
        Ok(handle) => Ok(handle),
        Err(no_handle) => {
            session.close(&LIFETIME, &())?;
            Err(no_handle)
        }
    }
}

/// What the bindings do for a session.
struct Bindings {
    handle: MPI_Session,
}

impl session::Host for Bindings {
    fn takes_buffers(&self, session: &Session) -> Vec<Arc<SendBuffer>> {
        objects::take_buffers(session.number())
    }

    fn ends(&self, session: &Session) {
        objects::SESSIONS.remove(self.handle);
        if session.has_derived() {
            objects::forget_session(session.number());
        }
    }
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

/// Disconnects a communicator. Inside the result is whether a message of its buffer was lost, which does not keep the members from disconnecting.
fn disconnect(leaving: &Arc<Communicator>, handle: MPI_Comm) -> Result<Result<()>> {
    objects::delete_attributes(leaving, handle)?;
    let lost = leaving.disconnect()?;
    objects::forget_connection(leaving);
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
        let closed = ending.close(&LIFETIME, &Bindings { handle });
        // SAFETY: read from above.
        unsafe { session.write(MPI_SESSION_NULL) };
        closed.map_err(|error| {
            let handler = ending.errhandler().lock().clone();
            calls::raise_with(&handler, handle, "MPI_Session_finalize", error)
        })
    }

    /// Section 11.3.1.
    small fn MPI_Session_get_info(session: MPI_Session, info_used: *mut MPI_Info) session(session) {
        let provided = self::session(session)?.info();
        // SAFETY: null or a handle of the user's.
        unsafe { give(info_used, objects::new_info(provided)?, "info_used") }
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
        let leaving = communicator(handle)?;
        let raise = |error| calls::raise_at(&leaving, "MPI_Comm_disconnect", error);
        let lost = disconnect(&leaving, handle).map_err(raise)?;
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
