//! Jobs that ranks start, without MPI's part in it: ranks speak to their launchers only.

use std::ffi::OsString;
use std::time::Duration;

use weft::identity::JobId;
use weft::system::bootstrap::{Bootstrap, Command as Wanted, Notice, Spawn, Spawned};
use weft::system::port::{Connecting, Port};

use super::*;
use crate::rank::{play, play_command};

/// A command that plays a part.
fn playing(part: &str, count: u32, info: &[(&str, &str)]) -> Wanted {
    let own = std::env::current_exe().expect("this executable's path");
    let arguments = [
        "rank::plays_its_part",
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ];
    let mut info: Vec<(String, OsString)> = info
        .iter()
        .map(|(key, value)| (key.to_string(), value.into()))
        .collect();
    info.push(("env".into(), format!("WEFT_TEST_PART={part}").into()));
    Wanted {
        program: own.to_str().expect("text").into(),
        arguments: arguments.map(OsString::from).to_vec(),
        count,
        info,
    }
}

/// A command of any program.
fn program(words: &[&str], count: u32, info: &[(&str, &str)]) -> Wanted {
    Wanted {
        program: words[0].into(),
        arguments: words[1..].iter().map(OsString::from).collect(),
        count,
        info: info
            .iter()
            .map(|(key, value)| (key.to_string(), value.into()))
            .collect(),
    }
}

/// Asks for it, and waits for the answer.
fn start(pmi: &mut dyn Bootstrap, commands: Vec<Wanted>) -> (u32, weft::Result<Spawned>) {
    let spawn = Spawn {
        commands,
        port: "the port".into(),
    };
    let number = pmi.spawn(&spawn).expect("asked for");
    loop {
        match pmi.spawned(number) {
            Ok(Some(spawned)) => return (number, Ok(spawned)),
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return (number, Err(error)),
        }
    }
}

fn notice(pmi: &mut dyn Bootstrap) -> Notice {
    let mut all = Vec::new();
    wait_until("a notice comes", || {
        pmi.attend().expect("the launcher is there");
        all.extend(pmi.notices());
        !all.is_empty()
    });
    all.remove(0)
}

