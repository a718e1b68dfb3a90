//! The regions of an epoch: what may happen in each, what it holds before, and the checks after it.

use fastrand::Rng;

use super::{Generator, Lists, Region, Scope, Style, Touched, Use};
use crate::one_sided::element::{self, Elem};
use crate::one_sided::program::{Elements, Program, Race, RaceKind, Step};

impl Generator {
    pub(super) fn scope(
        &mut self,
        window: usize,
        style: Style,
        origins: Option<Vec<Vec<u32>>>,
        phase: usize,
        last: bool,
    ) -> Scope {
        let mut regions = Vec::new();
        for target in 0..self.program.ranks {
            let chunks = self.program.windows[window].parts[target as usize].chunks.clone();
            let mut begin = 0;
            for size in chunks {
                let mut at = begin;
                let end = begin + size;
                for _ in 0..1 + self.rng.usize(..3) {
                    if let Some(region) = self.region(at, end, target) {
                        at = region.at + region.count * region.elem.extent;
                        regions.push(region);
                    }
                }
                begin = end;
            }
        }
        let mut scope = Scope {
            passive: !matches!(style, Style::Fences | Style::Groups),
            regions,
            origins,
        };
        self.choose_uses(window, &mut scope, style, phase, last);
        scope
    }

    pub(super) fn region(&mut self, from: usize, end: usize, target: u32) -> Option<Region> {
        let elem = Elem::random(&mut self.rng);
        let mut at = from + self.rng.usize(..=(end - from) / 4);
        if self.rng.u32(..4) != 0 {
            at = at.next_multiple_of(elem.extent);
        }
        let room = end.checked_sub(at)? / elem.extent;
        if room == 0 {
            return None;
        }
        let count = match self.rng.u32(..3) {
            0 => room,
            1 => 1 + self.rng.usize(..room.min(8)),
            _ => 1 + self.rng.usize(..room),
        };
        Some(Region {
            target,
            at,
            elem,
            count,
            usage: Use::Read,
            touched: vec![Touched::No; count],
            uses: vec![0; count],
        })
    }

    /// What happens in the regions in one epoch. Races are at the end of a chain of epochs, or at its beginning, where contents are known.
    pub(super) fn choose_uses(
        &mut self,
        window: usize,
        scope: &mut Scope,
        style: Style,
        phase: usize,
        last: bool,
    ) {
        for region in &mut scope.regions {
            region.touched.fill(Touched::No);
            region.uses.fill(0);
            let ops = region.elem.ops();
            let op = match self.rng.u32(..3) {
                0 => element::REPLACE,
                _ if ops.is_empty() => element::REPLACE,
                _ => ops[self.rng.usize(..ops.len())],
            };
            let origins: Vec<u32> = match &scope.origins {
                Some(origins) => origins[region.target as usize].clone(),
                None => (0..self.program.ranks).collect(),
            };
            let first = phase == 0;
            region.usage = loop {
                match self.rng.u32(..8) {
                    0 => break Use::Read,
                    1 | 2 if !origins.is_empty() => {
                        let mut owners = Vec::new();
                        while owners.len() < region.count {
                            let owner = origins[self.rng.usize(..origins.len())];
                            let most = region.count - owners.len();
                            let len = if self.rng.bool() {
                                1 + self.rng.usize(..most)
                            } else {
                                most.min(1 + self.rng.usize(..9))
                            };
                            owners.extend(std::iter::repeat_n(owner, len));
                        }
                        break Use::Owned { owners, op };
                    }
                    3 if !ops.is_empty() => {
                        let op = ops[self.rng.usize(..ops.len())];
                        break Use::Combine(op);
                    }
                    4 if first && region.elem.bits() > 0 => {
                        let ops: Vec<usize> = (ops.iter().copied())
                            .filter(|op| [element::SUM, element::BOR, element::BXOR].contains(op))
                            .collect();
                        if ops.is_empty() {
                            continue;
                        }
                        let op = ops[self.rng.usize(..ops.len())];
                        break race(&mut self.program, window, region, RaceKind::Marks, op);
                    }
                    5 if last && first && region.elem.bits() >= 8 => {
                        break race(
                            &mut self.program,
                            window,
                            region,
                            RaceKind::Swaps,
                            element::REPLACE,
                        );
                    }
                    6 if last && first && region.elem.bits() >= 8 && region.elem.is_compared() => {
                        break race(
                            &mut self.program,
                            window,
                            region,
                            RaceKind::Compares,
                            element::REPLACE,
                        );
                    }
                    7 if style == Style::Locks && is_counter(&region.elem) => break Use::Counters,
                    _ => continue,
                }
            };
        }
    }

