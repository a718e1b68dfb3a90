//! The client against launchers of a few lines: a well-behaved one of another make, and bad ones.

mod spawning;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

use proptest::prelude::*;

use super::*;

/// The environment that such a launcher sets for a rank.
fn environment(fd: RawFd, rank: u32, size: u32) -> impl Fn(&str) -> Option<String> {
    move |name| match name {
        "PMI_FD" => Some(fd.to_string()),
        "PMI_RANK" => Some(rank.to_string()),
        "PMI_SIZE" => Some(size.to_string()),
        _ => None,
    }
}

/// A connection whose other end answers each line as `answer` says, until it says nothing or the client is gone.
fn launcher(mut answer: impl FnMut(&str) -> Option<String> + Send + 'static) -> (UnixStream, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            let Some(answer) = answer(&line) else { return };
            // A client that refused the last answer may be gone.
            let _ = (&theirs).write_all(answer.as_bytes());
            // As Hydra and Slurm do.
            if line == "cmd=finalize" {
                return;
            }
        }
    });
    (ours, thread)
}

/// The same as Slurm's `pmi2` plug-in reads: whatever one `read` of 1,024 bytes gives is a request. Where Slurm finds no command in
/// it, or none that is whole, it says so in its log and answers with half a value or nothing; this one fails.
fn slurm(job: &'static str, step: &'static str) -> (UnixStream, JoinHandle<()>) {
    slurm_that_waits(job, step, |_| {})
}

/// The same; `answered` is called after each answer, with the command.
fn slurm_that_waits(
    job: &'static str,
    step: &'static str,
    answered: impl Fn(&str) + Send + 'static,
) -> (UnixStream, JoinHandle<()>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut values: HashMap<String, String> = HashMap::new();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        loop {
            let read = match theirs.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => &buffer[..read],
            };
            let text = std::str::from_utf8(read).unwrap();
            assert!(text.ends_with('\n') && text.starts_with("cmd="), "{text}");
            let message = Message::parse(text.trim_end().as_bytes()).unwrap();
            let answer = match message.command() {
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n".into(),
                "get_maxes" => "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n".into(),
                "get_appnum" => "cmd=appnum rc=0 appnum=-1\n".into(),
                "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={job}.{step}\n"),
                "get_universe_size" => "cmd=universe_size rc=0 size=2\n".into(),
                "put" => {
                    let (key, value) = (message.get("key").unwrap(), message.get("value").unwrap());
                    values.insert(key.into(), value.into());
                    "cmd=put_result rc=0\n".into()
                }
                "get" => match (message.get("key").unwrap(), &values) {
                    ("PMI_process_mapping", _) => "cmd=get_result rc=0 value=(vector,(0,1,2))\n".into(),
                    (key, values) => match values.get(key) {
                        Some(value) => format!("cmd=get_result rc=0 value={value}\n"),
                        None => "cmd=get_result rc=1\n".into(),
                    },
                },
                "barrier_in" => "cmd=barrier_out rc=0\n".into(),
                other => panic!("{other}"),
            };
            let _ = theirs.write_all(answer.as_bytes());
            answered(message.command());
        }
    });
    (ours, thread)
}

/// Answers as Hydra does, with values as short as `vallen_max`.
fn hydra(vallen_max: usize, mapping: &'static str) -> impl FnMut(&str) -> Option<String> {
    let mut values: HashMap<String, String> = HashMap::from([("PMI_process_mapping".into(), mapping.into())]);
    move |line| {
        let message = Message::parse(line.as_bytes()).unwrap();
        Some(match message.command() {
            "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n".into(),
            "get_maxes" => format!("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max={vallen_max}\n"),
            "get_appnum" => "cmd=appnum rc=0 appnum=3\n".into(),
            "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=kvs_1\n".into(),
            "get_universe_size" => "cmd=universe_size rc=0 size=-1\n".into(),
            "put" => {
                let value = message.get("value").unwrap();
                assert!(value.len() < vallen_max, "{line}");
                values.insert(message.get("key").unwrap().into(), value.into());
                "cmd=put_result rc=0\n".into()
            }
            "get" => match values.get(message.get("key").unwrap()) {
                Some(value) => format!("cmd=get_result rc=0 value={value}\n"),
                None => "cmd=get_result rc=1\n".into(),
            },
            "barrier_in" => "cmd=barrier_out tag=0\n".into(),
            "finalize" => "cmd=finalize_ack rc=0\n".into(),
            other => panic!("{other}"),
        })
    }
}

