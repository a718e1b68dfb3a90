//! Chains of epochs of one window: by fences, among groups, by locks.

use super::{Generator, Lists, Region, Scope, Style, Use};
use crate::one_sided::program::{Data, Kind, Operation, Step};
use crate::one_sided::shape::Shape;

impl Generator {
    pub(super) fn fences(&mut self, window: usize, checks: &mut Lists) -> Lists {
        let phases = 1 + self.rng.usize(..3);
        let mut scope = self.scope(window, Style::Fences, None, 0, phases == 1);
        self.store(window, &scope);
        let mut lists = self.lists();
        let add_fence = |lists: &mut Lists, assert: i32| {
            for list in lists {
                list.push(Step::Fence { window, assert });
            }
        };
        add_fence(&mut lists, [0, 2048][self.rng.usize(..2)]);
        for phase in 0..phases {
            if phase > 0 {
                self.choose_uses(window, &mut scope, Style::Fences, phase, phase + 1 == phases);
            }
            for rank in 0..self.program.ranks {
                let steps = self.operations(window, rank, &mut scope);
                lists[rank as usize].extend(steps);
            }
            add_fence(
                &mut lists,
                if phase + 1 == phases {
                    [0, 8192, 16384][self.rng.usize(..3)]
                } else {
                    0
                },
            );
        }
        self.check(window, &scope, checks);
        lists
    }

    /// Who accesses each target.
    pub(super) fn groups(&mut self) -> Vec<Vec<u32>> {
        let ranks = self.program.ranks;
        let likely = self.rng.u32(1..5);
        let group = |_| {
            let mut group: Vec<u32> = (0..ranks).filter(|_| self.rng.u32(..4) < likely).collect();
            self.rng.shuffle(&mut group);
            group
        };
        (0..ranks).map(group).collect()
    }

    pub(super) fn post(&mut self, window: usize, origins: &[Vec<u32>], unchecked: bool) {
        let lists = self.posts(window, origins, unchecked);
        self.append(lists);
    }

    pub(super) fn posts(&self, window: usize, origins: &[Vec<u32>], unchecked: bool) -> Lists {
        let post = |group: &Vec<u32>| {
            vec![Step::Post {
                window,
                group: group.clone(),
                unchecked,
            }]
        };
        origins.iter().map(post).collect()
    }

    pub(super) fn start(&mut self, window: usize, origins: &[Vec<u32>], unchecked: bool) {
        let lists = self.starts(window, origins, unchecked);
        self.append(lists);
    }

    pub(super) fn starts(&mut self, window: usize, origins: &[Vec<u32>], unchecked: bool) -> Lists {
        let start = |rank| {
            let mut group: Vec<u32> = (0..self.program.ranks)
                .filter(|&target| origins[target as usize].contains(&rank))
                .collect();
            self.rng.shuffle(&mut group);
            vec![Step::Start {
                window,
                group,
                unchecked,
            }]
        };
        (0..self.program.ranks).map(start).collect()
    }

    pub(super) fn chain_of_groups(&mut self, window: usize) -> Lists {
        let mut lists = self.lists();
        let extend = |lists: &mut Lists, more: Lists| {
            for (list, more) in lists.iter_mut().zip(more) {
                list.extend(more);
            }
        };
        for _ in 0..1 + self.rng.u32(..3) {
            let origins = self.groups();
            let mut scope = self.scope(window, Style::Groups, Some(origins.clone()), 0, true);
            let unchecked = self.rng.u32(..4) == 0;
            let stores = self.stores(window, &scope);
            extend(&mut lists, stores);
            extend(&mut lists, self.posts(window, &origins, unchecked));
            if unchecked {
                extend(&mut lists, vec![vec![Step::Barrier]; self.program.ranks as usize]);
            }
            let starts = self.starts(window, &origins, unchecked);
            extend(&mut lists, starts);
            for rank in 0..self.program.ranks {
                let mut steps = self.operations(window, rank, &mut scope);
                steps.push(Step::Complete(window));
                let test = self.rng.bool();
                steps.push(Step::End { window, test });
                lists[rank as usize].extend(steps);
            }
            self.check(window, &scope, &mut lists);
        }
        lists
    }