pub fn play_part(part: &str, pmi: &mut dyn Bootstrap) {
    let job = pmi.job().clone();
    match part {
        "spawn-three" => {
            assert_eq!(job.parent, None);
            if job.rank == 0 {
                let commands = vec![
                    playing("spawned", 2, &[]),
                    playing("spawned", 9, &[("soft", "0,1,20"), ("pset_name", "app://one")]),
                ];
                let (_, spawned) = start(pmi, commands);
                let spawned = spawned.expect("started");
                assert_eq!(spawned.of_command, [2, 1]);
                assert_eq!((spawned.started, spawned.errors), (3, vec![None, None]));
                assert!(matches!(notice(pmi), Notice::NotConnected { .. }));
            }
            pmi.fence().expect("all are there");
        }
        "spawned" => {
            assert_eq!(job.parent.as_deref(), Some("the port"));
            let sets: Vec<&str> = job.process_sets.iter().map(|set| set.name.as_str()).collect();
            assert_eq!(sets, ["app://one"]);
            pmi.fence().expect("all are there");
            println!("\nspawned {} of {}, appnum {:?}", job.rank, job.size, job.appnum);
        }
        "spawn-alone" => {
            assert_eq!(pmi.name(), "singleton");
            assert!(job.universe_size >= Some(16));
            pmi.publish_name("before", "1").expect("published");
            let (_, spawned) = start(pmi, vec![playing("spawned-by-one", 2, &[])]);
            assert_eq!(spawned.expect("started").started, 2);
            assert!(matches!(notice(pmi), Notice::NotConnected { .. }));
            let why = start(pmi, vec![program(&["/no/such"], 1, &[])]).1;
            assert!(why.expect("an answer").errors[0].is_some());
            let none = nix::sys::wait::waitpid(None, None);
            assert_eq!(none, Err(nix::errno::Errno::ECHILD), "its head is no child");
            pmi.publish_name("after", "2").expect("published");
            assert_eq!(pmi.lookup_name("before").expect("asked"), Some("1".into()));
            println!("\nall alone");
        }
        "spawned-by-one" => {
            assert_eq!(job.parent.as_deref(), Some("the port"));
            assert_eq!(pmi.lookup_name("before").expect("asked"), Some("1".into()));
            pmi.fence().expect("all are there");
            println!("\nspawned {} of {}", job.rank, job.size);
        }
        "spawn-wrong" => {
            let of = |pmi: &mut dyn Bootstrap, commands| start(pmi, commands).1;
            let none = of(
                pmi,
                vec![program(&["/no/such/program"], 1, &[]), program(&["true"], 2, &[])],
            )
            .expect("an answer");
            assert_eq!((none.started, &none.of_command[..]), (0, &[0, 0][..]));
            assert!(
                none.errors[0]
                    .as_ref()
                    .is_some_and(|why| why.contains("/no/such/program"))
            );
            assert_eq!(none.errors[1], None);
            // A script whose interpreter is not there: only the kernel knows.
            let file = std::env::var("WEFT_TEST_FILE").expect("a path");
            let none =
                of(pmi, vec![program(&["true"], 1, &[]), program(&[&file], 1, &[])]).expect("an answer");
            assert!(none.started == 0 && none.errors[0].is_none(), "{none:?}");
            assert!(
                none.errors[1].as_ref().is_some_and(|why| why.contains(&file)),
                "{none:?}"
            );
            let error = of(pmi, vec![program(&["true"], 1, &[("soft", "x")])]).unwrap_err();
            assert_eq!(error.class, weft::Class::InfoValue);
            let error = of(pmi, vec![program(&["true"], 1, &[("host", "a b")])]).unwrap_err();
            assert_eq!(error.class, weft::Class::Spawn);
            let zero = of(pmi, vec![program(&["true"], 0, &[])]).expect("an answer");
            assert_eq!((zero.started, zero.errors), (0, vec![None]));
            println!("\nall wrong");
        }
        "spawn-hosts" => {
            if job.rank == 0 {
                for (place, host) in [("everywhere", None), ("there", Some(("host", "far-c:3")))] {
                    let info: Vec<_> = host.into_iter().collect();
                    let part = format!("spawned-{place}");
                    let (_, spawned) = start(pmi, vec![playing(&part, 3, &info)]);
                    assert_eq!(spawned.expect("started").started, 3);
                    assert!(matches!(notice(pmi), Notice::NotConnected { .. }));
                }
                // One that is on no host that can be reached.
                let (_, none) = start(pmi, vec![program(&["true"], 1, &[("host", "lost")])]);
                let error = none.unwrap_err();
                assert!(error.message.contains("host lost"), "{error}");
                // Over there, a program that is not there.
                let (_, none) = start(pmi, vec![program(&["/no/such"], 1, &[("host", "far-a")])]);
                let none = none.expect("an answer");
                assert_eq!(none.started, 0);
                assert!(
                    none.errors[0]
                        .as_ref()
                        .is_some_and(|why| why.contains("/no/such")),
                    "{none:?}"
                );
            }
            pmi.fence().expect("all are there");
        }
        "spawned-everywhere" | "spawned-there" => {
            pmi.fence().expect("all are there");
            println!("\n{part} {} beside {}", job.rank, job.local_ranks - 1);
        }
        "spawn-service" => {
            // The first job publishes, and waits for what the second one says.
            if std::env::var("WEFT_TEST_FIRST").is_ok() {
                pmi.publish_name("first", "port 1").expect("published");
                println!("\nfirst is there");
                wait_until("the second job is there", || {
                    pmi.lookup_name("second").expect("asked").is_some()
                });
                pmi.publish_name("seen", "").expect("published");
            } else {
                assert_eq!(pmi.lookup_name("first").expect("asked"), Some("port 1".into()));
                pmi.publish_name("first", "port 2").unwrap_err();
                pmi.unpublish_name("first").unwrap_err();
                pmi.publish_name("second", "").expect("published");
                wait_until("the first has seen it and is gone", || {
                    pmi.lookup_name("first").expect("asked").is_none()
                });
                println!("\nall served");
            }
        }
        "spawn-status" => {
            let script = format!("exit {}", std::env::var("WEFT_TEST_STATUS").expect("a status"));
            let (number, spawned) = start(pmi, vec![program(&["sh", "-c", &script], 1, &[])]);
            assert_eq!(spawned.expect("started").started, 1);
            assert!(matches!(notice(pmi), Notice::NotConnected { spawn, .. } if spawn == number));
        }
        "spawn-stay" => {
            let info = [("env", "A=1")];
            let script = "echo child $$ $A; exec sleep 100";
            let (_, spawned) = start(pmi, vec![program(&["sh", "-c", script], 1, &info)]);
            assert_eq!(spawned.expect("started").started, 1);
            println!("\nparent {}", std::process::id());
            if std::env::var("WEFT_TEST_LEAVE").is_err() {
                std::thread::sleep(Duration::from_secs(60));
            }
        }
        "spawn-many" => {
            for _ in 0..30 {
                let (number, spawned) = start(pmi, vec![program(&["true"], 1, &[])]);
                assert_eq!(spawned.expect("started").started, 1);
                assert!(matches!(notice(pmi), Notice::NotConnected { spawn, .. } if spawn == number));
            }
            println!("\nall thirty");
        }
        "spawn-names" => {
            if job.parent.is_none() {
                pmi.publish_name("the name", "the port 1").expect("published");
                pmi.publish_name("the name", "the port 2").unwrap_err();
                assert_eq!(
                    pmi.lookup_name("the name").expect("asked"),
                    Some("the port 1".into())
                );
                assert_eq!(pmi.lookup_name("no name").expect("asked"), None);
                let (_, spawned) = start(pmi, vec![playing("spawn-names", 1, &[])]);
                assert_eq!(spawned.expect("started").started, 1);
                wait_until("the child has published", || {
                    pmi.lookup_name("the child's").expect("asked").is_some()
                });
                pmi.publish_name("the child's", "mine").unwrap_err();
                pmi.unpublish_name("the child's").unwrap_err();
                pmi.publish_name("seen", "").expect("published");
                wait_until("what the child has published is gone with it", || {
                    pmi.lookup_name("the child's").expect("asked").is_none()
                });
                pmi.unpublish_name("the name").expect("unpublished");
                pmi.unpublish_name("the name").unwrap_err();
                println!("\nall named");
            } else {
                assert_eq!(
                    pmi.lookup_name("the name").expect("asked"),
                    Some("the port 1".into())
                );
                pmi.unpublish_name("the name").unwrap_err();
                pmi.publish_name("the child's", "there").expect("published");
                wait_until("the parent has seen it", || {
                    pmi.lookup_name("seen").expect("asked").is_some()
                });
            }
        }
        part if part.starts_with("spawn-linked-") => linked(&part["spawn-linked-".len()..], pmi),
        other => panic!("no part '{other}'"),
    }
    pmi.finalize().expect("finalize");
}

