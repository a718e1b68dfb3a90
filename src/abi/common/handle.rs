//! Handles: 32-bit numbers of a kind, a generation and an index, above the range that the standard ABI reserves for
//! predefined ones. A stale, freed or foreign handle is detected, never used.
//!
//! ```text
//!   bit 31  30  29..26  25..20      19..0
//!        0   1   kind   generation  index      all but requests; persistent and generalized requests
//!        1   30..24 generation      23..0 index          requests
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::engine::request::RequestId;
use crate::system::lock::Mutex;
use crate::system::rcu::{Held, Published, Replaced};

/// Kinds of handles with a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum HandleKind {
    /// `MPI_Comm`
    Communicator = 1,
    /// `MPI_Group`
    Group = 2,
    /// `MPI_Datatype`
    Datatype = 3,
    /// `MPI_Op`
    Op = 4,
    /// `MPI_Info`
    Info = 5,
    /// `MPI_Errhandler`
    Errhandler = 6,
    /// `MPI_Session`
    Session = 7,
    /// `MPI_Message`
    Message = 10,
    /// `MPI_Win`
    Window = 8,
    /// `MPI_File`
    File = 9,
    /// A persistent `MPI_Request`; other requests have no table.
    Persistent = 12,
    /// A generalized `MPI_Request`.
    Generalized = 13,
    /// A key of attributes, which is an `int` in the ABI.
    Keyval = 11,
}

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 6;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;
const OBJECT: u32 = 1 << 30;
/// Predefined handles that can have an object: this many from this one on, `MPI_COMM_NULL`.
const FIRST_PREDEFINED: usize = 256;
const PREDEFINED: usize = 4;
/// Slots come in pieces that stay where they are.
const PIECE: usize = 256;
const PIECES: usize = (INDEX_MASK as usize + 1) / PIECE;

/// The objects of one kind by handle. Looking one up takes no lock ([`rcu`](crate::system::rcu)); adding and removing
/// objects takes one.
pub struct Table<T> {
    kind: HandleKind,
    pieces: [OnceBox<[Slot<T>; PIECE]>; PIECES],
    /// Objects of predefined handles, while there are any.
    predefined: [Published<T>; PREDEFINED],
    changes: Mutex<Changes<T>>,
}

struct Slot<T> {
    /// The handle that is valid while there is an object, or the next one. It is read after the object: a thread that sees an
    /// object sees its handle.
    handle: AtomicU32,
    object: Published<T>,
}

/// What only the adding and removing of objects needs.
struct Changes<T> {
    slots: u32,
    free: Vec<u32>,
    /// Reserved handles, some with an unfinished object.
    reserved: FxHashMap<u32, Option<Arc<T>>>,
    /// Objects that were removed while other threads may use them.
    replaced: Vec<Replaced<T>>,
}

impl<T> Table<T> {
    /// No objects yet.
    pub const fn new(kind: HandleKind) -> Table<T> {
        Table {
            kind,
            pieces: [const { OnceBox::new() }; PIECES],
            predefined: [const { Published::none() }; PREDEFINED],
            changes: Mutex::new(Changes {
                slots: 0,
                free: Vec::new(),
                reserved: FxHashMap::with_hasher(FxBuildHasher),
                replaced: Vec::new(),
            }),
        }
    }

