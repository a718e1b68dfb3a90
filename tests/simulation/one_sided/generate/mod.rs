//! Programs whose outcome is known, or of which it is known what it may be.
//!
//! A program is a series of rounds. In a round, one window has a chain of epochs of some kind, and others may have one epoch around that
//! whole chain. For each epoch, the memory of each target is cut into regions of elements of one type, and each region has a use
//! ([`Use`]), which says what may happen there at the same time. The owner stores new contents before the round, where the use needs known
//! ones, and looks at its memory after it.
//!
//! - `chains`: the chains; `regions`: the regions of an epoch; `operations`: what a rank does in it

mod chains;
mod operations;
mod regions;

use fastrand::Rng;
use weft::sim::skewed;

use super::element::Elem;
use super::program::{Flavor, Part, Program, Step, WindowPlan};

/// What may happen in a region.
#[derive(Clone, PartialEq, Debug)]
enum Use {
    /// It is only read.
    Read,
    /// Each element belongs to one origin, which may do anything; in active epochs, once, or by accumulates of one operation.
    Owned { owners: Vec<u32>, op: usize },
    /// Anybody combines by one operation.
    Combine(usize),
    /// See [`Race`]; the operation of marks.
    Race { number: usize, op: usize },
    /// Whoever has the exclusive lock increments.
    Counters,
}

/// What the owner of an element has done with it since its operations were last completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Touched {
    No,
    Read,
    Written,
    Combined,
}

#[derive(Debug)]
struct Region {
    target: u32,
    at: usize,
    elem: Elem,
    count: usize,
    usage: Use,
    touched: Vec<Touched>,
    /// How many operations of a race touch an element.
    uses: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    Fences,
    Groups,
    /// Exclusive ones too.
    Locks,
    /// Shared ones only.
    LockAll,
    /// The window is locked from the beginning to the end.
    Always,
}

/// An epoch, as far as operations depend on it.
struct Scope {
    passive: bool,
    regions: Vec<Region>,
    /// Who may access whom; `None`: all.
    origins: Option<Vec<Vec<u32>>>,
}

pub fn generate(seed: u64) -> Program {
    let mut rng = Rng::with_seed(seed ^ 0x6f6e_655f_7369);
    let ranks = 1 + rng.u32(..8).min(rng.u32(..8));
    let windows = (0..1 + rng.usize(..3).min(rng.usize(..3)))
        .map(|_| window(&mut rng, ranks))
        .collect();
    let program = Program {
        seed,
        ranks,
        windows,
        operations: Vec::new(),
        races: Vec::new(),
        steps: vec![Vec::new(); ranks as usize],
    };
    let mut generator = Generator { rng, program };
    generator.rounds();
    generator.program
}

fn window(rng: &mut Rng, ranks: u32) -> WindowPlan {
    let flavor = [
        Flavor::Create,
        Flavor::Create,
        Flavor::Dynamic,
        Flavor::Allocate,
        Flavor::Shared,
    ][rng.usize(..5)];
    let large = rng.u32(..10) == 0;
    let same = rng.bool();
    let mut units = || [1, 1, 4, 8, 3, 40][rng.usize(..6)];
    let first = units();
    let units: Vec<i64> = (0..ranks).map(|_| if same { first } else { units() }).collect();
    let part = |&unit: &i64| {
        let chunks = if flavor == Flavor::Dynamic {
            1 + rng.usize(..3)
        } else {
            1
        };
        let chunk = |rng: &mut Rng| match (large, rng.u32(..8)) {
            (true, 0..4) => rng.usize(30_000..200_000),
            (_, 0) => 0,
            _ => skewed(rng, 12) as usize,
        };
        let chunks: Vec<usize> = (0..chunks).map(|_| chunk(rng)).collect();
        let initial = (0..chunks.iter().sum()).map(|_| rng.u8(..)).collect();
        Part {
            unit,
            chunks,
            initial,
        }
    };
    WindowPlan {
        flavor,
        parts: units.iter().map(part).collect(),
    }
}

struct Generator {
    rng: Rng,
    program: Program,
}

/// A list of steps for each rank.
type Lists = Vec<Vec<Step>>;

impl Generator {
    fn each(&mut self, step: impl Fn() -> Step) {
        for steps in &mut self.program.steps {
            steps.push(step());
        }
    }

    fn lists(&self) -> Lists {
        vec![Vec::new(); self.program.ranks as usize]
    }

    fn append(&mut self, lists: Lists) {
        for (steps, list) in self.program.steps.iter_mut().zip(lists) {
            steps.extend(list);
        }
    }

