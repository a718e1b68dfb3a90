//! The ranks of a simulation run a program, and compare all that they find with the model's outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weft::Result;
use weft::data::datatype::Datatype;
use weft::data::memory::Memory;
use weft::data::op::Op;
use weft::engine::request::RequestId;
use weft::objects::allocation::Allocation;
use weft::objects::collective;
use weft::objects::group::Group;
use weft::objects::window::{Attached, Exposed, Part, SharedPart, Target, Users, Window};
use weft::sim::{Buffer, Options, Rank, Simulation};

use super::model::{self, Outcome};
use super::program::{Data, Flavor, Kind, Operation, Program, Step};
use super::races;
use super::shape::Shape;

/// What the ranks have found.
#[derive(Default)]
struct Found {
    fetched: Vec<Option<Vec<u8>>>,
    races: Vec<Option<Vec<u8>>>,
}

/// Runs a program.
///
/// # Panics
/// If something is wrong.
pub fn run(program: Program, options: Options) {
    let expected = Arc::new(model::run(&program, program.seed));
    let program = Arc::new(program);
    let found = Arc::new(Mutex::new(Found {
        fetched: vec![None; program.operations.len()],
        races: vec![None; program.races.len()],
    }));
    let results = Simulation::new(program.seed, program.ranks, options).run(|rank| {
        let (program, expected, found) = (program.clone(), expected.clone(), found.clone());
        async move {
            let mut runner = Runner::new(rank, program, expected, found).await;
            runner.run().await;
            runner.free().await;
        }
    });
    assert!(results.iter().all(Option::is_some));
    let found = found.lock();
    if let Err(error) = races::check(&program, &found.fetched, &found.races) {
        panic!("seed {}: {error}", program.seed);
    }
}

/// A window of this rank.
struct Opened {
    window: Arc<Window>,
    /// Where this rank's chunks are.
    chunks: Vec<*mut u8>,
    /// The addresses of all ranks' chunks, for a dynamic window.
    addresses: Vec<Vec<u64>>,
    /// The memory of the user's.
    buffers: Vec<Buffer>,
}

/// An operation that has been started, and its memory here.
struct UnderWay {
    number: usize,
    _origin: Option<Buffer>,
    _compare: Option<Buffer>,
    result: Option<Buffer>,
}

struct Runner {
    rank: Rank,
    program: Arc<Program>,
    expected: Arc<Outcome>,
    found: Arc<Mutex<Found>>,
    windows: Vec<Opened>,
    under_way: Vec<UnderWay>,
    requests: BTreeMap<usize, RequestId>,
    checks: usize,
    step: usize,
}

impl Runner {
    async fn new(
        rank: Rank,
        program: Arc<Program>,
        expected: Arc<Outcome>,
        found: Arc<Mutex<Found>>,
    ) -> Runner {
        let mut windows = Vec::new();
        for number in 0..program.windows.len() {
            windows.push(open(&rank, &program, number).await.expect("a window"));
        }
        Runner {
            rank,
            program,
            expected,
            found,
            windows,
            under_way: Vec::new(),
            requests: BTreeMap::new(),
            checks: 0,
            step: 0,
        }
    }

    async fn run(&mut self) {
        let me = self.rank.me().number() as usize;
        let program = self.program.clone();
        for (at, step) in program.steps[me].iter().enumerate() {
            self.step = at;
            if let Err(error) = self.step(step).await {
                self.fail(&format!("{step:?}: {error}"));
            }
        }
        if let Some(left) = self.under_way.first() {
            self.fail(&format!("operation {} was never completed", left.number));
        }
    }

    /// All have ended: nobody accesses the windows.
    async fn free(self) {
        let collective = self.rank.world().collective();
        collective::barrier(&collective).await.expect("all live");
        for opened in self.windows {
            let Opened { window, buffers, .. } = opened;
            window.may_free().expect("no epoch is open");
            window.retire(true);
            drop(window);
            drop(buffers);
        }
    }

