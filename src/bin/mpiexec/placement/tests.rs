use std::ffi::OsString;

use super::*;
use crate::cli::{self, Request};

/// The placement of a command line on `node1`, in words: each host with slots and ranks; and the universe's size.
fn placed_in(line: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    placed_beside(&[], line, variables)
}

/// The same of a spawned job: so many ranks are on these hosts already.
fn placed_beside(taken: &[(&str, u32)], line: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    let mut plan = match cli::parse(line.split_whitespace().map(OsString::from)) {
        Ok(Request::Run(plan)) => plan,
        other => panic!("{line}: {other:?}"),
    };
    let value = |name: &str| {
        let found = variables.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value.to_string())
    };
    plan.taken = (taken.iter())
        .map(|&(host, ranks)| Taken {
            host: host.into(),
            is_this: host == "node1",
            ranks,
        })
        .collect();
    let placement = place_with(&mut plan, "node1", &value).map_err(|failure| failure.message)?;
    assert_eq!(
        placement.of_rank.len() as u32,
        plan.apps.iter().map(|app| app.count).sum::<u32>()
    );
    let mut text = String::new();
    for (number, host) in placement.hosts.iter().enumerate() {
        let ranks = placement
            .of_rank
            .iter()
            .enumerate()
            .filter(|(_, of)| **of == number);
        let ranks: Vec<String> = ranks.map(|(rank, _)| rank.to_string()).collect();
        text += &format!("{}/{}={} ", host.name, host.slots, ranks.join(","));
    }
    Ok(text + &placement.universe_size.to_string())
}

fn placed(line: &str) -> Result<String, String> {
    placed_in(line, &[])
}

#[test]
fn spawned_ranks_take_free_slots_first() {
    let is = |taken: &[(&str, u32)], line: &str, expected: &str| {
        assert_eq!(placed_beside(taken, line, &[]).as_deref(), Ok(expected), "{line}");
    };
    is(&[("a", 1)], "-hosts a:2,b:2 -n 2 ./p", "a/2=0 b/2=1 4");
    is(&[("a", 2)], "-hosts a:2,b:2 -n 2 ./p", "b/2=0,1 4");
    is(
        &[("a", 1), ("a", 1), ("c", 9)],
        "-hosts a:2,b:2 -n 1 ./p",
        "b/2=0 4",
    );
    is(
        &[("a", 1)],
        "-hosts a:2,b:2 -n 2 --map-by node ./p",
        "a/2=0 b/2=1 4",
    );
    // When there are none, they go around.
    is(
        &[("a", 2), ("b", 1)],
        "-hosts a:2,b:2 -n 3 ./p",
        "a/2=1,2 b/2=0 4",
    );
    // Without numbers of slots all ranks are shared out evenly.
    is(&[("a", 1)], "-hosts a,b -n 1 ./p", "b/1=0 16");
    is(&[("node1", 1)], "-hosts localhost,b -n 1 ./p", "b/1=0 16");
    is(&[("a", 1)], "-hosts a,b -ppn 1 -n 1 ./p", "b/1=0 16");
    // A spawn that names hosts gets these.
    is(&[("a", 2)], "-host b,a -n 2 ./p", "b/1=0 a/1=1 16");
    is(&[("a", 2)], "-hosts a:2,b:2 -n 2 -host a ./p", "a/2=0,1 4");
    let failure = placed_beside(&[("a", 2)], "-hosts a:2 --nooversubscribe -n 1 ./p", &[]).unwrap_err();
    assert!(failure.contains("1 of 1 ranks have no slot on a"), "{failure}");
}

fn is(line: &str, expected: &str) {
    assert_eq!(placed(line).as_deref(), Ok(expected), "{line}");
}

/// The universe of this machine, where nothing else is said.
fn here() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    UNIVERSE_MIN.max(cores as u32)
}

