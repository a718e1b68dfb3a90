//! Spawns and names of services, with a launcher like Hydra.

use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::Class;
use crate::system::bootstrap::Command;

/// A launcher like Hydra that answers each spawn with the next of `results`; what it was asked for comes through the channel.
fn spawner(results: &'static [&'static str]) -> (UnixStream, JoinHandle<()>, Receiver<String>) {
    let (said, asked) = channel();
    let mut other = hydra(1024, "(vector,(0,1,1))");
    let mut results = results.iter();
    let mut request = String::new();
    let (socket, thread) = launcher(move |line| {
        if request.is_empty() && line != "mcmd=spawn" {
            return other(line);
        }
        request += line;
        request += "\n";
        if line != "endcmd" {
            return Some(String::new());
        }
        said.send(std::mem::take(&mut request)).unwrap();
        results.next().map(|result| format!("{result}\n"))
    });
    (socket, thread, asked)
}

fn spawn_of(program: &str) -> Spawn {
    Spawn {
        commands: vec![Command {
            program: program.into(),
            arguments: vec!["a b".into(), "c\\d".into()],
            count: 2,
            info: Vec::new(),
        }],
        port: "weft1/port".into(),
    }
}

fn outcome(pmi: &mut Pmi1, id: u32) -> Result<Spawned> {
    loop {
        if let Some(spawned) = pmi.spawned(id)? {
            return Ok(spawned);
        }
        pmi.wait(PollFlags::POLLIN, PollTimeout::NONE)?;
    }
}

#[test]
fn a_foreign_launcher_spawns() {
    let (socket, thread, asked) = spawner(&[
        "cmd=spawn_result rc=0",
        "cmd=spawn_result rc=0 errcodes=0,0",
        "cmd=spawn_result rc=0 errcodes=0,-1",
        "cmd=spawn_result rc=-1 msg=there_is_no_room",
        "cmd=spawn_result rc=0",
    ]);
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 1)).unwrap();
    assert!(pmi.spawn_patience().is_some());
    let ids: Vec<u32> = (0..4).map(|_| pmi.spawn(&spawn_of("/bin/sh")).unwrap()).collect();
    // In another order than they are answered.
    assert_eq!(
        outcome(&mut pmi, ids[1]).unwrap(),
        Spawned {
            started: 2,
            of_command: vec![2],
            errors: vec![None],
        }
    );
    assert_eq!(outcome(&mut pmi, ids[0]).unwrap().started, 2);
    for (id, words) in [(ids[2], "1 of 2 processes"), (ids[3], "there is no room")] {
        let error = outcome(&mut pmi, id).unwrap_err();
        assert!(
            error.class == Class::Spawn && error.message.contains(words),
            "{error}"
        );
    }
    let request = asked.recv().unwrap();
    for line in [
        "nprocs=2",
        "execname=/bin/sh",
        "arg1=a b",
        // Hydra of this version takes a single one away.
        "arg2=c\\\\d",
        "preput_val_0=weft1/port",
    ] {
        assert!(request.lines().any(|found| found == line), "{line}: {request}");
    }
    assert_eq!(asked.iter().take(3).count(), 3);
    // What is known to fail is not asked for.
    let none = pmi.spawn(&spawn_of("/no/such/program")).unwrap();
    let spawned = outcome(&mut pmi, none).unwrap();
    assert_eq!((spawned.started, &spawned.of_command[..]), (0, &[0][..]));
    assert!(spawned.errors[0].as_ref().unwrap().contains("/no/such/program"));
    pmi.spawned(none).expect_err("it was told");
    // Other requests meanwhile.
    let last = pmi.spawn(&spawn_of("/bin/sh")).unwrap();
    pmi.fence().unwrap();
    outcome(&mut pmi, last).unwrap();
    pmi.finalize().unwrap();
    let error = pmi.spawn(&spawn_of("/bin/sh")).unwrap_err();
    assert!(
        error.class == Class::Spawn && error.message.contains("first session"),
        "{error}"
    );
    thread.join().unwrap();
    assert_eq!(asked.iter().count(), 1);
}

