//! How jobs end: exit statuses, signals, time limits, and that nothing is left.

use super::*;
use crate::rank::{play, play_command};

/// The job fails with this status and says why in one line, long before the ranks that sleep would have ended by themselves.
fn fails(output: &Output, start: Instant, expected: i32, words: &str) {
    fails_in_one_line(output, expected, &[words]);
    assert!(
        start.elapsed() < Duration::from_secs(80),
        "it took {:?}",
        start.elapsed()
    );
}

#[test]
fn the_first_nonzero_status_is_the_jobs() {
    let start = Instant::now();
    let output = run(&["-n", "3", "sh", "-c", "[ $PMI_RANK != 2 ] || exit 7"]);
    fails(&output, start, 7, "rank 2 (pid ");
    assert_eq!(status(&run(&["-n", "3", "true"])), 0);
}

#[test]
fn a_killed_rank_ends_the_job() {
    let start = Instant::now();
    let output = run(&[
        "-n",
        "4",
        "sh",
        "-c",
        "[ $PMI_RANK = 1 ] && kill -SEGV $$; exec sleep 100",
    ]);
    fails(
        &output,
        start,
        139,
        "was killed by signal 11 (Segmentation fault)",
    );
    let start = Instant::now();
    let output = run(&[
        "-n",
        "2",
        "sh",
        "-c",
        "trap '' TERM; [ $PMI_RANK = 1 ] && kill -KILL $$; sleep 100",
    ]);
    fails(&output, start, 137, "rank 1 (pid ");
}

#[test]
fn leaving_without_finalize_ends_the_job() {
    let start = Instant::now();
    fails(
        &play("leave", &["-n", "3"]),
        start,
        1,
        "exited with status 0 without calling MPI_Finalize",
    );
    let start = Instant::now();
    fails(
        &play("leave-5", &["-n", "3"]),
        start,
        5,
        "exited with status 5 without calling MPI_Finalize",
    );
    let start = Instant::now();
    fails(
        &play("crash", &["-n", "3"]),
        start,
        128 + libc::SIGABRT,
        "killed by signal 6 (Aborted)",
    );
}

#[test]
fn a_crash_below_a_shell_is_seen() {
    let start = Instant::now();
    let output = play("crash", &["-n", "3", "sh", "-c", "\"$@\"; sleep 100", "sh"]);
    fails(&output, start, 1, "ended without calling MPI_Finalize");
}

#[test]
fn waiting_for_a_rank_that_never_comes_ends_the_job() {
    let start = Instant::now();
    let output = play("ring", &["-n", "2", "PLAY", ":", "-n", "1", "true"]);
    fails(&output, start, 1, "exited without MPI_Init while rank");
    let start = Instant::now();
    let output = play("ring", &["-n", "2", "PLAY", ":", "-n", "1", "sh", "-c", "exit 4"]);
    assert_eq!(status(&output), 4, "{}", stderr(&output));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn abort_ends_the_job_with_its_code_and_message() {
    let start = Instant::now();
    fails(&play("abort", &["-n", "3"]), start, 7, "rank 1 (pid ");
    let output = play("abort", &["-n", "3"]);
    assert!(
        stderr(&output).contains("): no more fuel; ending the job"),
        "{}",
        stderr(&output)
    );
    assert_eq!(status(&play("abort-256", &["-n", "2"])), 1);
    let output = play("abort-without-words", &["-n", "1"]);
    let told = stderr(&output);
    assert_eq!(status(&output), 3, "{told}");
    assert!(
        told.contains("called MPI_Abort with code 3; ending the job"),
        "{told}"
    );
}

#[test]
fn a_status_after_finalize_is_the_jobs_and_ends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = play_command("status-after-finalize", &["-n", "2"]);
    command.env("WEFT_TEST_FILE", folder.path().join("told"));
    let output = command.output().expect("mpiexec starts");
    let told = stderr(&output);
    assert_eq!(status(&output), 5, "{told}");
    assert!(
        told.contains("exited with status 5") && !told.contains("ending the job"),
        "{told}"
    );
}

#[test]
fn a_status_without_init_ends_the_job_of_those_who_are_in_mpi() {
    let start = Instant::now();
    let output = play(
        "stay",
        &["-n", "1", "PLAY", ":", "-n", "1", "sh", "-c", "sleep 0.3; exit 6"],
    );
    fails(
        &output,
        start,
        6,
        "exited with status 6 before MPI_Init; ending the job",
    );
}

#[test]
fn ranks_have_time_to_clean_up() {
    let tidy = "trap 'sleep 0.5; echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let dies = "sleep 0.3; kill -SEGV $$";
    let script = format!("if [ $PMI_RANK = 0 ]; then {tidy}; else {dies}; fi");
    let start = Instant::now();
    let output = mpiexec(&["-n", "2", "sh", "-c", &script]).output().unwrap();
    fails(&output, start, 128 + 11, "was killed by signal 11");
    assert_eq!(stdout(&output), "ready\ntidy\n");
}

