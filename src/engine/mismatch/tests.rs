use super::*;
use crate::data::memory::Memory;
use crate::engine::receive::Received;
use crate::engine::tests::{PEER, Scene};
use crate::identity::Context;
use crate::lane::Limits;
use std::sync::Arc;

const COMMUNICATOR: Context = Context::of_bits(40);
const ANOTHER: Context = Context::of_bits(42);
const FINALIZE: Context = Context::FINALIZE;

/// One of two processes: the scene plays the other.
struct Process {
    scene: Scene,
    begun: Arc<Begun>,
    /// Keeps the counts of the others.
    others: [(Context, Arc<Begun>); 3],
    /// The operation that it waits in, and the receive of its message.
    step: Step,
    receive: RequestId,
    /// Of a nonblocking one.
    request: Option<RequestId>,
    start: Instant,
}

impl Process {
    /// It waits in an operation, after it has begun this many blocking and nonblocking ones.
    fn new(before: (u32, u32), name: &str, kind: Kind) -> Process {
        Process::on(COMMUNICATOR, before, name, kind)
    }

    /// The same on one of several communicators.
    fn on(communicator: Context, (blocking, nonblocking): (u32, u32), name: &str, kind: Kind) -> Process {
        let mut scene = Scene::new(|_: &mut Limits| ());
        let counts = [COMMUNICATOR, ANOTHER, FINALIZE].map(|known| {
            let begun: Arc<Begun> = Arc::default();
            // Who has not come to finalize has no communicator for it.
            if known != FINALIZE || known == communicator {
                scene.engine.count_steps(known, &begun);
            }
            (known, begun)
        });
        let is_it = |(of, _): &&(Context, Arc<Begun>)| *of == communicator;
        let begun = counts.iter().find(is_it).expect("one of them").1.clone();
        let before = Operation::named("MPI_Scan");
        for (count, kind) in [(blocking, Kind::Blocking), (nonblocking, Kind::Nonblocking)] {
            for _ in 0..count {
                begun.next(before, kind);
            }
        }
        let step = begun.next(Operation::named(name), kind);
        let request = (kind != Kind::Blocking).then(|| {
            let request = scene.engine.bare_request();
            scene.engine.set_collective(request, communicator, step.tag());
            request
        });
        let pattern = Pattern {
            context: communicator.collective(),
            source: Some(PEER.number()),
            tag: Some(step.tag()),
        };
        // SAFETY: there is no memory.
        let received = unsafe { scene.engine.receive(pattern, Some(PEER), Memory::empty()) };
        let receive = match received.expect("the peer lives") {
            Received::Later(id) => id,
            Received::Now(_) => panic!("nothing has come"),
        };
        Process {
            scene,
            begun,
            others: counts,
            step,
            receive,
            request,
            start: Instant::now(),
        }
    }

    /// It has begun this, too.
    fn begin(&mut self, communicator: Context, step: Step) {
        let (_, begun) = self
            .others
            .iter()
            .find(|(of, _)| *of == communicator)
            .expect("one of them");
        assert_eq!(begun.next(step.operation, step.kind), step);
    }

    /// Sleeps for a moment, so long after the beginning, in a wait that needs its request.
    fn sleeps(&mut self, after: Duration) {
        let request = self.request;
        self.sleeps_for(after, &|id| Some(id) == request);
    }

    fn sleeps_for(&mut self, after: Duration, needs: &dyn Fn(RequestId) -> bool) {
        self.scene.engine.look_into_waits(&View {
            now: self.start + after,
            needs,
        });
    }

    /// Passes this one's messages to the other; returns how many they were.
    fn tells(&mut self, other: &mut Process) -> usize {
        while self.scene.engine.progress(false) {}
        let heard = self.scene.heard();
        for (header, _) in &heard {
            if header.kind == MessageKind::WAITS {
                other
                    .scene
                    .says(MessageKind::WAITS, 0, (0, header.context, header.arg), &[]);
            }
        }
        heard
            .iter()
            .filter(|(header, _)| header.kind == MessageKind::WAITS)
            .count()
    }

    /// The error with which its receive has ended, if it has.
    fn error(&mut self) -> Option<String> {
        let outcome = self.scene.engine.take(self.receive)?;
        Some(outcome.error.expect("it has failed").message.to_string())
    }
}

