//! Jobs over several hosts. All of them are this machine: the launcher command is a script that starts the agent here instead of over there,
//! so everything but the network is as between machines. `tests/hosts` and `ci/soak` have real ones.

use super::*;
use crate::rank::play_command;
use std::io::Read as _;

/// A program that is called like ssh.
struct Launcher {
    folder: tempfile::TempDir,
}

impl Launcher {
    /// `HOST COMMAND...`: runs the command here, after `before`.
    fn that(before: &str) -> Launcher {
        let launcher = Launcher {
            folder: tempfile::tempdir().unwrap(),
        };
        let script = format!("#!/bin/sh\nhost=$1\nshift\n{before}\nexec \"$@\"\n");
        std::fs::write(launcher.path(), script).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(launcher.path(), executable).unwrap();
        launcher
    }

    fn path(&self) -> String {
        self.folder.path().join("launcher").to_str().unwrap().to_string()
    }

    /// The options of a job on the hosts `hosts`.
    fn options<'a>(&self, path: &'a str, hosts: &'a str) -> Vec<&'a str> {
        vec!["-launcher", path, "-hosts", hosts]
    }

    fn command(&self, hosts: &str, args: &[&str]) -> Command {
        let path = self.path();
        mpiexec(&[self.options(&path, hosts), args.to_vec()].concat())
    }

    fn run(&self, hosts: &str, args: &[&str]) -> Output {
        self.command(hosts, args).output().expect("mpiexec starts")
    }

    fn play(&self, part: &str, hosts: &str, args: &[&str]) -> Output {
        let path = self.path();
        let mut command = play_command(part, &[self.options(&path, hosts), args.to_vec()].concat());
        command.output().expect("mpiexec starts")
    }
}

#[test]
fn ranks_know_their_numbers_on_each_host() {
    let script = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $HERE $(pwd) $(umask)";
    let launcher = Launcher::that("umask 0");
    let mut command = launcher.command("far-a,localhost,far-b", &["-n", "6", "sh", "-c", script]);
    let folder = tempfile::tempdir().unwrap();
    let output = command
        .env("HERE", "x y")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let (pwd, umask) = (folder.path().canonicalize().unwrap(), umask_of_this_process());
    let expected: Vec<String> = (0..6)
        .map(|rank| format!("{rank}/6 {}/2 x y {} {umask}", rank % 2, pwd.display()))
        .collect();
    assert_eq!(sorted(&output), expected, "{}", stderr(&output));
}

fn umask_of_this_process() -> String {
    let output = Command::new("sh").args(["-c", "umask"]).output().unwrap();
    stdout(&output).trim().to_string()
}

