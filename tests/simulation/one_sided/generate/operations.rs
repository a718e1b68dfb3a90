//! The operations of an epoch.

use weft::sim::skewed;

use super::{Generator, Region, Scope, Touched, Use};
use crate::one_sided::element;
use crate::one_sided::program::{Data, Flavor, Kind, Operation, RaceKind, Step};
use crate::one_sided::shape::Shape;

impl Generator {
    /// What a rank does in an epoch that is open to it.
    pub(super) fn operations(&mut self, window: usize, rank: u32, scope: &mut Scope) -> Vec<Step> {
        let mut steps = Vec::new();
        let open: Vec<usize> = (0..scope.regions.len())
            .filter(|&at| match &scope.origins {
                Some(origins) => origins[scope.regions[at].target as usize].contains(&rank),
                None => scope.regions[at].usage != Use::Counters,
            })
            .collect();
        if open.is_empty() {
            return steps;
        }
        let mut requests = Vec::new();
        for _ in 0..skewed(&mut self.rng, 5) {
            let region = &mut scope.regions[open[self.rng.usize(..open.len())]];
            self.operate(window, rank, region, scope.passive, &mut steps, &mut requests);
            if scope.passive && self.rng.u32(..8) == 0 {
                let target = region.target;
                self.flush(window, rank, target, &mut scope.regions, &mut steps);
            }
            if self.rng.u32(..20) == 0 {
                steps.push(Step::Pause(skewed(&mut self.rng, 14)));
            }
            if !requests.is_empty() && self.rng.u32(..3) == 0 {
                let request = requests.swap_remove(self.rng.usize(..requests.len()));
                steps.push(Step::Wait(request));
            }
        }
        steps.extend(requests.into_iter().map(Step::Wait));
        steps
    }

    /// Completes a rank's operations at a target, or at all.
    pub(super) fn flush(
        &mut self,
        window: usize,
        rank: u32,
        target: u32,
        regions: &mut [Region],
        steps: &mut Vec<Step>,
    ) {
        let all = self.rng.u32(..4) == 0;
        let local = self.rng.u32(..3) == 0;
        for region in regions.iter_mut().filter(|region| all || region.target == target) {
            region.forget(rank, local);
        }
        steps.push(Step::Flush {
            window,
            rank: (!all).then_some(target),
            local,
        });
    }

