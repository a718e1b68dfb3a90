//! Handles: 32-bit numbers of a kind, a generation and an index, above the range that the standard ABI keeps for
//! predefined ones. A stale, freed or foreign handle is found out, never followed.
//!
//! ```text
//!   bit 31  30  29..26  25..20      19..0
//!        0   1   kind   generation  index      all but requests; persistent and generalized requests
//!        1   30..24 generation      23..0 index          requests
//! ```

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::request::RequestId;
use crate::system::lock::{self, MappedMutexGuard, Mutex, MutexGuard};

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
/// Predefined handles that can have an object: so many from this one on, `MPI_COMM_NULL`.
const FIRST_PREDEFINED: usize = 256;
const PREDEFINED: usize = 4;

/// The objects of one kind by handle.
pub struct Table<T> {
    kind: HandleKind,
    slots: Mutex<Slots<T>>,
}

struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Objects of predefined handles, while there are any.
    predefined: [Option<Arc<T>>; PREDEFINED],
}

struct Slot<T> {
    generation: u32,
    object: Option<Arc<T>>,
    /// The unfinished object of a reserved handle.
    early: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// No objects yet.
    pub const fn new(kind: HandleKind) -> Table<T> {
        Table {
            kind,
            slots: Mutex::new(Slots {
                slots: Vec::new(),
                free: Vec::new(),
                predefined: [const { None }; PREDEFINED],
            }),
        }
    }

    /// A handle for an object; `None` if there are too many.
    pub fn insert(&self, object: Arc<T>) -> Option<usize> {
        self.occupy(Some(object), None)
    }

    /// A handle for an object that is still to come: until [`Table::fill`] it is not valid.
    pub fn reserve(&self) -> Option<usize> {
        self.occupy(None, None)
    }

    /// The same for an object that is there and not yet finished: until [`Table::fill`] only [`Table::get_early`] finds it.
    pub fn reserve_for(&self, object: Arc<T>) -> Option<usize> {
        self.occupy(None, Some(object))
    }

    /// Gives a reserved handle its object.
    pub fn fill(&self, reserved: usize, object: Arc<T>) {
        if let Some((index, _)) = self.place(reserved)
            && let Some(slot) = self.slots.lock().slots.get_mut(index)
        {
            slot.early = None;
            slot.object = Some(object);
        }
    }

    /// Ends a reserved handle whose object is not to be.
    pub fn give_up(&self, reserved: usize) {
        if let Some((index, _)) = self.place(reserved) {
            let mut slots = self.slots.lock();
            let slot = &mut slots.slots[index];
            let object = slot.early.take();
            slot.generation = slot.generation.wrapping_add(1);
            slots.free.push(index as u32);
            drop(slots);
            // Not under the lock: the end of an object may be long.
            drop(object);
        }
    }

