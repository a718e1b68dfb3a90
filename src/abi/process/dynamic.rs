//! Sections 11.8 to 11.10: processes that are spawned, and jobs that connect.

use std::ffi::{OsStr, OsString, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi::common::arguments::{array, array_mut, bytes, give, root, text};
use crate::abi::common::constants::*;
use crate::abi::common::errors;
use crate::abi::common::objects::{self, intracommunicator, optional_info};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::inherit;
use crate::abi::process;
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::info::Info;
use crate::objects::management::dynamic::Children;
use crate::system::bootstrap::{Command, Spawn};
use crate::system::port::{Channel, NAME_MAX};

/// The info key that limits how long a connection may take, in seconds.
const TIMEOUT: &str = "timeout";

/// When a connection has to be made, by an info object.
fn deadline(info: MPI_Info) -> Result<Option<Instant>> {
    let Some(text) = optional_info(info)?.and_then(|info| info.get(TIMEOUT)) else {
        return Ok(None);
    };
    let seconds = text.trim().parse::<f64>().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match time {
        // Longer than any program runs.
        Some(time) => Ok(Instant::now().checked_add(time)),
        None => Err(err!(
            InfoValue,
            "the info key {TIMEOUT} has the value '{text}': a number of seconds is expected"
        )),
    }
}

/// Where to accept or to connect: name of a port, and until when.
///
/// # Safety
/// The pointer is null or a string of the user's.
unsafe fn place(port_name: *const c_char, info: MPI_Info) -> Result<(String, Option<Instant>)> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let name = unsafe { text(port_name, "port_name") }?;
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(err!(
            Port,
            "port_name has {} bytes, but the name of a port has 1 to {NAME_MAX}",
            name.len()
        ));
    }
    Ok((name.to_string(), deadline(info)?))
}

/// A list of strings that ends with a null pointer; a null pointer for none.
///
/// # Safety
/// The pointer is null or such a list, of strings that end with a zero byte.
unsafe fn list(list: *const *const c_char, name: &str) -> Result<Vec<OsString>> {
    let mut texts = Vec::new();
    if list.is_null() {
        return Ok(texts);
    }
    loop {
        // SAFETY: the caller's list goes on until its null pointer, which has not come yet.
        let entry = unsafe { list.add(texts.len()).read() };
        if entry.is_null() {
            return Ok(texts);
        }
        // SAFETY: a string of the caller's.
        texts.push(OsStr::from_bytes(unsafe { bytes(entry, name) }?).into());
    }
}

/// One program to spawn, and until when its processes have to come.
type Asked = (Command, Option<Instant>);

/// One program to spawn.
///
/// # Safety
/// As for [`bytes`] and [`list`].
unsafe fn command(
    program: *const c_char,
    argv: *const *const c_char,
    maxprocs: c_int,
    info: MPI_Info,
) -> Result<Asked> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let program = OsStr::from_bytes(unsafe { bytes(program, "command") }?);
    if program.is_empty() {
        return Err(err!(Arg, "command is empty: the name of a program is expected"));
    }
    let count =
        u32::try_from(maxprocs).map_err(|_| err!(Arg, "maxprocs is {maxprocs}, but must not be negative"))?;
    let command = Command {
        program: program.into(),
        // SAFETY: the caller's pointer is null or a list of strings.
        arguments: unsafe { list(argv, "argv") }?,
        count,
        info: optional_info(info)?.map_or_else(Vec::new, |info: Arc<Info>| info.entries()),
    };
    Ok((command, deadline(info)?))
}