    /// Adds an operation, if one is allowed.
    pub(super) fn operate(
        &mut self,
        window: usize,
        rank: u32,
        region: &mut Region,
        passive: bool,
        steps: &mut Vec<Step>,
        requests: &mut Vec<usize>,
    ) {
        let rng = &mut self.rng;
        let elem = region.elem;
        // Where, at first; some elements of that may not be allowed.
        let (start, room) = match &region.usage {
            Use::Owned { owners, .. } => {
                let mine: Vec<usize> = (0..region.count)
                    .filter(|&at| owners[at] == rank && (at == 0 || owners[at - 1] != rank))
                    .collect();
                if mine.is_empty() {
                    return;
                }
                let start = mine[rng.usize(..mine.len())];
                let len = owners[start..].iter().take_while(|&&owner| owner == rank).count();
                let skip = rng.usize(..len);
                (start + skip, len - skip)
            }
            _ => {
                let start = if rng.bool() { 0 } else { rng.usize(..region.count) };
                (start, region.count - start)
            }
        };
        let kind = match &region.usage {
            Use::Read => Kind::Get,
            Use::Owned { op, .. } => match rng.u32(..6) {
                0 | 1 => Kind::Put,
                2 => Kind::Get,
                3 => Kind::Accumulate(*op),
                4 => Kind::GetAccumulate(if rng.u32(..3) == 0 { element::NO_OP } else { *op }),
                _ if elem.is_compared() => Kind::CompareAndSwap,
                _ => Kind::GetAccumulate(*op),
            },
            Use::Combine(op) => match rng.u32(..6) {
                0 => Kind::GetAccumulate(element::NO_OP),
                1 => Kind::GetAccumulate(*op),
                _ => Kind::Accumulate(*op),
            },
            Use::Race { number, op } => match (self.program.races[*number].kind, rng.u32(..4)) {
                (_, 0) => Kind::GetAccumulate(element::NO_OP),
                (RaceKind::Compares, _) => Kind::CompareAndSwap,
                (_, 1) => Kind::Accumulate(*op),
                _ => Kind::GetAccumulate(*op),
            },
            Use::Counters => unreachable!("these have locks of their own"),
        };
        let wanted = match kind {
            Kind::CompareAndSwap => 1,
            _ if rng.u32(..3) == 0 => 1,
            _ => 1 + skewed(rng, usize::BITS - room.leading_zeros()) as usize,
        };
        let there = match wanted {
            1 => Shape::run(elem, 1),
            _ => Shape::random(rng, elem, room, wanted),
        };
        // That takes no datatype that could begin elsewhere.
        let unit = match self.program.windows[window].flavor {
            Flavor::Dynamic => 1,
            _ => self.program.windows[window].parts[region.target as usize].unit as usize,
        };
        if kind == Kind::CompareAndSwap && !(region.at + start * elem.extent).is_multiple_of(unit) {
            return;
        }
        let places = || there.places.iter().map(|place| place + start);
        match &region.usage {
            Use::Owned { .. } => {
                let after = match kind {
                    Kind::Get => Touched::Read,
                    Kind::Put => Touched::Written,
                    _ => Touched::Combined,
                };
                let is_free = |region: &Region| {
                    let allowed = |touched| {
                        touched == Touched::No
                            || touched == after && matches!(after, Touched::Read | Touched::Combined)
                    };
                    places().all(|at| allowed(region.touched[at]))
                };
                // In active epochs, nothing can be completed in between.
                if !is_free(region) && !passive {
                    return;
                }
                if !is_free(region) {
                    let local = rng.bool();
                    let target = region.target;
                    region.forget(rank, local);
                    steps.push(Step::Flush {
                        window,
                        rank: Some(target),
                        local,
                    });
                    if !is_free(region) {
                        region.forget(rank, false);
                        steps.push(Step::Flush {
                            window,
                            rank: rng.bool().then_some(target),
                            local: false,
                        });
                    }
                }
                places().for_each(|at| region.touched[at] = after);
            }
            Use::Race { .. } if kind != Kind::GetAccumulate(element::NO_OP) => {
                if places().any(|at| region.uses[at] + 1 >= elem.bits().min(50)) {
                    return;
                }
                places().for_each(|at| region.uses[at] += 1);
            }
            _ => {}
        }
        let (data, compare) = self.data(region, kind, start, &there);
        let rng = &mut self.rng;
        let number = self.program.operations.len();
        let here = Shape::exactly(rng, elem, there.places.len());
        let result = match kind.fetches() {
            true => Shape::exactly(rng, elem, there.places.len()),
            false => Shape::run(elem, 0),
        };
        let (here, result) = match kind {
            Kind::CompareAndSwap => (Shape::run(elem, 1), Shape::run(elem, 1)),
            _ => (here, result),
        };
        let request = passive && kind != Kind::CompareAndSwap && rng.u32(..4) == 0;
        self.program.operations.push(Operation {
            origin: rank,
            window,
            target: region.target,
            kind,
            at: region.at + start * elem.extent,
            there,
            here,
            data: Data::Bytes(data),
            compare,
            result,
            request,
            defined: matches!(region.usage, Use::Read | Use::Owned { .. }),
            race: match region.usage {
                Use::Race { number, .. } => Some(number),
                _ => None,
            },
        });
        steps.push(Step::Operate(number));
        if request {
            requests.push(number);
        }
    }

    /// An operation's data, and what it compares with.
    pub(super) fn data(
        &mut self,
        region: &Region,
        kind: Kind,
        start: usize,
        there: &Shape,
    ) -> (Vec<u8>, Vec<u8>) {
        let elem = region.elem;
        if kind == Kind::Get || kind == Kind::GetAccumulate(element::NO_OP) {
            return (Vec::new(), Vec::new());
        }
        let mut data = Vec::with_capacity(there.len());
        let mut compare = Vec::new();
        for place in &there.places {
            let at = start + place;
            match &region.usage {
                Use::Race { number, .. } => {
                    // The first has number 0.
                    let nth = region.uses[at] - 1;
                    let kind = self.program.races[*number].kind;
                    data.extend(match kind {
                        RaceKind::Marks => elem.number(1 << nth),
                        _ => elem.number(u128::from(nth) + 2),
                    });
                    // Number 1 is there at first.
                    compare = elem.number(
                        u128::from(
                            self.rng.u32(..region.uses[at].min(3)) + region.uses[at].saturating_sub(3),
                        ) + 1,
                    );
                }
                _ => {
                    let op = kind.op().unwrap_or(match region.usage {
                        Use::Owned { op, .. } => op,
                        _ => element::SUM,
                    });
                    data.extend(elem.random_value(&mut self.rng, op));
                    compare = elem.random_value(&mut self.rng, element::SUM);
                }
            }
        }
        (data, compare)
    }
}