    /// The object of a handle, if it has one, without counting a reference. As long as the result lives, the caller must not
    /// call a user's function, and wait for nothing but what another process does at once (mailboxes of windows). The
    /// engine may be locked meanwhile, but not the other way round.
    #[inline(always)]
    pub fn hold(&self, handle: usize) -> Option<Held<'_, T>> {
        if let Some(predefined) = self.predefined.get(handle.wrapping_sub(FIRST_PREDEFINED)) {
            return predefined.hold();
        }
        let slot = self.slot(handle as u32)?;
        let object = slot.object.hold()?;
        // This checks kind and generation, too.
        (slot.handle.load(Ordering::Relaxed) as usize == handle).then_some(object)
    }

    /// The object of a handle, if it has one.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.hold(handle).map(|held| held.share())
    }

    /// The object of a handle, if it has one, finished or not.
    pub fn get_early(&self, handle: usize) -> Option<Arc<T>> {
        self.get(handle).or_else(|| {
            let handle = u32::try_from(handle).ok()?;
            self.changes.lock().reserved.get(&handle)?.clone()
        })
    }

    /// A handle for an object; `None` if there are too many.
    pub fn insert(&self, object: Arc<T>) -> Option<usize> {
        let mut changes = self.changes.lock();
        let (handle, slot) = self.occupy(&mut changes)?;
        slot.publish(object);
        Some(handle as usize)
    }

    /// A handle for an object that will be made later: until [`Table::fill`] it is not valid.
    pub fn reserve(&self) -> Option<usize> {
        self.reserve_with(None)
    }

    /// The same for an object that exists but is not yet finished: until [`Table::fill`] only [`Table::get_early`] finds it.
    pub fn reserve_for(&self, object: Arc<T>) -> Option<usize> {
        self.reserve_with(Some(object))
    }

    fn reserve_with(&self, early: Option<Arc<T>>) -> Option<usize> {
        let mut changes = self.changes.lock();
        let (handle, _) = self.occupy(&mut changes)?;
        changes.reserved.insert(handle, early);
        Some(handle as usize)
    }

    /// Sets the object of a reserved handle.
    pub fn fill(&self, reserved: usize, object: Arc<T>) {
        self.unreserve(reserved, |_, slot| slot.publish(object));
    }

    /// Ends a reserved handle whose object will not be made.
    pub fn give_up(&self, reserved: usize) {
        self.unreserve(reserved, Changes::vacate);
    }

    fn unreserve(&self, reserved: usize, then: impl FnOnce(&mut Changes<T>, &Slot<T>)) {
        let handle = reserved as u32;
        let mut changes = self.changes.lock();
        let early = changes.reserved.remove(&handle);
        if early.is_some()
            && let Some(slot) = self.slot(handle)
        {
            then(&mut changes, slot);
        }
        drop(changes);
        // Not under the lock: the end of an object may be long.
        drop(early);
    }

    /// Sets the object of a predefined handle, or removes it.
    pub fn define(&self, handle: usize, object: Option<Arc<T>>) {
        if let Some(before) = self.predefined[handle - FIRST_PREDEFINED].replace(object) {
            drop(before.reclaim());
        }
    }

    /// Ends a handle and returns its object.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let number = u32::try_from(handle).ok()?;
        let mut changes = self.changes.lock();
        let slot = self.slot(number)?;
        if slot.handle.load(Ordering::Relaxed) != number {
            return None;
        }
        let object = slot.object.replace(None)?;
        changes.vacate(slot);
        let shared = object.share();
        changes.replaced.push(object);
        let replaced = changes.reclaimable(self.kind.replaced_max());
        drop(changes);
        // Not under the lock: the end of an object may be long.
        drop(Replaced::reclaim_all(replaced));
        Some(shared)
    }

    /// The first object for which `is_it` holds.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let changes = self.changes.lock();
        self.objects(&changes).find(|object| is_it(object))
    }

    /// The objects for which `is_it` holds.
    pub fn find_all(&self, is_it: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let changes = self.changes.lock();
        self.objects(&changes).filter(|object| is_it(object)).collect()
    }

    /// Removes the objects for which `goes` holds. A reserved handle stays reserved until its object is made.
    pub fn remove_all(&self, goes: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut changes = self.changes.lock();
        let mut objects = Vec::new();
        for index in 0..changes.slots {
            if let Some(slot) = self.slot(index)
                && slot.object.share().is_some_and(|object| goes(&object))
                && let Some(object) = slot.object.replace(None)
            {
                changes.vacate(slot);
                objects.push(object.share());
                changes.replaced.push(object);
            }
        }
        for early in changes.reserved.values_mut() {
            objects.extend(early.take_if(|object| goes(object)));
        }
        let replaced = changes.reclaimable(0);
        drop(changes);
        drop(Replaced::reclaim_all(replaced));
        objects
    }

    fn objects<'a>(&'a self, changes: &'a Changes<T>) -> impl Iterator<Item = Arc<T>> + 'a {
        (0..changes.slots).filter_map(|index| self.slot(index)?.object.share())
    }

    /// The slot of a handle's index.
    #[inline(always)]
    fn slot(&self, handle: u32) -> Option<&Slot<T>> {
        let index = (handle & INDEX_MASK) as usize;
        Some(&self.pieces[index / PIECE].get()?[index % PIECE])
    }

    /// A free slot, and its handle.
    fn occupy(&self, changes: &mut Changes<T>) -> Option<(u32, &Slot<T>)> {
        let index = match changes.free.pop() {
            Some(index) => index,
            None if changes.slots > INDEX_MASK => return None,
            None => {
                changes.slots += 1;
                changes.slots - 1
            }
        };
        let piece = self.pieces[index as usize / PIECE].get_or_init(|| self.piece(index));
        let slot = &piece[index as usize % PIECE];
        Some((slot.handle.load(Ordering::Relaxed), slot))
    }

    /// The slots from an index on, with their first handles.
    fn piece(&self, first: u32) -> Box<[Slot<T>; PIECE]> {
        let kind = OBJECT | (self.kind as u32) << (INDEX_BITS + GENERATION_BITS);
        Box::new(std::array::from_fn(|nth| Slot {
            handle: AtomicU32::new(kind | (first + nth as u32)),
            object: Published::none(),
        }))
    }
}

