//! Forwarding of output.

use std::fs::File;
use std::io::{Read, Write};

use super::*;

#[test]
fn lines_are_never_mixed() {
    // Each line is written in many pieces, to both streams, which go to one place.
    let script = "i=0; while [ $i -lt 40 ]; do \
        for piece in 1 2 3 4 5 6 7 8; do printf '%s%01000d' \"$PMI_RANK\" 0; done; echo; \
        printf '%s' \"$PMI_RANK\" >&2; echo err >&2; i=$((i+1)); done";
    let mut command = mpiexec(&["-n", "6", "sh", "-c", script]);
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    for rank in 0..6 {
        let line = format!("{rank}{:01000}", 0).repeat(8);
        assert_eq!(
            text.lines().filter(|found| *found == line).count(),
            40,
            "rank {rank}"
        );
        let line = format!("{rank}err");
        assert_eq!(
            text.lines().filter(|found| *found == line).count(),
            40,
            "rank {rank}"
        );
    }
    assert_eq!(text.lines().count(), 6 * 80);
}

#[test]
fn a_line_cut_by_a_full_buffer_stays_whole() {
    // As the C library writes to a pipe: a block of 4096 bytes that ends anywhere, and the rest much later.
    let cut = "head -c 4096 /dev/zero | tr '\\0' a; sleep 0.3; echo b";
    let script = format!("if [ $PMI_RANK = 0 ]; then {cut}; else sleep 0.15; echo other; fi");
    let output = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(stdout(&output), format!("other\n{}b\n", "a".repeat(4096)));
}

#[test]
fn megabytes_pass_unchanged() {
    let output = run(&["-n", "2", "sh", "-c", "[ $PMI_RANK = 1 ] || seq 1 1000000"]);
    let expected: String = (1..=1_000_000).map(|number| format!("{number}\n")).collect();
    assert!(stdout(&output) == expected);
}

#[test]
fn bytes_without_a_line_feed_pass_unchanged() {
    let output = run(&["-n", "1", "sh", "-c", "head -c 300000 /dev/zero; printf end"]);
    assert_eq!(output.stdout.len(), 300_003);
    assert!(output.stdout.ends_with(b"\0end"));
}

#[test]
fn ranks_stand_in_front_of_lines_if_asked() {
    let output = run(&["-l", "-n", "2", "printf", "a\\nb\\n"]);
    assert_eq!(sorted(&output), ["[0] a", "[0] b", "[1] a", "[1] b"]);
}

#[test]
fn a_prompt_comes_before_its_answer() {
    let mut command = mpiexec(&[
        "-n",
        "2",
        "sh",
        "-c",
        "[ $PMI_RANK = 1 ] || { printf 'name? '; read x; echo \"hi $x\"; }",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut prompt = [0u8; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"name? ");
    child.stdin.as_mut().unwrap().write_all(b"weft\n").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "hi weft\n");
}

#[test]
fn a_prompt_and_another_ranks_line_are_two_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let script = format!(
        "cd {}; wait_for() {{ while [ ! -e $1 ]; do sleep 0.02; done; }}; \
         if [ $PMI_RANK = 1 ]; then printf 'name? '; wait_for end; else wait_for go; echo line; fi",
        folder.path().display()
    );
    let mut job = Running::start(mpiexec(&["-n", "2", "sh", "-c", &script]));
    let mut prompt = [0u8; 6];
    job.output.read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"name? ");
    std::fs::File::create(file("go")).unwrap();
    assert_eq!((job.line(), job.line()), (String::new(), "line".into()));
    std::fs::File::create(file("end")).unwrap();
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let mut job = Running::start(mpiexec(&["-n", "2", "yes"]));
    assert_eq!(job.line(), "y");
    let (status, text) = job.end();
    assert_eq!((status, text.as_str()), (128 + libc::SIGPIPE, ""));
}

#[test]
fn what_a_slow_reader_has_held_up_goes_on() {
    // Far more than is kept for it.
    let script = "head -c 8000000 /dev/zero; echo";
    let mut job = Running::start(mpiexec(&["-n", "1", "sh", "-c", script]));
    std::thread::sleep(Duration::from_millis(300));
    assert!(job.line().len() == 8_000_000);
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn a_process_that_holds_a_ranks_pipe_holds_up_nothing_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = format!("echo $$; while [ ! -e {} ]; do sleep 0.02; done", go.display());
    let mut job = Running::start(mpiexec(&["-n", "1", "sh", "-c", &script]));
    let pid: i32 = job.line().parse().unwrap();
    let held = std::fs::File::options()
        .write(true)
        .open(format!("/proc/{pid}/fd/1"))
        .unwrap();
    std::fs::write(go, "").unwrap();
    assert_eq!(job.end(), (0, String::new()));
    drop(held);
}