fn find(pmi: &mut Pmi1, incarnation: u32, peer: u32) -> Result<Vec<u8>> {
    loop {
        if let Some(card) = pmi.lookup(incarnation, pmi.job().process(peer))? {
            return Ok(card);
        }
        pmi.wait(PollFlags::POLLIN, PollTimeout::NONE)?;
    }
}

#[test]
fn a_foreign_launcher_is_understood() {
    let (socket, thread) = launcher(hydra(1024, "(vector,(0,2,2))"));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 2, 4)).unwrap();
    let job = pmi.job().clone();
    assert_eq!(
        (job.rank, job.size, job.appnum, job.universe_size),
        (2, 4, Some(3), None)
    );
    assert_eq!((job.local_only, job.local_rank, job.local_ranks), (false, 0, 2));
    assert_eq!(job.id, "kvs_1");
    assert_eq!(pmi.name(), "pmi-1");
    assert!(!pmi.tells_why());
    assert!(pmi.needs_fence());
    pmi.fence().unwrap();
    pmi.finalize().unwrap();
    drop(socket);
    thread.join().unwrap();
}

#[test]
fn a_long_card_goes_in_parts_where_values_are_short() {
    let (socket, thread) = launcher(hydra(40, "(vector,(0,1,2))"));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    for (incarnation, length) in [(0, 1000), (1, 0), (2, 1)] {
        let card: Vec<u8> = (0..length).map(|place| place as u8).collect();
        pmi.publish(incarnation, &card).unwrap();
        pmi.fence().unwrap();
        assert_eq!(find(&mut pmi, incarnation, 0).unwrap(), card);
    }
    drop(socket);
    thread.join().unwrap();
}

#[test]
fn a_card_or_key_that_just_fits_is_taken_and_a_longer_one_refused() {
    // Two digits in each part.
    let (socket, thread) = launcher(hydra(5, "(vector,(0,1,2))"));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    let card = [0x5a; PARTS_MAX as usize];
    pmi.publish(0, &card).unwrap();
    assert_eq!(find(&mut pmi, 0, 0).unwrap(), card);
    let error = pmi.publish(1, &[0x5a; PARTS_MAX as usize + 1]).unwrap_err();
    assert!(error.message.contains("1025 bytes"), "{error}");
    drop(socket);
    thread.join().unwrap();

    for (keylen_max, good) in [(19, true), (18, false)] {
        let mut answer = hydra(1024, "(vector,(0,1,2))");
        let (socket, thread) = launcher(move |line| match line {
            "cmd=get_maxes" => Some(format!(
                "cmd=maxes rc=0 kvsname_max=256 keylen_max={keylen_max} vallen_max=1024\n"
            )),
            line => answer(line),
        });
        let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
        // With a final zero byte weft-card-0-0-1024 has 19.
        assert_eq!(pmi.publish(0, b"card").is_ok(), good, "{keylen_max}");
        drop(socket);
        thread.join().unwrap();
    }
}

/// The environment of a step of Slurm.
fn in_step(fd: RawFd, job: &'static str, step: &'static str) -> impl Fn(&str) -> Option<String> {
    let others = environment(fd, 0, 2);
    move |name| match name {
        "SLURM_JOB_ID" => Some(job.into()),
        "SLURM_STEP_ID" => Some(step.into()),
        name => others(name),
    }
}