#[test]
fn a_rank_that_breaks_a_pipe_of_its_own_is_told() {
    let start = Instant::now();
    let output = mpiexec(&["-n", "1", "sh", "-c", "kill -PIPE $$"])
        .output()
        .unwrap();
    fails(&output, start, 128 + 13, "was killed by signal 13 (Broken pipe)");
}

#[test]
fn a_crash_after_finalize_is_told_as_such() {
    let start = Instant::now();
    let output = play("crash-after-finalize", &["-n", "2"]);
    fails(
        &output,
        start,
        128 + 6,
        "was killed by signal 6 (Aborted) after MPI_Finalize; ending the job",
    );
}

/// Rank 0 notices that it has lost rank 1 before the launcher can, and says so by `MPI_Abort`.
#[test]
fn a_rank_that_is_lost_counts_and_not_the_one_that_misses_it() {
    let abort = |part: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = play_command(part, &["-n", "2"]);
        command.env("WEFT_TEST_FILE", folder.path().join("told"));
        command.output().expect("mpiexec starts")
    };
    let start = Instant::now();
    let output = abort("lost");
    fails(&output, start, 137, "was killed by signal 9");
    assert!(stderr(&output).contains("rank 1 (pid "), "{}", stderr(&output));
    // One that seems to be ending, and goes on, holds nothing up for long.
    let start = Instant::now();
    fails(&abort("half-gone"), start, 16, "rank 0 (pid ");
}

#[test]
fn a_broken_pmi_line_ends_the_job() {
    let start = Instant::now();
    fails(&play("garbage", &["-n", "2"]), start, 1, "broke the PMI protocol");
}

#[test]
fn the_time_limit_ends_the_job() {
    let start = Instant::now();
    let output = run(&[
        "-timeout",
        "0.3",
        "-n",
        "3",
        "sh",
        "-c",
        "[ $PMI_RANK = 0 ] || exec sleep 100",
    ]);
    fails(&output, start, 124, "ranks 1-2 were still running");
    let start = Instant::now();
    let output = mpiexec(&["sleep", "100"])
        .env("MPIEXEC_TIMEOUT", "0.2")
        .output()
        .unwrap();
    fails(&output, start, 124, "rank 0 was still running");
}

#[test]
fn signals_reach_every_rank() {
    let wait = "echo ready; while :; do sleep 0.05; done";
    let script = format!("trap 'echo got; exit 9' USR1; {wait}");
    let mut job = Running::start(mpiexec(&["-n", "3", "sh", "-c", &script]));
    job.lines(3, |line| (line == "ready").then_some(()));
    job.signal(libc::SIGUSR1);
    job.lines(3, |line| (line == "got").then_some(()));
    assert_eq!(job.end().0, 9);

    for (signal, number) in [
        ("INT", libc::SIGINT),
        ("TERM", libc::SIGTERM),
        ("HUP", libc::SIGHUP),
    ] {
        let mut job = Running::start(mpiexec(&["-n", "2", "sh", "-c", wait]));
        job.lines(2, |line| (line == "ready").then_some(()));
        job.signal(number);
        let said = format!("mpiexec: SIG{signal} came; ending the job\n");
        assert_eq!(job.end(), (128 + number, said));
    }
}

#[test]
fn ranks_that_ignore_an_interrupt_are_killed() {
    let script = "trap '' INT; echo $$; while :; do sleep 0.05; done";
    for second in [false, true] {
        let mut job = Running::start(mpiexec(&["-n", "2", "sh", "-c", script]));
        let pids = job.lines(2, |line| line.parse::<i32>().ok());
        let start = Instant::now();
        job.signal(libc::SIGINT);
        if second {
            // Equal signals that wait become one, so the second goes when the first was taken.
            std::thread::sleep(Duration::from_millis(300));
            job.signal(libc::SIGINT);
        }
        assert_eq!(job.end().0, 128 + libc::SIGINT);
        assert_eq!(
            start.elapsed() < Duration::from_millis(1500),
            second,
            "{:?}",
            start.elapsed()
        );
        assert!(!pids.into_iter().any(is_alive));
    }
}

#[test]
fn stop_and_continue_reach_the_ranks() {
    // A rank that forks would not do: a shell whose child is stopped between vfork and exec does not stop, but waits.
    let mut job = Running::start(mpiexec(&["-n", "2", "sh", "-c", "echo $$; exec sleep 100"]));
    let pids = job.lines(2, |line| line.parse::<i32>().ok());
    let stopped = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    };
    job.signal(libc::SIGTSTP);
    let launcher = job.child.id() as i32;
    wait_until("all stop", || {
        stopped(launcher) && pids.iter().all(|&pid| stopped(pid))
    });
    job.signal(libc::SIGCONT);
    wait_until("all go on", || {
        !stopped(launcher) && !pids.iter().any(|&pid| stopped(pid))
    });
    job.signal(libc::SIGTERM);
    assert_eq!(job.end().0, 128 + libc::SIGTERM);
}