#[test]
fn slots_are_filled_first_and_then_again() {
    is("-hosts a:2,b:3 -n 4 ./p", "a/2=0,1 b/3=2,3 5");
    is("-hosts a:2,b:1 -n 5 ./p", "a/2=0,1,3,4 b/1=2 5");
    is("-hosts a:2,b:3 ./p", "a/2=0,1 b/3=2,3,4 5");
    is("-hosts a,a,b ./p", "a/2=0,1 b/1=2 3");
    is("-hosts a:2,b:2 -n 1 ./p", "a/2=0 4");
    is(
        "-hosts a:2,b:2,c:2 -n 5 --map-by node ./p",
        "a/2=0,3 b/2=1,4 c/2=2 6",
    );
    is("-hosts a:1,b:3 -n 5 --map-by node ./p", "a/1=0,4 b/3=1,2,3 5");
}

#[test]
fn hosts_without_slots_share_the_ranks_evenly() {
    is("-hosts a,b,c -n 7 ./p", "a/3=0,1,2 b/2=3,4 c/2=5,6 16");
    is("-hosts a,b,c -n 2 ./p", "a/1=0 b/1=1 16");
    is("-hosts a,b ./p", "a/1=0 b/1=1 16");
    is("-hosts a,b -n 4 --map-by node ./p", "a/1=0,2 b/1=1,3 16");
    is("-hosts a,b -n 2 ./p : -n 2 ./q", "a/2=0,1 b/2=2,3 16");
    is(
        "-hosts a,b -n 20 --map-by node -usize 3 ./p",
        "a/1=0,2,4,6,8,10,12,14,16,18 b/1=1,3,5,7,9,11,13,15,17,19 3",
    );
}

#[test]
fn a_number_of_ranks_for_each_host_goes_before_slots() {
    for option in [
        "-ppn 2",
        "-perhost 2",
        "--npernode 2",
        "-N 2",
        "--map-by ppr:2:node",
        "-ppn 2 -ppn=2",
    ] {
        is(
            &format!("-hosts a:9,b:1 {option} -n 5 ./p"),
            "a/2=0,1,4 b/2=2,3 10",
        );
    }
    is("-hosts a,b -ppn 3 ./p", "a/3=0,1,2 b/3=3,4,5 16");
    is("-hosts a,b --pernode ./p", "a/1=0 b/1=1 16");
    is("-ppn 3 ./p", &format!("node1/3=0,1,2 {}", here()));
}

#[test]
fn programs_may_have_hosts_of_their_own() {
    is("-host a -n 2 ./p : -host b:2 -n 2 ./q", "a/1=0,1 b/2=2,3 4");
    is(
        "-hosts a:2,b:2,c:2 -host b -n 3 ./p : -n 2 ./q",
        "a/2=3,4 b/2=0,1,2 6",
    );
    assert!(
        placed("-hosts a,b -host c ./p")
            .unwrap_err()
            .contains("'c' is not in the list of -hosts"),
    );
}

#[test]
fn this_machine_is_one_host_by_any_name() {
    is(
        "-hosts localhost:2,node1:3,[::1]:1 -n 4 ./p",
        "localhost/6=0,1,2,3 6",
    );
    is("-host node1.cluster -n 2 ./p", "node1.cluster/2=0,1 16");
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    is("./p", &format!("node1/{cores}=0 {}", here()));
    let ranks: Vec<String> = (0..200).map(|rank| rank.to_string()).collect();
    is("-n 200 ./p", &format!("node1/{cores}={} 200", ranks.join(",")));
}

#[test]
fn files_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    std::fs::write(&path, "a slots=2 max_slots=3 # first\nb:1\nc slots=4\n").unwrap();
    let with = |option: &str, rest: &str| placed(&format!("{option} {} {rest} ./p", path.display()));
    for option in ["-f", "-hostfile", "--hostfile", "-machinefile"] {
        assert_eq!(with(option, "-n 4").as_deref(), Ok("a/2=0,1 b/1=2 c/4=3 7"));
    }
    assert_eq!(
        with("-f", "-n 9").as_deref(),
        Ok("a/2=0,1,7 b/1=2,8 c/4=3,4,5,6 9")
    );
    assert_eq!(with("-f", "-host b,a -n 3").as_deref(), Ok("a/2=1,2 b/1=0 7"));
    assert_eq!(with("-f", "-hosts c:1,a").as_deref(), Ok("c/1=0 a/2=1,2 3"));
    assert!(
        with("-f", "-host d")
            .unwrap_err()
            .contains("'d' is not in the host file")
    );
    assert!(with("-f", "-host a:4").unwrap_err().contains("at most 3"));
    assert!(
        with("-f", "-n 8 --nooversubscribe")
            .unwrap_err()
            .contains("1 of 8 ranks have no slot")
    );
    assert!(
        with("-f", "-n 8 --map-by slot:nooversubscribe")
            .unwrap_err()
            .contains("--oversubscribe")
    );
    std::fs::write(&path, "a slots=2 max_slots=3\n").unwrap();
    assert!(
        with("-f", "-n 5")
            .unwrap_err()
            .contains("2 of 5 ranks don't fit: max_slots limits a")
    );
    std::fs::write(&path, "# none\n").unwrap();
    assert!(with("-f", "").unwrap_err().contains("has no hosts"));
    std::fs::write(&path, "a slots=40000\nb slots=40000\n").unwrap();
    assert!(with("-f", "").unwrap_err().contains("80000 slots"));
}