/// Both sleep until each has reported to the other what it waits in, and then once more. Returns how many messages were sent.
fn both_wait(one: &mut Process, other: &mut Process) -> usize {
    let mut said = 0;
    for ms in [0, 1001, 1002, 1003, 1004, 1005, 1006] {
        one.sleeps(Duration::from_millis(ms));
        other.sleeps(Duration::from_millis(ms));
        said += one.tells(other) + other.tells(one);
    }
    said
}

#[test]
fn different_operations_of_one_number_fail_on_both_sides() {
    let mut one = Process::new((3, 0), "MPI_Barrier", Kind::Blocking);
    let mut other = Process::new((3, 5), "MPI_Bcast", Kind::Blocking);
    let said = both_wait(&mut one, &mut other);
    assert!(said <= 4, "an answer is not answered, but {said} were sent");
    let told = one.error().expect("it fails");
    assert!(
        told.contains("is in MPI_Barrier") && told.contains("process 1 is in MPI_Bcast"),
        "{told}"
    );
    let told = other.error().expect("it fails");
    assert!(
        told.contains("is in MPI_Bcast") && told.contains("process 1 is in MPI_Barrier"),
        "{told}"
    );
    assert!(!told.contains("another communicator"), "{told}");
}

#[test]
fn a_blocking_operation_and_a_wait_for_a_nonblocking_one_fail_on_both_sides() {
    for (blocking, nonblocking) in [(0, 0), (7, 0), (0, 7), (3, 4)] {
        let mut one = Process::new((blocking, nonblocking), "MPI_Barrier", Kind::Blocking);
        let mut other = Process::new((blocking, nonblocking), "MPI_Barrier", Kind::Nonblocking);
        let said = both_wait(&mut one, &mut other);
        assert!(said <= 4, "{said} were sent");
        let told = one.error().expect("it fails");
        assert!(
            told.contains("in MPI_Barrier and process 1 in MPI_Ibarrier"),
            "{told}"
        );
        let told = other.error().expect("it fails");
        assert!(
            told.contains("in MPI_Ibarrier and process 1 in MPI_Barrier"),
            "{told}"
        );
        assert!(!told.contains("another communicator"), "{told}");
    }
}

#[test]
fn operations_of_two_communicators_fail_where_each_process_is_in_the_others_second() {
    for [one, other] in [
        [Kind::Blocking, Kind::Blocking],
        [Kind::Blocking, Kind::Nonblocking],
        [Kind::Nonblocking, Kind::Blocking],
    ] {
        let mut one = Process::on(COMMUNICATOR, (2, 1), "MPI_Barrier", one);
        let mut other = Process::on(ANOTHER, (0, 0), "MPI_Allreduce", other);
        both_wait(&mut one, &mut other);
        let told = one.error().expect("it fails");
        assert!(told.contains("llreduce of another communicator"), "{told}");
        let told = other.error().expect("it fails");
        assert!(
            told.contains("barrier of another") || told.contains("Barrier of another"),
            "{told}"
        );
    }
}

/// Who is in MPI_Finalize goes on waiting.
#[test]
fn only_who_has_not_come_to_finalize_fails() {
    for kind in [Kind::Blocking, Kind::Nonblocking] {
        let mut one = Process::on(FINALIZE, (0, 0), "MPI_Allreduce", Kind::Blocking);
        let mut other = Process::new((5, 5), "MPI_Barrier", kind);
        let said = both_wait(&mut one, &mut other);
        assert!(said <= 4, "{said} were sent");
        assert_eq!(one.error(), None);
        let told = other.error().expect("it fails");
        assert!(told.contains("process 1 in MPI_Finalize"), "{told}");
    }
}

