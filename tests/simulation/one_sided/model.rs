//! A program as the standard describes it, one step of one rank after the other.
//!
//! Operations take effect when they must have, at the latest: until then a random choice delays them and exchanges their order, but for
//! that of accumulates. Outcomes of a good program do not depend on it.

use std::collections::VecDeque;

use fastrand::Rng;

use super::element::REPLACE;
use super::program::{Data, Kind, Operation, Program, RaceKind, Step};

/// What came out.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// What each operation has fetched, packed.
    pub fetched: Vec<Option<Vec<u8>>>,
    /// By rank: the memory that each check finds.
    pub checked: Vec<Vec<Vec<u8>>>,
    /// The contents of races at the end, packed.
    pub races: Vec<Option<Vec<u8>>>,
}

#[derive(Clone, Default)]
struct Epochs {
    /// Fences entered.
    fences: u32,
    /// How often each rank was posted to, and has started.
    posted: Vec<u32>,
    started: Vec<u32>,
    /// The group of the exposure epoch, and who has completed how often.
    exposed: Option<Vec<u32>>,
    completed: Vec<u32>,
    awaited: Vec<u32>,
    access: Vec<u32>,
    /// Who holds this rank's lock, and whether alone.
    holders: Vec<(u32, bool)>,
}

struct Machine<'a> {
    program: &'a Program,
    rng: Rng,
    memory: Vec<Vec<Vec<u8>>>,
    /// By window and rank.
    epochs: Vec<Vec<Epochs>>,
    /// By rank: what has not taken effect.
    pending: Vec<VecDeque<usize>>,
    barriers: Vec<u32>,
    at: Vec<usize>,
    outcome: Outcome,
}

/// Runs a program in an order that follows from a seed.
///
/// # Panics
/// If it gets stuck or makes no sense.
pub fn run(program: &Program, seed: u64) -> Outcome {
    let ranks = program.ranks as usize;
    let epochs = Epochs {
        posted: vec![0; ranks],
        started: vec![0; ranks],
        completed: vec![0; ranks],
        awaited: vec![0; ranks],
        ..Epochs::default()
    };
    let memory =
        |window: &super::program::WindowPlan| window.parts.iter().map(|part| part.initial.clone()).collect();
    let mut machine = Machine {
        program,
        rng: Rng::with_seed(seed),
        memory: program.windows.iter().map(memory).collect(),
        epochs: vec![vec![epochs; ranks]; program.windows.len()],
        pending: vec![VecDeque::new(); ranks],
        barriers: vec![0; ranks],
        at: vec![0; ranks],
        outcome: Outcome {
            fetched: vec![None; program.operations.len()],
            checked: vec![Vec::new(); ranks],
            races: vec![None; program.races.len()],
        },
    };
    machine.run();
    machine.outcome
}

