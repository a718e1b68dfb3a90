//! Section 12.2: windows; section 7.8: their names. (Attributes: `attribute`; error handlers: `environment`.)

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::common::arguments::{Integer, give, give_count, give_text, object_name, read};
use crate::abi::common::calls;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, WINDOWS, new_group, window};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::{give_info, supported_memory_kinds};
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::allocation::Allocation;
use crate::objects::communicator::Communicator;
use crate::objects::info::Info;
use crate::objects::memory_kinds;
use crate::objects::window::{Attached, Exposed, Part, SharedPart, Users, Window};

mpi! {
    /// Section 12.2.1.
    large fn MPI_Win_create(base: *mut c_void, size: MPI_Aint, disp_unit: Displ, info: MPI_Info, comm: MPI_Comm,
        win: *mut MPI_Win) comm(comm) {
        let part = || {
            let size = region(base, size)?;
            // SAFETY: the user keeps the memory of a window valid until it is freed (section 12.2.1).
            let memory = unsafe { Users::new(base.cast(), size) };
            Ok(Part {
                exposed: Exposed::Users(memory),
                disp_unit: unit(disp_unit)?,
                asked: objects::optional_info(info)?,
            })
        };
        // SAFETY: null or a handle of the user's.
        unsafe { make(comm, win, part, Window::create) }.map(drop)
    }

    /// Section 12.2.2.
    large fn MPI_Win_allocate(size: MPI_Aint, disp_unit: Displ, info: MPI_Info, comm: MPI_Comm, baseptr: *mut c_void,
        win: *mut MPI_Win) comm(comm) {
        let part = || {
            let size = bytes(size)?;
            let disp_unit = unit(disp_unit)?;
            let asked = objects::optional_info(info)?;
            if baseptr.is_null() {
                return Err(err!(Arg, "baseptr is a null pointer"));
            }
            let memory = Allocation::new(size, asked.as_deref())?;
            Ok(Part { exposed: Exposed::Own(memory, size), disp_unit, asked })
        };
        // SAFETY: null or a handle of the user's; `baseptr` is the address of a pointer of the user's.
        unsafe {
            let window = make(comm, win, part, Window::create)?;
            give(baseptr.cast::<*mut u8>(), window.exposed().base(), "baseptr")
        }
    }

    /// Section 12.2.3.
    large fn MPI_Win_allocate_shared(size: MPI_Aint, disp_unit: Displ, info: MPI_Info, comm: MPI_Comm,
        baseptr: *mut c_void, win: *mut MPI_Win) comm(comm) {
        let part = || {
            let part = SharedPart {
                size: bytes(size)?,
                disp_unit: unit(disp_unit)?,
                asked: objects::optional_info(info)?,
            };
            if baseptr.is_null() {
                return Err(err!(Arg, "baseptr is a null pointer"));
            }
            Ok(part)
        };
        // SAFETY: null or a handle of the user's; `baseptr` is the address of a pointer of the user's.
        unsafe {
            let window = make(comm, win, part, Window::allocate_shared)?;
            give(baseptr.cast::<*mut u8>(), window.exposed().base(), "baseptr")
        }
    }

    /// Section 12.2.3. If the window's memory is not shared, a process can access only its own part.
    large fn MPI_Win_shared_query(win: MPI_Win, rank: c_int, size: *mut MPI_Aint, disp_unit: *mut Displ,
        baseptr: *mut c_void) win(win) {
        let window = window(win)?;
        let processes = window.communicator().size();
        let rank = match rank {
            MPI_PROC_NULL => None,
            _ if rank >= 0 && (rank as u32) < processes => Some(rank as u32),
            _ => {
                let name = objects::name_of_window(&window);
                return Err(err!(Rank, "rank {rank} is outside {name} of {processes} processes"));
            }
        };
        let reach = window.query(rank)?;
        for (null, name) in [
            (size.is_null(), "size"),
            (disp_unit.is_null(), "disp_unit"),
            (baseptr.is_null(), "baseptr"),
        ] {
            if null {
                return Err(err!(Arg, "{name} is a null pointer"));
            }
        }
        // SAFETY: not null, and the user's; `baseptr` is the address of a pointer of the user's.
        unsafe {
            give(size, reach.size as MPI_Aint, "size")?;
            give_count(disp_unit, reach.disp_unit, "disp_unit")?;
            give(baseptr.cast::<*mut u8>(), reach.address, "baseptr")
        }
    }

    /// Section 12.2.4.
    small fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win) comm(comm) {
        let part = || {
            Ok(Part {
                exposed: Exposed::Attached(Attached::default()),
                disp_unit: 1,
                asked: objects::optional_info(info)?,
            })
        };
        // SAFETY: null or a handle of the user's.
        unsafe { make(comm, win, part, Window::create) }.map(drop)
    }

    /// Section 12.2.4. Local.
    small fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) win(win) {
        let window = window(win)?;
        let attached = window.attached()?;
        attached.attach(base.addr(), region(base, size)?)
    }

    /// Section 12.2.4. Local.
    small fn MPI_Win_detach(win: MPI_Win, base: *const c_void) win(win) {
        window(win)?.attached()?.detach(base.addr())
    }

    /// Section 12.2.5. Collective. The delete callbacks of its attributes can still use all of the window; if one fails, so does the
    /// call, and nothing else has changed.
    small fn MPI_Win_free(win: *mut MPI_Win) local {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(win, "win") }?;
        let freed = window(handle)?;
        let allowed = freed.may_free();
        allowed.and_then(|()| free(&freed, handle)).map_err(|error| {
            let handler = freed.errhandler().lock().clone();
            calls::raise_with(&handler, handle, "MPI_Win_free", error)
        })?;
        // SAFETY: read from above.
        unsafe { win.write(MPI_WIN_NULL) };
        Ok(())
    }

    /// Section 12.2.6.
    small fn MPI_Win_get_group(win: MPI_Win, group: *mut MPI_Group) win(win) {
        let members = window(win)?.communicator().group().clone();
        if group.is_null() {
            return Err(err!(Arg, "group is a null pointer"));
        }
        // SAFETY: a handle of the user's.
        unsafe { give(group, new_group(members)?, "group") }
    }

    /// Section 12.2.7. Collective, but nothing has to be agreed on yet.
    small fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) win(win) {
        let window = window(win)?;
        window.change_hints(&*objects::info(info)?);
        Ok(())
    }

    /// Section 12.2.7.
    small fn MPI_Win_get_info(win: MPI_Win, info_used: *mut MPI_Info) win(win) {
        let window = window(win)?;
        let hints = Info::of(window.hints().entries());
        hints.set(memory_kinds::KEY, supported_memory_kinds(window.communicator()));
        // SAFETY: null or a handle of the user's.
        unsafe { give_info(info_used, hints) }
    }

    /// Section 7.8.
    small fn MPI_Win_set_name(win: MPI_Win, win_name: *const c_char) win(win) {
        let window = window(win)?;
        // SAFETY: null or a string of the user's.
        let name = unsafe { object_name(win_name, "win_name") }?;
        *window.name().lock() = name.to_string();
        Ok(())
    }

    /// Section 7.8.
    small fn MPI_Win_get_name(win: MPI_Win, win_name: *mut c_char, resultlen: *mut c_int) win(win) {
        // A null handle has a name, too: the standard's own.
        let known = match win == MPI_WIN_NULL {
            true => "MPI_WIN_NULL".to_string(),
            false => window(win)?.name().lock().clone(),
        };
        // SAFETY: the standard asks for MPI_MAX_OBJECT_NAME bytes.
        unsafe { give_text(win_name, MPI_MAX_OBJECT_NAME as usize, resultlen, &known, "win_name") }
    }
}