/// Each of these may still go on.
#[test]
fn what_can_still_come_is_no_error() {
    let blocking = |before| Process::new(before, "MPI_Barrier", Kind::Blocking);
    let nonblocking = |before| Process::new(before, "MPI_Barrier", Kind::Nonblocking);
    let goes_on = |mut one: Process, mut other: Process, what: &str| {
        both_wait(&mut one, &mut other);
        for process in [&mut one, &mut other] {
            assert_eq!(process.error(), None, "{what}");
        }
    };
    goes_on(
        blocking((0, 1)),
        nonblocking((0, 0)),
        "the one in the barrier has begun the other's",
    );
    goes_on(
        blocking((0, 0)),
        nonblocking((1, 0)),
        "the one that waits has begun the barrier",
    );
    for threads in [[true, false], [false, true]] {
        let (mut one, mut other) = (blocking((0, 0)), nonblocking((0, 0)));
        for (process, several) in [&mut one, &mut other].into_iter().zip(threads) {
            if several {
                process.scene.engine.set_several_threads();
            }
        }
        goes_on(one, other, "another thread may begin it");
    }
    let mut other = nonblocking((0, 0));
    other.request = None;
    goes_on(blocking((0, 0)), other, "its thread waits for something else");
    let mut other = nonblocking((0, 0));
    let beside = other.scene.engine.bare_request();
    let scan = of(7, "MPI_Scan").tag();
    other.scene.engine.set_collective(beside, COMMUNICATOR, scan);
    other.request = Some(beside);
    goes_on(blocking((0, 0)), other, "its thread waits for another operation");
    let on_another = |kind| Process::on(ANOTHER, (0, 0), "MPI_Barrier", kind);
    let mut other = on_another(Kind::Blocking);
    let one = nonblocking((0, 0));
    other.begin(COMMUNICATOR, one.step);
    goes_on(one, other, "the other takes part in the one's beside its own");
    goes_on(
        nonblocking((0, 0)),
        on_another(Kind::Nonblocking),
        "nobody knows what the other has begun",
    );
}

/// No message is to come on a communicator that this process has freed. (The peer is in one that no one else comes to any more.)
#[test]
fn who_has_freed_the_communicator_does_not_fail() {
    let mut one = Process::new((0, 0), "MPI_Barrier", Kind::Blocking);
    for (known, begun) in &mut one.others {
        if *known == ANOTHER {
            *begun = Arc::default();
        }
    }
    let mut other = Process::on(ANOTHER, (0, 0), "MPI_Barrier", Kind::Blocking);
    both_wait(&mut one, &mut other);
    assert_eq!(one.error(), None);
    assert!(other.error().is_some());
}

/// A process whose operation has failed reports that to the peer whenever that is still stuck in the other operation.
#[test]
fn a_peer_that_is_still_stuck_is_told_again() {
    let mut one = Process::new((3, 4), "MPI_Barrier", Kind::Blocking);
    let mut other = Process::new((3, 4), "MPI_Barrier", Kind::Nonblocking);
    both_wait(&mut one, &mut other);
    assert!(one.error().is_some());
    let later = Step {
        number: other.step.number + 1,
        ..other.step
    };
    for (step, answers) in [(other.step, 1), (later, 0), (other.step, 1)] {
        let said = Said {
            step,
            stuck: Some(3),
            answer: false,
        };
        one.scene.says(
            MessageKind::WAITS,
            0,
            (0, COMMUNICATOR.collective().bits(), said.encode()),
            &[],
        );
        one.sleeps(Duration::from_millis(1010));
        assert_eq!(one.tells(&mut other), answers, "{step:?}");
    }
}

/// A peer's report is valid as long as this process has not begun the peer's operation.
#[test]
fn what_was_said_before_the_operation_began_is_forgotten() {
    let mut one = Process::new((0, 0), "MPI_Barrier", Kind::Blocking);
    let mut other = Process::new((0, 0), "MPI_Barrier", Kind::Nonblocking);
    one.sleeps(Duration::ZERO);
    one.sleeps(Duration::from_millis(1001));
    assert_eq!(one.tells(&mut other), 1);
    let barrier = other.begun.next(one.step.operation, Kind::Blocking);
    assert_eq!(barrier, one.step);
    other.sleeps(Duration::from_millis(1002));
    assert_eq!(other.error(), None);
    assert!(!other.scene.engine.state.watch.crossing.has_heard());
}

#[test]
fn what_is_said_is_read_as_it_was_written_and_nonsense_is_refused() {
    let step = Step {
        number: 5,
        operation: Operation::named("MPI_Gather").of_root(3),
        kind: Kind::Nonblocking,
    };
    for stuck in [None, Some(0), Some((1 << 19) - 1)] {
        for answer in [false, true] {
            let said = Said { step, stuck, answer };
            assert_eq!(Said::decode(said.encode()), Some(said));
        }
    }
    let tag = step.tag() as u64;
    for nonsense in [tag | 1 << 32, tag | 1 << 31 | 1 << 51, i32::MAX as u64, u64::MAX] {
        assert_eq!(Said::decode(nonsense), None, "{nonsense:#x}");
    }
}