impl Machine<'_> {
    fn run(&mut self) {
        let mut running: Vec<usize> = (0..self.at.len()).collect();
        let mut stuck = 0;
        while !running.is_empty() {
            let place = self.rng.usize(..running.len());
            let rank = running[place];
            let Some(step) = self.program.steps[rank].get(self.at[rank]) else {
                assert!(
                    self.pending[rank].is_empty(),
                    "rank {rank} ends with operations under way"
                );
                running.swap_remove(place);
                continue;
            };
            if self.step(rank, step) {
                self.at[rank] += 1;
                stuck = 0;
            } else {
                stuck += 1;
                assert!(
                    stuck < 10_000,
                    "seed {}: all wait; rank {rank} for {step:?}",
                    self.program.seed
                );
            }
            while !self.pending[rank].is_empty() && self.rng.u32(..3) == 0 {
                let place = self.rng.usize(..self.pending[rank].len());
                self.take_effect(rank, place);
            }
        }
    }

    /// Lets an operation take effect; ordered ones before it at the same target go first.
    fn take_effect(&mut self, rank: usize, place: usize) {
        let key = |operation: &Operation| (operation.window, operation.target);
        let operations = &self.program.operations;
        let chosen = &operations[self.pending[rank][place]];
        let first =
            |&number: &usize| operations[number].kind.is_ordered() && key(&operations[number]) == key(chosen);
        let place = match chosen.kind.is_ordered() {
            true => self.pending[rank]
                .iter()
                .position(first)
                .expect("at least itself"),
            false => place,
        };
        let number = self.pending[rank].remove(place).expect("it is there");
        self.apply(number);
    }

    fn apply(&mut self, number: usize) {
        let operation = &self.program.operations[number];
        let data = match &operation.data {
            Data::Bytes(bytes) => bytes.clone(),
            Data::Incremented { .. } if operation.kind == Kind::Get => Vec::new(),
            Data::Incremented { fetched_by, by } => {
                let fetched = self.outcome.fetched[*fetched_by]
                    .as_ref()
                    .expect("it was completed");
                incremented(fetched, *by)
            }
        };
        let bytes: Vec<usize> = operation.bytes().collect();
        let memory = &mut self.memory[operation.window][operation.target as usize];
        let mut packed: Vec<u8> = bytes.iter().map(|&at| memory[at]).collect();
        if operation.kind.fetches() {
            self.outcome.fetched[number] = Some(packed.clone());
        }
        let elem = operation.there.elem;
        match operation.kind {
            Kind::Get => return,
            Kind::Put => packed = data,
            Kind::CompareAndSwap if packed == operation.compare => packed = data,
            Kind::CompareAndSwap => return,
            Kind::Accumulate(REPLACE) => packed = data,
            Kind::Accumulate(op) | Kind::GetAccumulate(op) => {
                if data.is_empty() {
                    return;
                }
                let elements = packed.chunks_mut(elem.size()).zip(data.chunks(elem.size()));
                for (target, origin) in elements {
                    elem.combine(op, origin, target);
                }
            }
        }
        for (at, byte) in bytes.into_iter().zip(packed) {
            memory[at] = byte;
        }
    }

    /// Completes a rank's operations; `local`: at least those that fetch.
    fn complete(&mut self, rank: usize, window: usize, target: Option<u32>, local: bool) {
        let operations = &self.program.operations;
        loop {
            let place = self.pending[rank].iter().position(|&number| {
                let operation = &operations[number];
                operation.window == window
                    && target.is_none_or(|target| target == operation.target)
                    && (!local || operation.kind.fetches())
            });
            match place {
                Some(place) => self.take_effect(rank, place),
                None => return,
            }
        }
    }

    /// `false`: it waits.
    fn step(&mut self, rank: usize, step: &Step) -> bool {
        let me = rank as u32;
        match step {
            Step::Operate(number) => {
                let operation = &self.program.operations[*number];
                assert_eq!(operation.origin, me);
                self.pending[rank].push_back(*number);
            }
            Step::Wait(number) => {
                let fetches = self.program.operations[*number].kind.fetches();
                while fetches && self.pending[rank].contains(number) {
                    let place = self.pending[rank].iter().position(|other| other == number);
                    self.take_effect(rank, place.expect("it is there"));
                }
            }
            Step::Store { window, at, bytes } => {
                self.memory[*window][rank][*at..*at + bytes.len()].copy_from_slice(bytes);
            }
            Step::Check { window, races, .. } => {
                let memory = &self.memory[*window][rank];
                self.outcome.checked[rank].push(memory.clone());
                for &race in races {
                    self.outcome.races[race] = Some(contents(self.program, race, memory));
                }
            }
            Step::Barrier => return together(&mut self.barriers, rank),
            Step::Fence { window, .. } => {
                self.complete(rank, *window, None, false);
                let mut entered: Vec<u32> = self.epochs[*window].iter().map(|epochs| epochs.fences).collect();
                let over = together(&mut entered, rank);
                self.epochs[*window][rank].fences = entered[rank];
                return over;
            }
            Step::Post { window, group, .. } => {
                let epochs = &mut self.epochs[*window][rank];
                assert_eq!(epochs.exposed.replace(group.clone()), None);
                group
                    .iter()
                    .for_each(|&origin| epochs.posted[origin as usize] += 1);
            }
            Step::Start { window, group, .. } => {
                let all = &mut self.epochs[*window];
                if group
                    .iter()
                    .any(|&target| all[target as usize].posted[rank] <= all[rank].started[target as usize])
                {
                    return false;
                }
                for &target in group {
                    all[rank].started[target as usize] += 1;
                }
                all[rank].access = group.clone();
            }
            Step::Complete(window) => {
                self.complete(rank, *window, None, false);
                for target in std::mem::take(&mut self.epochs[*window][rank].access) {
                    self.epochs[*window][target as usize].completed[rank] += 1;
                }
            }
            Step::End { window, .. } => {
                let epochs = &mut self.epochs[*window][rank];
                let group = epochs.exposed.as_ref().expect("it was posted");
                if group
                    .iter()
                    .any(|&origin| epochs.completed[origin as usize] <= epochs.awaited[origin as usize])
                {
                    return false;
                }
                for origin in epochs.exposed.take().into_iter().flatten() {
                    epochs.awaited[origin as usize] += 1;
                }
            }
            Step::Lock { unchecked: true, .. } | Step::Sync(_) | Step::Pause(_) => {}
            Step::Lock {
                window,
                rank: target,
                exclusive,
                ..
            } => {
                let holders = &mut self.epochs[*window][*target as usize].holders;
                assert!(holders.iter().all(|(holder, _)| *holder != me));
                if holders.iter().any(|(_, alone)| *alone || *exclusive) {
                    return false;
                }
                holders.push((me, *exclusive));
            }
            Step::Unlock { window, rank: target } => {
                self.complete(rank, *window, Some(*target), false);
                self.epochs[*window][*target as usize]
                    .holders
                    .retain(|(holder, _)| *holder != me);
            }
            Step::LockAll { unchecked: true, .. } => {}
            Step::LockAll { window, .. } => {
                let all = &mut self.epochs[*window];
                if all
                    .iter()
                    .any(|epochs| epochs.holders.iter().any(|(_, alone)| *alone))
                {
                    return false;
                }
                all.iter_mut().for_each(|epochs| epochs.holders.push((me, false)));
            }
            Step::UnlockAll(window) => {
                self.complete(rank, *window, None, false);
                for epochs in &mut self.epochs[*window] {
                    epochs.holders.retain(|(holder, _)| *holder != me);
                }
            }
            Step::Flush {
                window,
                rank: target,
                local,
            } => self.complete(rank, *window, *target, *local),
        }
        true
    }
}