#[test]
fn nothing_outlives_a_job_that_ends() {
    let output = run(&[
        "-n",
        "2",
        "sh",
        "-c",
        "sleep 1000 & echo $!; setsid sleep 1000 & echo $!",
    ]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let pids: Vec<i32> = stdout(&output)
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 4);
    assert!(!pids.into_iter().any(is_alive));
}

/// A file as libfabric's `shm` keeps it for a process, made by a shell in its place.
const SHARED_FILE: &str = "file=/dev/shm/$$:$(id -u):7; : >$file; echo file $file";

fn shared_file(line: &str) -> Option<std::path::PathBuf> {
    line.strip_prefix("file ").map(Into::into)
}

#[test]
fn killed_ranks_leave_no_files() {
    let script = format!("{SHARED_FILE}; kill -KILL $$");
    let output = run(&["-n", "3", "sh", "-c", &script]);
    assert_eq!(status(&output), 137, "{}", stderr(&output));
    let text = stdout(&output);
    let files: Vec<_> = text.lines().filter_map(shared_file).collect();
    assert!(
        !files.is_empty() && !files.iter().any(|file| file.exists()),
        "{files:?}"
    );
}

#[test]
fn ranks_of_a_killed_launcher_leave_no_files() {
    let mut job = Running::start(mpiexec(&[
        "-n",
        "3",
        "sh",
        "-c",
        &format!("{SHARED_FILE}; exec sleep 100"),
    ]));
    let files = job.lines(3, shared_file);
    assert!(files.iter().all(|file| file.exists()));
    job.signal(libc::SIGKILL);
    wait_until("no file is left", || !files.iter().any(|file| file.exists()));
    assert_eq!(job.child.wait().unwrap().code(), None);
}

#[test]
fn files_of_others_stay() {
    // A process that is not of the job, and one that is not gone.
    let mut other = Command::new("sleep").arg("100").spawn().expect("sleep starts");
    // SAFETY: takes nothing.
    let uid = unsafe { libc::getuid() };
    let files = [other.id(), std::process::id()].map(|pid| format!("/dev/shm/{pid}:{uid}:7"));
    for file in &files {
        std::fs::write(file, "").unwrap();
    }
    let output = run(&["-n", "2", "sh", "-c", "kill -KILL $$"]);
    let left: Vec<bool> = files
        .iter()
        .map(|file| std::fs::remove_file(file).is_ok())
        .collect();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(status(&output), 137, "{}", stderr(&output));
    assert_eq!(left, [true, true]);
}

/// Kills the launcher without a chance to clean up, and expects every process of the job to go.
fn nothing_outlives_a_killed_launcher(mut job: Running, processes: usize) {
    let pids = job.lines(processes, |line| line.strip_prefix("pid ")?.parse::<i32>().ok());
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    job.signal(libc::SIGKILL);
    wait_until("all processes of the job are gone", || {
        !pids.iter().any(|&pid| is_alive(pid))
    });
    let ended = job.child.wait().unwrap();
    assert_eq!(ended.code(), None);
}

#[test]
fn nothing_outlives_a_killed_launcher_below_a_shell() {
    let script = "echo pid $$; sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; wait";
    nothing_outlives_a_killed_launcher(Running::start(mpiexec(&["-n", "2", "sh", "-c", script])), 6);
}

/// It has no job's id in its environment, so it is found by its process group or not at all.
#[test]
fn no_process_with_a_cleared_environment_outlives_a_killed_launcher() {
    let script = "env -i /bin/sh -c 'echo pid $$; exec sleep 1000' & wait";
    nothing_outlives_a_killed_launcher(Running::start(mpiexec(&["-n", "2", "sh", "-c", script])), 2);
}

#[test]
fn no_pmi_rank_outlives_a_killed_launcher() {
    nothing_outlives_a_killed_launcher(Running::start(play_command("stay", &["-n", "2"])), 2);
    let below = play_command("stay", &["-n", "2", "sh", "-c", "\"$@\"; echo", "sh"]);
    nothing_outlives_a_killed_launcher(Running::start(below), 2);
}

#[test]
fn a_script_without_its_interpreter_is_not_found_or_not_executable() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    for (interpreter, expected) in [(folder.path().join("none"), 127), (plain, 126)] {
        let script = folder.path().join("script");
        std::fs::write(&script, format!("#!{}\n", interpreter.display())).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let start = Instant::now();
        let output = run(&["-n", "2", script.to_str().unwrap()]);
        fails(&output, start, expected, "can't be started");
    }
}