/// A size argument, in bytes.
fn bytes(size: MPI_Aint) -> Result<usize> {
    usize::try_from(size).map_err(|_| err!(Size, "size is {size}, but must not be negative"))
}

/// The size of memory of the user's, in bytes.
fn region(base: *mut c_void, size: MPI_Aint) -> Result<usize> {
    let size = bytes(size)?;
    if base.is_null() && size > 0 {
        return Err(err!(Base, "base is a null pointer, but size is {size}"));
    }
    if base.addr().checked_add(size).is_none() {
        return Err(err!(
            Size,
            "size is {size}, which from base {base:p} on is more than the address space holds"
        ));
    }
    Ok(size)
}

/// A displacement unit, in bytes.
fn unit(disp_unit: impl Integer) -> Result<i64> {
    match disp_unit.wide() {
        unit @ 1.. => Ok(unit),
        other => Err(err!(Disp, "disp_unit is {other}, but must be positive")),
    }
}

/// Makes a window by `create` and returns it to the user. A process takes part even if its own arguments are wrong, so
/// that no other process waits for it.
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn make<P, F: Future<Output = Result<Arc<Window>>>>(
    comm: MPI_Comm,
    to: *mut MPI_Win,
    part: impl FnOnce() -> Result<P>,
    create: impl FnOnce(Arc<Communicator>, Result<P>) -> F,
) -> Result<Arc<Window>> {
    let parent = objects::intracommunicator(comm, "comm")?;
    let part = match to.is_null() {
        true => Err(err!(Arg, "win is a null pointer")),
        false => part(),
    };
    let (handle, part) = match (part, WINDOWS.reserve()) {
        (Ok(part), Some(handle)) => (handle, Ok(part)),
        (Ok(_), None) => (0, Err(objects::too_many())),
        (Err(error), handle) => (handle.unwrap_or(0), Err(error)),
    };
    let made = parent.instance().block_on(create(parent.clone(), part));
    let window = made.inspect_err(|_| WINDOWS.give_up(handle))?;
    window.handle().store(handle, Ordering::Relaxed);
    objects::note_connection(window.communicator());
    WINDOWS.fill(handle, window.clone());
    // SAFETY: the caller's pointers are null or valid for writing.
    unsafe { give(to, handle, "win") }?;
    Ok(window)
}

/// Frees a window: after the barrier no process accesses it any more.
fn free(window: &Arc<Window>, handle: MPI_Win) -> Result<()> {
    window.attributes().delete_all(handle)?;
    let communicator = window.communicator();
    let instance = communicator.instance();
    instance.block_on_turns(Communicator::disconnect_all(instance, vec![communicator.clone()]))?;
    objects::forget_connection(communicator);
    window.retire(false);
    match WINDOWS.remove(handle) {
        Some(_) => Ok(()),
        None => Err::<_, Error>(err!(
            Win,
            "the window was freed by another thread at the same time"
        )),
    }
}