/// Spawns, and gives the results to the user.
///
/// # Safety
/// `intercomm` is null or valid for writing, `errcodes` null or an array for a code of each process.
unsafe fn spawn(
    comm: MPI_Comm,
    root_rank: c_int,
    intercomm: *mut MPI_Comm,
    errcodes: *mut c_int,
    name: &'static str,
    asked: impl FnOnce() -> Result<Vec<Asked>>,
) -> Result<()> {
    let comm = intracommunicator(comm, "comm")?;
    let root = root(root_rank, &comm)?;
    // The errors of the root's arguments are errors of all: nobody waits for it.
    let asked = (comm.rank() == root).then(|| {
        let asked = asked()?;
        let until = asked.iter().filter_map(|(_, until)| *until).min();
        let spawn = Spawn {
            commands: asked.into_iter().map(|(command, _)| command).collect(),
            ..Spawn::default()
        };
        Ok((spawn, until))
    });
    let instance = comm.instance().clone();
    let Children {
        wanted,
        spawned,
        communicator,
    } = instance.block_on_turns(comm.clone().spawn(root, asked))?;
    let error_of = |at: usize| -> Option<Error> {
        match &spawned.errors[at] {
            Some(why) => Some(err!(Spawn, "{why}")),
            None if spawned.errors.iter().any(Option::is_some) => Some(err!(
                Spawn,
                "it was not started, because another command of the same call could not be"
            )),
            None => None,
        }
    };
    if !errcodes.is_null() {
        let all: usize = wanted.iter().map(|&count| count as usize).sum();
        // SAFETY: the user's array has room for a code of each process.
        let mut codes = unsafe { array_mut(errcodes, all, "array_of_errcodes") }?.iter_mut();
        for (at, &count) in wanted.iter().enumerate() {
            let failed = error_of(at).map(|error| errors::code_of(name, &error));
            let fewer = || {
                errors::code_of(
                    name,
                    &err!(Spawn, "fewer processes were started, as the info key soft allows"),
                )
            };
            for number in 0..count {
                let code = match failed {
                    Some(code) => code,
                    None if number < spawned.of_command[at] => MPI_SUCCESS,
                    None => fewer(),
                };
                if let Some(place) = codes.next() {
                    *place = code;
                }
            }
        }
    }
    if let Some(why) = spawned.errors.iter().flatten().next() {
        return Err(err!(Spawn, "{why}"));
    }
    // SAFETY: null or a handle of the user's.
    unsafe { inherit(&comm, communicator, intercomm) }
}

/// Gives the name of a port to the user.
///
/// # Safety
/// The pointer is null or has room for `MPI_MAX_PORT_NAME` bytes.
unsafe fn give_port(to: *mut c_char, name: &str) -> Result<()> {
    let mut len: c_int = 0;
    // SAFETY: the caller's buffer has that much room; the length is ours.
    unsafe {
        crate::abi::common::arguments::give_text(to, MPI_MAX_PORT_NAME as usize, &mut len, name, "port_name")
    }
}

/// The name of a service.
///
/// # Safety
/// As for [`text`].
unsafe fn service<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let name = unsafe { text(name, "service_name") }?;
    match name.len() {
        1..=SERVICE_MAX => Ok(name),
        len => Err(err!(
            Arg,
            "service_name has {len} bytes, but must have 1 to {SERVICE_MAX}"
        )),
    }
}

/// The longest name of a service in bytes.
const SERVICE_MAX: usize = 1023;

