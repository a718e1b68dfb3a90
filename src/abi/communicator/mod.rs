//! Chapter 7: groups and communicators.
//!
//! What does not belong here: how communicators are made (`objects::management`).

mod attribute;
mod intercommunicator;
mod split_type;

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::common::arguments;
use crate::abi::common::arguments::{array, array_mut, count, give, give_text, object_name, read};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{
    self, communicator, early_communicator, group, intracommunicator, new_communicator, new_group,
};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::point_to_point::request;
use crate::base::error::Result;
use crate::engine::request::Outcome;
use crate::err;
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::group::Comparison;
use crate::objects::info::Info;
use crate::objects::memory_kinds;

fn comparison(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Ident => MPI_IDENT,
        Comparison::Congruent => MPI_CONGRUENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

mpi! {
    /// Section 7.4.1.
    small fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) comm(comm) {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(size, early_communicator(comm)?.size() as c_int, "size") }
    }

    /// Section 7.4.1.
    small fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) comm(comm) {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(rank, early_communicator(comm)?.rank() as c_int, "rank") }
    }

    /// Section 7.4.1.
    small fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) comm(comm1) {
        let result_ = early_communicator(comm1)?.compare(&*early_communicator(comm2)?);
        // SAFETY: null or an `int` of the user's.
        unsafe { give(result, comparison(result_), "result") }
    }

    /// Section 7.4.2.
    small fn MPI_Comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) comm(comm) {
        // SAFETY: null or a handle of the user's.
        unsafe { duplicate(comm, newcomm) }
    }

    /// Section 7.4.2. No hint of the info is used yet, so none is kept.
    small fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm) comm(comm) {
        objects::optional_info(info)?;
        // SAFETY: null or a handle of the user's.
        unsafe { duplicate(comm, newcomm) }
    }

    /// Section 7.4.2.
    small fn MPI_Comm_idup(comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request) comm(comm) {
        // SAFETY: null or handles of the user's.
        unsafe { start_duplicate(comm, newcomm, request) }
    }

    /// Section 7.4.2. As [`MPI_Comm_dup_with_info`].
    small fn MPI_Comm_idup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm,
        request: *mut MPI_Request) comm(comm) {
        objects::optional_info(info)?;
        // SAFETY: null or handles of the user's.
        unsafe { start_duplicate(comm, newcomm, request) }
    }

    /// Section 7.4.2.
    small fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: *mut MPI_Comm) comm(comm) {
        let comm = communicator(comm)?;
        if color < 0 && color != MPI_UNDEFINED {
            return Err(err!(Arg, "color is {color}, but must not be negative (or be MPI_UNDEFINED)"));
        }
        let new = comm.instance().block_on(comm.clone().split(color, key))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&comm, new, newcomm) }
    }

    /// Section 7.4.2.
    small fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: *mut MPI_Comm) comm(comm) {
        let comm = communicator(comm)?;
        let group = objects::group(group)?;
        let new = comm.instance().block_on(comm.clone().create(group))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&comm, new, newcomm) }
    }

    /// Section 7.4.2. Only the members of the group take part.
    small fn MPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: *mut MPI_Comm)
        comm(comm) {
        let comm = intracommunicator(comm, "comm")?;
        let group = objects::group(group)?;
        let tag = arguments::tag(tag)?;
        let new = comm.instance().block_on(comm.clone().create_group(group, tag))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&comm, new, newcomm) }
    }

    /// Section 7.4.3. Messages under way still arrive; those in the communicator's own buffer leave before this returns
    /// (section 3.6).
    small fn MPI_Comm_free(comm: *mut MPI_Comm) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(comm, "comm") }?;
        if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
            return Err(err!(Comm, "a predefined communicator can't be freed"));
        }
        let freed = communicator(handle)?;
        objects::delete_attributes(&freed, handle)?;
        let lost = objects::detach_buffer(&freed);
        objects::COMMUNICATORS.remove(handle);
        if let Some(session) = objects::session_of(&freed) {
            session.free(&freed);
        }
        // SAFETY: read from above.
        unsafe { comm.write(MPI_COMM_NULL) };
        lost
    }

    /// Section 7.4.1.
    small fn MPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) comm(comm) {
        let members = early_communicator(comm)?.group().clone();
        // SAFETY: null or a handle of the user's.
        unsafe { give(group, new_group(members)?, "group") }
    }

    /// Section 7.4.4. No hint of the info is used yet, so none is kept.
    small fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) comm(comm) {
        early_communicator(comm)?;
        objects::info(info)?;
        Ok(())
    }

    /// Section 7.4.4. The hints in use: none. The kinds of memory (section 11.4.3) are those of the session or of the
    /// World Model.
    small fn MPI_Comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) comm(comm) {
        let hints = Info::default();
        hints.set(memory_kinds::KEY, supported_memory_kinds(&*early_communicator(comm)?));
        // SAFETY: null or a handle of the user's.
        unsafe { give_info(info_used, hints) }
    }

    /// Section 7.8.
    small fn MPI_Comm_set_name(comm: MPI_Comm, name: *const c_char) comm(comm) {
        let comm = early_communicator(comm)?;
        // SAFETY: null or a string of the user's.
        let name = unsafe { object_name(name, "comm_name") }?;
        *comm.name().lock() = name.to_string();
        Ok(())
    }

    /// Section 7.8.
    small fn MPI_Comm_get_name(comm: MPI_Comm, name: *mut c_char, resultlen: *mut c_int) comm(comm) {
        // A null handle has a name, too: the standard's own.
        let known = match comm == MPI_COMM_NULL {
            true => "MPI_COMM_NULL".to_string(),
            false => early_communicator(comm)?.name().lock().clone(),
        };
        // SAFETY: the standard asks for MPI_MAX_OBJECT_NAME bytes.
        unsafe { give_text(name, MPI_MAX_OBJECT_NAME as usize, resultlen, &known, "comm_name") }
    }

    /// Section 7.3.1.
    small fn MPI_Group_size(group: MPI_Group, size: *mut c_int) local {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(size, objects::group(group)?.size() as c_int, "size") }
    }

    /// Section 7.3.1.
    small fn MPI_Group_rank(group: MPI_Group, rank: *mut c_int) local {
        let me = crate::abi::process::instance()?.me();
        let mine = objects::group(group)?.rank_of(me);
        // SAFETY: null or an `int` of the user's.
        unsafe { give(rank, mine.map_or(MPI_UNDEFINED, |rank| rank as c_int), "rank") }
    }

    /// Section 7.3.1.
    small fn MPI_Group_translate_ranks(group1: MPI_Group, n: c_int, ranks1: *const c_int, group2: MPI_Group,
        ranks2: *mut c_int) local {
        let (from, to) = (objects::group(group1)?, objects::group(group2)?);
        let n = count(n, "n")? as usize;
        // SAFETY: arrays of the user's.
        let (ranks1, ranks2) = unsafe { (array(ranks1, n, "ranks1")?, array_mut(ranks2, n, "ranks2")?) };
        for (&rank, into) in ranks1.iter().zip(ranks2) {
            *into = match rank {
                MPI_PROC_NULL => MPI_PROC_NULL,
                _ if rank < 0 || rank as u32 >= from.size() => {
                    return Err(err!(Rank, "ranks1 holds {rank}, outside group1 of {} processes", from.size()));
                }
                _ => to.rank_of(from.member(rank as u32)).map_or(MPI_UNDEFINED, |rank| rank as c_int),
            };
        }
        Ok(())
    }

    /// Section 7.3.1.
    small fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: *mut c_int) local {
        let compared = objects::group(group1)?.compare(&*objects::group(group2)?);
        // SAFETY: null or an `int` of the user's.
        unsafe { give(result, comparison(compared), "result") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) local {
        let new = group(group1)?.union(&*group(group2)?);
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) local {
        let new = group(group1)?.intersection(&*group(group2)?);
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) local {
        let new = group(group1)?.difference(&*group(group2)?);
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_incl(group: MPI_Group, n: c_int, ranks: *const c_int, newgroup: *mut MPI_Group) local {
        // SAFETY: an array of the user's.
        let new = objects::group(group)?.incl(&unsafe { ranks_of(n, ranks) }?)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_excl(group: MPI_Group, n: c_int, ranks: *const c_int, newgroup: *mut MPI_Group) local {
        // SAFETY: an array of the user's.
        let new = objects::group(group)?.excl(&unsafe { ranks_of(n, ranks) }?)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_range_incl(group: MPI_Group, n: c_int, ranges: *const [c_int; 3], newgroup: *mut MPI_Group)
        local {
        let group = objects::group(group)?;
        // SAFETY: an array of the user's.
        let ranges = unsafe { array(ranges, count(n, "n")? as usize, "ranges") }?;
        let new = group.incl(&group.ranges(ranges)?)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.2.
    small fn MPI_Group_range_excl(group: MPI_Group, n: c_int, ranges: *const [c_int; 3], newgroup: *mut MPI_Group)
        local {
        let group = objects::group(group)?;
        // SAFETY: an array of the user's.
        let ranges = unsafe { array(ranges, count(n, "n")? as usize, "ranges") }?;
        let new = group.excl(&group.ranges(ranges)?)?;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newgroup, new_group(new)?, "newgroup") }
    }

    /// Section 7.3.3.
    small fn MPI_Group_free(group: *mut MPI_Group) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(group, "group") }?;
        objects::free_group(handle)?;
        // SAFETY: read from above.
        unsafe { group.write(MPI_GROUP_NULL) };
        Ok(())
    }
}

