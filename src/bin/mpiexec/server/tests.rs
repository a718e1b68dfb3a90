use super::*;
use proptest::prelude::*;

fn server(size: usize) -> Server {
    Server::new(Facts {
        job: "job".into(),
        appnums: vec![0; size],
        universe_size: size as u32,
        hosts: vec![0; size],
        agents: vec![1],
        memory_alloc_kinds: vec![None; size],
    })
}

/// The lines that go out, with their ranks.
fn replies(server: &mut Server, rank: usize, line: &str) -> Vec<(usize, String)> {
    let effects = server
        .line(rank, Some(100 + rank as i32), line.as_bytes())
        .unwrap();
    effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Reply { rank, line } => Some((rank, line)),
            _ => None,
        })
        .collect()
}

fn init(server: &mut Server, rank: usize) {
    let line = &replies(server, rank, "cmd=init pmi_version=1 pmi_subversion=1")[0].1;
    assert!(line.contains(" rc=0 "), "{line}");
}

#[test]
fn a_plain_get_is_answered_at_once_and_a_waiting_one_when_put() {
    let mut server = server(2);
    init(&mut server, 0);
    init(&mut server, 1);
    let plain = replies(&mut server, 0, "cmd=get kvsname=k key=a");
    assert!(plain[0].1.contains("rc=1"), "{plain:?}");
    assert_eq!(
        replies(&mut server, 0, "cmd=get kvsname=k key=a wait=1 from=1"),
        []
    );
    assert_eq!(
        replies(&mut server, 1, "cmd=put kvsname=k key=a value=7"),
        [
            (1, "cmd=put_result rc=0 msg=success\n".to_string()),
            (0, "cmd=get_result rc=0 msg=success key=a value=7\n".to_string())
        ]
    );
}

#[test]
fn who_is_quiet_has_no_answer() {
    let mut server = server(2);
    init(&mut server, 0);
    assert_eq!(
        replies(&mut server, 0, "cmd=get kvsname=k key=a wait=1 from=0"),
        []
    );
    assert_eq!(
        replies(&mut server, 0, "cmd=put kvsname=k key=a value=7 quiet=1"),
        [(0, "cmd=get_result rc=0 msg=success key=a value=7\n".to_string())]
    );
    let long = format!(
        "cmd=put kvsname=k key={} value=7 quiet=1",
        "a".repeat(KEYLEN_MAX + 1)
    );
    assert!(server.line(0, None, long.as_bytes()).is_err());
    let finalized = server.line(0, None, b"cmd=finalize quiet=1").unwrap();
    assert_eq!(finalized, [Effect::Finalized { rank: 0 }]);
    assert_eq!(server.phase(0), Phase::Finalized);
}

#[test]
fn keys_and_values_have_a_longest() {
    let (key, value) = ("k".repeat(KEYLEN_MAX), "v".repeat(WEFT_VALLEN_MAX));
    for quiet in [false, true] {
        let mut server = server(1);
        init(&mut server, 0);
        let mut put = |key: &str, value: &str| {
            let quiet = if quiet { " quiet=1" } else { "" };
            let line = format!("cmd=put kvsname=k key={key} value={value}{quiet}");
            server.line(0, None, line.as_bytes())
        };
        let good = put(&key, &value).unwrap();
        assert_eq!(good.is_empty(), quiet);
        for (key, value) in [(&key, &format!("{value}v")), (&format!("{key}k"), &value)] {
            match put(key, value) {
                Err(_) if quiet => {}
                Ok(effects) if !quiet => {
                    let text = format!("{effects:?}");
                    assert!(text.contains("rc=1") && text.contains("too_long"), "{text}");
                }
                other => panic!("quiet {quiet}: {other:?}"),
            }
        }
        // A refused put has no effect.
        let get = |key: &str| format!("cmd=get kvsname=k key={key}");
        let found = &replies(&mut server, 0, &get(&key))[0].1;
        assert_eq!(*found, format!("cmd=get_result rc=0 msg=success value={value}\n"));
        assert!(
            replies(&mut server, 0, &get(&format!("{key}k")))[0]
                .1
                .contains("rc=1")
        );
    }
}

/// The limits that a client is told are the real ones.
#[test]
fn the_longest_value_fits_a_line() {
    let mut server = server(1);
    init(&mut server, 0);
    let maxes = &replies(&mut server, 0, "cmd=get_maxes")[0].1;
    assert!(maxes.contains("keylen_max=64 vallen_max=1024"), "{maxes}");
    let longest = found_line(&"k".repeat(KEYLEN_MAX), &"v".repeat(WEFT_VALLEN_MAX));
    assert!(longest.len() <= wire::LINE_BYTES_MAX);
}

