//! Where processes are: process sets of the launcher's, and hardware that hwloc pretends; and which lane carries whose
//! messages.

use libtest_mimic::Trial;
use weft::sim::skip;
use weft::system::locality::{Processors, Topology};

use crate::Outcome;
use crate::build;
use crate::job::{Ended, Job};

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("locality::process_sets_divide", process_sets),
        Trial::test("locality::bound_ranks_are_told_apart", bound),
        Trial::test("locality::unbound_ranks_are_not", unbound),
        Trial::test("locality::a_transports_report_tells_hosts", || {
            report_of_hosts(2)?;
            report_of_hosts(4)
        }),
        Trial::test("locality::a_transports_report_tells_ranks", report_of_ranks),
        Trial::test(
            "locality::many_ranks_of_one_host_take_few_lines",
            report_of_one_host,
        ),
        Trial::test("locality::neighbours_are_put_on_one_host", neighbours),
        Trial::test("locality::neighbours_are_put_into_one_package", packages),
        Trial::test("locality::quiet_ranks_report_nothing", quiet_report),
        Trial::test("locality::ranks_that_see_other_hosts_are_refused", other_hosts),
        Trial::test(
            "locality::ranks_with_another_table_of_algorithms_are_refused",
            other_tables,
        ),
        Trial::test("locality::a_bad_line_of_a_table_is_an_error", bad_table),
    ]
}

/// Each process names a set; those that name the same one, and are in it, get a communicator.
fn process_sets() -> Outcome {
    let program = build::program("split_type")?;
    let text = program.to_string_lossy();
    let second = [":", "-n", "1", "-pset", "b", &text, "sets", "weft://b", "1"];
    let third = [":", "-n", "1", &text, "sets", "weft://a", "0"];
    Job::new(&program, 2)
        .option("-pset")
        .option("a")
        .arguments(&["sets", "weft://a", "2"])
        .arguments(&second)
        .arguments(&third)
        .run()?
        .status_is(0)
}

/// Reordering is checked against the best that there is for 4 and 8 ranks on two hosts, and against the identity for others.
fn neighbours() -> Outcome {
    let program = build::program("reorder")?;
    for (ranks, nodes) in [(4, "2"), (8, "2"), (3, "2"), (7, "2"), (8, "4"), (6, "3")] {
        let job = Job::new(&program, ranks).env("WEFT_FAKE_NODES", nodes);
        job.env("WEFT_LANES", "shm,ofi")
            .run()?
            .is_well("reorder", ranks)?;
    }
    Ok(())
}

/// The same for packages of one host, and of each of two.
fn packages() -> Outcome {
    let program = build::program("reorder")?;
    for (ranks, nodes, packages) in [
        (4, "0", "2"),
        (8, "0", "2"),
        (1, "0", "2"),
        (2, "0", "2"),
        (3, "0", "2"),
        (5, "0", "2"),
        (8, "0", "3"),
        (8, "2", "2"),
        (7, "2", "2"),
    ] {
        Job::new(&program, ranks)
            .env("WEFT_FAKE_NODES", nodes)
            .env("WEFT_FAKE_PACKAGES", packages)
            .env("WEFT_LANES", "shm,ofi")
            .run()?
            .is_well("reorder", ranks)?;
    }
    Ok(())
}

/// A machine of two sockets with a core each, of which processors 0 and 1 are this machine's.
const TWO_SOCKETS: (&str, &str) = ("HWLOC_SYNTHETIC", "pack:2 l3:1 core:1 pu:1");

/// Whether there are two processors to bind to, and hwloc to tell of them.
fn is_possible() -> bool {
    let allowed = Processors::of_thread(0);
    let possible = allowed.contains(0) && allowed.contains(1) && Topology::discover().is_ok();
    if !possible {
        skip("processors 0 and 1 and hwloc are needed");
    }
    possible
}

