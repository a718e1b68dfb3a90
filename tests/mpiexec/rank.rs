//! Ranks that speak PMI: this test executable again, with the part to play in an environment variable.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft::sim::skip;
use weft::system::bootstrap::pmi1::ENV_INITIAL_ERRHANDLER;
use weft::system::bootstrap::{Bootstrap, connect};

use super::*;

const PART: &str = "WEFT_TEST_PART";

/// A program for another MPI's compiler wrapper.
pub const C_PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum, found, *appnum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 9);
    printf("%d of %d, sum %d, program %d\n", rank, size, sum, found ? *appnum : -1);
    MPI_Finalize();
    return 0;
}
"#;

/// Where the programs of MPICH are, for tests beside it.
pub fn mpich() -> Option<String> {
    let peers = std::env::var("WEFT_TEST_PEERS").ok();
    match peers.filter(|path| !path.is_empty()) {
        Some(peers) => Some(format!("{peers}/bin")),
        None => {
            skip("WEFT_TEST_PEERS does not say where MPICH is");
            None
        }
    }
}

/// A job whose ranks play `part`. They stand in for the word `PLAY` and at the end of `args`, unless a program that
/// follows a `PLAY` does.
pub fn play_command(part: &str, args: &[&str]) -> Command {
    command_with(env!("CARGO_BIN_EXE_mpiexec"), part, args)
}

fn command_with(launcher: &str, part: &str, args: &[&str]) -> Command {
    let own = std::env::current_exe().expect("this executable's path");
    let rank = [
        own.to_str().expect("text"),
        "rank::plays_its_part",
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ];
    let mut command = Command::new(launcher);
    command
        .env(PART, part)
        .env("MPIEXEC_TIMEOUT", "60")
        .env_remove("PMI_FD")
        .stdin(Stdio::null());
    for word in args {
        match *word {
            "PLAY" => command.args(rank),
            word => command.arg(word),
        };
    }
    // Another program at the end takes no test's words.
    let ends_in_other =
        args.contains(&"PLAY") && args.last().is_some_and(|word| word.parse::<u32>().is_err());
    if !ends_in_other {
        command.args(rank);
    }
    command
}

pub fn play(part: &str, args: &[&str]) -> Output {
    play_command(part, args).output().expect("mpiexec starts")
}

pub fn play_with(launcher: &str, part: &str, args: &[&str]) -> Output {
    command_with(launcher, part, args)
        .output()
        .expect("the launcher starts")
}

/// Not a test of its own: what a rank of other tests does.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut pmi = connect().expect("the launcher answers");
    let job = pmi.job().clone();
    match part.as_str() {
        "ring" => {
            ring(&mut *pmi);
            println!(
                "\nrank {} of {}, local {} {}, {}, appnum {}, kinds {:?}, errhandler {:?}",
                job.rank,
                job.size,
                job.local_only,
                job.local_ranks,
                if pmi.needs_fence() { "foreign" } else { "weft" },
                job.appnum.expect("known"),
                job.memory_alloc_kinds,
                std::env::var(ENV_INITIAL_ERRHANDLER).ok(),
            );
            pmi.finalize().expect("finalize");
        }
        "late" => {
            late(&mut *pmi);
            pmi.finalize().expect("finalize");
        }
        "abort" | "abort-256" => {
            pmi.fence().expect("all are here");
            if job.rank == 1 {
                pmi.abort(if part == "abort" { 7 } else { 256 }, "no more fuel");
                panic!("abort returned");
            }
            wait_for_the_end();
        }
        "leave" | "leave-5" | "crash" => {
            pmi.fence().expect("all are here");
            match part.as_str() {
                _ if job.rank != 1 => wait_for_the_end(),
                "leave" => std::process::exit(0),
                "leave-5" => std::process::exit(5),
                _ => std::process::abort(),
            }
        }
        "garbage" => {
            let fd = pmi.descriptor().expect("a socket");
            nix::sys::socket::send(
                fd.as_raw_fd(),
                b"cmd=put \xff\n",
                nix::sys::socket::MsgFlags::empty(),
            )
            .expect("sent");
            wait_for_the_end();
        }
        "lost" | "half-gone" => {
            pmi.fence().expect("all are here");
            let told = std::env::var("WEFT_TEST_FILE").expect("a path");
            if job.rank == 1 {
                lose_the_first_thread(&told, part == "lost");
            }
            wait_until("rank 1 is on its way out", || Path::new(&told).exists());
            pmi.abort(16, "process 1 is gone");
            panic!("abort returned");
        }
        "abort-without-words" => {
            pmi.fence().expect("all are here");
            say(&*pmi, "cmd=abort exitcode=3\n");
            wait_for_the_end();
        }
        "crash-after-finalize" => {
            pmi.finalize().expect("finalize");
            std::process::abort();
        }
        "status-after-finalize" => {
            let rank = job.rank;
            let told = std::env::var("WEFT_TEST_FILE").expect("a path");
            if rank == 0 {
                wait_until("rank 1 has ended", || Path::new(&told).exists());
                std::thread::sleep(Duration::from_millis(100));
                pmi.finalize().expect("finalize");
            } else {
                pmi.finalize().expect("finalize");
                std::fs::write(&told, "").expect("written");
                std::process::exit(5);
            }
        }
        "ask-much" => {
            // All is asked before any answer is read, and the answers are more than a socket holds.
            const TIMES: usize = 5000;
            for _ in 0..TIMES {
                say(&*pmi, "cmd=get kvsname=k key=PMI_process_mapping\n");
            }
            let fd = pmi.descriptor().expect("a socket");
            let mut buffer = [0; 4096];
            let mut answers = 0;
            while answers < TIMES {
                let flags = nix::sys::socket::MsgFlags::empty();
                let read = nix::sys::socket::recv(fd.as_raw_fd(), &mut buffer, flags).expect("received");
                assert_ne!(read, 0, "the launcher is gone");
                answers += buffer[..read].iter().filter(|&&byte| byte == b'\n').count();
            }
            pmi.finalize().expect("finalize");
            println!("\nall {answers} came");
        }
        part if part.starts_with("spawn") => spawning::play_part(part, &mut *pmi),
        "stay" => {
            println!("\npid {}", std::process::id());
            wait_for_the_end();
        }
        other => panic!("no part '{other}'"),
    }
    std::process::exit(0);
}

