use super::*;
use clap::Parser;

fn options(words: &[&str]) -> Options {
    Options::parse_from([&["weft-bench", "--weft", "/opt"], words].concat())
}

#[test]
fn a_sweep_over_sizes_is_one_run() {
    let runs = find("bandwidth")
        .unwrap()
        .runs(&options(&["--sizes", "8,1K", "--milliseconds", "5"]), "own");
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].program, runs[0].ranks), ("stream", 2));
    assert_eq!(runs[0].arguments, ["one", "5", "8", "1024"]);
    assert_eq!(runs[0].points, [8, 1024]);
    let ranks = |all: &str, over: &str| -> Vec<u32> {
        let runs = find("allreduce").unwrap().runs(&options(&["--ranks", all]), over);
        runs.iter().map(|run| run.ranks).collect()
    };
    assert_eq!(ranks("8", "own"), [2, 8]);
    assert_eq!(ranks("8", "net"), [2, 4]);
    assert_eq!((ranks("3", "net"), ranks("2", "own")), (vec![2, 3], vec![2]));
    let epochs = find("epochs").unwrap().runs(&options(&["--ranks", "6"]), "net");
    assert_eq!(epochs.iter().map(|run| run.ranks).collect::<Vec<_>>(), [2, 6]);
}

#[test]
fn ranks_double_up_to_all() {
    let ranks = |name: &str, all: &str, over: &str| -> Vec<u32> {
        let runs = find(name).unwrap().runs(&options(&["--ranks", all]), over);
        runs.iter().map(|run| run.ranks).collect()
    };
    assert_eq!(ranks("barrier", "2", "own"), [2]);
    assert_eq!(ranks("barrier", "8", "own"), [2, 4, 8]);
    assert_eq!(ranks("barrier", "12", "own"), [2, 4, 8, 12]);
    assert_eq!(ranks("barrier", "8", "net"), [2, 4]);
    assert_eq!(ranks("startup", "8", "net"), [2, 4, 8]);
}

#[test]
fn what_is_not_about_sizes_has_points_of_its_own() {
    let run = |name: &str| {
        find(name)
            .unwrap()
            .runs(&options(&["--sizes", "8"]), "own")
            .remove(0)
    };
    assert_eq!(run("pack").ranks, 1);
    assert_eq!(run("pack").arguments[..3], ["pack", "200", "column"]);
    assert_eq!(run("layouts").arguments[..3], ["send", "200", "column"]);
    assert_eq!(run("threads").arguments, ["own", "200", "1", "2", "4"]);
    let one_sided = run("computing-created").arguments;
    assert_eq!(one_sided[..4], ["create", "computing", "200", "put-8"]);
    let posted = run("posted");
    assert_eq!(posted.arguments.last().unwrap(), "100000");
    assert_eq!((posted.ranks, posted.points.len()), (2, 6));
}

#[test]
fn further_providers_carry_only_what_is_about_them_or_is_named() {
    let over = |name: &str, first, named| find(name).unwrap().is_over(first, named);
    assert!(over("latency", false, false) && over("startup", false, false));
    assert!(over("idle", true, false) && !over("idle", false, false) && over("idle", false, true));
    assert!(!over("epochs", true, false) && over("epochs", false, true));
}

#[test]
fn rounds_are_the_measures_own_unless_said() {
    let rounds = |name: &str, words: &[&str]| find(name).unwrap().rounds(&options(words));
    assert_eq!((rounds("latency", &[]), rounds("rate", &[])), (5, 3));
    assert_eq!(rounds("latency", &["--rounds", "2"]), 2);
}

#[test]
fn a_run_takes_its_start_and_its_points() {
    let seconds = |name: &str| find(name).unwrap().runs(&options(&[]), "own")[0].seconds(0.5, 200);
    assert!((seconds("latency") - (0.5 + 8.0 * 0.26)).abs() < 1e-9);
    assert!((seconds("allreduce") - (0.5 + 4.0 * 0.26)).abs() < 1e-9);
    assert!((seconds("startup") - 0.5).abs() < 1e-9);
    assert!((seconds("idle") - 10.5).abs() < 1e-9);
}