    pub(super) fn locks(&mut self, window: usize, style: Style, checks: &mut Lists) -> Lists {
        let mut scope = self.scope(window, style, None, 0, true);
        self.store(window, &scope);
        let mut lists = self.lists();
        let no_exclusive = style != Style::Locks || self.rng.u32(..4) == 0;
        // Several locks at once, of which some are exclusive, go in ascending order; which order those of `lock_all` have is not said.
        let several = self.rng.bool();
        for rank in 0..self.program.ranks {
            for _ in 0..1 + self.rng.u32(..4) {
                let steps = match style {
                    Style::Always => {
                        let mut steps = self.operations(window, rank, &mut scope);
                        steps.push(Step::Flush {
                            window,
                            rank: None,
                            local: false,
                        });
                        steps
                    }
                    Style::Locks if several || self.rng.u32(..4) != 0 => {
                        let most = if several { 3 } else { 1 };
                        self.locked(window, rank, &mut scope, no_exclusive, most)
                    }
                    _ => {
                        let unchecked = no_exclusive && self.rng.u32(..4) == 0;
                        let mut steps = vec![Step::LockAll { window, unchecked }];
                        steps.extend(self.operations(window, rank, &mut scope));
                        steps.push(Step::UnlockAll(window));
                        steps
                    }
                };
                for region in &mut scope.regions {
                    region.forget(rank, false);
                }
                lists[rank as usize].extend(steps);
            }
        }
        self.check(window, &scope, checks);
        lists
    }

    /// Operations at some targets that are locked, in ascending order, one by one.
    pub(super) fn locked(
        &mut self,
        window: usize,
        rank: u32,
        scope: &mut Scope,
        no_exclusive: bool,
        most: u32,
    ) -> Vec<Step> {
        let ranks = self.program.ranks;
        let mut targets: Vec<u32> = (0..1 + self.rng.u32(..most))
            .map(|_| self.rng.u32(..ranks))
            .collect();
        targets.sort_unstable();
        targets.dedup();
        let mut steps = Vec::new();
        for &target in &targets {
            let exclusive = !no_exclusive && self.rng.bool();
            let unchecked = no_exclusive && self.rng.u32(..4) == 0;
            steps.push(Step::Lock {
                window,
                rank: target,
                exclusive,
                unchecked,
            });
            // Only what the ranks locked so far have.
            let mine = |region: &Region| region.target == target && region.usage != Use::Counters;
            let (inside, outside): (Vec<Region>, Vec<Region>) =
                std::mem::take(&mut scope.regions).into_iter().partition(mine);
            let mut narrow = Scope {
                passive: true,
                regions: inside,
                origins: None,
            };
            steps.extend(self.operations(window, rank, &mut narrow));
            scope.regions = outside;
            scope.regions.extend(narrow.regions);
            let counters: Vec<usize> = (0..scope.regions.len())
                .filter(|&at| scope.regions[at].target == target && scope.regions[at].usage == Use::Counters)
                .collect();
            if exclusive {
                for at in counters {
                    self.count(window, rank, &scope.regions[at], &mut steps);
                }
            }
        }
        self.rng.shuffle(&mut targets);
        steps.extend(targets.into_iter().map(|rank| Step::Unlock { window, rank }));
        steps
    }

    /// Reads some counters and stores them incremented.
    pub(super) fn count(&mut self, window: usize, rank: u32, region: &Region, steps: &mut Vec<Step>) {
        let start = self.rng.usize(..region.count);
        let room = region.count - start;
        let wanted = 1 + self.rng.usize(..room.min(200));
        let there = Shape::random(&mut self.rng, region.elem, room, wanted);
        let fetched_by = self.program.operations.len();
        let len = there.places.len();
        for kind in [Kind::Get, Kind::Put] {
            let number = self.program.operations.len();
            self.program.operations.push(Operation {
                origin: rank,
                window,
                target: region.target,
                kind,
                at: region.at + start * region.elem.extent,
                there: there.clone(),
                here: Shape::exactly(&mut self.rng, region.elem, len),
                data: Data::Incremented {
                    fetched_by,
                    by: self.rng.u64(..),
                },
                compare: Vec::new(),
                result: match kind {
                    Kind::Get => Shape::exactly(&mut self.rng, region.elem, len),
                    _ => Shape::run(region.elem, 0),
                },
                request: false,
                defined: false,
                race: None,
            });
            steps.push(Step::Operate(number));
            steps.push(Step::Flush {
                window,
                rank: Some(region.target),
                local: kind == Kind::Get && self.rng.bool(),
            });
        }
    }
}