    fn fail(&self, what: &str) -> ! {
        let (seed, me) = (self.program.seed, self.rank.me().number());
        panic!(
            "seed {seed}, rank {me} of {}, step {}: {what}",
            self.program.ranks, self.step
        );
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Operate(number) => self.operate(*number)?,
            Step::Wait(number) => {
                let request = self.requests.remove(number).expect("it has one");
                let outcome = self.rank.wait(request).await;
                if let Some(error) = outcome.error {
                    return Err(*error);
                }
                self.ended(|other, _| other == *number);
            }
            Step::Store { window, at, bytes } => {
                for (address, (at, byte)) in self.own(*window, *at, bytes.len()).zip(bytes.iter().enumerate())
                {
                    let _ = at;
                    // SAFETY: this rank's own memory, which nobody else uses now.
                    unsafe { address.write(*byte) };
                }
            }
            Step::Check { window, .. } => self.check(*window, step),
            Step::Barrier => collective::barrier(&self.rank.world().collective()).await?,
            Step::Fence { window, assert } => {
                self.window(*window).fence(*assert).await?;
                self.ended(|_, operation| operation.window == *window);
            }
            Step::Post {
                window,
                group,
                unchecked,
            } => self
                .window(*window)
                .post(&self.group(*window, group), *unchecked)?,
            Step::Start {
                window,
                group,
                unchecked,
            } => {
                self.window(*window)
                    .start_epoch(&self.group(*window, group), *unchecked)
                    .await?
            }
            Step::Complete(window) => {
                self.window(*window).complete().await?;
                self.ended(|_, operation| operation.window == *window);
            }
            Step::End { window, test: false } => self.window(*window).wait().await?,
            Step::End { window, test: true } => {
                while !self.window(*window).test()? {
                    self.rank.turn().await;
                }
            }
            Step::Lock {
                window,
                rank,
                exclusive,
                unchecked,
            } => self.window(*window).lock(*exclusive, *rank, *unchecked).await?,
            Step::Unlock { window, rank } => {
                self.window(*window).unlock(*rank).await?;
                self.ended(|_, operation| operation.window == *window && operation.target == *rank);
            }
            Step::LockAll { window, unchecked } => self.window(*window).lock_all(*unchecked).await?,
            Step::UnlockAll(window) => {
                self.window(*window).unlock_all().await?;
                self.ended(|_, operation| operation.window == *window);
            }
            Step::Flush { window, rank, local } => {
                match local {
                    true => self.window(*window).flush_local(*rank).await?,
                    false => self.window(*window).flush(*rank).await?,
                }
                self.ended(|_, operation| {
                    operation.window == *window && rank.is_none_or(|rank| rank == operation.target)
                });
            }
            Step::Sync(window) => self.window(*window).sync(),
            Step::Pause(ns) => self.rank.pause(*ns).await,
        }
        Ok(())
    }

    fn window(&self, number: usize) -> Arc<Window> {
        self.windows[number].window.clone()
    }

    fn group(&self, window: usize, ranks: &[u32]) -> Arc<Group> {
        let ranks: Vec<i64> = ranks.iter().map(|&rank| rank.into()).collect();
        self.windows[window]
            .window
            .communicator()
            .group()
            .incl(&ranks)
            .expect("they are different")
    }

    /// The addresses of bytes of this rank's own memory.
    fn own(&self, window: usize, at: usize, len: usize) -> impl Iterator<Item = *mut u8> + use<> {
        let part = &self.program.windows[window].parts[self.rank.me().number() as usize];
        let mut addresses = Vec::with_capacity(len);
        let mut begin = 0;
        for (&chunk, &size) in self.windows[window].chunks.iter().zip(&part.chunks) {
            let (first, last) = (at.max(begin), (at + len).min(begin + size));
            addresses.extend((first..last).map(|at| chunk.wrapping_add(at - begin)));
            begin += size;
        }
        assert_eq!(addresses.len(), len);
        addresses.into_iter()
    }

    fn operate(&mut self, number: usize) -> Result<()> {
        let program = self.program.clone();
        let operation = &program.operations[number];
        let window = self.window(operation.window);
        let data = match &operation.data {
            Data::Bytes(bytes) => bytes.clone(),
            Data::Incremented { .. } if operation.kind == Kind::Get => Vec::new(),
            Data::Incremented { fetched_by, by } => {
                let found = self.found.lock();
                model::incremented(
                    found.fetched[*fetched_by].as_ref().expect("it was completed"),
                    *by,
                )
            }
        };
        let reads = !data.is_empty();
        let origin = reads.then(|| self.rank.buffer(&spread(&operation.here, &data)));
        let compare = (!operation.compare.is_empty() && operation.kind == Kind::CompareAndSwap)
            .then(|| self.rank.buffer(&operation.compare));
        let result = (operation.kind.fetches()).then(|| self.rank.blank(room(&operation.result)));
        let target = self.target(operation);
        let memory = |buffer: &Option<Buffer>, shape: &Shape| match buffer {
            Some(buffer) => Memory::new(base(buffer), shape.count, &shape.datatype),
            None => Memory::empty(),
        };
        let here = memory(&origin, &operation.here);
        let there = memory(&result, &operation.result);
        let (here_type, result_type): (&Datatype, &Datatype) =
            (&operation.here.datatype, &operation.result.datatype);
        let op = |op| Op::predefined(op).expect("an operation");
        // SAFETY: the buffers are kept until the operation is complete here; the program uses the windows' memory as the standard says.
        let request = unsafe {
            match (operation.kind, operation.request) {
                (Kind::Put, false) => window.put(here, &target).map(|()| None),
                (Kind::Put, true) => window.rput(here, &target).map(Some),
                (Kind::Get, false) => window.get(there, &target).map(|()| None),
                (Kind::Get, true) => window.rget(there, &target).map(Some),
                (Kind::Accumulate(of), false) => {
                    window.accumulate(here, here_type, &target, op(of)).map(|()| None)
                }
                (Kind::Accumulate(of), true) => {
                    window.raccumulate(here, here_type, &target, op(of)).map(Some)
                }
                (Kind::GetAccumulate(of), false) => window
                    .get_accumulate((here, here_type), (there, result_type), &target, op(of))
                    .map(|()| None),
                (Kind::GetAccumulate(of), true) => window
                    .rget_accumulate((here, here_type), (there, result_type), &target, op(of))
                    .map(Some),
                (Kind::CompareAndSwap, _) => {
                    let compared = memory(&compare, &operation.here);
                    window
                        .compare_and_swap(here, compared, there, &target)
                        .map(|()| None)
                }
            }
        };
        let request =
            request.map_err(|error| weft::Error::new(error.class, format!("{error}: {operation:?}")))?;
        if let Some(request) = request {
            self.requests.insert(number, request);
        }
        self.under_way.push(UnderWay {
            number,
            _origin: origin,
            _compare: compare,
            result,
        });
        Ok(())
    }

    fn target(&self, operation: &Operation) -> Target {
        let plan = &self.program.windows[operation.window];
        let part = &plan.parts[operation.target as usize];
        let (disp, shift) = match plan.flavor {
            Flavor::Dynamic => {
                let addresses = &self.windows[operation.window].addresses[operation.target as usize];
                let mut begin = 0;
                let chunks = part.chunks.iter().zip(addresses).find_map(|(&size, &address)| {
                    let inside = (begin..begin + size).contains(&operation.at);
                    let at = inside.then(|| address as i64 + (operation.at - begin) as i64);
                    begin += size;
                    at
                });
                (chunks.expect("in one of the chunks"), 0)
            }
            _ => (operation.at as i64 / part.unit, operation.at as i64 % part.unit),
        };
        let there = operation.there.shifted(shift);
        Target {
            rank: operation.target,
            disp,
            count: there.count,
            datatype: there.datatype,
        }
    }

    /// Some operations are complete here: what they have fetched is there, and their memory is used for something else.
    fn ended(&mut self, which: impl Fn(usize, &Operation) -> bool) {
        let program = self.program.clone();
        let (ended, left) = (std::mem::take(&mut self.under_way).into_iter())
            .partition(|one| which(one.number, &program.operations[one.number]));
        self.under_way = left;
        let ended: Vec<UnderWay> = ended;
        for one in ended {
            let operation = &program.operations[one.number];
            let Some(result) = one.result else { continue };
            let mut bytes = result.bytes().to_vec();
            let fetched: Vec<u8> = operation.result.bytes().map(|at| bytes[at]).collect();
            for at in operation.result.bytes() {
                bytes[at] = 0x77;
            }
            if let Some(at) = bytes.iter().position(|&byte| byte != 0x77) {
                self.fail(&format!(
                    "operation {}: byte {at} of the result is none of its elements: {operation:?}",
                    one.number
                ));
            }
            let expected = self.expected.fetched[one.number]
                .as_ref()
                .expect("the model has fetched it");
            if operation.defined && !operation.there.elem.same(&fetched, expected) {
                let size = operation.there.elem.size();
                let at = (0..fetched.len() / size)
                    .find(|at| {
                        let bytes = at * size..(at + 1) * size;
                        !operation
                            .there
                            .elem
                            .same(&fetched[bytes.clone()], &expected[bytes])
                    })
                    .expect("they differ");
                let bytes = at * size..(at + 1) * size;
                self.fail(&format!(
                    "operation {} has fetched {:x?} as element {at} of {}, expected {:x?}: {operation:?}",
                    one.number,
                    &fetched[bytes.clone()],
                    fetched.len() / size,
                    &expected[bytes],
                ));
            }
            self.found.lock().fetched[one.number] = Some(fetched);
        }
    }

    fn check(&mut self, window: usize, step: &Step) {
        let Step::Check {
            approximate, races, ..
        } = step
        else {
            unreachable!("a check")
        };
        let me = self.rank.me().number() as usize;
        let expected = self.expected.clone();
        let mut expected = expected.checked[me][self.checks].clone();
        self.checks += 1;
        let addresses: Vec<*mut u8> = self.own(window, 0, expected.len()).collect();
        // SAFETY: this rank's own memory, which nobody else uses now.
        let found: Vec<u8> = addresses
            .iter()
            .map(|address| unsafe { address.read() })
            .collect();
        for elements in approximate {
            let size = elements.elem.extent;
            for at in elements.range().step_by(size) {
                let of = |memory: &[u8]| -> Vec<u8> {
                    elements
                        .elem
                        .bytes()
                        .iter()
                        .map(|byte| memory[at + byte])
                        .collect()
                };
                if elements.elem.same(&of(&expected), &of(&found)) {
                    for byte in elements.elem.bytes() {
                        // SAFETY: as above.
                        unsafe { addresses[at + byte].write(expected[at + byte]) };
                        expected[at + byte] = found[at + byte];
                    }
                }
            }
        }
        for &race in races {
            self.found.lock().races[race] = Some(model::contents(&self.program, race, &found));
            if model::is_open(&self.program, race) {
                let about = &self.program.races[race];
                let elements = about.initial.len() / about.elem.size();
                for at in 0..elements {
                    for byte in about.elem.bytes() {
                        let at = about.at + at * about.elem.extent + byte;
                        expected[at] = found[at];
                    }
                }
            }
        }
        if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
            let end = (at + 16).min(found.len());
            let touching = self
                .program
                .operations
                .iter()
                .enumerate()
                .filter(|(_, operation)| {
                    operation.window == window
                        && operation.target as usize == me
                        && operation.bytes().any(|byte| byte == at)
                });
            let touching: Vec<String> = touching
                .map(|(number, operation)| {
                    format!(
                        "{number} (rank {}, {:?}, {})",
                        operation.origin,
                        operation.kind,
                        operation.there.elem.name()
                    )
                })
                .collect();
            self.fail(&format!(
                "window {window}, check {}: from byte {at} of {} on {:x?}, expected {:x?}; operations there: {}",
                self.checks,
                found.len(),
                &found[at..end],
                &expected[at..end],
                touching.join(", ")
            ));
        }
    }
}