#[test]
fn allocations_count_where_nothing_is_named() {
    let slurm = [("SLURM_JOB_NODELIST", "h[1-2]"), ("SLURM_TASKS_PER_NODE", "2,1")];
    assert_eq!(placed_in("./p", &slurm).as_deref(), Ok("h1/2=0,1 h2/1=2 3"));
    assert_eq!(placed_in("-host h2 ./p", &slurm).as_deref(), Ok("h2/1=0 3"));
    assert_eq!(
        placed_in("-hosts h2,h1 -n 2 ./p", &slurm).as_deref(),
        Ok("h2/1=0 h1/2=1 3")
    );
    assert!(
        placed_in("-host x ./p", &slurm)
            .unwrap_err()
            .contains("'x' is not in the allocation of Slurm")
    );
    assert!(
        placed_in("-hosts x ./p", &slurm)
            .unwrap_err()
            .contains("allocation of Slurm")
    );
    assert_eq!(
        placed_in("-rmk user -hosts x ./p", &slurm).as_deref(),
        Ok("x/1=0 16")
    );
    let bad = [("SLURM_JOB_NODELIST", "h[1-2]"), ("SLURM_TASKS_PER_NODE", "2")];
    assert!(
        placed_in("./p", &bad)
            .unwrap_err()
            .contains("SLURM_TASKS_PER_NODE")
    );
}

#[test]
fn the_size_of_the_universe_can_be_given() {
    is("-hosts a:2,b:2 -n 1 -usize 9 ./p", "a/2=0 9");
    is("-hosts a:2,b:2 -n 5 -usize SYSTEM ./p", "a/2=0,1,4 b/2=2,3 4");
    is("-hosts a -usize infinite ./p", "a/1=0 2147483647");
}

#[test]
fn what_starts_agents() {
    let folder = tempfile::tempdir().unwrap();
    let of = |line: &str, variables: &[(&str, &str)]| {
        let Ok(Request::Run(mut plan)) = cli::parse(line.split_whitespace().map(OsString::from)) else {
            panic!("{line}");
        };
        let path = folder.path().to_str().unwrap();
        let value = |name: &str| match name {
            "PATH" => Some(path.to_string()),
            _ => variables
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| value.to_string()),
        };
        place_with(&mut plan, "node1", &value).unwrap().launcher
    };
    let slurm = [("SLURM_JOB_NODELIST", "h1")];
    assert_eq!(of("./p", &slurm), Launcher::Ssh, "there is no srun");
    std::fs::write(folder.path().join("srun"), "").unwrap();
    assert_eq!(of("./p", &slurm), Launcher::Slurm);
    assert_eq!(of("-hosts a ./p", &[]), Launcher::Ssh);
    assert_eq!(of("-launcher ssh ./p", &slurm), Launcher::Ssh);
    assert_eq!(of("-launcher prrte ./p", &slurm), Launcher::Prrte);
    assert_eq!(
        of("-bootstrap /my/ssh ./p", &slurm),
        Launcher::Program("/my/ssh".into())
    );
}

#[test]
fn more_hosts_than_one_head_serves() {
    assert!(placed("-hosts h[1-64] ./p").is_ok());
    assert!(
        placed("-hosts h[1-65] ./p")
            .unwrap_err()
            .contains("srun --mpi=pmi2")
    );
    assert!(
        placed("-hosts h[1-65] -n 3 ./p").is_ok(),
        "hosts without ranks don't count"
    );
}