impl<T> Slot<T> {
    fn publish(&self, object: Arc<T>) {
        let before = self.object.replace(Some(object));
        debug_assert!(before.is_none(), "the slot was free");
    }
}

impl<T> Changes<T> {
    /// Ends the handle of a slot that has no object any more.
    fn vacate(&mut self, slot: &Slot<T>) {
        let handle = slot.handle.load(Ordering::Relaxed);
        let generation = handle.wrapping_add(1 << INDEX_BITS) & GENERATION_MASK << INDEX_BITS;
        slot.handle.store(
            handle & !(GENERATION_MASK << INDEX_BITS) | generation,
            Ordering::Relaxed,
        );
        self.free.push(handle & INDEX_MASK);
    }

    /// The objects that were removed, once there are enough of them or no thread can be using them.
    fn reclaimable(&mut self, max: usize) -> Vec<Replaced<T>> {
        match self.replaced.len() > max || Replaced::<T>::is_unseen() {
            true => std::mem::take(&mut self.replaced),
            false => Vec::new(),
        }
    }
}

impl HandleKind {
    /// How many objects of this kind may stay in memory for a while after their end, so that not each end waits for the
    /// other threads: none of those that hold resources that others need, or whose drop does something.
    fn replaced_max(self) -> usize {
        match self {
            HandleKind::Group
            | HandleKind::Datatype
            | HandleKind::Op
            | HandleKind::Info
            | HandleKind::Errhandler
            | HandleKind::Message
            | HandleKind::Keyval => 64,
            HandleKind::Communicator
            | HandleKind::Session
            | HandleKind::Window
            | HandleKind::File
            | HandleKind::Persistent
            | HandleKind::Generalized => 0,
        }
    }
}

const REQUEST: u32 = 1 << 31;
const REQUEST_INDEX_BITS: u32 = 24;
/// The bits of a request's generation that are in its handle.
pub const REQUEST_GENERATION_MASK: u32 = (1 << 7) - 1;

/// The handle of a request; `None` if there are too many.
#[inline]
pub fn of_request(id: RequestId) -> Option<usize> {
    let generation = (id.generation & REQUEST_GENERATION_MASK) << REQUEST_INDEX_BITS;
    (id.index >> REQUEST_INDEX_BITS == 0).then_some((REQUEST | generation | id.index) as usize)
}

