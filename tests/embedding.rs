//! Rust programs with Weft inside, on several ranks: `examples/embedding.rs`, and some that are of no use as an example.

use std::future::Future;
use std::process::{Command, Output};
use std::task::{Context, Waker};

use weft::Result;
use weft::embedding::{Host, Lifetime, Session, WorldModel, allgather_bytes, barrier, bcast_bytes};

#[path = "../examples/embedding.rs"]
mod example;

/// What a process of a job is to do.
const PART: &str = "WEFT_TEST_EMBEDDED";

static LIFETIME: Lifetime = Lifetime::new(Host::PLAIN);
static WORLD_MODEL: WorldModel = WorldModel::new();

/// Not a test of its own: what a rank of other tests does.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    match &*part {
        "example" => example::main(),
        "sessions" => sessions(),
        "dropped" => dropped(),
        "abort running" => WORLD_MODEL
            .initialize(&LIFETIME, false)
            .and_then(|()| abort_one()),
        "abort" => LIFETIME.abort(256 + 42, "no more fuel"),
        "abort 256" => LIFETIME.abort(256, "no more fuel"),
        part => panic!("there is no part '{part}'"),
    }
    .expect("it runs");
}

fn this_test(program: &mut Command, part: &str) -> Output {
    program
        .args(["--exact", "plays_its_part", "--nocapture"])
        .env(PART, part)
        .output()
        .expect("it starts")
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().expect("a test")
}

fn job(ranks: u32, part: &str) -> Output {
    let mut mpiexec = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    mpiexec
        .args(["-n", &ranks.to_string(), "-timeout", "60", "-pset", "app://all"])
        .arg(this_program());
    this_test(&mut mpiexec, part)
}

#[test]
fn a_rust_program_needs_no_bindings() {
    for ranks in [1, 2, 3, 5] {
        let job = job(ranks, "example");
        let text = String::from_utf8_lossy(&job.stdout);
        let sum = ranks * (ranks - 1) / 2;
        assert!(
            job.status.success() && text.contains(&format!("the {ranks} ranks add up to {sum}")),
            "{ranks} ranks: {job:?}"
        );
    }
}

/// Opens and closes a session twice, without a World Model.
fn sessions() -> Result<()> {
    for round in 0..2u8 {
        let session = Session::open(&LIFETIME)?;
        assert_eq!(session.process_sets(), ["mpi://WORLD", "mpi://SELF", "app://all"]);
        let unknown = session
            .communicator("none", "tag")
            .err()
            .expect("there is no such set");
        assert_eq!(unknown.class, weft::Class::Arg);
        let myself = session.communicator("mpi://SELF", "alone")?;
        assert_eq!((myself.rank(), myself.size()), (0, 1));
        let everybody = session.communicator("app://all", "round")?;
        let said = [round, everybody.rank() as u8];
        let heard = everybody.block_on(allgather_bytes(&everybody.collective(), &said))?;
        let expected: Vec<u8> = (0..everybody.size() as u8)
            .flat_map(|rank| [round, rank])
            .collect();
        assert_eq!(heard, expected);
        // The last rank stays out; the others get the first one's word.
        let (rank, last) = (everybody.rank(), everybody.size() - 1);
        let others = everybody.block_on(everybody.split((rank != last).then_some(7), -(rank as i32)))?;
        assert_eq!(others.is_some(), rank != last);
        if let Some(others) = others {
            assert_eq!((others.rank(), others.size()), (last - 1 - rank, last));
            let operation = others.collective();
            let said = others.block_on(bcast_bytes(&operation, 0, vec![others.rank() as u8 + 5]))?;
            assert_eq!(said, [5]);
        }
        // The session's end disconnects the others.
        if round == 0 {
            everybody.disconnect()?;
        }
        session.close()?;
    }
    LIFETIME.close_at_rest();
    println!("two sessions");
    Ok(())
}

#[test]
fn sessions_come_and_go() {
    for ranks in [1, 3] {
        let job = job(ranks, "sessions");
        let text = String::from_utf8_lossy(&job.stdout);
        assert!(job.status.success(), "{ranks} ranks: {job:?}");
        assert_eq!(text.matches("two sessions").count(), ranks as usize, "{job:?}");
    }
}

/// A long message to oneself whose send is dropped before it is received: it is never read from memory that is gone.
fn dropped() -> Result<()> {
    const LEN: usize = 1 << 20;
    WORLD_MODEL.initialize(&LIFETIME, false)?;
    {
        let world = WORLD_MODEL.world().expect("it was initialized");
        let myself = world.myself();
        let operation = myself.collective();
        let mut send = Box::pin(operation.send_bytes(0, vec![7; LEN]));
        let mut context = Context::from_waker(Waker::noop());
        assert!(send.as_mut().poll(&mut context).is_pending());
        drop(send);
        let received = myself.block_on(operation.receive_bytes(0, LEN));
        let error = received.expect_err("its send was given up");
        assert!(error.message.contains("given up"), "{error:?}");
        // What comes after it is well.
        let operation = myself.collective();
        let both = operation.exchange_bytes(0, vec![8; LEN], 0, LEN);
        assert!(myself.block_on(both)? == vec![8; LEN]);
    }
    WORLD_MODEL.finalize(&LIFETIME)?;
    println!("dropped and sent again");
    Ok(())
}

#[test]
fn a_send_can_be_dropped() {
    let output = this_test(&mut Command::new(this_program()), "dropped");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("dropped and sent again"),
        "{output:?}"
    );
}

/// Rank 1 aborts while the others wait for it.
fn abort_one() -> Result<()> {
    let world = WORLD_MODEL.world().expect("it was initialized");
    let everybody = world.everybody();
    if everybody.rank() == 1 {
        LIFETIME.abort(42, "no more fuel");
    }
    everybody.block_on(barrier(&everybody.collective()))
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let stderr = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let running = job(3, "abort running");
    assert_eq!(running.status.code(), Some(42), "{running:?}");
    assert_eq!(stderr(&running).matches("no more fuel").count(), 1, "{running:?}");
    // Before anything is initialized, and without a launcher: only the low 8 bits are a status, and none of them is success.
    for (part, status) in [("abort", 42), ("abort 256", 1)] {
        let alone = this_test(&mut Command::new(this_program()), part);
        assert_eq!(alone.status.code(), Some(status), "{alone:?}");
        assert!(stderr(&alone).contains("[weft] no more fuel\n"), "{alone:?}");
    }
}