/// Waits for what a port or a channel gives.
fn until<T>(what: &str, mut next: impl FnMut() -> weft::Result<Option<T>>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = next().expect(what);
        found.is_some()
    });
    found.expect("found")
}

/// A parent and a child that are connected; `what` happens to them.
fn linked(what: &str, pmi: &mut dyn Bootstrap) {
    let is_child = pmi.job().parent.is_some();
    let mut channel = match pmi.job().parent.clone() {
        Some(port) => {
            let mut connecting = Connecting::to(&port, None).expect("a port");
            until("the parent accepts", || connecting.finish())
        }
        None => {
            let mut port = Port::open(None).expect("a port");
            let spawn = Spawn {
                commands: vec![playing(&format!("spawn-linked-{what}"), 1, &[])],
                port: port.name().into(),
            };
            let number = pmi.spawn(&spawn).expect("asked for");
            until("the child is started", || pmi.spawned(number));
            until("the child comes", || port.accept())
        }
    };
    let own = pmi.job().name().job;
    channel.send(own.0.to_le_bytes().to_vec()).expect("sent");
    let other = until("the other's job", || channel.receive());
    assert!(until("all is sent", || Ok(channel.is_drained()?.then_some(true))));
    let other = JobId(u64::from_le_bytes(other.try_into().expect("8 bytes")));
    pmi.link(other, channel.into_socket()).expect("passed on");
    pmi.connected(other, true);
    // All lines have been read when one after them is answered.
    let name = |who: bool| {
        if who {
            "child is connected"
        } else {
            "parent is connected"
        }
    };
    pmi.publish_name(name(is_child), "").expect("published");
    // Who ends early waits for the other; its names end with it.
    let acts = matches!(
        (what, is_child),
        ("child-dies" | "child-aborts" | "parted", true) | ("parent-dies" | "parent-aborts", false)
    );
    wait_until("the other is connected", || {
        !acts || pmi.lookup_name(name(!is_child)).expect("asked").is_some()
    });
    let lost = |pmi: &mut dyn Bootstrap| match notice(pmi) {
        Notice::Lost { job, why } if job == other => println!("\nlost: {why}"),
        other => panic!("{other:?}"),
    };
    match (what, is_child) {
        ("child-dies", true) | ("parent-dies", false) => std::process::abort(),
        ("child-dies", false) | ("parent-dies", true) => lost(pmi),
        ("child-aborts", true) | ("parent-aborts", false) => {
            pmi.abort(7, "no more fuel");
        }
        ("child-aborts", false) | ("parent-aborts", true) => std::thread::sleep(Duration::from_secs(60)),
        ("parted", _) => {
            pmi.connected(other, false);
            if is_child {
                pmi.publish_name("child is parted", "").expect("published");
                wait_until("the parent has seen it", || {
                    pmi.lookup_name("parent is parted").expect("asked").is_some()
                });
                pmi.abort(7, "no more fuel");
            }
            let is_there = |pmi: &mut dyn Bootstrap| {
                let found = pmi.lookup_name("child is parted").expect("asked");
                found.is_some()
            };
            wait_until("the child is parted", || is_there(pmi));
            pmi.publish_name("parent is parted", "").expect("published");
            wait_until("the child has ended", || !is_there(pmi));
            pmi.attend().expect("the launcher is there");
            assert_eq!(pmi.notices(), []);
            println!("\nthe parent goes on");
        }
        _ => panic!("no part '{what}'"),
    }
}