    /// New contents where they have to be known, or numbers.
    pub(super) fn contents(&mut self, region: &Region) -> Option<Vec<u8>> {
        let elem = region.elem;
        let element = |at: usize, rng: &mut Rng, program: &Program| match &region.usage {
            Use::Race { number, .. } => {
                let len = elem.size();
                Some(program.races[*number].initial[at * len..(at + 1) * len].to_vec())
            }
            Use::Combine(op) | Use::Owned { op, .. } => Some(elem.random_value(rng, *op)),
            Use::Read | Use::Counters => Some(elem.random_value(rng, element::SUM)),
        };
        let needed = !matches!(region.usage, Use::Read | Use::Counters) || self.rng.bool();
        if !(needed || elem.is_approximate()) {
            return None;
        }
        let mut bytes: Vec<u8> = (0..region.count * elem.extent).map(|_| self.rng.u8(..)).collect();
        for at in 0..region.count {
            let packed = element(at, &mut self.rng, &self.program)?;
            for (byte, value) in elem.bytes().into_iter().zip(packed) {
                bytes[at * elem.extent + byte] = value;
            }
        }
        Some(bytes)
    }

    pub(super) fn store(&mut self, window: usize, scope: &Scope) {
        let lists = self.stores(window, scope);
        self.append(lists);
    }

    pub(super) fn stores(&mut self, window: usize, scope: &Scope) -> Lists {
        let mut lists = self.lists();
        for region in &scope.regions {
            if let Some(bytes) = self.contents(region) {
                let at = region.at;
                lists[region.target as usize].push(Step::Store { window, at, bytes });
            }
        }
        lists
    }

    /// The checks after an epoch, and new contents where a race has been.
    pub(super) fn check(&mut self, window: usize, scope: &Scope, lists: &mut Lists) {
        for rank in 0..self.program.ranks {
            let regions = || scope.regions.iter().filter(move |region| region.target == rank);
            let elements = |region: &Region| Elements {
                at: region.at,
                elem: region.elem,
                count: region.count,
            };
            let races = regions().filter_map(|region| match region.usage {
                Use::Race { number, .. } => Some(number),
                _ => None,
            });
            lists[rank as usize].push(Step::Check {
                window,
                approximate: regions()
                    .filter(|region| region.elem.is_approximate())
                    .map(elements)
                    .collect(),
                races: races.collect(),
            });
            for region in regions() {
                if matches!(region.usage, Use::Race { .. }) {
                    let bytes = (0..region.count * region.elem.extent)
                        .map(|_| self.rng.u8(..))
                        .collect();
                    lists[rank as usize].push(Step::Store {
                        window,
                        at: region.at,
                        bytes,
                    });
                }
            }
        }
    }
}

impl Region {
    /// A rank has completed its operations; `local`: only at its side.
    pub(super) fn forget(&mut self, rank: u32, local: bool) {
        let Use::Owned { owners, .. } = &self.usage else {
            return;
        };
        for (touched, _) in self
            .touched
            .iter_mut()
            .zip(owners)
            .filter(|(_, owner)| **owner == rank)
        {
            if !local || *touched == Touched::Read {
                *touched = Touched::No;
            }
        }
    }
}

fn is_counter(elem: &Elem) -> bool {
    elem.size() == 8 && elem.extent == 8 && elem.bits() == 64
}

fn race(program: &mut Program, window: usize, region: &Region, kind: RaceKind, op: usize) -> Use {
    let initial = region.elem.number(if kind == RaceKind::Marks { 0 } else { 1 });
    let number = program.races.len();
    program.races.push(Race {
        kind,
        window,
        target: region.target,
        at: region.at,
        elem: region.elem,
        initial: initial.repeat(region.count),
    });
    Use::Race { number, op }
}
