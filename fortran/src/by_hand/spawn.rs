//! `MPI_Comm_spawn` and `MPI_Comm_spawn_multiple` (section 11.8), whose lists of arguments end with a blank string in Fortran. Blanks at both
//! ends are no part of a command or an argument.

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::abi::{Comm, Handle, Info, Int, SUCCESS};
use crate::bindings::{Library, pmpi};
use crate::convert::{Text, handles, length, set, trimmed};
use crate::variables::{is_argv_null, is_argvs_null, is_errcodes_ignore};

/// A list of strings for C, ended by a null pointer.
struct List {
    pointers: Vec<*mut c_char>,
    // What the pointers point at.
    _texts: Vec<Text>,
}

impl List {
    /// The strings of `length` characters at every `step` bytes, up to a blank one, or to the end of so many.
    unsafe fn new(first: *const c_char, length: usize, step: usize, end: Option<usize>) -> Self {
        let mut texts = Vec::new();
        while end.is_none_or(|end| texts.len() < end) {
            let text = unsafe { trimmed(first.add(texts.len() * step), length) };
            if text.is_empty() && end.is_none() {
                break;
            }
            texts.push(text);
        }
        let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
        pointers.push(ptr::null_mut());
        Self {
            pointers,
            _texts: texts,
        }
    }

    fn as_mut_ptr(&mut self) -> *mut *mut c_char {
        self.pointers.as_mut_ptr()
    }
}

/// Where the error codes go.
fn error_codes(array_of_errcodes: *mut Int) -> *mut Int {
    if is_errcodes_ignore(array_of_errcodes.cast::<c_void>()) {
        ptr::null_mut()
    } else {
        array_of_errcodes
    }
}

/// Whether this process is the root, whose arguments alone count: elsewhere they are not read, since they may be anything. Or the code of
/// an error, which has been raised.
fn is_root(comm: Comm, root: Int) -> Result<bool, Int> {
    let mut rank = 0;
    // SAFETY: C checks the handle.
    match unsafe { pmpi::PMPI_Comm_rank(comm, &mut rank) } {
        SUCCESS => Ok(rank == root),
        error => Err(error),
    }
}

/// `MPI_Comm_spawn`.
pub unsafe fn comm_spawn<A: Library>(
    command: *mut c_char,
    argv: *mut c_char,
    maxprocs: *const Int,
    info: *const Int,
    root: *const Int,
    comm: *const Int,
    intercomm: *mut Int,
    array_of_errcodes: *mut Int,
    ierror: *mut Int,
    command_length: usize,
    argv_length: usize,
) {
    unsafe {
        let comm_c = Comm::from_int(*comm);
        let here = match is_root(comm_c, *root) {
            Ok(here) => here,
            Err(error) => return set(ierror, error),
        };
        let command = trimmed(command, if here { command_length } else { 0 });
        let mut arguments =
            (here && !is_argv_null(argv.cast())).then(|| List::new(argv, argv_length, argv_length, None));
        let mut intercomm_c = Comm::NULL;
        let error = A::MPI_Comm_spawn(
            command.as_ptr(),
            arguments.as_mut().map_or(ptr::null_mut(), List::as_mut_ptr),
            *maxprocs,
            Info::from_int(*info),
            *root,
            comm_c,
            &mut intercomm_c,
            error_codes(array_of_errcodes),
        );
        if error == SUCCESS {
            *intercomm = intercomm_c.to_int();
        }
        set(ierror, error);
    }
}

/// `MPI_Comm_spawn_multiple`.
pub unsafe fn comm_spawn_multiple<A: Library>(
    count: *const Int,
    array_of_commands: *mut c_char,
    array_of_argv: *mut c_char,
    array_of_maxprocs: *const Int,
    array_of_info: *const Int,
    root: *const Int,
    comm: *const Int,
    intercomm: *mut Int,
    array_of_errcodes: *mut Int,
    ierror: *mut Int,
    array_of_commands_length: usize,
    array_of_argv_length: usize,
) {
    unsafe {
        let comm_c = Comm::from_int(*comm);
        let here = match is_root(comm_c, *root) {
            Ok(here) => here,
            Err(error) => return set(ierror, error),
        };
        let programs = if here { length((*count).into()) } else { 0 };
        let mut commands = List::new(
            array_of_commands,
            array_of_commands_length,
            array_of_commands_length,
            Some(programs),
        );
        // argv(i, j) is argument j of program i, so those of one program are `count` strings apart.
        let mut lists: Vec<_> = (0..if is_argvs_null(array_of_argv.cast()) {
            0
        } else {
            programs
        })
            .map(|program| {
                List::new(
                    array_of_argv.add(program * array_of_argv_length),
                    array_of_argv_length,
                    programs * array_of_argv_length,
                    None,
                )
            })
            .collect();
        let mut arguments: Vec<_> = lists.iter_mut().map(List::as_mut_ptr).collect();
        let infos = handles::<Info>(array_of_info, programs);
        let mut intercomm_c = Comm::NULL;
        let error = A::MPI_Comm_spawn_multiple(
            *count,
            commands.as_mut_ptr(),
            if arguments.is_empty() {
                ptr::null_mut()
            } else {
                arguments.as_mut_ptr()
            },
            array_of_maxprocs,
            infos.as_ptr(),
            *root,
            comm_c,
            &mut intercomm_c,
            error_codes(array_of_errcodes),
        );
        if error == SUCCESS {
            *intercomm = intercomm_c.to_int();
        }
        set(ierror, error);
    }
}