#[test]
fn a_reader_of_both_streams_that_goes_away_ends_the_job() {
    let mut command = mpiexec(&["-n", "2", "sh", "-c", "yes >&2"]);
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut some = [0; 100];
    reader.read_exact(&mut some).unwrap();
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(128 + libc::SIGPIPE));
}

#[test]
fn output_that_is_read_late_is_all_there() {
    let script = "head -c 300000 /dev/zero; echo; echo $$";
    // The time limit is the ranks', and not the reader's.
    let mut job = Running::start(mpiexec(&["--timeout", "1", "-n", "1", "sh", "-c", script]));
    // Longer than orphans are waited for after the last rank's end.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(job.line().len() == 300_000);
    let pid = job.line().parse().unwrap();
    assert!(!is_alive(pid));
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn a_slow_reader_stops_nothing_but_the_writer() {
    // Far more than any pipe holds, and nobody reads it until the signal has ended the job.
    let job = Running::start(mpiexec(&["-n", "1", "yes"]));
    std::thread::sleep(Duration::from_millis(300));
    // What waits is bounded: `yes` writes gigabytes in a second.
    let status = std::fs::read_to_string(format!("/proc/{}/status", job.child.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = resident
        .unwrap()
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    assert!(kib < 32 << 10, "{kib} KiB");
    job.signal(libc::SIGTERM);
    // `end` closes the output first.
    assert_eq!(job.end().0, 128 + libc::SIGTERM);
}

#[test]
fn output_that_cant_be_written_is_told_and_fails_the_job() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    // The rank goes on, and its own failure counts.
    for (last, expected) in [("exit 0", 125), ("exit 6", 6)] {
        let script = format!("echo one; sleep 0.2; echo two && {last}");
        let output = mpiexec(&["-n", "1", "sh", "-c", &script])
            .stdout(full())
            .output()
            .unwrap();
        let told = stderr(&output);
        assert_eq!(status(&output), expected, "{told}");
        let line = "mpiexec: standard output can't be written: No space left on device; some is lost\n";
        assert_eq!(told.matches(line).count(), 1, "{told}");
    }
    let output = mpiexec(&["--help"]).stdout(full()).output().unwrap();
    assert_eq!(status(&output), 125);
    assert_eq!(
        stderr(&output),
        "mpiexec: standard output can't be written: No space left on device\n"
    );
    // Nobody can be told.
    let mut command = mpiexec(&["-n", "2", "sh", "-c", "echo one >&2"]);
    let output = command.stdout(full()).stderr(full()).output().unwrap();
    assert_eq!(status(&output), 125);
}

#[test]
fn languages_with_buffers_of_their_own_are_asked_to_write_at_once() {
    let script = "echo $PYTHONUNBUFFERED $GFORTRAN_UNBUFFERED_PRECONNECTED";
    assert_eq!(stdout(&run(&["sh", "-c", script])), "1 1\n");
    let options = [
        "-x",
        "PYTHONUNBUFFERED=0",
        "-genv",
        "GFORTRAN_UNBUFFERED_PRECONNECTED",
        "n",
    ];
    assert_eq!(
        stdout(&run(&[&options[..], &["sh", "-c", script]].concat())),
        "0 n\n"
    );
    // The user's own.
    let mut command = mpiexec(&["sh", "-c", script]);
    assert_eq!(
        stdout(&command.env("PYTHONUNBUFFERED", "").output().unwrap()),
        "1\n"
    );
}

#[test]
fn a_misspelt_setting_is_told_once() {
    let mut command = mpiexec(&["-n", "3", "-x", "WEFT_LANE=shm", "true"]);
    let output = command.env("WEFT_PROVIDR", "tcp").output().unwrap();
    assert_eq!(status(&output), 0);
    let told = "mpiexec: WEFT_LANE is not a setting of Weft: did you mean WEFT_LANES?\n\
        mpiexec: WEFT_PROVIDR is not a setting of Weft: did you mean WEFT_PROVIDER?\n";
    assert_eq!(stderr(&output), told);
}