#[test]
fn a_card_of_any_length_fits_slurms_lines() {
    for (job, step) in [("7", "0"), ("4294967290", "4294967290")] {
        let (socket, thread) = slurm(job, step);
        let mut pmi = Pmi1::connect(in_step(socket.as_raw_fd(), job, step)).unwrap();
        // Around the length at which a line is full, and several of them.
        let lengths = (440..500).chain([0, 1, 880, 1000, 5000]);
        for (incarnation, length) in (0..).zip(lengths) {
            let card: Vec<u8> = (0..length).map(|place| place as u8).collect();
            pmi.publish(incarnation, &card).unwrap();
            pmi.fence().unwrap();
            assert_eq!(find(&mut pmi, incarnation, 0).unwrap(), card, "{length} bytes");
        }
        drop(socket);
        thread.join().unwrap();
    }
}

/// A launcher may show what is put at once, and others may look at any time.
#[test]
fn who_finds_the_first_part_of_a_card_finds_all() {
    let mut answer = hydra(40, "(vector,(0,1,2))");
    let mut parts: HashMap<u32, String> = HashMap::new();
    let (socket, thread) = launcher(move |line| {
        let message = Message::parse(line.as_bytes()).unwrap();
        if message.command() == "put" {
            let (name, part) = CardName::from_key(message.get("key").unwrap()).unwrap();
            assert_eq!((name.incarnation, name.rank), (3, 0));
            parts.insert(part, message.get("value").unwrap().into());
            if parts.contains_key(&0) {
                let last = (0..).find(|part| parts.get(part).is_none_or(|value| value.starts_with("0.")));
                assert!(last.is_some_and(|last| parts.contains_key(&last)), "{parts:?}");
                assert!(parts.len() > 10, "{parts:?}");
            }
        }
        answer(line)
    });
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    pmi.publish(3, &[7; 300]).unwrap();
    assert_eq!(find(&mut pmi, 3, 0).unwrap(), [7; 300]);
    drop(socket);
    thread.join().unwrap();
}

#[test]
fn a_mapping_that_makes_no_sense_is_a_hint_lost() {
    let connect = |mapping| {
        let here = crate::system::shared_memory::Machine::here().unwrap();
        let here = format!("{:x}-{:x}", here.boot, here.pids);
        let mut answer = hydra(1024, mapping);
        let mut told = false;
        let (socket, thread) = launcher(move |line| {
            // The others put theirs: rank 0 is on another machine, rank 1 on this one, rank 2 does not know.
            for (rank, machine) in ["elsewhere", &here, "unknown"]
                .iter()
                .enumerate()
                .filter(|_| !told)
            {
                let put = format!("cmd=put kvsname=kvs_1 key=weft-machine-{rank} value={machine}");
                assert!(answer(&put).is_some());
            }
            told = true;
            answer(line)
        });
        let pmi = Pmi1::connect(environment(socket.as_raw_fd(), 3, 4)).unwrap();
        let job = pmi.job().clone();
        drop(socket);
        thread.join().unwrap();
        let nodes = [0, 1, 2, 3].map(|rank| job.layout.node_of(rank));
        (nodes, job.local_rank, job.local_ranks, job.layout_unknown)
    };
    assert_eq!(connect("(vector,(0,3,1),0)"), ([0, 1, 2, 0], 1, 2, None));
    let (nodes, local_rank, local_ranks, unknown) = connect("(list,h1,h2)");
    assert_eq!((nodes, local_rank, local_ranks), ([0, 1, 2, 1], 1, 2));
    let unknown = unknown.unwrap();
    assert!(unknown.contains("(list,h1,h2)"), "{unknown}");
}

#[test]
fn a_launcher_that_closes_its_end_at_finalize_is_left_alone() {
    let (socket, thread) = launcher(hydra(1024, "(vector,(0,1,2))"));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    assert_eq!(
        (pmi.after_finalize(), pmi.is_over()),
        (AfterFinalize::Ends, false)
    );
    pmi.publish(0, b"card").unwrap();
    pmi.fence().unwrap();
    assert_eq!(pmi.fetch(0, pmi.job().process(0)).unwrap(), b"card");
    pmi.finalize().unwrap();
    thread.join().unwrap();
    assert!(pmi.is_over());
    // The end of the connection is no news.
    assert!(pmi.descriptor().is_none());
    assert!(!pmi.attend().unwrap());
    pmi.finalize().unwrap();
    drop(socket);
}

