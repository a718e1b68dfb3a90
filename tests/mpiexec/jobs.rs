//! What ranks are started with: environment, directory, input, processors, and the PMI service.

use weft::sim::skip;
use weft::system::locality::Processors;

use super::*;
use crate::rank::{mpich, play};

#[test]
fn ranks_know_their_numbers() {
    let output = run(&[
        "-np",
        "3",
        "sh",
        "-c",
        "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS",
    ]);
    assert_eq!(sorted(&output), ["0/3 0/3", "1/3 1/3", "2/3 2/3"]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
}

#[test]
fn environment_options_reach_the_program_that_they_are_for() {
    let show = ["sh", "-c", "echo $A.$B.$C"];
    let mut args = vec!["-genv", "A", "1", "-env", "B", "-2", "-x", "C=3=4"];
    args.extend(show);
    args.extend([":", "-x", "A=5"]);
    args.extend(show);
    let output = mpiexec(&args).env_remove("B").env_remove("C").output().unwrap();
    assert_eq!(sorted(&output), ["1.-2.3=4", "5.."]);
}

#[test]
fn the_working_directory_counts_for_the_program_too() {
    let output = run(&[
        "-wdir",
        "/bin",
        "./sh",
        "-c",
        "pwd; echo $0",
        ":",
        "-wdir",
        "/",
        "pwd",
    ]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(sorted(&output).contains(&"/".to_string()) && sorted(&output).contains(&"./sh".to_string()));
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut command = mpiexec(&["-n", "3", "sh", "-c", "echo $PMI_RANK $(wc -c)"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![b'x'; 1_000_000]).unwrap();
    drop(input);
    assert_eq!(
        sorted(&child.wait_with_output().unwrap()),
        ["0 1000000", "1 0", "2 0"]
    );
}

#[test]
fn hosts_of_this_machine_are_accepted() {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let hosts = format!("localhost:2,127.0.0.1,{}", own.trim());
    assert_eq!(
        sorted(&run(&["-hosts", &hosts, "-n", "2", "echo", "x"])),
        ["x", "x"]
    );
}

#[test]
fn binding_follows_the_option() {
    let allowed = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["grep", "Cpus_allowed_list", "/proc/self/status"]);
        let output = run(&all);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        sorted(&output)
            .iter()
            .map(|line| line.split_whitespace().last().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim();
    assert_eq!(allowed(&["-bind-to", "none"]), [own]);
    assert_eq!(allowed(&["-n", "1000", "-bind-to", "none", "-c", "1"]), [own]);
    // One core of the machine has one processor or a few, never all, unless the machine has one core.
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores > 1 {
        assert_ne!(allowed(&["-bind-to", "core"]), [own]);
    } else {
        skip("there is one processor only");
    }
    assert_eq!(
        allowed(&["-n", "2", "--bind-to", "socket", "--map-by", "socket"]).len(),
        2
    );
}

/// The lines of `--report-bindings` for ranks that print which processors they may use, each with what its rank printed.
fn reported(options: &[&str], pretended: Option<&str>) -> Vec<(String, String)> {
    let script = "sed -n \"s/Cpus_allowed_list:[[:space:]]*/$PMI_RANK /p\" /proc/self/status";
    let mut command = mpiexec(&[options, &["--report-bindings", "sh", "-c", script]].concat());
    if let Some(topology) = pretended {
        command.env("HWLOC_SYNTHETIC", topology);
    }
    let output = command.output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let said = stderr(&output);
    let printed = stdout(&output);
    assert_eq!(said.lines().count(), printed.lines().count(), "{said}");
    let lines = said.lines().enumerate();
    lines
        .map(|(rank, line)| {
            let own = format!("{rank} ");
            let list = printed.lines().find_map(|line| line.strip_prefix(&own));
            assert!(line.starts_with(&format!("mpiexec: rank {rank} ")), "{line}");
            (
                line.to_string(),
                list.expect("each rank prints a line").to_string(),
            )
        })
        .collect()
}

#[test]
fn reported_bindings_are_what_ranks_have() {
    let allowed = Processors::of_thread(0);
    for options in [
        &["-n", "2"][..],
        &["-n", "9", "-bind-to", "core"],
        &["-n", "2", "-bind-to", "none"],
        &["-n", "3", "-bind-to", "socket", "-map-by", "socket"],
    ] {
        for (line, list) in reported(options, None) {
            let number = if list.contains(['-', ',']) {
                "processors"
            } else {
                "processor"
            };
            assert!(
                line.contains(&format!("({number} {list}): [")),
                "{line} for {list}"
            );
            assert_eq!(
                line.contains(" is bound to "),
                !line.contains(" may run on "),
                "{line}"
            );
            let drawn = line.rsplit_once(": ").unwrap().1;
            assert!(
                drawn.contains('B') && drawn.starts_with('[') && drawn.ends_with(']'),
                "{line}"
            );
            assert!(
                !line.contains(" is not bound") || list == allowed.to_string(),
                "{line}"
            );
        }
    }
    let unbound = reported(&["-n", "2", "-bind-to", "none"], None);
    assert!(unbound.iter().all(|(line, _)| line.contains(" is not bound ")));
    // More ranks than cores are not bound, unless all cores get the same number of them: a prime is no multiple.
    let mut more = allowed.len() + 1..;
    let many = more.find(|&many| (2..many).all(|part| many % part != 0));
    let many = many.expect("there is always a greater one").to_string();
    assert!(
        reported(&["-n", &many], None)
            .iter()
            .all(|(line, _)| line.contains(" is not bound "))
    );
}

#[test]
fn a_launcher_that_is_bound_itself_gives_no_more_than_it_has() {
    let launcher = env!("CARGO_BIN_EXE_mpiexec");
    let inner = |ranks: &str| {
        let outer = [
            "-n",
            "1",
            "-bind-to",
            "core",
            launcher,
            "-n",
            ranks,
            "-report-bindings",
        ];
        let show = [
            "sed",
            "-n",
            "s/Cpus_allowed_list:[[:space:]]*//p",
            "/proc/self/status",
        ];
        let output = run(&[&outer[..], &show].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let lists = sorted(&output);
        let said = stderr(&output);
        (lists, said.lines().map(str::to_string).collect::<Vec<_>>())
    };
    // One rank keeps all that there is.
    let (one, alone) = inner("1");
    assert!(alone[0].contains("rank 0 is not bound "), "{alone:?}");
    if one[0] == Processors::of_thread(0).to_string() {
        return skip("the launcher could not be bound");
    }
    // Two do not fit on one core, and have all of it.
    let (two, together) = inner("2");
    assert!(
        together.iter().all(|line| line.contains(" is not bound ")),
        "{together:?}"
    );
    // That of the two is another core, where a third job had the first one meanwhile.
    assert_eq!(two[0], two[1]);
    assert_ne!(two[0], Processors::of_thread(0).to_string());
    let drawn = together[0].rsplit_once(": ").unwrap().1;
    assert!(
        !drawn.contains('.'),
        "what is not the launcher's is drawn as '-': {drawn}"
    );
}

/// What a script prints that runs jobs which no other job of this machine can disturb. `None`: that can't be had here.
fn apart(script: &str) -> Option<Vec<String>> {
    let unshare = |words: &[&str]| {
        let options = ["--user", "--map-root-user", "--net"];
        let output = Command::new("unshare")
            .args(options)
            .args(words)
            .env_remove("PMI_FD")
            .output();
        output.ok().filter(|output| output.status.success())
    };
    if unshare(&["true"]).is_none() {
        skip("no network of one's own is allowed here");
        return None;
    }
    let script = format!(
        "mpiexec={}; show=\"grep Cpus_allowed_list /proc/self/status\"; {script}",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let output = unshare(&["sh", "-ec", &script]).expect("the script succeeds");
    let lists = stdout(&output)
        .lines()
        .map(|line| line.replace("Cpus_allowed_list:\t", ""))
        .collect();
    Some(lists)
}

#[test]
fn cores_are_shared_out_and_no_job_gets_those_of_another() {
    let all = Processors::of_thread(0).to_string();
    // A first job of two ranks that lasts until the second has ended.
    let held = |options: &str, second: &str| {
        let script = format!(
            "folder=$(mktemp -d); \
             $mpiexec -n 2 {options} sh -c \"$show; touch $folder/up\\$PMI_RANK; while [ ! -e $folder/go ]; do sleep 0.02; done\" & \
             while [ ! -e $folder/up0 ] || [ ! -e $folder/up1 ]; do sleep 0.02; done; {second}; touch $folder/go; wait; rm -r $folder"
        );
        let lists = apart(&script)?;
        assert_eq!(lists.len(), 4, "{lists:?}");
        Some(lists)
    };
    let Some(alone) = apart("$mpiexec $show; $mpiexec -n 2 $show") else {
        return;
    };
    assert_eq!(alone[0], all, "one rank keeps all");
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skip("there is one processor only");
    }
    let set = |list: &String| -> Processors {
        let ranges = list
            .split(',')
            .map(|range| range.split_once('-').unwrap_or((range, range)));
        ranges
            .flat_map(|(first, last)| first.parse::<usize>().unwrap()..=last.parse().unwrap())
            .collect()
    };
    let (one, other) = (set(&alone[1]), set(&alone[2]));
    assert!(!one.meets(&other), "{alone:?}");
    assert!(
        one.len() + other.len() == set(&all).len(),
        "each has half of all: {alone:?}"
    );
    // The first job has all of them.
    for list in &held("", "$mpiexec -n 2 $show").unwrap()[2..] {
        assert_eq!(*list, all);
    }
    // It has left some, if there are more than two.
    let lists = held("--bind-to core", "$mpiexec -n 2 $show").unwrap();
    let both =
        |at: usize| -> Processors { set(&lists[at]).iter().chain(set(&lists[at + 1]).iter()).collect() };
    assert!(lists[2] == all || !both(0).meets(&both(2)), "{lists:?}");
}

#[test]
fn the_picture_is_that_of_the_machine() {
    // Two sockets with two cores of two hardware threads each, of which this machine has some.
    let allowed = Processors::of_thread(0);
    if !(0..8).any(|processor| allowed.contains(processor)) {
        return skip("none of processors 0 to 7 may be used");
    }
    let (line, _) = &reported(&["-bind-to", "core"], Some("pack:2 core:2 pu:2"))[0];
    if line.contains("could not be bound") {
        return skip(line);
    }
    // The first one that no other job has.
    let core = line.split_once("rank 0 is bound to core ").and_then(|(_, rest)| {
        let (core, rest) = rest.split_once(" of socket ")?;
        let (core, socket): (usize, usize) = (core.parse().ok()?, rest.split_once(" (")?.0.parse().ok()?);
        (socket == core / 2).then_some(core)
    });
    let core = core.unwrap_or_else(|| panic!("a core and its socket: {line}"));
    assert!((2 * core..2 * core + 2).any(|processor| allowed.contains(processor)));
    let signs: Vec<char> = (0..8)
        .map(
            |processor| match (allowed.contains(processor), processor / 2 == core) {
                (true, true) => 'B',
                (true, false) => '.',
                (false, _) => '-',
            },
        )
        .collect();
    let [a, b, c, d, e, f, g, h] = signs[..] else {
        unreachable!()
    };
    assert!(
        line.ends_with(&format!(": [{a}{b}/{c}{d}][{e}{f}/{g}{h}]")),
        "{line}"
    );
}

#[test]
fn ranks_start_clean() {
    // The same as without a launcher: descriptors, blocked and ignored signals.
    let script = "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd = \"$PMI_FD\" ] || echo open $fd; done; \
        exec grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let alone = Command::new("sh")
        .args(["-c", script])
        .env_remove("PMI_FD")
        .output()
        .unwrap();
    let expected: Vec<String> = sorted(&alone)
        .into_iter()
        .flat_map(|line| [line.clone(), line.clone(), line])
        .collect();
    assert!(expected.len() >= 3 * 5, "{expected:?}");
    assert_eq!(sorted(&run(&["-n", "3", "sh", "-c", script])), expected);
}

#[test]
fn ranks_find_each_other() {
    for size in ["1", "2", "5"] {
        let output = play("ring", &["-n", size]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let told = format!("of {size}, local true {size}, weft, appnum 0");
        assert_eq!(
            stdout(&output).matches(&told).count().to_string(),
            size,
            "{}",
            stdout(&output)
        );
    }
}

#[test]
fn who_asks_much_before_it_reads_gets_all_answers() {
    let output = play("ask-much", &["-n", "2"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let came = stdout(&output).matches("all 5000 came").count();
    assert_eq!(came, 2, "{}", stdout(&output));
}

#[test]
fn a_lookup_waits_for_its_peer_and_not_for_others() {
    let output = play("late", &["-n", "3"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("found 2 before 0"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn programs_have_numbers_and_their_own_options() {
    let output = play(
        "ring",
        &[
            "-n",
            "1",
            "-memory-alloc-kinds",
            "system",
            "-initial-errhandler",
            "mpi_errors_return",
            "PLAY",
            ":",
            "-n",
            "2",
        ],
    );
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("appnum 0, kinds Some(\"system\"), errhandler Some(\"mpi_errors_return\")"),
        "{text}"
    );
    assert_eq!(
        text.matches("appnum 1, kinds None, errhandler None").count(),
        2,
        "{text}"
    );
}

#[test]
fn a_rank_may_be_below_a_shell_and_run_twice() {
    let output = play(
        "ring",
        &["-n", "2", "sh", "-c", "\"$@\" && \"$@\"; echo both $?", "sh"],
    );
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("both 0").count(), 2);
    assert_eq!(stdout(&output).matches("of 2, local true 2").count(), 4);
}

#[test]
fn weft_runs_under_the_mpiexec_of_mpich() {
    let Some(bin) = mpich() else { return };
    let output = rank::play_with(&format!("{bin}/mpiexec"), "ring", &["-n", "3"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output)
            .matches("of 3, local true 3, foreign, appnum 0")
            .count(),
        3,
        "{}",
        stdout(&output)
    );
    let output = rank::play_with(&format!("{bin}/mpiexec"), "abort", &["-n", "3"]);
    assert_eq!(status(&output), 7, "{}", stderr(&output));
}

#[test]
fn programs_of_mpich_run_under_our_mpiexec() {
    let Some(bin) = mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("sum.c"), folder.path().join("sum"));
    std::fs::write(&source, rank::C_PROGRAM).unwrap();
    let built = Command::new(format!("{bin}/mpicc_abi"))
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    let program = program.to_str().unwrap();
    let output = run(&["-n", "1", program, ":", "-n", "3", program]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(
        sorted(&output),
        [
            "0 of 4, sum 6, program 0",
            "1 of 4, sum 6, program 1",
            "2 of 4, sum 6, program 1",
            "3 of 4, sum 6, program 1"
        ]
    );
    let output = run(&["-n", "2", program, "abort"]);
    assert_eq!(status(&output), 9, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("called MPI_Abort with code 9"),
        "{}",
        stderr(&output)
    );
}