#[test]
fn numbers_are_read_and_converted() {
    let few = options(&["--sizes", "8,1K"]);
    let read = |name: &str, printed: &str| {
        let measure = find(name).unwrap();
        measure.read(&measure.runs(&few, "own")[0], printed)
    };
    let warned = "[0] warning: something\nlatency 1024 2.5\nlatency 8 0.25\n";
    assert_eq!(read("latency", warned), Ok(vec![0.25, 2.5]));
    assert_eq!(
        read("bandwidth", "stream 8 1\nstream 1024 0.5\n"),
        Ok(vec![0.008, 2.048])
    );
    assert_eq!(
        read("bidirectional", "stream 8 1\nstream 1024 0.5\n"),
        Ok(vec![0.016, 4.096])
    );
    assert_eq!(read("rate", "stream 8 0.5\nstream 1024 1\n"), Ok(vec![2.0, 1.0]));
    let kinds = "column x y z indexed records rows".split(' ');
    let printed: String = kinds
        .zip(1..)
        .map(|(kind, time)| format!("layouts {kind} {time}\n"))
        .collect();
    assert_eq!(
        read("layouts", &printed),
        Ok(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    );
    assert_eq!(read("pack", &printed).unwrap()[1], 2.0);
    assert_eq!(
        read("threads-shared", "threads 4 0.25\nthreads 1 0.5\nthreads 2 1\n"),
        Ok(vec![2.0, 1.0, 4.0])
    );
    let queues: String = [1, 10, 100, 1000, 10_000, 100_000]
        .iter()
        .map(|n| format!("matching {n} {}\n", 2 * n))
        .collect();
    assert_eq!(
        read("posted", &queues),
        Ok(vec![2.0, 20.0, 200.0, 2000.0, 20_000.0, 200_000.0])
    );
    assert_eq!(read("startup", "startup 1 7.5\nstartup 0 3\n"), Ok(vec![7.5]));
    // The program's second number, of the slowest rank, is for the reader of its output.
    let printed = "collective 8 0.5 0.75\ncollective 1024 2 3\n";
    assert_eq!(read("allgather", printed), Ok(vec![0.5, 2.0]));
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let few = options(&["--sizes", "8,1K"]);
    let error = |name: &str, printed: &str| {
        let measure = find(name).unwrap();
        measure.read(&measure.runs(&few, "own")[0], printed).unwrap_err()
    };
    assert_eq!(
        error("latency", "latency 8 0.25\n"),
        "it printed no number for 1 KiB"
    );
    assert!(error("latency", "latency 8 fast\n").contains("latency 8 fast"));
    assert!(error("latency", "latency 8 inf\n").contains("latency 8 inf"));
    assert_eq!(
        error("startup", "startup 0 3\n"),
        "1 ranks printed a number, of 2"
    );
}

#[test]
fn what_a_library_lacks_is_known_by_what_the_program_says() {
    let measure = find("allreduce-persistent").unwrap();
    let run = &measure.runs(&options(&[]), "own")[0];
    let said = "warning\ncollective unsupported MPI_Allreduce_init\n";
    assert_eq!(measure.lacking(run, said), Some("MPI_Allreduce_init"));
    assert_eq!(measure.lacking(run, "collective 8 0.5 0.75\n"), None);
}

#[test]
fn what_a_run_had_found_before_it_failed_is_kept() {
    let few = options(&["--sizes", "8,1K"]);
    let read = |name: &str, printed: &str| {
        let measure = find(name).unwrap();
        measure.read_some(&measure.runs(&few, "own")[0], printed)
    };
    assert_eq!(read("rate", "stream 8 0.5\n"), [(8, 2.0)]);
    assert_eq!(read("latency", "latency 64 1\nlatency 1024 3\n"), [(1024, 3.0)]);
    assert_eq!(read("latency", ""), []);
    assert_eq!(read("latency", "latency 8 1\nlatency 1024 soon\n"), []);
    assert_eq!(read("startup", "startup 0 3\n"), []);
}

#[test]
fn points_have_units() {
    assert_eq!(Point::Bytes.label(8), "8 B");
    assert_eq!(Point::Bytes.label(1000), "1000 B");
    assert_eq!(Point::Bytes.label(64 << 10), "64 KiB");
    assert_eq!(Point::Bytes.label(4 << 20), "4 MiB");
    assert_eq!(Point::Ranks.label(8), "8 ranks");
    assert_eq!(Point::Layout.label(3), "face across z");
    assert_eq!(Point::Operation.label(9), "accumulate of 1 MiB");
    assert_eq!(Point::Queue.label(1), "n = 1");
    assert_eq!(Point::Queue.label(100_000), "n = 100,000");
    assert_eq!(Point::Pairs.label(1), "1 pair");
    assert_eq!(Point::Pairs.label(4), "4 pairs");
    assert_eq!(thousands(1_000_000), "1,000,000");
    assert_eq!(thousands(999), "999");
    assert_eq!(Point::Milliseconds.label(10_000), "10 s");
    assert_eq!(Point::Milliseconds.label(100), "100 ms");
}