#[test]
fn ranks_find_each_other_over_hosts() {
    let launcher = Launcher::that("");
    let output = launcher.play("ring", "far-a,far-b,localhost", &["-n", "5"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
}

#[test]
fn input_goes_to_a_far_rank_0_and_megabytes_come_back() {
    let launcher = Launcher::that("");
    let mut command = launcher.command("far", &["-n", "2", "sh", "-c", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let sent: Vec<u8> = (0..3_000_000u32)
        .map(|number| b'a' + (number % 25) as u8)
        .collect();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &copy).unwrap());
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_file_is_input_for_a_far_rank_0() {
    let launcher = Launcher::that("");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, "some lines\n".repeat(30_000)).unwrap();
    let mut command = launcher.command("far", &["-n", "1", "wc", "-c"]);
    let output = command
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    assert_eq!(stdout(&output).trim(), "330000", "{}", stderr(&output));
}

#[test]
fn statuses_are_as_on_one_machine_and_name_the_host() {
    let launcher = Launcher::that("");
    let output = launcher.run(
        "far-a,far-b",
        &["-n", "2", "sh", "-c", "[ $PMI_RANK = 0 ] || exit 7"],
    );
    fails_in_one_line(
        &output,
        7,
        &["rank 1 (pid ", " on far-b, sh) exited with status 7"],
    );
    let script = "[ $PMI_RANK = 0 ] && kill -SEGV $$; exec sleep 100";
    let output = launcher.run("far-a,far-b", &["-n", "2", "sh", "-c", script]);
    fails_in_one_line(
        &output,
        139,
        &["rank 0 (pid ", " on far-a, sh) was killed by signal 11"],
    );
    fails_in_one_line(
        &launcher.play("abort", "far-a,far-b,far-c", &["-n", "3"]),
        7,
        &["on far-b, "],
    );
    fails_in_one_line(
        &launcher.play("crash", "far-a,far-b", &["-n", "3"]),
        128 + libc::SIGABRT,
        &["signal 6"],
    );
    let below = ["-n", "3", "sh", "-c", "\"$@\"; sleep 100", "sh"];
    fails_in_one_line(
        &launcher.play("crash", "far-a,far-b", &below),
        1,
        &["ended without calling MPI_Finalize"],
    );
    let output = launcher.run("far-a,far-b", &["-n", "2", "--timeout", "0.5", "sleep", "100"]);
    fails_in_one_line(
        &output,
        124,
        &["after the time limit of 0.5 s ranks 0-1 were still running"],
    );
    fails_in_one_line(
        &launcher.run("far", &["./no-such-program"]),
        127,
        &["on host far: the program './no-such-program'"],
    );
    fails_in_one_line(
        &launcher.run("far", &["/dev/null"]),
        126,
        &["on host far: the program '/dev/null' is not exec"],
    );
}

#[test]
fn what_a_slow_reader_has_held_up_at_another_host_goes_on() {
    let launcher = Launcher::that("");
    let script = "head -c 8000000 /dev/zero; echo";
    let mut job = Running::start(launcher.command("far", &["-n", "1", "sh", "-c", script]));
    std::thread::sleep(Duration::from_millis(300));
    assert!(job.line().len() == 8_000_000);
    assert_eq!(job.end(), (0, String::new()));
    let mut job = Running::start(launcher.command("far-a,far-b", &["-n", "2", "yes"]));
    assert_eq!(job.line(), "y");
    assert_eq!(job.end(), (128 + libc::SIGPIPE, String::new()));
}

#[test]
fn an_agent_that_cant_be_started_is_told_with_its_host() {
    let on_b = |what: &str| Launcher::that(&format!("[ $host = far-a ] || {{ {what}; }}"));
    let run = |what: &str| on_b(what).run("far-a,far-b", &["-n", "2", "sleep", "100"]);
    fails_in_one_line(
        &run("echo no route >&2; exit 255"),
        125,
        &["host far-b: ", "status 255", "no route"],
    );
    fails_in_one_line(&run("exit 127"), 125, &["host far-b: it has no '", "mpiexec'"]);
    fails_in_one_line(&run("exit 126"), 125, &["host far-b: ", "can't be executed"]);
    fails_in_one_line(&run("exec true"), 125, &["host far-b: ", "status 0"]);
    fails_in_one_line(&run("kill -KILL $$"), 125, &["host far-b: ", "SIGKILL"]);
    fails_in_one_line(
        &run("exec yes"),
        125,
        &["host far-b: what answers there is not mpiexec"],
    );
    let other = r"printf '\000\001weft-mpiexec 9.9 (protocol 9)\n'; exec sleep 100";
    fails_in_one_line(
        &run(other),
        125,
        &[
            "host far-b: its mpiexec has the version 9.9 (protocol 9)",
            "and this one",
        ],
    );
    let broken = format!(
        r"printf '\000\001weft-mpiexec {} (protocol 2)\n\377\377\377\377'; exec sleep 100",
        env!("CARGO_PKG_VERSION")
    );
    fails_in_one_line(&run(&broken), 125, &["host far-b: a message is too long"]);
    let nowhere = mpiexec(&["-launcher", "/no/such", "-hosts", "far", "true"])
        .output()
        .unwrap();
    fails_in_one_line(&nowhere, 125, &["'/no/such'"]);
}

#[test]
fn a_banner_harms_nothing() {
    let launcher = Launcher::that("head -c 3000 /dev/urandom; echo Welcome to $host; echo hello >&2");
    let output = launcher.run("far-a,far-b", &["-n", "2", "echo", "here"]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
    assert_eq!(sorted(&output), ["here", "here"]);
}

/// The processes of a job of which each rank prints its agent and itself.
fn started(launcher: &Launcher, hosts: &str) -> (Running, Vec<(i32, i32)>) {
    let script = "trap '' TERM; echo $PPID $$; while :; do sleep 1; done";
    let mut job = Running::start(launcher.command(hosts, &["-n", "3", "sh", "-c", script]));
    let pids = job.lines(3, |line| {
        let (agent, rank) = line.split_once(' ')?;
        Some((agent.parse().ok()?, rank.parse().ok()?))
    });
    (job, pids)
}

fn all_end(pids: &[(i32, i32)]) {
    for &(agent, rank) in pids {
        wait_until("a rank goes on", || !is_alive(rank));
        wait_until("an agent goes on", || !is_alive(agent));
    }
}

#[test]
fn an_agent_that_is_killed_ends_the_job() {
    let launcher = Launcher::that("");
    let (job, pids) = started(&launcher, "far");
    // The ranks' parent. (Its watchdog kills what has the job's id: here that would be other hosts' ranks, too.)
    let agent = pids[0].0;
    // SAFETY: the call takes numbers only. The process is a child's child that runs.
    unsafe { libc::kill(agent, libc::SIGKILL) };
    let (status, text) = job.end();
    assert_eq!(status, 125, "{text}");
    assert!(
        text.contains("host far: ") && text.contains("its mpiexec was killed"),
        "{text}"
    );
    all_end(&pids);
}

#[test]
fn all_end_with_a_head_that_is_killed() {
    let launcher = Launcher::that("");
    let (mut job, pids) = started(&launcher, "far-a,localhost,far-b");
    job.signal(libc::SIGKILL);
    job.child.wait().unwrap();
    all_end(&pids);
}

#[test]
fn an_agent_that_is_silent_is_lost_and_ends_itself() {
    let launcher = Launcher::that("");
    let (job, pids) = started(&launcher, "far-a,localhost,far-b");
    let agent = pids
        .iter()
        .map(|&(agent, _)| agent)
        .find(|&agent| agent != job.child.id() as i32);
    let agent = agent.expect("an agent");
    // SAFETY: the call takes numbers only. The process is a child's child that runs.
    unsafe { libc::kill(agent, libc::SIGSTOP) };
    let (status, text) = job.end();
    assert_eq!(status, 125, "{text}");
    assert!(text.contains("nothing has come from it for"), "{text}");
    // SAFETY: as above; it is stopped.
    unsafe { libc::kill(agent, libc::SIGCONT) };
    all_end(&pids);
}

#[test]
fn a_signal_reaches_ranks_at_all_hosts() {
    let launcher = Launcher::that("");
    let script = "trap 'echo got it' USR1; trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut job = Running::start(launcher.command("far-a,localhost,far-b", &["-n", "3", "sh", "-c", script]));
    job.lines(3, |line| (line == "ready").then_some(()));
    job.signal(libc::SIGUSR1);
    job.lines(3, |line| (line == "got it").then_some(()));
    job.signal(libc::SIGTERM);
    assert_eq!(job.end().0, 3);
}

#[test]
fn jobs_are_spawned_over_hosts() {
    let launcher = Launcher::that("if [ $host = lost ]; then echo no way >&2; exit 255; fi");
    let output = launcher.play("spawn-hosts", "far-a,far-b", &["-n", "2"]);
    let lines = said_by_spawned(&output);
    let expected = [
        "spawned-everywhere 0 beside 1",
        "spawned-everywhere 1 beside 1",
        "spawned-everywhere 2 beside 0",
        "spawned-there 0 beside 2",
        "spawned-there 1 beside 2",
        "spawned-there 2 beside 2",
    ];
    assert_eq!(lines, expected, "{output:?}");
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
}

#[test]
fn links_are_held_on_any_host() {
    let launcher = Launcher::that("");
    let output = launcher.play("spawn-linked-child-aborts", "far-a", &["-n", "1"]);
    assert_eq!(status(&output), 7, "{output:?}");
    assert!(
        stderr(&output).contains("a connected job was aborted"),
        "{output:?}"
    );
    let output = launcher.play("spawn-linked-parent-dies", "far-a", &["-n", "1"]);
    assert_eq!(status(&output), 134, "{output:?}");
    assert!(stdout(&output).contains("lost: it has ended"), "{output:?}");
}