/// # Safety
/// The pointer is null or valid for `n` ranks.
unsafe fn ranks_of(n: c_int, ranks: *const c_int) -> Result<Vec<i64>> {
    // SAFETY: the caller's array is null or has that many elements.
    let ranks = unsafe { array(ranks, count(n, "n")? as usize, "ranks") }?;
    Ok(ranks.iter().map(|&rank| rank.into()).collect())
}

/// The kinds of memory (section 11.4.3) that objects derived from the session of a communicator, or from the World Model,
/// support.
pub(super) fn supported_memory_kinds(communicator: &Communicator) -> String {
    let kinds = match objects::session_of(communicator) {
        Some(session) => session.info().get(memory_kinds::KEY),
        None => communicator.instance().job().memory_alloc_kinds.clone(),
    };
    memory_kinds::supported(kinds.as_deref().unwrap_or_default())
}

/// Returns to the user a new info object with the hints of an object.
///
/// # Safety
/// The pointer is null or valid for writing.
pub(super) unsafe fn give_info(to: *mut MPI_Info, hints: Info) -> Result<()> {
    if to.is_null() {
        return Err(err!(Arg, "info_used is a null pointer"));
    }
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, objects::new_info(hints)?, "info_used") }
}

/// Returns to the user a new communicator, which inherits the error handler of its parent.
///
/// # Safety
/// The pointer is null or valid for writing.
pub(super) unsafe fn inherit(
    parent: &Communicator,
    new: Option<Arc<Communicator>>,
    to: *mut MPI_Comm,
) -> Result<()> {
    if let Some(new) = &new {
        *new.errhandler().lock() = parent.errhandler().lock().clone();
    }
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, new_communicator(new)?, "newcomm") }
}