/// A receive of a step's message beside the one that the process waits in.
fn posted(process: &mut Process, context: Context, step: Step) -> RequestId {
    let pattern = Pattern {
        context,
        source: Some(PEER.number()),
        tag: Some(step.tag()),
    };
    // SAFETY: there is no memory.
    let received = unsafe { process.scene.engine.receive(pattern, Some(PEER), Memory::empty()) };
    match received.expect("the peer lives") {
        Received::Later(id) => id,
        Received::Now(_) => panic!("nothing has come"),
    }
}

fn of(number: u32, name: &str) -> Step {
    Step {
        number,
        operation: Operation::named(name),
        kind: Kind::Blocking,
    }
}

#[test]
fn a_message_of_another_operation_is_enough() {
    let context = COMMUNICATOR.collective();
    let peer = u64::from(PEER.number());
    for (step, context, source, fails) in [
        (of(3, "MPI_Bcast"), context, peer, true),
        (of(4, "MPI_Bcast"), context, peer, false),
        (of(3, "MPI_Bcast"), ANOTHER.collective(), peer, false),
        (of(3, "MPI_Bcast"), context, peer + 1, false),
    ] {
        let mut one = Process::new((3, 0), "MPI_Barrier", Kind::Blocking);
        let other = posted(&mut one, COMMUNICATOR.collective(), of(9, "MPI_Scan"));
        one.scene
            .says(MessageKind::EAGER, 0, (step.tag(), context.bits(), source), &[]);
        one.sleeps(Duration::ZERO);
        one.sleeps(Duration::from_millis(1001));
        let error = one.error();
        assert_eq!(
            error.is_some(),
            fails,
            "{step:?} in {context:?} from {source}: {error:?}"
        );
        assert!(error.is_none_or(|error| error.contains("process 1 is in MPI_Bcast")));
        assert_eq!(
            one.scene.engine.is_complete(other),
            Some(false),
            "only the operation itself fails"
        );
    }
}

/// What still belongs to an operation that has failed fails too, and peers that ask get an answer, until the program is far beyond it.
#[test]
fn a_failed_operation_is_remembered_for_a_while() {
    let context = COMMUNICATOR.collective();
    let mut one = Process::new((3, 0), "MPI_Barrier", Kind::Blocking);
    let theirs = Said {
        step: of(3, "MPI_Bcast"),
        stuck: None,
        answer: false,
    };
    let asks = |one: &mut Process, said: Said, context: Context| {
        one.scene
            .says(MessageKind::WAITS, 0, (0, context.bits(), said.encode()), &[]);
        while one.scene.engine.progress(false) {}
        let heard = one.scene.heard();
        heard
            .iter()
            .filter(|(header, _)| header.kind == MessageKind::WAITS)
            .count()
    };
    assert_eq!(asks(&mut one, theirs, context), 1);
    assert!(one.error().is_some());
    // Another message of it.
    let step = one.step;
    let more = posted(&mut one, context, step);
    let beside = posted(&mut one, context, of(4, "MPI_Barrier"));
    one.sleeps(Duration::ZERO);
    let outcome = one.scene.engine.take(more).expect("it fails");
    assert!(outcome.error.is_some());
    assert_eq!(one.scene.engine.is_complete(beside), Some(false));
    // Asked again it answers again, but no answer, and for nothing else.
    let answer = Said {
        answer: true,
        ..theirs
    };
    let later = Said {
        step: of(4, "MPI_Barrier"),
        ..theirs
    };
    assert_eq!(asks(&mut one, theirs, context), 1);
    assert_eq!(asks(&mut one, answer, context), 0);
    assert_eq!(asks(&mut one, later, context), 0);
    assert_eq!(asks(&mut one, theirs, ANOTHER.collective()), 0);
    // It is left behind.
    for (number, remembered) in [(3 + FAILED_MAX as u32, 1), (4 + FAILED_MAX as u32, 0)] {
        posted(&mut one, context, of(number, "MPI_Barrier"));
        one.sleeps(Duration::from_millis(1));
        assert_eq!(asks(&mut one, theirs, context), remembered, "at number {number}");
    }
}