/// The bytes of an array that holds packed elements; 0x66 between them.
fn spread(shape: &Shape, packed: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x66; room(shape)];
    for (at, byte) in shape.bytes().zip(packed) {
        bytes[at] = *byte;
    }
    bytes
}

fn room(shape: &Shape) -> usize {
    shape.reach() * shape.elem.extent
}

fn base(buffer: &Buffer) -> *mut u8 {
    buffer.memory().contiguous().expect("it is one run").address
}

/// Makes a window with this rank's part.
async fn open(rank: &Rank, program: &Program, number: usize) -> Result<Opened> {
    let plan = &program.windows[number];
    let me = rank.me().number() as usize;
    let part = &plan.parts[me];
    let world = rank.world().clone();
    let disp_unit = if plan.flavor == Flavor::Dynamic {
        1
    } else {
        part.unit
    };
    let size = part.initial.len();
    let mut buffers = Vec::new();
    let mut addresses = Vec::new();
    let exposed = match plan.flavor {
        Flavor::Create => {
            let buffer = rank.buffer(&part.initial);
            // SAFETY: the buffer is dropped after the window.
            let exposed = unsafe { Users::new(base(&buffer), size) };
            buffers.push(buffer);
            Some(Exposed::Users(exposed))
        }
        Flavor::Allocate => Some(Exposed::Own(Allocation::new(size, None)?, size)),
        Flavor::Dynamic => Some(Exposed::Attached(Attached::default())),
        Flavor::Shared => None,
    };
    let window = match exposed {
        Some(exposed) => {
            let part = Part {
                exposed,
                disp_unit,
                asked: None,
            };
            Window::create(world, Ok(part)).await?
        }
        None => {
            let part = SharedPart {
                size,
                disp_unit,
                asked: None,
            };
            Window::allocate_shared(world, Ok(part)).await?
        }
    };
    let mut chunks = Vec::new();
    if plan.flavor == Flavor::Dynamic {
        let mut begin = 0;
        for &size in &part.chunks {
            let buffer = rank.buffer(&part.initial[begin..begin + size]);
            begin += size;
            let address = base(&buffer);
            window.attached()?.attach(address as usize, size)?;
            chunks.push(address);
            buffers.push(buffer);
        }
        // As many for each rank.
        let mut mine = [0; 3 * 8];
        for (bytes, &chunk) in mine.chunks_mut(8).zip(&chunks) {
            bytes.copy_from_slice(&(chunk as u64).to_le_bytes());
        }
        let all = collective::allgather_bytes(&rank.world().collective(), &mine).await?;
        for of_rank in all.chunks(mine.len()) {
            let words = of_rank.as_chunks().0.iter();
            addresses.push(words.map(|word| u64::from_le_bytes(*word)).collect());
        }
    } else {
        let address = window.exposed().base();
        // SAFETY: the window's memory, of this size, which nobody uses before the barrier.
        unsafe { std::ptr::copy_nonoverlapping(part.initial.as_ptr(), address, size) };
        chunks.push(address);
    }
    collective::barrier(&rank.world().collective()).await?;
    Ok(Opened {
        window,
        chunks,
        addresses,
        buffers,
    })
}