/// The index and the bits of the generation in a request's handle.
#[inline]
pub fn request_place(handle: usize) -> Option<(u32, u32)> {
    let number = u32::try_from(handle).ok()?;
    (number & REQUEST != 0).then_some((
        number & ((1 << REQUEST_INDEX_BITS) - 1),
        number >> REQUEST_INDEX_BITS & REQUEST_GENERATION_MASK,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_known_as_such() {
        let groups: Table<u32> = Table::new(HandleKind::Group);
        let first = groups.insert(Arc::new(1)).unwrap();
        assert_eq!(groups.get(first).as_deref(), Some(&1));
        assert_eq!(groups.remove(first).as_deref(), Some(&1));
        assert!(groups.get(first).is_none() && groups.remove(first).is_none());
        let second = groups.insert(Arc::new(2)).unwrap();
        assert_ne!(first, second);
        assert!(groups.get(first).is_none());
        assert_eq!(groups.get(second).as_deref(), Some(&2));
    }

    #[test]
    fn a_reserved_handle_is_valid_once_it_is_filled() {
        let groups: Table<u32> = Table::new(HandleKind::Group);
        let (first, second) = (
            groups.reserve_for(Arc::new(1)).unwrap(),
            groups.reserve().unwrap(),
        );
        assert!(groups.get(first).is_none() && groups.remove(first).is_none());
        assert!(groups.find_all(|_| true).is_empty() && groups.get_early(second).is_none());
        assert_eq!(groups.get_early(first).as_deref(), Some(&1));
        groups.give_up(first);
        assert!(groups.get_early(first).is_none());
        let third = groups.insert(Arc::new(3)).unwrap();
        assert!(third != first && third != second);
        groups.fill(second, Arc::new(2));
        assert_eq!(groups.get_early(second).as_deref(), Some(&2));
        assert_eq!(groups.remove(second).as_deref(), Some(&2));
        assert_eq!(groups.get(third).as_deref(), Some(&3));
    }

    #[test]
    fn a_predefined_handle_has_an_object_for_a_while() {
        let groups: Table<u32> = Table::new(HandleKind::Group);
        assert!(groups.get(257).is_none());
        groups.define(257, Some(Arc::new(1)));
        groups.define(258, Some(Arc::new(2)));
        assert_eq!(groups.get(257).as_deref(), Some(&1));
        assert_eq!(groups.hold(258).as_deref(), Some(&2));
        assert!(groups.remove(257).is_none(), "nobody frees it");
        assert!(!groups.find_all(|_| true).iter().any(|found| **found == 1));
        groups.define(257, None);
        assert!(groups.get(257).is_none() && groups.get(258).is_some());
    }

    #[test]
    fn threads_find_what_is_there_and_nothing_else() {
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 300 };
        let table: Table<usize> = Table::new(HandleKind::Datatype);
        let stays = table.insert(Arc::new(0)).unwrap();
        std::thread::scope(|threads| {
            for mine in 1..4 {
                let table = &table;
                threads.spawn(move || {
                    for round in 0..ROUNDS {
                        let handles: Vec<_> = (0..3).map(|_| table.insert(Arc::new(mine)).unwrap()).collect();
                        for handle in handles {
                            assert_eq!(table.hold(handle).as_deref(), Some(&mine));
                            assert_eq!(table.remove(handle).as_deref(), Some(&mine));
                            assert!(table.hold(handle).is_none());
                        }
                        assert_eq!(table.hold(stays).as_deref(), Some(&0));
                        assert!(table.find_all(|_| true).len() <= 10, "in round {round}");
                    }
                });
            }
        });
        assert_eq!(table.remove_all(|_| true).len(), 1);
        assert!(table.get(stays).is_none());
    }

    #[test]
    fn a_table_grows() {
        let table: Table<usize> = Table::new(HandleKind::Info);
        let handles: Vec<_> = (0..1000)
            .map(|number| table.insert(Arc::new(number)).unwrap())
            .collect();
        assert!((0..1000).all(|number| table.get(handles[number]).as_deref() == Some(&number)));
        assert_eq!(table.remove_all(|number| number % 2 == 0).len(), 500);
        assert!((0..1000).all(|number| table.get(handles[number]).is_some() == (number % 2 == 1)));
    }

    #[test]
    fn a_foreign_handle_is_none() {
        let groups: Table<u32> = Table::new(HandleKind::Group);
        let infos: Table<u32> = Table::new(HandleKind::Info);
        let group = groups.insert(Arc::new(1)).unwrap();
        infos.insert(Arc::new(1)).unwrap();
        assert!(infos.get(group).is_none());
        for garbage in [0, 1, 257, usize::MAX, 0xdead_beef, 1 << 40] {
            assert!(groups.get(garbage).is_none());
        }
    }

    #[test]
    fn requests_have_room() {
        let id = RequestId {
            index: 0xabcdef,
            generation: 0x1234_5678,
        };
        let handle = of_request(id).unwrap();
        assert_eq!(request_place(handle), Some((0xabcdef, 0x78)));
        assert!(
            of_request(RequestId {
                index: 1 << 24,
                generation: 0
            })
            .is_none()
        );
        assert!(request_place(384).is_none());
    }
}