/// It hears nothing after `finalize`, and does not need it.
#[test]
fn slurm_is_not_told() {
    let (socket, thread) = slurm("28", "0");
    let mut pmi = Pmi1::connect(in_step(socket.as_raw_fd(), "28", "0")).unwrap();
    assert_eq!(pmi.after_finalize(), AfterFinalize::Stays);
    pmi.publish(0, b"card").unwrap();
    pmi.fence().unwrap();
    pmi.finalize().unwrap();
    assert_eq!(
        (pmi.is_over(), pmi.descriptor().map(|fd| fd.as_raw_fd())),
        (false, Some(socket.as_raw_fd()))
    );
    assert_eq!(pmi.fetch(0, pmi.job().process(0)).unwrap(), b"card");
    drop(socket);
    thread.join().unwrap();

    // Hydra started inside a step of Slurm.
    let (socket, thread) = launcher(hydra(1024, "(vector,(0,1,2))"));
    let pmi = Pmi1::connect(in_step(socket.as_raw_fd(), "28", "0")).unwrap();
    assert_eq!(pmi.after_finalize(), AfterFinalize::Ends);
    drop(socket);
    thread.join().unwrap();
}

/// A thread looks for a card while another is at the fence, and the launcher has read neither line when both are there to be sent.
#[test]
fn slurm_gets_one_line_at_a_time() {
    for fence_first in [true, false] {
        let go = Arc::new(Barrier::new(2));
        let at = go.clone();
        let (socket, thread) = slurm_that_waits("28", "0", move |command| {
            // It is late with the first of the two.
            if command == "put" {
                at.wait();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let mut pmi = Pmi1::connect(in_step(socket.as_raw_fd(), "28", "0")).unwrap();
        pmi.publish(0, b"card").unwrap();
        go.wait();
        let peer = pmi.job().process(0);
        let card;
        if fence_first {
            pmi.begin_fence().unwrap();
            card = pmi.lookup(0, peer).unwrap();
        } else {
            card = pmi.lookup(0, peer).unwrap();
            pmi.begin_fence().unwrap();
        }
        while !pmi.fence_is_over().unwrap() {
            pmi.wait(PollFlags::POLLIN, PollTimeout::NONE).unwrap();
        }
        let card = card.map_or_else(|| find(&mut pmi, 0, 0), Ok);
        assert_eq!(card.unwrap(), b"card");
        drop(socket);
        thread.join().unwrap();
    }
}

#[test]
fn a_card_that_is_not_there_is_an_error_and_others_still_come() {
    let (socket, thread) = launcher(hydra(1024, "(vector,(0,1,3))"));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 3)).unwrap();
    pmi.publish(0, b"card").unwrap();
    // Both are under way: one is asked for when the other is answered.
    let first = pmi.lookup(0, pmi.job().process(2));
    let second = pmi.lookup(0, pmi.job().process(0));
    let error = match first {
        Err(error) => error,
        Ok(_) => find(&mut pmi, 0, 2).unwrap_err(),
    };
    assert!(error.message.contains("process 2"), "{error}");
    assert_eq!(
        second.unwrap().map_or_else(|| find(&mut pmi, 0, 0), Ok).unwrap(),
        b"card"
    );
    pmi.lookup(0, pmi.job().process(3))
        .expect_err("outside of the job");
    drop(socket);
    thread.join().unwrap();
}

#[test]
fn answers_for_lookups_may_come_before_that_of_a_barrier() {
    let mut all = hydra(1024, "(vector,(0,1,1))");
    let (socket, thread) = launcher(move |line| all(line));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 1)).unwrap();
    pmi.publish(0, b"card").unwrap();
    if pmi.lookup(0, pmi.job().process(0)).unwrap().is_none() {
        pmi.fence().unwrap();
        assert_eq!(
            pmi.lookup(0, pmi.job().process(0)).unwrap().as_deref(),
            Some(&b"card"[..])
        );
    }
    drop(socket);
    thread.join().unwrap();
}