/// Ends the process's first thread alone: the kernel has begun to take the process apart then, which can't be waited for
/// until the other threads have ended. Says so, by a file, and if `dies`, kills the process a little later.
fn lose_the_first_thread(told: &str, dies: bool) -> ! {
    extern "C" fn end_thread(_: libc::c_int) {
        // SAFETY: ends the thread that runs this, without a word to anybody.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    let pid = std::process::id() as i32;
    assert_ne!(
        nix::unistd::gettid().as_raw(),
        pid,
        "tests have threads of their own"
    );
    // SAFETY: the handler makes a system call and nothing else.
    unsafe { libc::signal(libc::SIGUSR1, end_thread as *const () as libc::sighandler_t) };
    // SAFETY: the call takes numbers only. The first thread waits for this one, and uses nothing of it.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGUSR1) };
    assert_eq!(sent, 0);
    wait_until("the first thread has ended", || !is_alive(pid));
    std::fs::write(told, "").expect("written");
    if dies {
        std::thread::sleep(Duration::from_millis(100));
        // SAFETY: the call takes numbers only.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    wait_for_the_end();
}

/// Sends a line as it is.
fn say(pmi: &dyn Bootstrap, line: &str) {
    let fd = pmi.descriptor().expect("a socket");
    let sent = nix::sys::socket::send(
        fd.as_raw_fd(),
        line.as_bytes(),
        nix::sys::socket::MsgFlags::empty(),
    );
    assert_eq!(sent, Ok(line.len()));
}

/// Long enough for every test; the launcher ends it.
fn wait_for_the_end() -> ! {
    std::thread::sleep(Duration::from_secs(60));
    panic!("the launcher did not end this rank");
}

fn card(incarnation: u32, rank: u32, length: usize) -> Vec<u8> {
    (0..length)
        .map(|place| (place as u32 * 7 + rank * 31 + incarnation) as u8)
        .collect()
}

/// Looks the card up until it comes, asleep in between.
fn find(pmi: &mut dyn Bootstrap, incarnation: u32, peer: u32) -> Vec<u8> {
    let start = Instant::now();
    loop {
        if let Some(card) = pmi.lookup(incarnation, pmi.job().process(peer)).expect("a card") {
            return card;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no card of {peer}");
        let fd = pmi.descriptor().expect("a socket");
        poll(
            &mut [PollFd::new(fd, PollFlags::POLLIN)],
            PollTimeout::from(1000u16),
        )
        .expect("poll");
    }
}

/// Everybody finds everybody's cards, short and long, in two incarnations.
fn ring(pmi: &mut dyn Bootstrap) {
    let (rank, size) = (pmi.job().rank, pmi.job().size);
    for (incarnation, length) in [(0, 5000), (1, 0), (2, 77)] {
        pmi.publish(incarnation, &card(incarnation, rank, length))
            .expect("published");
        if pmi.needs_fence() {
            pmi.fence().expect("all are here");
        }
        // All are asked for before the first is waited for.
        for peer in 0..size {
            if let Some(found) = pmi.lookup(incarnation, pmi.job().process(peer)).expect("a card") {
                assert_eq!(found, card(incarnation, peer, length));
            }
        }
        for peer in (0..size).rev() {
            assert_eq!(find(pmi, incarnation, peer), card(incarnation, peer, length));
        }
    }
    pmi.lookup(0, pmi.job().process(size))
        .expect_err("outside of the job");
    pmi.fence().expect("all are done");
}

/// Rank 1 asks for rank 0's card, which is not there, then for rank 2's, which comes first. Rank 0 publishes only when
/// rank 1 has that one.
fn late(pmi: &mut dyn Bootstrap) {
    let card = [1, 2, 3];
    match pmi.job().rank {
        0 => {
            find(pmi, 0, 1);
            pmi.publish(0, &card).expect("published");
        }
        1 => {
            assert_eq!(pmi.lookup(0, pmi.job().process(0)).expect("no error"), None);
            find(pmi, 0, 2);
            assert_eq!(pmi.lookup(0, pmi.job().process(0)).expect("no error"), None);
            println!("\nfound 2 before 0");
            pmi.publish(0, &card).expect("published");
            find(pmi, 0, 0);
        }
        _ => pmi.publish(0, &card).expect("published"),
    }
}