/// A duplicate that is being made: it has its parent's properties from the time when duplication began, and what the user
/// sets meanwhile is its own, because its handle can be used in local calls from the beginning.
struct Duplicate {
    parent: Arc<Communicator>,
    new: Arc<Communicator>,
    /// Reserved.
    handle: MPI_Comm,
}

impl Duplicate {
    /// Calls the copy callbacks. If one fails the copies that there are already are deleted again.
    fn begin(parent: &Arc<Communicator>) -> Result<Duplicate> {
        let new = parent.unfinished();
        *new.errhandler().lock() = parent.errhandler().lock().clone();
        let handle = objects::COMMUNICATORS
            .reserve_for(new.clone())
            .ok_or_else(objects::too_many)?;
        new.handle().store(handle, Ordering::Relaxed);
        let duplicate = Duplicate {
            parent: parent.clone(),
            new,
            handle,
        };
        let parents_handle = objects::handle_of_communicator(parent);
        match parent
            .attributes()
            .copy_to(parents_handle, duplicate.new.attributes())
        {
            Ok(()) => Ok(duplicate),
            Err(error) => {
                duplicate.give_up();
                Err(error)
            }
        }
    }

    /// The collective part. Afterwards the handle can be used in all calls.
    async fn end(self, operation: Collective) -> Result<()> {
        match self.parent.clone().finish(&self.new, true, operation).await {
            Ok(()) => {
                objects::note_connection(&self.new);
                objects::COMMUNICATORS.fill(self.handle, self.new);
                Ok(())
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// Ends a duplicate that failed. Delete callbacks get its handle, so they can use it for inquiries.
    fn give_up(self) {
        self.new.attributes().discard(self.handle);
        objects::COMMUNICATORS.give_up(self.handle);
    }
}

/// Where a copy callback fails the call fails, on all processes, but not before the others know of it.
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn duplicate(comm: MPI_Comm, to: *mut MPI_Comm) -> Result<()> {
    let comm = communicator(comm)?;
    if to.is_null() {
        return Err(err!(Arg, "newcomm is a null pointer"));
    }
    let instance = comm.instance();
    match Duplicate::begin(&comm) {
        Ok(new) => {
            let handle = new.handle;
            instance.block_on(new.end(comm.duplication(false)))?;
            // SAFETY: the caller's pointers are null or valid for writing.
            unsafe { give(to, handle, "newcomm") }
        }
        Err(error) => {
            // This has the same effect, in fewer words.
            let _ = instance.block_on(comm.clone().duplicate(false));
            Err(error)
        }
    }
}

/// As [`duplicate`], beside the caller: until the request has ended, the new handle can be used in local calls only. The standard does
/// not promise that much, but MPICH and Open MPI do it, and mpi4py sets an error handler at once.
///
/// # Safety
/// The pointers are null or valid for writing.
unsafe fn start_duplicate(comm: MPI_Comm, to: *mut MPI_Comm, to_request: *mut MPI_Request) -> Result<()> {
    let comm = communicator(comm)?;
    if to.is_null() || to_request.is_null() {
        let name = if to.is_null() { "newcomm" } else { "request" };
        return Err(err!(Arg, "{name} is a null pointer"));
    }
    let (instance, context) = (comm.instance().clone(), comm.context());
    let begun = Duplicate::begin(&comm);
    let operation = comm.duplication(true);
    let tag = operation.tag();
    let new = match begun {
        Ok(new) => new,
        Err(error) => {
            let telling_others = async move {
                let none = comm.unfinished();
                comm.finish(&none, false, operation)
                    .await
                    .map(|()| Outcome::EMPTY)
            };
            let request = instance.spawn(Box::pin(telling_others));
            instance.engine().release(request);
            return Err(error);
        }
    };
    let handle = new.handle;
    let id = instance.spawn(Box::pin(async move {
        new.end(operation).await.map(|()| Outcome::EMPTY)
    }));
    instance.engine().set_collective(id, context, tag);
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe {
        give(to, handle, "newcomm")?;
        give(to_request, request::handle_of(&instance, id)?, "request")
    }
}