#[test]
fn a_job_that_dies_is_lost_to_those_connected_with_it() {
    let output = play("spawn-linked-child-dies", &["-n", "1"]);
    assert!(
        stdout(&output).contains("lost: it has ended without a goodbye"),
        "{output:?}"
    );
    assert_eq!(status(&output), 134, "{output:?}");
    let output = play("spawn-linked-parent-dies", &["-n", "1"]);
    assert!(
        stdout(&output).contains("lost: it has ended without a goodbye"),
        "{output:?}"
    );
    assert_eq!(status(&output), 134, "{output:?}");
}

#[test]
fn an_abort_ends_connected_jobs_and_no_others() {
    for part in ["spawn-linked-child-aborts", "spawn-linked-parent-aborts"] {
        let output = play(part, &["-n", "1"]);
        let told = stderr(&output);
        assert_eq!(status(&output), 7, "{part}: {told}");
        assert!(told.contains("): no more fuel; ending the job"), "{part}: {told}");
        assert!(
            told.contains("a connected job was aborted (rank 0"),
            "{part}: {told}"
        );
    }
    let output = play("spawn-linked-parted", &["-n", "1"]);
    assert!(stdout(&output).contains("the parent goes on"), "{output:?}");
    assert_eq!(status(&output), 7, "{output:?}");
    assert!(!stderr(&output).contains("connected job"), "{output:?}");
}

