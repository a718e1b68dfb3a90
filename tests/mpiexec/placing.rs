//! Options that say where ranks run, with what environment, and where their output goes.

use std::path::Path;

use super::*;

/// Runs and expects success; the lines of standard output in alphabetical order.
fn lines(args: &[&str]) -> Vec<String> {
    let output = run(args);
    assert_eq!(status(&output), 0, "{args:?}: {}", stderr(&output));
    sorted(&output)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_dry_run_shows_the_plan_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let trace = trace.to_str().unwrap();
    let output = run(&[
        "--dry-run",
        "-hosts",
        "localhost:2,far1:1,far2",
        "-n",
        "5",
        "-env",
        "A",
        "1",
        "-genvlist",
        "HOME",
        "touch",
        trace,
    ]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
    let text = stdout(&output);
    for words in [
        "5 ranks on 3 hosts, universe size 5\n",
        "host localhost (this machine), 2 slots: ranks 0-1, 4\n",
        "host far1, 1 slot: rank 2\n",
        "host far2, 1 slot: rank 3\n",
        "ranks 0-4: touch ",
        "\n  of the environment: HOME\n  A=1\n",
        "\ncommand: ssh ",
        " far2 exec ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!Path::new(trace).exists());
    // Without `-launcher` the allocation's engine starts agents, if it is there.
    let mut command = mpiexec(&["--dry-run", "sh"]);
    command
        .env("SLURM_JOB_NODELIST", "far[08-10]")
        .env("SLURM_TASKS_PER_NODE", "2(x3)");
    let text = stdout(&command.output().unwrap());
    assert!(
        text.contains("6 ranks on 3 hosts") && text.contains("host far08, 2 slots: ranks 0-1"),
        "{text}"
    );
}

#[test]
fn mistakes_in_hosts_are_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    std::fs::write(&path, "localhost:2\nlocalhost slots=many\n").unwrap();
    let file = path.to_str().unwrap();
    for (args, words) in [
        (vec!["-f", file, "true"], "line 2"),
        (vec!["-f", "/no/such/file", "true"], "/no/such/file"),
        (vec!["-hosts", "a[1-", "true"], "a[1-"),
        (vec!["-hosts", "a[1-999999999]", "true"], "more than"),
        (vec!["-hosts", "h[1-65]", "true"], "srun"),
        (
            vec!["-hosts", "localhost:1", "--nooversubscribe", "-n", "2", "true"],
            "--oversubscribe",
        ),
        (vec!["--mca", "btl", "self", "true"], "WEFT_PROVIDER"),
    ] {
        let output = run(&args);
        let text = stderr(&output);
        assert_eq!(
            (status(&output), text.lines().count()),
            (2, 1),
            "{args:?}: {text}"
        );
        assert!(text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn the_number_of_ranks_follows_from_the_hosts() {
    assert_eq!(lines(&["-hosts", "localhost:3", "echo", "x"]).len(), 3);
    assert_eq!(lines(&["-ppn", "2", "echo", "x"]).len(), 2);
    assert_eq!(lines(&["echo", "x"]).len(), 1);
}

#[test]
fn ranks_get_only_the_environment_that_is_passed_on() {
    let script = "echo ${HOME-none} ${A-none} ${B-none}";
    let with = |options: &[&str]| {
        let mut command = mpiexec(&[options, &["/bin/sh", "-c", script]].concat());
        command.env("HOME", "/h").env("A", "a").env("B", "b");
        stdout(&command.output().unwrap())
    };
    assert_eq!(with(&[]), "/h a b\n");
    assert_eq!(with(&["-genvlist", "HOME,B"]), "/h none b\n");
    assert_eq!(with(&["-genvnone", "-x", "A"]), "none a none\n");
    assert_eq!(with(&["-genvnone", "-envlist", "B", "-env", "A=1"]), "none 1 b\n");
    assert_eq!(with(&["-genvnone", "-envall"]), "/h a b\n");
}

#[test]
fn an_interface_is_a_setting_of_the_ranks() {
    assert_eq!(
        lines(&["-iface", "lo", "sh", "-c", "echo $WEFT_INTERFACE"]),
        ["lo"]
    );
}

#[test]
fn output_goes_into_files() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2";
    let (out, err) = (pattern("sub/%r.out"), pattern("all.err"));
    let output = run(&[
        "-n",
        "2",
        "-outfile-pattern",
        &out,
        "-errfile-pattern",
        &err,
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(
        (status(&output), stdout(&output), stderr(&output)),
        (0, String::new(), String::new())
    );
    assert_eq!(read(&folder.path().join("sub/1.out")), "out 1\n");
    let all = read(&folder.path().join("all.err"));
    assert!(all == "err 0\nerr 1\n" || all == "err 1\nerr 0\n", "{all}");

    let output = run(&[
        "-n",
        "2",
        "--output-filename",
        &pattern("tree"),
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(sorted(&output), ["out 0", "out 1"]);
    assert_eq!(read(&folder.path().join("tree/1/rank.0/stdout")), "out 0\n");
    assert_eq!(read(&folder.path().join("tree/1/rank.1/stderr")), "err 1\n");

    let output = run(&["-outfile-pattern", "/dev/full", "sh", "-c", script]);
    assert_eq!(status(&output), 125);
    assert!(
        stderr(&output).contains("'/dev/full' can't be written"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn all_exit_statuses_are_printed() {
    let output = run(&[
        "-n",
        "4",
        "-print-all-exitcodes",
        "sh",
        "-c",
        "exit $((PMI_RANK / 3 * 5))",
    ]);
    assert_eq!(status(&output), 5);
    let text = stderr(&output);
    assert!(text.contains("mpiexec: ranks 0-2: exit status 0\n"), "{text}");
    assert!(text.contains("mpiexec: rank 3: exit status 5\n"), "{text}");
}

#[test]
fn programs_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "# two programs\n-n 1 echo 'a  b'\n-n 2 \\\necho c\n").unwrap();
    assert_eq!(
        lines(&["-l", "-configfile", path.to_str().unwrap()]),
        ["[0] a  b", "[1] c", "[2] c"]
    );
}

#[test]
fn a_rank_has_one_hardware_thread_or_a_numa_node() {
    let script = "grep Cpus_allowed_list /proc/self/status | cut -f 2";
    let threads = lines(&["-n", "2", "--bind-to", "hwthread", "sh", "-c", script]);
    assert!(
        threads.iter().all(|list| list.parse::<u32>().is_ok()),
        "{threads:?}"
    );
    let node = lines(&[
        "-n",
        "2",
        "--bind-to",
        "numa",
        "--map-by",
        "socket",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(node.len(), 2);
    assert!(node.iter().all(|list| !list.is_empty()), "{node:?}");
}