/// Enters a barrier, or looks whether all have come. A number is even while its rank is in none; the barrier is over when all are in it or
/// past it.
fn together(entered: &mut [u32], rank: usize) -> bool {
    if entered[rank].is_multiple_of(2) {
        entered[rank] += 1;
    }
    let over = entered.iter().all(|&other| other >= entered[rank]);
    entered[rank] += u32::from(over);
    over
}

/// 64-bit integers, each plus a number.
pub fn incremented(bytes: &[u8], by: u64) -> Vec<u8> {
    let words = bytes.as_chunks().0.iter();
    words
        .flat_map(|word| u64::from_le_bytes(*word).wrapping_add(by).to_le_bytes())
        .collect()
}

/// The elements of a race in its target's memory, packed.
pub fn contents(program: &Program, race: usize, memory: &[u8]) -> Vec<u8> {
    let race = &program.races[race];
    let (elem, count) = (race.elem, race.initial.len() / race.elem.size());
    let element =
        |at: usize| (elem.bytes().into_iter()).map(move |byte| memory[race.at + at * elem.extent + byte]);
    (0..count).flat_map(element).collect()
}

/// Where a check does not know what it finds.
pub fn is_open(program: &Program, race: usize) -> bool {
    program.races[race].kind != RaceKind::Marks
}