#[test]
fn a_rank_starts_a_job() {
    let output = play("spawn-three", &["-n", "2"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let lines = said_by_spawned(&output);
    assert_eq!(
        lines,
        [
            "spawned 0 of 3, appnum Some(0)",
            "spawned 1 of 3, appnum Some(0)",
            "spawned 2 of 3, appnum Some(1)"
        ]
    );
}

#[test]
fn a_process_without_a_launcher_starts_a_job() {
    let own = std::env::current_exe().expect("this executable's path");
    let output = Command::new(own)
        .args([
            "rank::plays_its_part",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("WEFT_TEST_PART", "spawn-alone")
        .env("WEFT_MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"))
        .env_remove("PMI_FD")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(stdout(&output).contains("all alone\n"), "{output:?}");
    let lines = said_by_spawned(&output);
    assert_eq!(lines, ["spawned 0 of 2", "spawned 1 of 2"], "{output:?}");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
}

#[test]
fn what_cant_be_started_is_told_and_nothing_else_happens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noise");
    std::fs::write(&path, "#!/no/such/shell\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, executable).unwrap();
    let mut command = play_command("spawn-wrong", &["-n", "1"]);
    let output = command.env("WEFT_TEST_FILE", &path).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("all wrong") && stderr(&output).is_empty(),
        "{output:?}"
    );
}

#[test]
fn the_status_of_a_spawned_job_counts_where_the_own_is_0() {
    for status_of_child in ["0", "7"] {
        let mut command = play_command("spawn-status", &["-n", "1"]);
        let output = command.env("WEFT_TEST_STATUS", status_of_child).output().unwrap();
        assert_eq!(status(&output).to_string(), status_of_child, "{output:?}");
    }
}

#[test]
fn many_jobs_come_and_go() {
    let output = play("spawn-many", &["-n", "1"]);
    assert!(
        status(&output) == 0 && stdout(&output).contains("all thirty"),
        "{output:?}"
    );
}

#[test]
fn names_are_those_of_all_jobs_that_have_spawned_each_other() {
    let output = play("spawn-names", &["-n", "1"]);
    assert!(
        status(&output) == 0 && stdout(&output).contains("all named"),
        "{output:?}"
    );
}

/// A job that has spawned one; the processes of both.
fn parent_and_child(leaves: bool) -> (Running, i32) {
    let mut command = play_command("spawn-stay", &["-n", "1"]);
    if leaves {
        command.env("WEFT_TEST_LEAVE", "1");
    }
    let mut job = Running::start(command);
    // Both have said what they say: nobody reads their output afterwards. A line may follow the beginning of another job's.
    let said = job.lines(2, |line| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [.., "child", pid, "1"] => Some(Some(pid.parse().expect("a number"))),
            [.., "parent", _] => Some(None),
            _ => None,
        }
    });
    let child = said.into_iter().flatten().next();
    (job, child.expect("the child's line"))
}

#[test]
fn a_spawned_job_goes_on_and_is_waited_for() {
    let (mut job, child) = parent_and_child(true);
    // Its parent is done by now, or will be.
    assert!(is_alive(child) && job.child.try_wait().expect("a child").is_none());
    // SAFETY: the call takes numbers only, and the process was there just before.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let (status, errors) = job.end();
    assert_eq!(status, 137, "{errors}");
    assert!(errors.contains("was killed by signal 9"), "{errors}");
}

#[test]
fn signals_reach_spawned_jobs() {
    for leaves in [false, true] {
        let (job, child) = parent_and_child(leaves);
        job.signal(libc::SIGTERM);
        let (status, errors) = job.end();
        assert!(!is_alive(child), "{errors}");
        assert_eq!(status, 143, "{errors}");
    }
}

#[test]
fn a_head_that_is_killed_takes_spawned_jobs_along() {
    let (job, child) = parent_and_child(false);
    job.signal(libc::SIGKILL);
    drop(job);
    wait_until("the spawned rank is gone", || !is_alive(child));
}

#[test]
fn jobs_that_are_pointed_at_a_name_server_share_its_names() {
    let mut server = Running::start(mpiexec(&["--name-server"]));
    let address = server.line();
    let mut first = play_command("spawn-service", &["-nameserver", &address, "-n", "1"]);
    first.env("WEFT_TEST_FIRST", "1");
    let mut first = Running::start(first);
    first.lines(1, |line| (line.ends_with("first is there")).then_some(()));
    // A process without a launcher, by its own head.
    let own = std::env::current_exe().expect("this executable's path");
    let second = Command::new(own)
        .args([
            "rank::plays_its_part",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("WEFT_TEST_PART", "spawn-service")
        .env("WEFT_MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"))
        .env("WEFT_NAME_SERVER", &address)
        .env_remove("PMI_FD")
        .output()
        .expect("it starts");
    assert!(stdout(&second).contains("all served"), "{second:?}");
    assert_eq!(first.end().0, 0);
    server.signal(libc::SIGTERM);
    server.child.wait().expect("it ends");
    let late = play("spawn-service", &["-nameserver", &address, "-n", "1"]);
    assert_eq!(status(&late), 101, "{late:?}");
    assert!(
        stderr(&late).contains("the name server can't be reached"),
        "{late:?}"
    );
}
