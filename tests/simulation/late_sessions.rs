//! Sessions that are opened while `MPI_Finalize` is under way, the first of the job among them, at any instant (MPI 5.0
//! sections 11.2.2 and 11.3.1). Wherever a session of one process may be meant to talk to one of another, both must have got the
//! same incarnation of their instances; and opening one waits for no call of another process.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use fastrand::Rng;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use weft::instance::{User, Users};
use weft::objects::communicator::Communicator;
use weft::sim::{Options, Rank, Simulation, check, join_all, skewed};

/// What must have happened in some runs, or they prove little.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Rare {
    /// A session was opened before any process gave its first word.
    Early,
    /// No process had a session by its first word, and one by its last.
    Between,
    /// A session had to wait until it was known that the instance is closed.
    WaitedForTheNext,
    /// A session had to wait until it was known that it goes on.
    WaitedForTheSame,
    /// A session was opened after the instance was closed.
    Late,
}

const RARE: [Rare; 5] = [
    Rare::Early,
    Rare::Between,
    Rare::WaitedForTheNext,
    Rare::WaitedForTheSame,
    Rare::Late,
];

/// What is seen from outside of all ranks.
#[derive(Default)]
struct Job {
    ranks: u32,
    /// Of each rank, its first word, once it is in `MPI_Finalize`.
    first_words: Vec<bool>,
    last_words: Vec<bool>,
    /// The incarnation of each session's instance.
    incarnations: Vec<u32>,
    seen: FxHashSet<Rare>,
}

type Part = Pin<Box<dyn Future<Output = ()>>>;

/// `firm`: as the library does it. Otherwise sessions come after a process's last word, too.
async fn program(rank: Rank, mut rng: Rng, job: Rc<RefCell<Job>>, firm: bool) {
    let users = Rc::new(RefCell::new(Users::new()));
    users.borrow_mut().come(User::World);
    let late = rng.u32(..3) != 0;
    let mut parts: Vec<Part> = vec![Box::pin(finalizes(
        rank.clone(),
        rng.fork(),
        job.clone(),
        users.clone(),
        firm,
    ))];
    for _ in 0..[0, 0, 1, 3][rng.u32(..4) as usize] {
        let session = opens(rank.clone(), rng.fork(), job.clone(), users.clone(), late);
        parts.push(Box::pin(session));
    }
    join_all(parts).await;
    rank.leave();
}

async fn finalizes(rank: Rank, mut rng: Rng, job: Rc<RefCell<Job>>, users: Rc<RefCell<Users>>, firm: bool) {
    rank.pause(skewed(&mut rng, 16)).await;
    let first_word = || {
        let had = users.borrow().had_sessions();
        job.borrow_mut().first_words.push(had);
        had
    };
    let last_word = || {
        let had = match firm {
            true => users.borrow_mut().last_word(),
            false => users.borrow().had_sessions(),
        };
        job.borrow_mut().last_words.push(had);
        had
    };
    let check = None::<fn(Vec<String>)>;
    let ending = Communicator::finalize_world(rank.instance(), first_word, last_word, check, None);
    let ended = rank.each_turn(ending).await.expect("nobody dies");
    users.borrow_mut().leave(!ended.sessions_left);
}

async fn opens(rank: Rank, mut rng: Rng, job: Rc<RefCell<Job>>, users: Rc<RefCell<Users>>, late: bool) {
    let in_finalize = || job.borrow().first_words.len() as u32;
    if late {
        let others = rng.u32(..=job.borrow().ranks);
        rank.until(|| in_finalize() >= others).await;
    }
    rank.pause(skewed(&mut rng, 16)).await;
    let waits = !users.borrow().may_come();
    if waits {
        assert_eq!(
            in_finalize(),
            job.borrow().ranks,
            "it waits for a call of another rank"
        );
        rank.until(|| users.borrow().may_come()).await;
    }
    users.borrow_mut().come(User::Session);
    let incarnation = users.borrow().incarnation();
    {
        let job = &mut *job.borrow_mut();
        job.incarnations.push(incarnation);
        let rare = match (waits, incarnation) {
            (true, 0) => Some(Rare::WaitedForTheSame),
            (true, _) => Some(Rare::WaitedForTheNext),
            (false, 1) => Some(Rare::Late),
            (false, _) => job.first_words.is_empty().then_some(Rare::Early),
        };
        job.seen.extend(rare);
    }
    if rng.bool() {
        rank.pause(skewed(&mut rng, 14)).await;
    }
    users.borrow_mut().leave(false);
}

/// The rare things that have happened; `None`: sessions have got instances of different incarnations.
fn run(seed: u64, firm: bool) -> Option<FxHashSet<Rare>> {
    let ranks = [1, 2, 2, 3, 5, 8][(seed % 6) as usize];
    let job = Rc::new(RefCell::new(Job {
        ranks,
        ..Job::default()
    }));
    Simulation::new(seed, ranks, Options::random(seed)).run(|rank| {
        let rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
        program(rank, rng, job.clone(), firm)
    });
    let mut job = job.borrow_mut();
    if !job.first_words.contains(&true) && job.last_words.contains(&true) {
        job.seen.insert(Rare::Between);
    }
    let first = job.incarnations.first().copied();
    let agree = job
        .incarnations
        .iter()
        .all(|&incarnation| Some(incarnation) == first);
    agree.then(|| std::mem::take(&mut job.seen))
}

#[test]
fn late_sessions() {
    let seen: Mutex<FxHashSet<Rare>> = Mutex::default();
    let all = std::sync::atomic::AtomicU64::new(0);
    check("late_sessions", 250, |seed| {
        let rare = run(seed, true).expect("sessions of different incarnations can't reach each other");
        seen.lock().extend(rare);
        all.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    if all.into_inner() >= 1000 {
        for rare in RARE {
            assert!(seen.lock().contains(&rare), "{rare:?} has never happened");
        }
    }
}

/// That the runs above would show it: without a last word that stands, there are some that disagree.
#[test]
fn late_sessions_disagree_without_a_last_word() {
    let disagree = (1..=500).filter(|&seed| run(seed, false).is_none()).count();
    assert!(disagree > 0, "the simulation shows nothing");
}