fn bound() -> Outcome {
    if !is_possible() {
        return Ok(());
    }
    let ended = Job::new(&build::program("split_type")?, 4)
        .option("--bind-to")
        .option("core")
        .env(TWO_SOCKETS.0, TWO_SOCKETS.1)
        .arguments(&["say"])
        .run()?;
    ended.is_well("split_type", 4)?;
    for rank in 0..4 {
        for (kind, said) in [
            ("Machine", "true 4"),
            ("Package", "true 2"),
            ("L3Cache", "true 2"),
            ("NUMANode", "true 4"),
            ("Core", "true 2"),
            ("PU", "true 2"),
        ] {
            ended.prints(&format!("rank {rank}: hwloc://{kind} {said}"))?;
        }
        ended.prints(&format!("rank {rank}: divided by hwloc://Package, 2 of 4"))?;
    }
    // Two of a socket can't be told apart.
    match ended.stdout.matches("divided by").count() {
        4 => Ok(()),
        count => Err(ended.fail(format!("{count} divisions"))),
    }
}

fn unbound() -> Outcome {
    if !is_possible() {
        return Ok(());
    }
    let ended = Job::new(&build::program("split_type")?, 3)
        .option("--bind-to")
        .option("none")
        .env(TWO_SOCKETS.0, TWO_SOCKETS.1)
        .env("WEFT_FAKE_NODES", "2")
        .arguments(&["say"])
        .run()?;
    ended.is_well("split_type", 3)?;
    for (rank, size) in [(0, 2), (1, 1), (2, 2)] {
        ended.prints(&format!("rank {rank}: hwloc://Machine true {size}"))?;
        ended.prints(&format!("rank {rank}: hwloc://Core false 0"))?;
        ended.prints(&format!("rank {rank}: divided by hwloc://Machine, {size} of 3"))?;
    }
    Ok(())
}

/// They would choose other algorithms.
fn other_hosts() -> Outcome {
    let program = build::program("collectives")?;
    let ended = Job::new(&program, 1)
        .option("-env")
        .option("WEFT_TWO_LEVEL")
        .option("0")
        .env("WEFT_LANES", "shm,ofi")
        .env("WEFT_FAKE_NODES", "2")
        .arguments(&[":", "-n", "3", &program.to_string_lossy()])
        .run()?;
    ended.says(&["sees other hosts", "WEFT_FAKE_NODES", "WEFT_TWO_LEVEL"])?;
    match ended.status {
        0 => Err(ended.fail("it ends well")),
        _ => Ok(()),
    }
}

/// A file with lines of a table of algorithms.
fn table(lines: &str) -> Result<tempfile::NamedTempFile, libtest_mimic::Failed> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), lines)?;
    Ok(file)
}

fn other_tables() -> Outcome {
    let program = build::program("collectives")?;
    let table = table("allreduce -> ring # mine\n")?;
    let name = table.path().to_string_lossy();
    let run = |first: &str, all: Option<&str>| {
        let mut job = Job::new(&program, 1)
            .option("-env")
            .option("WEFT_COLLECTIVES")
            .option(first)
            .env("WEFT_LANES", "shm,ofi");
        if let Some(all) = all {
            job = job.env("WEFT_COLLECTIVES", all);
        }
        job.arguments(&[":", "-n", "2", &program.to_string_lossy()]).run()
    };
    let ended = run(&name, None)?;
    ended.says(&["another table of collective algorithms", "WEFT_COLLECTIVES"])?;
    match ended.status {
        0 => Err(ended.fail("it ends well")),
        _ => run(&name, Some(&name))?.is_well("collectives", 3),
    }
}

fn bad_table() -> Outcome {
    let table = table("# fine\nallreduce -> rings\n")?;
    let ended = Job::new(&build::program("collectives")?, 1)
        .env("WEFT_COLLECTIVES", &*table.path().to_string_lossy())
        .run()?;
    ended.says(&["line 2", "'rings' is not an algorithm of allreduce", "doubling"])?;
    match ended.status {
        0 => Err(ended.fail("it ends well")),
        _ => Ok(()),
    }
}

