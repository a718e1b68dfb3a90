//! Where the system forbids something that shared memory is made of, or has too little of it: either all works as ever, or an
//! error says what is missing and what to do.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use weft::sim::skip;

use crate::Outcome;
use crate::build;
use crate::job::{Ended, Job};

const RANKS: u32 = 3;

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("confined::no_memory_file", no_memory_file),
        Trial::test("confined::no_memory_for_rings", no_memory_for_rings),
        Trial::test("confined::not_dumpable", not_dumpable),
        Trial::test("confined::no_membarrier", || {
            for program in ["late", "ring", "probe"] {
                is_well(program, "membarrier=1", "")?;
            }
            Ok(())
        }),
    ];
    // EPERM, as Docker has it; ENOSYS; and of one rank only.
    for (name, forbidden, rank) in [
        ("not_permitted", "process_vm_readv=1", ""),
        ("not_there", "process_vm_readv=38", ""),
        ("not_permitted_to_one", "process_vm_readv=1", "1"),
    ] {
        trials.push(Trial::test(
            format!("confined::cross_memory_attach_{name}"),
            move || {
                for program in ["sizes", "cancel", "layouts"] {
                    is_well(program, forbidden, rank)?;
                }
                Ok(())
            },
        ));
    }
    for (name, commands, why) in [
        (
            "dev_shm_of_1_mib",
            "mount -t tmpfs -o size=1m none /dev/shm",
            ["48 MiB", "3 processes", "1 MiB are free"],
        ),
        (
            "no_dev_shm",
            NO_DEV_SHM,
            ["/dev/shm", "No such file", "Weft's own shared memory"],
        ),
    ] {
        trials.push(Trial::test(format!("confined::{name}"), move || {
            dev_shm(commands)
        }));
        trials.push(Trial::test(
            format!("confined::{name}_for_libfabric"),
            move || dev_shm_for_libfabric(commands, &why),
        ));
    }
    trials
}

/// A job whose ranks may not do something: see `tests/c/forbid.c`.
fn forbidden(program: &str, what: &str, rank: &str) -> Result<Job, libtest_mimic::Failed> {
    let mut job = Job::new(&build::program(program)?, RANKS).forbid(what);
    if !rank.is_empty() {
        job = job.env("WEFT_FORBID_RANK", rank);
    }
    Ok(job)
}

/// Over shared memory the program does all it does elsewhere, and nobody says a word about it.
fn is_well(program: &str, what: &str, rank: &str) -> Outcome {
    let ended = forbidden(program, what, rank)?.over("WEFT_LANES=shm").run()?;
    ended.is_well(program, RANKS)?;
    silent(&ended)
}

fn silent(ended: &Ended) -> Outcome {
    match ended.stderr.is_empty() {
        true => Ok(()),
        false => Err(ended.fail("there is something on standard error")),
    }
}

/// The job ends with an error, as long as nothing else is allowed than shared memory.
fn fails(program: &str, what: &str, words: &[&str]) -> Outcome {
    let ended = forbidden(program, what, "")?.over("WEFT_LANES=shm").run()?;
    if ended.status == 0 {
        return Err(ended.fail("it can't have worked"));
    }
    ended.says(words)
}

fn no_memory_file() -> Outcome {
    for what in ["memfd_create=1", "memfd_create=38", "fallocate=28"] {
        fails(
            "sizes",
            what,
            &["memory file", "167936 for each process", "WEFT_LANES=ofi"],
        )?;
        // libfabric takes its place.
        forbidden("sizes", what, "")?.run()?.is_well("sizes", RANKS)?;
    }
    Ok(())
}

fn no_memory_for_rings() -> Outcome {
    let what = "fallocate@167936=28";
    fails(
        "sizes",
        what,
        &["167936 bytes", "No space left", "free some", "WEFT_LANES=shm,ofi"],
    )?;
    let job = forbidden("sizes", what, "")?.over("WEFT_LANES=shm,ofi");
    job.run()?.is_well("sizes", RANKS)
}

/// Programs that have changed their user, or have secrets.
fn not_dumpable() -> Outcome {
    fails("sizes", "dumpable=0", &["PR_GET_DUMPABLE", "WEFT_LANES=ofi"])?;
    forbidden("sizes", "dumpable=0", "")?
        .run()?
        .is_well("sizes", RANKS)
}

/// A `/dev` with the devices that programs need, and without `shm`.
const NO_DEV_SHM: &str = r#"
    mount -t tmpfs none /mnt
    for name in null zero random urandom tty; do
        touch "/mnt/$name" && mount --bind "/dev/$name" "/mnt/$name"
    done
    ln -s /proc/self/fd /mnt/fd
    mount --move /mnt /dev
    test ! -e /dev/shm
"#;

/// A shell that begins with some commands in mounts of its own and then runs its arguments.
fn in_own_mounts(commands: &str) -> Vec<OsString> {
    let script = format!("set -e\n{commands}\nexec \"$@\"");
    ["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]
        .iter()
        .map(OsString::from)
        .collect()
}

/// Whether this user may have such mounts; else why not.
fn can_mount(commands: &str) -> Result<(), String> {
    let output = Command::new("unshare")
        .args(in_own_mounts(commands))
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    }
}

/// A job in mounts of its own; `None` where this user may have none.
fn mounted(commands: &str, program: &str) -> Result<Option<Job>, libtest_mimic::Failed> {
    if let Err(why) = can_mount(commands) {
        skip(format_args!("no mounts of one's own are allowed here: {why}"));
        return Ok(None);
    }
    let mut job = Job::new(&build::program(program)?, RANKS).under(Path::new("unshare"));
    for word in in_own_mounts(commands) {
        job = job.option(word);
    }
    Ok(Some(job.option(env!("CARGO_BIN_EXE_mpiexec"))))
}

/// Weft's own shared memory has nothing to do with `/dev/shm`.
fn dev_shm(commands: &str) -> Outcome {
    for program in ["sizes", "cancel"] {
        let Some(job) = mounted(commands, program)? else {
            return Ok(());
        };
        let ended = job.over("WEFT_LANES=shm").run()?;
        ended.is_well(program, RANKS)?;
        silent(&ended)?;
    }
    Ok(())
}

/// libfabric's needs it, and would die of SIGBUS or say nothing of the reason.
fn dev_shm_for_libfabric(commands: &str, why: &[&str]) -> Outcome {
    let Some(job) = mounted(commands, "sizes")? else {
        return Ok(());
    };
    let ended = job.over("shm").run()?;
    if ended.status == 0 || ended.status > 128 {
        return Err(ended.fail("it can't have worked, and must not be killed"));
    }
    ended.says(why)
}
