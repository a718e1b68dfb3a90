//! The areas of operations that have one each, so that several may be under way at once: persistent ones.
//!
//! A communicator keeps them for the next such operation. One is free once no operation of this process has it; it may be taken when it
//! is free on all processes, which they have to agree on. All make them in the same order, so that one has the same number everywhere. (Where
//! a process was lost meanwhile, not all may have noticed; then they may disagree about later operations.)

use std::sync::Arc;

use super::Area;

/// So many are kept: a bit of a number stands for each.
const MOST: usize = 64;

/// See the module.
#[derive(Default)]
pub struct Kept {
    areas: Vec<Arc<Area>>,
    refused: bool,
}

impl Kept {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// A bit for each that is free here.
    pub fn free(&mut self) -> u64 {
        let is_free = |area: &mut Arc<Area>| Arc::get_mut(area).is_some_and(|area| !area.is_spoiled());
        self.areas
            .iter_mut()
            .enumerate()
            .filter_map(|(number, area)| is_free(area).then_some(1 << number))
            .sum()
    }

    /// The first one that is free everywhere, by the bits that all processes have in common.
    pub fn first_of(&self, free: u64) -> Option<Arc<Area>> {
        self.areas.get(free.trailing_zeros() as usize).cloned()
    }

    /// Keeps a new one, as all processes do.
    pub fn keep(&mut self, area: &Arc<Area>) {
        if self.areas.len() < MOST {
            self.areas.push(area.clone());
        }
    }

    /// Notes that one of the processes could not have another one: none is asked for again.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// See [`Kept::refuse`].
    pub fn is_refused(&self) -> bool {
        self.refused
    }
}