    fn occupy(&self, object: Option<Arc<T>>, early: Option<Arc<T>>) -> Option<usize> {
        let mut slots = self.slots.lock();
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                let index = slots.slots.len() as u32;
                if index > INDEX_MASK {
                    return None;
                }
                slots.slots.push(Slot {
                    generation: 0,
                    object: None,
                    early: None,
                });
                index
            }
        };
        let slot = &mut slots.slots[index as usize];
        slot.object = object;
        slot.early = early;
        let generation = (slot.generation & GENERATION_MASK) << INDEX_BITS;
        Some((OBJECT | (self.kind as u32) << (INDEX_BITS + GENERATION_BITS) | generation | index) as usize)
    }

    /// Gives a predefined handle its object, or takes it away.
    pub fn define(&self, handle: usize, object: Option<Arc<T>>) {
        let mut slots = self.slots.lock();
        let before = std::mem::replace(&mut slots.predefined[handle - FIRST_PREDEFINED], object);
        drop(slots);
        // Not under the lock: the end of an object may be long.
        drop(before);
    }

    #[inline(always)]
    fn place(&self, handle: usize) -> Option<(usize, u32)> {
        let number = u32::try_from(handle).ok()?;
        let kind = number >> (INDEX_BITS + GENERATION_BITS);
        let expected = (OBJECT >> (INDEX_BITS + GENERATION_BITS)) | self.kind as u32;
        (kind == expected).then_some((
            (number & INDEX_MASK) as usize,
            number >> INDEX_BITS & GENERATION_MASK,
        ))
    }

    /// The object of a handle, if it has one.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.hold(handle).map(|held| held.share())
    }

    /// The object of a handle, if it has one, without a reference of its own: until the result is dropped nobody else gets at
    /// the table. So there must be no waiting meanwhile, and no call of a user's function. The engine may be locked
    /// meanwhile, but not the other way round.
    #[inline(always)]
    pub fn hold(&self, handle: usize) -> Option<Held<'_, T>> {
        let found = MutexGuard::try_map(self.slots.lock(), |slots| {
            if let Some(predefined) = slots.predefined.get_mut(handle.wrapping_sub(FIRST_PREDEFINED)) {
                return predefined.as_mut();
            }
            let (index, generation) = self.place(handle)?;
            let slot = slots.slots.get_mut(index)?;
            (slot.generation & GENERATION_MASK == generation).then_some(slot.object.as_mut())?
        });
        found.ok().map(Held)
    }

    /// The object of a handle, if it has one, finished or not.
    pub fn get_early(&self, handle: usize) -> Option<Arc<T>> {
        if let Some(object) = self.get(handle) {
            return Some(object);
        }
        let (index, generation) = self.place(handle)?;
        let slots = self.slots.lock();
        let slot = slots.slots.get(index)?;
        (slot.generation & GENERATION_MASK == generation).then(|| slot.early.clone())?
    }

    /// Whether other threads use the table, who should not be kept waiting: see [`lock::is_shared`].
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        lock::is_shared(&self.slots)
    }

    /// Ends a handle and gives its object.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let (index, generation) = self.place(handle)?;
        let mut slots = self.slots.lock();
        let slot = slots.slots.get_mut(index)?;
        if slot.generation & GENERATION_MASK != generation {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slots.free.push(index as u32);
        Some(object)
    }

    /// The first object for which `is_it` holds.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let slots = self.slots.lock();
        slots
            .slots
            .iter()
            .filter_map(|slot| slot.object.as_ref())
            .find(|object| is_it(object))
            .cloned()
    }

    /// The objects for which `is_it` holds.
    pub fn find_all(&self, is_it: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let slots = self.slots.lock();
        let objects = slots.slots.iter().filter_map(|slot| slot.object.as_ref());
        objects.filter(|object| is_it(object)).cloned().collect()
    }

    /// Takes out the objects for which `goes` holds. A reserved handle stays reserved for whoever makes its object.
    pub fn remove_all(&self, goes: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut slots = self.slots.lock();
        let Slots { slots, free, .. } = &mut *slots;
        let mut objects = Vec::new();
        for (index, slot) in slots.iter_mut().enumerate() {
            if let Some(object) = slot.object.take_if(|object| goes(object)) {
                slot.generation = slot.generation.wrapping_add(1);
                free.push(index as u32);
                objects.push(object);
            }
            objects.extend(slot.early.take_if(|object| goes(object)));
        }
        objects
    }
}

/// See [`Table::hold`].
pub struct Held<'a, T>(MappedMutexGuard<'a, Arc<T>>);

impl<T> Held<'_, T> {
    /// A reference that stays.
    #[inline]
    pub fn share(&self) -> Arc<T> {
        (*self.0).clone()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

const REQUEST: u32 = 1 << 31;
const REQUEST_INDEX_BITS: u32 = 24;
/// The bits of a request's generation that its handle tells.
pub const REQUEST_GENERATION_MASK: u32 = (1 << 7) - 1;

/// The handle of a request; `None` if there are too many.
#[inline]
pub fn of_request(id: RequestId) -> Option<usize> {
    let generation = (id.generation & REQUEST_GENERATION_MASK) << REQUEST_INDEX_BITS;
    (id.index >> REQUEST_INDEX_BITS == 0).then_some((REQUEST | generation | id.index) as usize)
}

/// The index and the bits of the generation that a request's handle tells.
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
