//! `MPI_Session_init` and `MPI_Session_finalize` of a session while another one is open: the goal is below 1 µs for the
//! two. Beside them, what a session costs from which a communicator is derived.

use std::ffi::{c_char, c_int};
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use weft::abi::common::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session};

/// `MPI_INFO_NULL`, `MPI_ERRORS_ARE_FATAL`, and null handles of the standard ABI.
use weft::abi::common::constants::{
    MPI_COMM_NULL, MPI_ERRORS_ARE_FATAL, MPI_GROUP_NULL, MPI_INFO_NULL, MPI_SESSION_NULL, MPI_SUCCESS,
};

unsafe extern "C" {
    fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: *mut MPI_Session) -> c_int;
    fn MPI_Session_finalize(session: *mut MPI_Session) -> c_int;
    fn MPI_Group_from_session_pset(session: MPI_Session, name: *const c_char, group: *mut MPI_Group)
    -> c_int;
    fn MPI_Group_free(group: *mut MPI_Group) -> c_int;
    fn MPI_Comm_create_from_group(
        group: MPI_Group,
        tag: *const c_char,
        info: MPI_Info,
        errhandler: MPI_Errhandler,
        comm: *mut MPI_Comm,
    ) -> c_int;
    fn MPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int;
}

fn open() -> MPI_Session {
    let mut session = MPI_SESSION_NULL;
    // SAFETY: predefined handles, and a place for one.
    let code = unsafe { MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &mut session) };
    assert_eq!(code, MPI_SUCCESS);
    session
}

fn close(mut session: MPI_Session) {
    // SAFETY: a handle of ours.
    let code = unsafe { MPI_Session_finalize(&mut session) };
    assert_eq!(code, MPI_SUCCESS);
}

/// A communicator of this process alone, made and disconnected.
fn derive(session: MPI_Session) {
    let (mut group, mut comm) = (MPI_GROUP_NULL, MPI_COMM_NULL);
    // SAFETY: handles of ours, texts that end with a zero.
    let code = unsafe {
        MPI_Group_from_session_pset(session, c"mpi://SELF".as_ptr(), &mut group)
            | MPI_Comm_create_from_group(
                group,
                c"bench".as_ptr(),
                MPI_INFO_NULL,
                MPI_ERRORS_ARE_FATAL,
                &mut comm,
            )
            | MPI_Group_free(&mut group)
            | MPI_Comm_disconnect(&mut comm)
    };
    assert_eq!(code, MPI_SUCCESS);
}

fn session(c: &mut Criterion) {
    let outer = open();
    let mut group = c.benchmark_group("session");
    group.bench_function("init and finalize, a second one", |b| {
        b.iter(|| close(black_box(open())))
    });
    group.bench_function("init, communicator of one, finalize", |b| {
        b.iter(|| {
            let session = open();
            derive(session);
            close(session);
        })
    });
    group.finish();
    close(outer);
}

/// Functions, not macros that make undocumented ones.
mod groups {
    #![allow(missing_docs)]
    use super::*;
    criterion_group!(sessions, session);
}

criterion_main!(groups::sessions);