/// Weft's launcher answers a lookup when the card is there. By then the connection that asked may have ended with the last session, and
/// the next one may have asked again.
#[test]
fn an_answer_that_nobody_waits_for_is_ignored() {
    let mut withheld = None;
    let (socket, thread) = launcher(move |line| {
        let message = Message::parse(line.as_bytes()).unwrap();
        Some(match message.command() {
            "init" => {
                withheld.clone().unwrap_or_default()
                    + "cmd=response_to_init rc=0 weft=1 launcher_pid=2147483647 kvsname=kvs keylen_max=64 vallen_max=1024 appnum=0 universe_size=2 \
                       mapping=(vector,(0,1,2))\n"
            }
            "get" => {
                let key = message.get("key").unwrap();
                let (_, part) = CardName::from_key(key).unwrap();
                let value = ["1.61", "1.62", "0.63"][part as usize];
                let answer = format!("cmd=get_result rc=0 key={key} value={value}\n");
                match withheld {
                    None => {
                        withheld = Some(answer);
                        String::new()
                    }
                    Some(_) => answer.repeat(2),
                }
            }
            other => panic!("{other}"),
        })
    });
    let connect = || Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    let mut first = connect();
    assert_eq!(first.lookup(0, first.job().process(1)).unwrap(), None);
    drop(first);
    let mut second = connect();
    assert_eq!(find(&mut second, 0, 1).unwrap(), b"abc");
    assert!(!second.attend().unwrap());
    drop(socket);
    thread.join().unwrap();
}

#[test]
fn a_launcher_that_dies_is_an_error() {
    let mut answer = hydra(1024, "(vector,(0,1,2))");
    let (socket, thread) = launcher(move |line| {
        (!line.contains("weft-card") || line.contains("put"))
            .then(|| answer(line))
            .flatten()
    });
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    let error = find(&mut pmi, 0, 1).unwrap_err();
    assert!(error.message.contains("gone"), "{error}");
    assert!(pmi.fence().unwrap_err().message.contains("gone"));
    thread.join().unwrap();
}

#[test]
fn a_wrong_environment_is_told() {
    let message = |lookup: &dyn Fn(&str) -> Option<String>| match Pmi1::connect(lookup) {
        Ok(_) => panic!("connected"),
        Err(error) => error.message.into_owned(),
    };
    let (socket, _other) = UnixStream::pair().unwrap();
    let fd = socket.as_raw_fd();
    assert!(message(&environment(fd, 2, 2)).contains("PMI_RANK=2"));
    assert!(message(&environment(-1, 0, 1)).contains("PMI_FD"));
    assert!(message(&environment(1 << 20, 0, 1)).contains("not open"));
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(message(&environment(file.as_raw_fd(), 0, 1)).contains("PMI_FD"));
    assert!(message(&|name| (name == "PMI_FD").then(|| fd.to_string())).contains("PMI_RANK"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn garbage_from_the_launcher_is_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 1..60),
        good in 0usize..8,
    ) {
        prop_assume!(!bytes.is_empty() && bytes.last() != Some(&b'='));
        let mut answer = hydra(1024, "(vector,(0,1,1))");
        let mut answered = 0;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            while let Some(Ok(line)) = lines.next() {
                if answered == good {
                    let _ = (&theirs).write_all(&bytes);
                    let _ = (&theirs).write_all(b"\n");
                    return;
                }
                answered += 1;
                let text = answer(&line).unwrap();
                let _ = (&theirs).write_all(text.as_bytes());
            }
        });
        let outcome = Pmi1::connect(environment(ours.as_raw_fd(), 0, 1)).and_then(|mut pmi| {
            pmi.publish(0, b"card")?;
            pmi.fence()?;
            find(&mut pmi, 0, 0)
        });
        drop(ours);
        thread.join().unwrap();
        prop_assert!(outcome.is_err());
    }
}