#[test]
fn a_barrier_opens_when_all_are_in() {
    let mut server = server(2);
    init(&mut server, 0);
    init(&mut server, 1);
    for _ in 0..2 {
        assert_eq!(replies(&mut server, 1, "cmd=barrier_in"), []);
        assert_eq!(replies(&mut server, 0, "cmd=barrier_in").len(), 2);
    }
}

#[test]
fn a_second_program_of_a_rank_meets_nothing_of_the_first() {
    let mut server = server(2);
    init(&mut server, 0);
    init(&mut server, 1);
    replies(&mut server, 0, "cmd=put kvsname=k key=a value=old");
    replies(&mut server, 0, "cmd=finalize");
    let second = server
        .line(0, Some(7), b"cmd=init pmi_version=1 pmi_subversion=1")
        .unwrap();
    assert_eq!(
        second[0],
        Effect::Initialized {
            rank: 0,
            pid: Some(7)
        }
    );
    assert!(
        replies(&mut server, 0, "cmd=get kvsname=k key=a")[0]
            .1
            .contains("rc=1")
    );
    assert!(
        replies(&mut server, 1, "cmd=get kvsname=k key=a")[0]
            .1
            .contains("value=old")
    );
    assert_eq!(replies(&mut server, 0, "cmd=barrier_in"), []);
    assert_eq!(replies(&mut server, 1, "cmd=barrier_in"), []);
}

#[test]
fn who_waits_for_a_gone_rank_is_found() {
    let mut server = server(3);
    init(&mut server, 0);
    init(&mut server, 2);
    replies(&mut server, 2, "cmd=get kvsname=k key=a wait=1 from=1");
    assert_eq!(server.waited_for_in_vain(), None);
    server.exited(1);
    assert_eq!(server.waited_for_in_vain(), Some((1, 2)));
    replies(&mut server, 0, "cmd=barrier_in");
    assert_eq!(server.waited_for_in_vain(), Some((1, 0)));
}

