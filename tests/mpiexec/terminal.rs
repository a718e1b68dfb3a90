//! Standard input that is a terminal: the launcher reads it, and only while it is in the foreground. And standard output that is one.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;

use nix::fcntl::{FcntlArg, FdFlag, OFlag};

use super::*;

/// A job that leads a session on a terminal of its own.
struct Desk {
    job: Running,
    /// What is written here is typed.
    keys: File,
    /// Where the job is in the background: dropped, it comes to the foreground, and no signal tells it.
    behind: Option<OwnedFd>,
}

fn start(args: &[&str], behind: bool) -> Desk {
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    nix::fcntl::fcntl(&terminal.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag");
    let (told, tell) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    let mut command = mpiexec(args);
    command.stdin(terminal.slave);
    let told_fd = told.as_raw_fd();
    let set_up = move || {
        // SAFETY: system calls alone, which may be made between fork and exec, on descriptors of this process.
        unsafe {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            if behind && libc::fork() == 0 {
                // Another group is in the foreground until the pipe closes. This process has nothing else open for the others to wait for.
                let leader = libc::getppid();
                libc::signal(libc::SIGTTOU, libc::SIG_IGN);
                libc::dup2(told_fd, 3);
                for descriptor in [1, 2].into_iter().chain(4..1024) {
                    libc::close(descriptor);
                }
                libc::setpgid(0, 0);
                libc::tcsetpgrp(0, libc::getpid());
                let mut byte = 0u8;
                libc::read(3, (&raw mut byte).cast(), 1);
                libc::tcsetpgrp(0, leader);
                libc::_exit(0);
            }
            while behind && libc::tcgetpgrp(0) == libc::getpgrp() {
                libc::sched_yield();
            }
        }
        Ok(())
    };
    // SAFETY: see above.
    unsafe { command.pre_exec(set_up) };
    Desk {
        job: Running::start(command),
        keys: File::from(terminal.master),
        behind: behind.then_some(tell),
    }
}

#[test]
fn rank_0_reads_what_is_typed_to_its_end() {
    let mut desk = start(&["-n", "2", "sh", "-c", "cat; echo $PMI_RANK ended"], false);
    assert_eq!(desk.job.line(), "1 ended");
    desk.keys.write_all(b"one\ntwo\n").unwrap();
    assert_eq!(desk.job.line(), "one");
    assert_eq!(desk.job.line(), "two");
    // Control-D.
    desk.keys.write_all(b"\x04").unwrap();
    assert_eq!(desk.job.line(), "0 ended");
    assert_eq!(desk.job.end(), (0, String::new()));
}

#[test]
fn more_than_a_pipe_holds_is_typed_before_rank_0_reads() {
    // The pipe has room for 65 of the lines, and the terminal for as many; who types waits for the rest. The kernel wakes him only
    // when something is read, so nothing here may wait for what he types next.
    let mut desk = start(&["-n", "1", "sh", "-c", "sleep 0.5; wc -c"], false);
    let line = [&[b'x'; 999][..], b"\n"].concat();
    for _ in 0..200 {
        desk.keys.write_all(&line).unwrap();
    }
    desk.keys.write_all(b"\x04").unwrap();
    assert_eq!(desk.job.line(), "200000");
    assert_eq!(desk.job.end(), (0, String::new()));
}

#[test]
fn a_job_in_the_background_reads_once_it_is_in_front() {
    let mut desk = start(
        &["-n", "1", "sh", "-c", "echo up; read line; echo got $line"],
        true,
    );
    assert_eq!(desk.job.line(), "up");
    // Read in the background, this would be an error, and the end of what rank 0 reads.
    desk.keys.write_all(b"early\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(desk.behind.take());
    assert_eq!(desk.job.line(), "got early");
    assert_eq!(desk.job.end(), (0, String::new()));
}

#[test]
fn a_shell_with_a_prompt_can_be_used() {
    // One that finds the launcher's terminal waits there to come to the foreground.
    let mut desk = start(
        &["-n", "1", "sh", "-c", "PS1='prompt> ' exec bash --norc -i 2>&1"],
        false,
    );
    desk.keys.write_all(b"echo got $((6 * 7)); exit\n").unwrap();
    let mut before = String::new();
    loop {
        match desk.job.line() {
            line if line.ends_with("got 42") => break,
            line => before += &line,
        }
    }
    assert!(before.contains("prompt> "), "{before}");
    assert_eq!(desk.job.end().0, 0);
}

#[test]
fn ranks_write_to_a_terminal_where_the_launcher_does() {
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let script = "[ -t 1 ] && echo $PMI_RANK at a terminal; [ -t 2 ] || echo no; printf 'x\\r\\ty\\n'";
    let mut child = mpiexec(&["-n", "2", "sh", "-c", script])
        .stdout(terminal.slave)
        .stderr(Stdio::null())
        .spawn()
        .expect("mpiexec starts");
    let mut lines = BufReader::new(File::from(terminal.master)).lines();
    let mut found: Vec<String> = (0..6).map(|_| lines.next().unwrap().unwrap()).collect();
    found.sort();
    // The launcher's terminal ends lines by two bytes, which `lines` takes away; a rank's does not.
    let expected = [
        "0 at a terminal",
        "1 at a terminal",
        "no",
        "no",
        "x\r\ty",
        "x\r\ty",
    ];
    assert_eq!(found, expected);
    assert!(child.wait().unwrap().success());
}