/// Ranks that send to each other round a ring, over both lanes, as on two nodes.
fn ring(ranks: u32, report: &str) -> Result<Ended, libtest_mimic::Failed> {
    Job::new(&build::program("neighbour")?, ranks)
        .env("WEFT_LANES", "shm,ofi")
        .env("WEFT_FAKE_NODES", "2")
        .env("WEFT_REPORT", report)
        .run()
}

/// The cells of the lines of the report, a line with a lane of libfabric's having `ofi` for it.
fn cells(ended: &Ended) -> Vec<String> {
    let lines = ended
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("[weft]   "));
    let cell = |word: &str| match word.starts_with("ofi/") {
        true => "ofi".to_string(),
        false => word
            .rsplit_once('#')
            .map_or(word, |(_, number)| number)
            .to_string(),
    };
    lines
        .map(|line| line.split_whitespace().map(cell).collect::<Vec<_>>().join(" "))
        .collect()
}

fn report_of_hosts(ranks: u32) -> Outcome {
    let ended = ring(ranks, "transports")?;
    ended.is_well("neighbour", ranks)?;
    if ended.stderr.matches("transports, host by host").count() != 1 {
        return Err(ended.fail("not one table"));
    }
    let (even, odd): (Vec<u32>, Vec<u32>) = (0..ranks).partition(|rank| rank % 2 == 0);
    let list = |ranks: Vec<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let cells = cells(&ended);
    for expected in [
        format!("0 {} shm, ofi", list(even)),
        format!("1 {} shm, ofi", list(odd)),
    ] {
        if !cells.contains(&expected) {
            return Err(ended.fail(format!("'{expected}' is not in {cells:?}")));
        }
    }
    // Neighbours are on different nodes.
    for across in ["0 1 ofi ", "1 0 ofi "] {
        if !cells.iter().any(|line| line.starts_with(across)) {
            return Err(ended.fail(format!("'{across}' is not in {cells:?}")));
        }
    }
    for never in ["0 1 shm", "1 0 shm", "0 0 ofi", "1 1 ofi"] {
        if cells.iter().any(|line| line.starts_with(never)) {
            return Err(ended.fail(format!("'{never}' is in {cells:?}")));
        }
    }
    Ok(())
}

fn report_of_one_host() -> Outcome {
    let ended = Job::new(&build::program("neighbour")?, 32)
        .env("WEFT_LANES", "shm")
        .env("WEFT_REPORT", "transports")
        .run()?;
    ended.is_well("neighbour", 32)?;
    ended.says(&["[weft]   ", " 0-31 ", " shm"])?;
    ended.says(&["[weft]   ", " shm ", " 32"])?;
    match ended.stderr.lines().count() {
        5 => Ok(()),
        count => Err(ended.fail(format!("{count} lines"))),
    }
}

fn report_of_ranks() -> Outcome {
    let ended = ring(3, "transports,all")?;
    ended.is_well("neighbour", 3)?;
    for rank in 0..3 {
        let node = rank % 2;
        ended.says(&[
            &format!("[weft]   rank {rank} on "),
            &format!("#{node}: "),
            [" to 1", " to 2", "shm to 0"][rank],
        ])?;
    }
    match ended.stderr.matches("rank by rank").count() {
        1 => Ok(()),
        count => Err(ended.fail(format!("{count} tables"))),
    }
}

/// Ranks that send nothing before Finalize, and ranks that were not asked.
fn quiet_report() -> Outcome {
    let program = build::program("finalize")?;
    let ended = Job::new(&program, 3)
        .arguments(&["nothing"])
        .env("WEFT_REPORT", "transports")
        .run()?;
    ended.status_is(0)?;
    ended.says(&["[weft]", "no rank sent a message to another"])?;
    let text = program.to_string_lossy();
    let ended = Job::new(&program, 1)
        .arguments(&[
            "nothing",
            ":",
            "-n",
            "2",
            "-env",
            "WEFT_REPORT",
            "transports",
            &text,
            "nothing",
        ])
        .run()?;
    ended.status_is(0)?;
    ended.says(&["[weft]", "were not asked", ": 0"])
}