    fn rounds(&mut self) {
        let number = self.program.windows.len();
        let always: Vec<bool> = (0..number).map(|_| self.rng.u32(..5) == 0).collect();
        for window in (0..number).filter(|&window| always[window]) {
            let unchecked = self.rng.bool();
            self.each(|| Step::LockAll { window, unchecked });
        }
        for _ in 0..1 + self.rng.u32(..4) {
            let first = self.rng.usize(..number);
            let mut styles: Vec<Option<Style>> = vec![None; number];
            for window in 0..number {
                styles[window] = match always[window] {
                    _ if window != first && self.rng.bool() => None,
                    true => Some(Style::Always),
                    false => {
                        let styles = [Style::Fences, Style::Groups, Style::Locks, Style::LockAll];
                        let among = if window == first {
                            &styles[..]
                        } else {
                            &[styles[0], styles[1], styles[3]][..]
                        };
                        Some(among[self.rng.usize(..among.len())])
                    }
                };
            }
            self.round(first, &styles);
        }
        for window in (0..number).filter(|&window| always[window]) {
            self.each(|| Step::UnlockAll(window));
        }
    }

    fn round(&mut self, first: usize, styles: &[Option<Style>]) {
        let all: Vec<(usize, Style)> = styles
            .iter()
            .enumerate()
            .filter_map(|(at, style)| Some((at, (*style)?)))
            .collect();
        let around: Vec<(usize, Style)> = all
            .iter()
            .copied()
            .filter(|(window, _)| *window != first)
            .collect();
        let passive = all
            .iter()
            .any(|(_, style)| !matches!(style, Style::Fences | Style::Groups));
        let mut checks = self.lists();
        // Windows with one epoch around the others' chain.
        let mut scopes = Vec::new();
        for &(window, style) in &around {
            let origins = (style == Style::Groups).then(|| self.groups());
            let mut scope = self.scope(window, style, origins, 0, true);
            self.store(window, &scope);
            if let Some(origins) = &scope.origins {
                self.post(window, origins, false);
            }
            self.check(window, &scope, &mut checks);
            scope.passive = !matches!(style, Style::Fences | Style::Groups);
            scopes.push((window, style, scope));
        }
        let chain = match styles[first].expect("it has one") {
            Style::Fences => self.fences(first, &mut checks),
            Style::Groups => self.chain_of_groups(first),
            style => self.locks(first, style, &mut checks),
        };
        if passive {
            self.each(|| Step::Barrier);
        }
        for (window, style, scope) in &scopes {
            let window = *window;
            match style {
                Style::Fences => self.fence(window, true),
                Style::Groups => self.start(window, scope.origins.as_ref().expect("it has some"), false),
                Style::LockAll => {
                    let unchecked = self.rng.bool();
                    self.each(|| Step::LockAll { window, unchecked });
                }
                _ => {}
            }
        }
        // What these windows' operations are, in between.
        let mut lists = chain;
        for (window, _, mut scope) in scopes {
            for rank in 0..self.program.ranks {
                let steps = self.operations(window, rank, &mut scope);
                let list = &mut lists[rank as usize];
                *list = self.merge(std::mem::take(list), steps);
            }
        }
        self.append(lists);
        for &(window, style) in &around {
            match style {
                Style::Groups => self.each(|| Step::Complete(window)),
                Style::Always => self.each(|| Step::Flush {
                    window,
                    rank: None,
                    local: false,
                }),
                Style::LockAll => self.each(|| Step::UnlockAll(window)),
                _ => {}
            }
        }
        for &(window, style) in &around {
            match style {
                Style::Fences => self.fence(window, false),
                Style::Groups => {
                    let test = self.rng.bool();
                    self.each(|| Step::End { window, test });
                }
                _ => {}
            }
        }
        if passive {
            self.each(|| Step::Barrier);
            for &(window, style) in &all {
                if style == Style::Always {
                    self.each(|| Step::Sync(window));
                }
            }
        }
        self.append(checks);
    }

    /// Both lists, each in its order.
    fn merge(&mut self, a: Vec<Step>, b: Vec<Step>) -> Vec<Step> {
        let mut merged = Vec::with_capacity(a.len() + b.len());
        let (mut a, mut b) = (a.into_iter(), b.into_iter());
        while a.len() + b.len() > 0 {
            let from = if self.rng.usize(..a.len() + b.len()) < a.len() {
                &mut a
            } else {
                &mut b
            };
            merged.extend(from.next());
        }
        merged
    }

    fn fence(&mut self, window: usize, opens: bool) {
        // NOPRECEDE; NOSTORE and NOSUCCEED.
        let asserts = if opens { [0, 0, 2048] } else { [0, 8192, 16384] };
        let assert = asserts[self.rng.usize(..3)];
        self.each(|| Step::Fence { window, assert });
    }
}