/// A launcher that is about to end the job asks for reports when it likes.
#[test]
fn a_wish_for_a_report_may_come_before_any_answer() {
    let mut answer = hydra(1024, "(vector,(0,1,2))");
    let (socket, thread) = launcher(move |line| {
        let text = answer(line)?;
        let comes_first = line == "cmd=barrier_in" || line.starts_with("cmd=put");
        Some(if comes_first {
            format!("cmd=report\n{text}")
        } else {
            text
        })
    });
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    assert!(!pmi.attend().unwrap());
    pmi.fence().unwrap();
    assert!(pmi.attend().unwrap(), "the wish is not lost");
    assert!(!pmi.attend().unwrap(), "it is one wish");
    pmi.publish(0, b"card").unwrap();
    assert!(pmi.attend().unwrap() && !pmi.attend().unwrap());
    drop(socket);
    thread.join().unwrap();
}

/// One after the other, as for any card; but it never ends.
#[test]
fn a_card_without_end_is_an_error() {
    let mut answer = hydra(1024, "(vector,(0,1,2))");
    let (asked, count) = std::sync::mpsc::channel();
    let (socket, thread) = launcher(move |line| {
        if line.contains("weft-card") {
            asked.send(()).unwrap();
            return Some("cmd=get_result rc=0 value=1.61\n".into());
        }
        answer(line)
    });
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    let error = find(&mut pmi, 0, 1).unwrap_err();
    assert!(error.message.contains("too many parts"), "{error}");
    drop(socket);
    thread.join().unwrap();
    assert_eq!(count.iter().count(), PARTS_MAX as usize + 1);
}

/// With the launcher gone, nobody but the status that this process leaves tells of an abort.
#[test]
fn an_abort_when_the_launcher_is_gone_is_a_signal_unless_it_is_alone() {
    const SIZE: &str = "WEFT_TEST_ABORT_OF";
    const NAME: &str =
        "system::bootstrap::pmi1::tests::an_abort_when_the_launcher_is_gone_is_a_signal_unless_it_is_alone";
    if let Ok(size) = std::env::var(SIZE) {
        let (socket, _thread) = launcher(hydra(1024, "(vector,(0,1,2))"));
        let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, size.parse().unwrap())).unwrap();
        pmi.finalize().unwrap();
        pmi.over = true;
        let ends = pmi.abort(7, "no more fuel");
        std::process::exit(if ends { 1 } else { 3 });
    }
    let ended = |size: &str| {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", NAME]).env(SIZE, size).env_remove("PMI_FD");
        again.stdout(std::process::Stdio::null());
        again.status().unwrap()
    };
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(ended("1").code(), Some(3));
    assert!(ended("2").signal().is_some());
}

#[test]
fn a_line_that_is_too_long_is_not_sent() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).unwrap();
        all.len()
    });
    let mut answer = hydra(1024, "(vector,(0,1,2))");
    let (socket, thread) = launcher(move |line| answer(line));
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 2)).unwrap();
    pmi.fd = ours.as_raw_fd();
    for more in [1, 2, 1000] {
        let error = pmi.send(&"x".repeat(LINE_BYTES_MAX + more)).unwrap_err();
        assert!(error.message.contains("too long"), "{error}");
    }
    pmi.send(&"x".repeat(LINE_BYTES_MAX)).unwrap();
    drop(ours);
    assert_eq!(reader.join().unwrap(), LINE_BYTES_MAX);
    drop(socket);
    thread.join().unwrap();
}

/// A launcher that is Weft's, and answers what follows as `answer` says.
fn weft_launcher(
    mut answer: impl FnMut(&Message) -> String + Send + 'static,
) -> (Pmi1, UnixStream, JoinHandle<()>) {
    let (socket, thread) = launcher(move |line| {
        let message = Message::parse(line.as_bytes()).unwrap();
        Some(match message.command() {
            "init" => "cmd=response_to_init rc=0 weft=1 launcher_pid=2147483647 kvsname=kvs keylen_max=64 vallen_max=1024 appnum=0 \
                       universe_size=2 mapping=(vector,(0,1,1))\n"
                .into(),
            _ => answer(&message),
        })
    });
    let pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 1)).unwrap();
    (pmi, socket, thread)
}

