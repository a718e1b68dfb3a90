//! Answers of the library, which calls back in a thread of its own: they are kept until they are asked for, and a descriptor
//! becomes readable.

use std::collections::hash_map::Entry;
use std::ffi::{CString, c_int, c_void};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use weft_libfabric_sys::pmix as sys;

use super::values::{self, Said};
use super::{check, failed};
use crate::base::error::Result;
use crate::err;

/// Whose value of which key.
type Name = (u32, String);

/// What was asked for.
pub(super) struct Answers(Arc<Shared>);

pub(super) struct Shared {
    event: EventFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The values asked for and not yet returned; an answer is a value or a status.
    values: FxHashMap<Name, Option<std::result::Result<Said, c_int>>>,
    /// The status of the last fence, once it is over.
    fence: Option<c_int>,
    /// The status of each spawn that is over and was not asked about.
    spawns: FxHashMap<u32, c_int>,
}

impl Shared {
    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        // It fails only where the counter is full, and then it can be read.
        let _ = self.event.write(1);
    }

    /// A spawn is over.
    pub fn tell_spawned(&self, spawn: u32, status: c_int) {
        self.tell(|state| {
            state.spawns.insert(spawn, status);
        });
    }
}

/// What the library gets to hand back, and what it may read until then.
struct Asked<T> {
    shared: Arc<Shared>,
    process: sys::Proc,
    attributes: Vec<sys::Info>,
    what: T,
}

impl Answers {
    /// Without any.
    pub fn new() -> Result<Answers> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags).map_err(|errno| {
            err!(
                Other,
                "a descriptor for the launcher's answers can't be made: {}",
                errno.desc()
            )
        })?;
        Ok(Answers(Arc::new(Shared {
            event,
            state: Mutex::default(),
        })))
    }

    /// Readable when an answer has come since the last [`Answers::drain`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    /// See [`Answers::descriptor`].
    pub fn drain(&self) {
        // An error: there was nothing.
        let _ = self.0.event.read();
    }

    /// What the library's thread gets.
    pub fn shared(&self) -> Arc<Shared> {
        self.0.clone()
    }

    /// The status of a spawn, which is told once; `None` while it is not over.
    pub fn spawn(&self, spawn: u32) -> Option<c_int> {
        self.drain();
        self.0.state.lock().spawns.remove(&spawn)
    }

    /// Enters a fence of the job.
    pub fn begin_fence(&self, library: &sys::Symbols, namespace: &str, collects: bool) -> Result<()> {
        self.0.state.lock().fence = None;
        let asked = Box::new(Asked {
            shared: self.0.clone(),
            process: values::process(namespace, sys::RANK_WILDCARD)?,
            attributes: match collects {
                true => vec![values::flag("pmix.collect")],
                false => Vec::new(),
            },
            what: (),
        });
        let asked = Box::into_raw(asked);
        // SAFETY: the process and the attributes live until the callback, which frees them with `asked`; the reference ends at once.
        let (process, attributes) = unsafe { (&raw const (*asked).process, &(*asked).attributes) };
        // SAFETY: as above.
        let status = unsafe {
            (library.PMIx_Fence_nb)(
                process,
                1,
                attributes.as_ptr(),
                attributes.len(),
                fence_is_over,
                asked.cast(),
            )
        };
        if status != sys::SUCCESS {
            // SAFETY: the callback is not called in this case, so this is the only use.
            drop(unsafe { Box::from_raw(asked) });
            check(library, status, "PMIx_Fence")?;
            self.0.tell(|state| state.fence = Some(status));
        }
        Ok(())
    }

    /// The status of the fence; `None` while it is not over.
    pub fn fence(&self) -> Option<c_int> {
        self.drain();
        self.0.state.lock().fence
    }

    /// The value of a key of a process, or the status of an error; `None` while there is no answer: ask again. `now`: it is there by now, or will
    /// never be.
    pub fn value(
        &self,
        library: &sys::Symbols,
        process: &sys::Proc,
        key: &str,
        now: bool,
    ) -> Result<Option<std::result::Result<Said, c_int>>> {
        self.drain();
        let name = (process.rank, key.to_string());
        match self.0.state.lock().values.entry(name.clone()) {
            Entry::Occupied(entry) if entry.get().is_some() => return Ok(entry.remove()),
            Entry::Occupied(_) => return Ok(None),
            Entry::Vacant(entry) => entry.insert(None),
        };
        let key = values::text(key)?;
        let asked = Box::into_raw(Box::new(Asked {
            shared: self.0.clone(),
            process: *process,
            attributes: match now {
                true => vec![values::flag("pmix.immediate")],
                false => Vec::new(),
            },
            what: (name.clone(), key),
        }));
        // SAFETY: the process and the attributes live until the callback, which frees them with `asked`; the reference ends at once.
        let (process, attributes, key) = unsafe {
            (
                &raw const (*asked).process,
                &(*asked).attributes,
                (*asked).what.1.as_ptr(),
            )
        };
        // SAFETY: as above; the library reads the key until the callback, too.
        let status = unsafe {
            (library.PMIx_Get_nb)(
                process,
                key,
                attributes.as_ptr(),
                attributes.len(),
                value_is_here,
                asked.cast(),
            )
        };
        if status != sys::SUCCESS {
            // SAFETY: the callback is not called in this case, so this is the only use.
            drop(unsafe { Box::from_raw(asked) });
            self.0.state.lock().values.remove(&name);
            return Err(failed(library, status, "PMIx_Get"));
        }
        Ok(None)
    }
}

/// The library's thread: a fence is over.
unsafe extern "C" fn fence_is_over(status: c_int, asked: *mut c_void) {
    // SAFETY: what `begin_fence` has handed over, and the library calls once.
    let asked = unsafe { Box::from_raw(asked.cast::<Asked<()>>()) };
    asked.shared.tell(|state| state.fence = Some(status));
}

/// The library's thread: a value has come, or an error.
unsafe extern "C" fn value_is_here(status: c_int, value: *mut sys::Value, asked: *mut c_void) {
    // SAFETY: what `value` has handed over, and the library calls once.
    let asked = unsafe { Box::from_raw(asked.cast::<Asked<(Name, CString)>>()) };
    let answer = match status {
        // SAFETY: not null, so it is a whole value, which the library frees when this returns.
        sys::SUCCESS if !value.is_null() => unsafe { values::read(&*value) }.ok_or(UNREADABLE),
        sys::SUCCESS => Err(UNREADABLE),
        status => Err(status),
    };
    let Asked { shared, what, .. } = *asked;
    shared.tell(|state| {
        state.values.insert(what.0, Some(answer));
    });
}

/// PMIX_ERR_UNKNOWN_DATA_TYPE: a value of a type that nobody has put.
const UNREADABLE: c_int = -16;