mpi! {
    /// Section 11.8.2. `command`, `argv`, `maxprocs` and `info` matter only at the root.
    small fn MPI_Comm_spawn(command: *const c_char, argv: *const *const c_char, maxprocs: c_int, info: MPI_Info,
        root: c_int, comm: MPI_Comm, intercomm: *mut MPI_Comm, array_of_errcodes: *mut c_int) comm(comm) {
        // SAFETY: the root's pointers are null or to what they are named after; the others are for the results.
        unsafe {
            spawn(comm, root, intercomm, array_of_errcodes, "MPI_Comm_spawn", || {
                Ok(vec![self::command(command, argv, maxprocs, info)?])
            })
        }
    }

    /// Section 11.8.3. `count` and the arrays of commands, arguments, numbers and infos matter only at the root.
    small fn MPI_Comm_spawn_multiple(count: c_int, array_of_commands: *const *const c_char,
        array_of_argv: *const *const *const c_char, array_of_maxprocs: *const c_int, array_of_info: *const MPI_Info,
        root: c_int, comm: MPI_Comm, intercomm: *mut MPI_Comm, array_of_errcodes: *mut c_int) comm(comm) {
        // SAFETY: the root's arrays are null or have `count` elements; the others are for the results.
        unsafe {
            spawn(comm, root, intercomm, array_of_errcodes, "MPI_Comm_spawn_multiple", || {
                let len = match usize::try_from(count) {
                    Ok(len) if len > 0 => len,
                    _ => return Err(err!(Count, "count is {count}: at least one command is expected")),
                };
                let commands = array(array_of_commands, len, "array_of_commands")?;
                let counts = array(array_of_maxprocs, len, "array_of_maxprocs")?;
                let infos = array(array_of_info, len, "array_of_info")?;
                let lists = match array_of_argv.is_null() {
                    true => None,
                    false => Some(array(array_of_argv, len, "array_of_argv")?),
                };
                let each = (0..len).map(|at| {
                    let argv = lists.map_or(std::ptr::null(), |lists| lists[at]);
                    command(commands[at], argv, counts[at], infos[at])
                });
                each.collect()
            })
        }
    }

    /// Section 11.8.2.
    small fn MPI_Comm_get_parent(parent: *mut MPI_Comm) local {
        let handle = match &process::world()?.parent {
            // It may have been disconnected or freed.
            Some(known) => match objects::handle_of_communicator(known) {
                handle if objects::COMMUNICATORS.get(handle).is_some_and(|found| Arc::ptr_eq(&found, known)) => handle,
                _ => MPI_COMM_NULL,
            },
            None => MPI_COMM_NULL,
        };
        // SAFETY: null or a handle of the user's.
        unsafe { give(parent, handle, "parent") }
    }

    /// Section 11.9.2.
    small fn MPI_Open_port(info: MPI_Info, port_name: *mut c_char) local {
        optional_info(info)?;
        let instance = process::instance()?;
        let name = instance.open_port()?;
        // SAFETY: null or room for the name of a port.
        let given = unsafe { give_port(port_name, &name) };
        if given.is_err() {
            instance.close_port(&name);
        }
        given
    }

    /// Section 11.9.2.
    small fn MPI_Close_port(port_name: *const c_char) local {
        // SAFETY: null or a string of the user's.
        let (name, _) = unsafe { place(port_name, MPI_INFO_NULL) }?;
        match process::instance()?.close_port(&name) {
            true => Ok(()),
            false => Err(err!(Port, "no port of this name is open in this process")),
        }
    }

    /// Section 11.9.2. `port_name` and `info` matter only at the root.
    small fn MPI_Comm_accept(port_name: *const c_char, info: MPI_Info, root: c_int, comm: MPI_Comm,
        newcomm: *mut MPI_Comm) comm(comm) {
        let comm = intracommunicator(comm, "comm")?;
        let root = self::root(root, &comm)?;
        // SAFETY: null or a string of the user's.
        let port = (comm.rank() == root).then(|| unsafe { place(port_name, info) });
        let new = comm.instance().block_on_turns(comm.clone().accept(root, port))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&comm, Some(new), newcomm) }
    }

    /// Section 11.9.3. `port_name` and `info` matter only at the root.
    small fn MPI_Comm_connect(port_name: *const c_char, info: MPI_Info, root: c_int, comm: MPI_Comm,
        newcomm: *mut MPI_Comm) comm(comm) {
        let comm = intracommunicator(comm, "comm")?;
        let root = self::root(root, &comm)?;
        // SAFETY: null or a string of the user's.
        let port = (comm.rank() == root).then(|| unsafe { place(port_name, info) });
        let new = comm.instance().block_on_turns(comm.clone().connect_to(root, port))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&comm, Some(new), newcomm) }
    }

    /// Section 11.9.4.
    small fn MPI_Publish_name(service_name: *const c_char, info: MPI_Info, port_name: *const c_char) local {
        // SAFETY: null or strings of the user's.
        let (service, (port, _)) = unsafe { (service(service_name)?, place(port_name, MPI_INFO_NULL)?) };
        optional_info(info)?;
        process::instance()?.bootstrap().publish_name(service, &port)
    }

    /// Section 11.9.4. Who publishes a name need not be who takes it back, but both are of one job.
    small fn MPI_Unpublish_name(service_name: *const c_char, info: MPI_Info, port_name: *const c_char) local {
        // SAFETY: null or strings of the user's.
        let (service, _) = unsafe { (service(service_name)?, text(port_name, "port_name")?) };
        optional_info(info)?;
        process::instance()?.bootstrap().unpublish_name(service)
    }

    /// Section 11.9.4.
    small fn MPI_Lookup_name(service_name: *const c_char, info: MPI_Info, port_name: *mut c_char) local {
        // SAFETY: null or a string of the user's.
        let service = unsafe { service(service_name) }?;
        optional_info(info)?;
        match process::instance()?.bootstrap().lookup_name(service)? {
            // SAFETY: null or room for the name of a port.
            Some(port) => unsafe { give_port(port_name, &port) },
            None => Err(err!(Name, "no service '{service}' is published")),
        }
    }

    /// Section 11.10.5. The descriptor stays the user's, and nothing of this is in it afterwards.
    small fn MPI_Comm_join(fd: c_int, intercomm: *mut MPI_Comm) local {
        let world = process::world()?;
        if fd < 0 {
            return Err(err!(Arg, "fd is {fd}: a connected stream socket is expected"));
        }
        // SAFETY: the number may be of no open descriptor, which the duplication finds out; it is used for nothing else.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let socket = socket
            .try_clone_to_owned()
            .map_err(|error| err!(Arg, "fd is {fd}, which can't be used: {error}"))?;
        let joining = world.alone.clone().join(Box::new(Channel::over(socket)?));
        let new = world.instance.block_on_turns(joining)?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&world.alone, Some(new), intercomm) }
    }
}