fn outcome(pmi: &mut Pmi1, spawn: u32) -> Result<Spawned> {
    loop {
        if let Some(spawned) = pmi.spawned(spawn)? {
            return Ok(spawned);
        }
        pmi.wait(PollFlags::POLLIN, PollTimeout::NONE)?;
    }
}

#[test]
fn a_long_spawn_goes_and_is_answered_in_parts_among_other_lines() {
    let wanted = Spawn {
        port: "the port".into(),
        commands: vec![super::super::Command {
            program: "child".into(),
            arguments: vec!["long".repeat(10_000).into()],
            count: 3,
            info: Vec::new(),
        }],
    };
    let made = Spawned {
        started: 3,
        of_command: vec![3],
        errors: vec![None],
    };
    let (asked, answered) = (wanted.clone(), made.clone());
    let mut list = Vec::new();
    let (mut pmi, _socket, thread) = weft_launcher(move |message| {
        if message.command() != "weft_spawn" {
            return "cmd=weft_lost job=2a why=626f6f6d\ncmd=lookup_result rc=0 port=61\n".into();
        }
        list.extend(wire::from_hex(message.get("data").unwrap()).unwrap());
        if message.get("more").unwrap() == "1" {
            return String::new();
        }
        assert_eq!(words::to_spawn(&list).unwrap(), asked);
        let id = message.get("id").unwrap();
        let answer = words::of_outcome(&Ok(answered.clone()));
        let (first, second) = answer.split_at(5);
        format!(
            "cmd=weft_spawned id={id} more=1 data={}\ncmd=report\ncmd=weft_spawned id={id} more=0 data={}\ncmd=weft_not_connected id={id} \
             why=6e6f\ncmd=weft_spawned id=4000000000 more=0 data=\n",
            wire::to_hex(first),
            wire::to_hex(second)
        )
    });
    let spawn = pmi.spawn(&wanted).unwrap();
    // While an answer to something else is waited for, too.
    assert_eq!(pmi.lookup_name("x").unwrap().as_deref(), Some("a"));
    assert_eq!(outcome(&mut pmi, spawn).unwrap(), made);
    pmi.spawned(spawn).expect_err("it was told");
    // All that was read on the way, of which the descriptor tells no more.
    assert!(pmi.has_news());
    assert!(pmi.attend().unwrap(), "a report is wanted");
    let lost = Notice::Lost {
        job: JobId(42),
        why: "boom".into(),
    };
    let why = "no".into();
    assert_eq!(pmi.notices(), [Notice::NotConnected { spawn, why }, lost]);
    assert!(!pmi.has_news());
    drop(pmi);
    drop(_socket);
    thread.join().unwrap();
}

#[test]
fn wrong_answers_to_a_spawn_are_errors() {
    for line in [
        "cmd=weft_spawned id=ID more=0 data=zz\n",
        "cmd=weft_spawned id=ID more=0 data=00\n",
        "cmd=weft_spawned id=ID data=\n",
        "cmd=weft_spawned more=0 data=\n",
        "cmd=weft_not_connected id=ID\n",
        "cmd=weft_not_connected id=ID why=ff\n",
        "cmd=weft_lost job=x why=61\n",
        "cmd=weft_lost job=1\n",
    ] {
        let (mut pmi, socket, thread) =
            weft_launcher(move |message| line.replace("ID", message.get("id").unwrap()));
        let wanted = Spawn {
            port: String::new(),
            commands: vec![super::super::Command::default()],
        };
        let spawn = pmi.spawn(&wanted).unwrap();
        outcome(&mut pmi, spawn).expect_err(line);
        drop(socket);
        thread.join().unwrap();
    }
}