#[test]
fn another_mpis_client_spawns_by_lines() {
    let mut server = server(1);
    let lines = [
        "mcmd=spawn",
        "nprocs=2",
        "execname=a b",
        "totspawns=1",
        "spawnssofar=1",
        "argcnt=0",
        "preput_num=1",
        "preput_key_0=PARENT",
        "preput_val_0=tag#0",
        "info_num=0",
    ];
    server.line(0, None, b"mcmd=spawn").expect_err("before init");
    init(&mut server, 0);
    for line in lines {
        assert_eq!(server.line(0, None, line.as_bytes()).unwrap(), []);
    }
    let effects = server.line(0, None, b"endcmd").unwrap();
    let [
        Effect::Spawn {
            rank: 0,
            form: SpawnForm::Lines,
            list,
            preput,
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(words::to_spawn(list).unwrap().commands[0].program, "a b");
    assert_eq!(preput, &[("PARENT".into(), "tag#0".into())]);
    // The next line is one of its own again.
    assert_eq!(replies(&mut server, 0, "cmd=get_appnum").len(), 1);
    // A new process of the rank begins anew.
    assert_eq!(replies(&mut server, 0, "mcmd=spawn"), []);
    assert_eq!(replies(&mut server, 0, "nprocs=1"), []);
    server.line(0, None, b"no line").expect_err("no key=value");
    for line in ["mcmd=put", "cmd=spawn"] {
        let mut server = self::server(1);
        init(&mut server, 0);
        server.line(0, None, line.as_bytes()).expect_err(line);
    }
}

#[test]
fn what_those_that_spawn_have_put_is_there_from_the_start() {
    let mut server = server(2);
    server.put_before(vec![("PARENT".into(), "tag#0".into())]);
    init(&mut server, 1);
    let found = replies(&mut server, 1, "cmd=get kvsname=k key=PARENT");
    assert!(found[0].1.contains("value=tag#0"), "{found:?}");
}

#[test]
fn a_second_process_of_an_active_rank_is_refused() {
    let mut server = server(1);
    init(&mut server, 0);
    let line = &replies(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1")[0].1;
    assert!(line.contains("rc=1"), "{line}");
}

#[test]
fn abort_carries_code_and_message() {
    let mut server = server(1);
    let line = format!(
        "cmd=abort exitcode=-3 message=abort weft_message={}",
        wire::to_hex(b"no field")
    );
    let effects = server.line(0, None, line.as_bytes()).unwrap();
    assert_eq!(
        effects,
        [Effect::Abort {
            rank: 0,
            code: -3,
            message: "no field".into()
        }]
    );
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(lines in proptest::collection::vec(
        "(cmd|mcmd)=(init|get|put|barrier_in|finalize|abort|getbyidx|spawn|x)\
         ( (key|value|kvsname|idx|from|wait|exitcode|message|pmi_version)=[a1-9]{0,3}){0,4}",
        0..20,
    )) {
        let mut server = server(2);
        for (number, line) in lines.iter().enumerate() {
            // Whether it is refused is not the point here.
            let _ = server.line(number % 2, None, line.as_bytes());
        }
    }
}

#[test]
fn a_foreign_client_finds_where_the_ranks_are() {
    let mut server = server(3);
    init(&mut server, 1);
    assert_eq!(
        replies(&mut server, 1, "cmd=get kvsname=k key=PMI_process_mapping"),
        [(
            1,
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))\n".to_string()
        )]
    );
}

#[test]
fn a_foreign_client_finds_the_memory_kinds_that_were_asked_for() {
    let mut server = server(2);
    server.facts.memory_alloc_kinds[1] = Some("mpi:alloc_mem".into());
    init(&mut server, 0);
    init(&mut server, 1);
    let ask = "cmd=get kvsname=k key=PMI_mpi_memory_alloc_kinds";
    assert!(replies(&mut server, 0, ask)[0].1.contains("rc=1"));
    assert_eq!(
        replies(&mut server, 1, ask),
        [(
            1,
            "cmd=get_result rc=0 msg=success value=mpi:alloc_mem\n".to_string()
        )]
    );
}

#[test]
fn who_waits_for_a_rank_that_there_is_none_of_waits_for_nobody_in_particular() {
    let mut server = server(2);
    init(&mut server, 0);
    for from in ["2", "3", "-1", "x"] {
        let line = format!("cmd=get kvsname=k key=a wait=1 from={from}");
        assert_eq!(replies(&mut server, 0, &line), []);
    }
    server.exited(1);
    assert_eq!(server.waited_for_in_vain(), None);
}

#[test]
fn what_a_rank_spawns_comes_in_parts_and_is_checked() {
    let mut server = server(1);
    init(&mut server, 0);
    let spawn = weft::tools::Spawn {
        port: "p".into(),
        commands: vec![weft::tools::SpawnCommand::default()],
    };
    let list = words::of_spawn(&spawn);
    let hex = wire::to_hex(&list);
    let (first, second) = hex.split_at(8);
    let part = |more: u8, data: &str| format!("cmd=weft_spawn id=5 more={more} data={data}");
    for _ in 0..2 {
        assert_eq!(server.line(0, None, part(1, first).as_bytes()).unwrap(), []);
        let effects = server.line(0, None, part(0, second).as_bytes()).unwrap();
        let list = list.clone();
        let spawn = Effect::Spawn {
            rank: 0,
            form: SpawnForm::Weft(5),
            list,
            preput: Vec::new(),
        };
        assert_eq!(effects, [spawn]);
    }
    for line in [
        part(0, "x"),
        part(0, "00"),
        part(2, &hex[1..]),
        "cmd=weft_spawn id=5 data=00".into(),
        "cmd=weft_spawn id=-5 more=0 data=00".into(),
        "cmd=weft_connected job=x on=1".into(),
        "cmd=weft_connected job=1 on=".into(),
        "cmd=publish_name service=0g port=00 hex=1".into(),
        "cmd=publish_name service=ff port=00 hex=1".into(),
        "cmd=publish_name service=a".into(),
        "cmd=lookup_name".into(),
    ] {
        server.line(0, None, line.as_bytes()).expect_err(&line);
    }
    let long = part(1, &"00".repeat(7000));
    let parts = (0..=words::BYTES_MAX / 7000).map(|_| server.line(0, None, long.as_bytes()).is_ok());
    assert_eq!(parts.filter(|taken| !taken).count(), 1);
}

#[test]
fn a_foreign_client_is_told_the_jobs_name_and_room() {
    let mut server = server(1);
    init(&mut server, 0);
    let name = &replies(&mut server, 0, "cmd=get_my_kvsname")[0].1;
    let name = name
        .strip_prefix("cmd=my_kvsname rc=0 kvsname=")
        .expect("the answer");
    assert!(name.starts_with("job") && name.len() <= KVSNAME_MAX, "{name}");
}

#[test]
fn a_foreign_client_finds_what_was_put_by_its_number() {
    let mut server = server(1);
    init(&mut server, 0);
    for (key, value) in [("b", 7), ("a", 8)] {
        replies(
            &mut server,
            0,
            &format!("cmd=put kvsname=k key={key} value={value}"),
        );
    }
    let mut found = |index| {
        replies(&mut server, 0, &format!("cmd=getbyidx kvsname=k idx={index}"))[0]
            .1
            .clone()
    };
    assert_eq!(found(0), "cmd=getbyidx_results rc=0 nextidx=1 key=b val=7\n");
    assert_eq!(found(1), "cmd=getbyidx_results rc=0 nextidx=2 key=a val=8\n");
    assert_eq!(found(2), "cmd=getbyidx_results rc=1 reason=no_more_keys\n");
}