#[test]
fn an_answer_to_no_spawn_is_an_error() {
    let (socket, _thread) = launcher({
        let mut other = hydra(1024, "(vector,(0,1,1))");
        move |line| match line {
            "cmd=barrier_in" => Some("cmd=spawn_result rc=0\n".into()),
            line => other(line),
        }
    });
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 1)).unwrap();
    let error = pmi.fence().unwrap_err();
    assert!(error.message.contains("nobody asked for"), "{error}");
}

/// A process whose launcher has these keys, and that is spawned or was started by one that is.
fn spawned_with(keys: &'static [(&'static str, &'static str)]) -> Job {
    let (socket, _thread) = launcher({
        let mut other = hydra(1024, "(vector,(0,1,1))");
        move |line| {
            let message = Message::parse(line.as_bytes()).unwrap();
            let key = message.find("key").unwrap_or_default();
            match keys.iter().find(|(known, _)| *known == key) {
                Some((_, value)) => Some(format!("cmd=get_result rc=0 value={value}\n")),
                None => other(line),
            }
        }
    });
    let known = environment(socket.as_raw_fd(), 0, 1);
    let pmi = Pmi1::connect(|name: &str| match name {
        "PMI_SPAWNED" => Some("1".into()),
        name => known(name),
    });
    pmi.unwrap().job().clone()
}

#[test]
fn a_spawned_process_finds_those_that_have_spawned_it() {
    let job = spawned_with(&[("weft-parent", "weft1/port")]);
    assert_eq!((job.parent.as_deref(), job.appnum), (Some("weft1/port"), Some(3)));
    // Whatever the launcher says.
    let job = spawned_with(&[("weft-parent", "weft1/port"), ("weft-commands", "6:1,7:1")]);
    assert_eq!(job.appnum, Some(6));
    assert_eq!(spawned_with(&[("weft-commands", "6:1")]).parent, None);
    // Without the variable it asks for nothing.
    let (socket, _thread) = launcher({
        let mut other = hydra(1024, "(vector,(0,1,1))");
        move |line| {
            assert!(!line.contains("weft-parent"));
            other(line)
        }
    });
    Pmi1::connect(environment(socket.as_raw_fd(), 0, 1)).unwrap();
}

#[test]
fn a_foreign_launcher_keeps_names() {
    let mut kept: HashMap<String, String> = HashMap::new();
    let mut ways = ["rc=1", "rc=0 port=", "info=fail"].iter().cycle();
    let mut other = hydra(1024, "(vector,(0,1,1))");
    let (socket, thread) = launcher(move |line| {
        let message = Message::parse(line.as_bytes()).unwrap();
        let service = message.find("service").unwrap_or_default().to_string();
        let done = |done: bool, what: &str| Some(format!("cmd={what} rc={}\n", u8::from(!done)));
        match message.command() {
            "publish_name" => {
                let port = message.get("port").unwrap().to_string();
                let is_new = !kept.contains_key(&service);
                kept.entry(service).or_insert(port);
                done(is_new, "publish_result")
            }
            "unpublish_name" => done(kept.remove(&service).is_some(), "unpublish_result"),
            "lookup_name" => Some(match kept.get(&service) {
                Some(port) => format!("cmd=lookup_result info=ok port={port}\n"),
                // As Hydra, its name server and Slurm say it.
                None => format!("cmd=lookup_result {}\n", ways.next().unwrap()),
            }),
            _ => other(line),
        }
    });
    let mut pmi = Pmi1::connect(environment(socket.as_raw_fd(), 0, 1)).unwrap();
    for service in ["service", "a service", "weft-hex-", "gr\u{fc}n"] {
        assert_eq!(pmi.lookup_name(service).unwrap(), None);
        pmi.publish_name(service, "a port").unwrap();
        let error = pmi.publish_name(service, "another").unwrap_err();
        assert!(
            error.class == Class::Service && error.message.contains(service),
            "{error}"
        );
        assert_eq!(pmi.lookup_name(service).unwrap().as_deref(), Some("a port"));
        pmi.unpublish_name(service).unwrap();
        pmi.unpublish_name(service).unwrap_err();
    }
    for long in [600, names::SERVICE_MAX + 1] {
        let error = pmi.publish_name(&"\u{fc}".repeat(long), "port").unwrap_err();
        assert!(error.message.contains("bytes"), "{error}");
    }
    pmi.finalize().unwrap();
    pmi.lookup_name("service").unwrap_err();
    thread.join().unwrap();
}
