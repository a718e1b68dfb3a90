//! The procedures that are not built yet, by chapter of the standard: each raises `MPI_ERR_UNSUPPORTED_OPERATION`
//! and names itself. The error goes to the window or file that is among the arguments. Those of the tool interface raise
//! nothing: they return an error code, at any time.
//!
//! An entry is a name, an `_` for each argument before the object whose error handler gets the error, and the kind of that object.
//!
//! This list makes the library complete for the linker from the first day: a program links and runs as far as the
//! procedures that it calls are built. Whoever builds one takes its line out; a name that is built and still listed
//! does not compile (its symbol would be there twice). `tests/abi_symbols.rs` holds the list and what is built together
//! against the standard's 664 procedures, and `tests/abi_unsupported.rs` holds `docs/unsupported.md` against this
//! list.

#![cfg_attr(not(feature = "sim"), allow(dead_code, reason = "the lists are for tests"))]

use std::ffi::c_int;

use crate::abi::common::types::MPI_File;

/// The procedures of one chapter of MPI 5.0 that are not built yet.
#[derive(Clone, Copy, Debug)]
pub struct Chapter {
    /// The chapter's number.
    pub number: u32,
    /// The chapter's title.
    pub title: &'static str,
    /// The procedures, under their `MPI_` names.
    pub procedures: &'static [&'static str],
}

macro_rules! unsupported {
    ($($number:literal $title:literal { $($name:ident $([$($skipped:tt)*])? $(($object:ident))?,)+ })+) => {
        /// What is not built yet, in the order of the chapters.
        pub const UNSUPPORTED: &[Chapter] = &[
            $(Chapter { number: $number, title: $title, procedures: &[$(stringify!($name)),+] },)+
        ];

        /// Of each of them the kind of the object whose error handler gets its error (empty: none), and how many arguments stand
        /// before that object.
        pub const RAISED_AT: &[(&str, &str, usize)] = &[
            $($((
                stringify!($name),
                concat!($(stringify!($object))?),
                <[&str]>::len(&[$($(stringify!($skipped)),*)?]),
            ),)+)+
        ];

        // A stub reads the arguments up to the object whose error handler gets the error, and no more: in C's calling convention
        // the caller takes its arguments away again. Those before are integers and pointers, of which each has one register or
        // one word of the stack, whatever its type: a stub takes them for words. All return an `int`: the procedures that
        // return something else are built in `trivial`.
        $($(const _: () = {
            unsupported! { @stub $name [$($($skipped)*)?] $(($object))? }
        };)+)+
    };
    (@stub $name:ident $skipped:tt (file)) => {
        unsupported! { @export $name $skipped (fh: MPI_File) crate::abi::unsupported_file_call(stringify!($name), fh) }
    };
    // Of files, but of none that is there.
    (@stub $name:ident [] (no_file)) => {
        unsupported! { @export $name [] () crate::abi::unsupported_call_without_file(stringify!($name)) }
    };
    // Of the tool interface.
    (@stub $name:ident [] (tool)) => {
        unsupported! { @export $name [] () crate::abi::unsupported_tool_call(stringify!($name)) }
    };
    (@export $name:ident [$($skipped:tt)*] ($($arg:ident: $type:ty)?) $call:expr) => {
        #[unsafe(export_name = stringify!($name))]
        extern "C" fn mpi($($skipped: usize,)* $($arg: $type)?) -> c_int {
            $call
        }

        #[unsafe(export_name = concat!("P", stringify!($name)))]
        extern "C" fn pmpi($($skipped: usize,)* $($arg: $type)?) -> c_int {
            // Two functions of the same instructions would become one, of which a debugger shows either name.
            // SAFETY: no instruction at all.
            unsafe { ::std::arch::asm!("/* PMPI */", options(nomem, nostack, preserves_flags)) };
            $call
        }
    };
}

unsupported! {
    14 "I/O" {
        MPI_File_get_byte_offset(file),
        MPI_File_get_position(file),
        MPI_File_get_position_shared(file),
        MPI_File_get_view(file),
        MPI_File_iread(file),
        MPI_File_iread_all(file),
        MPI_File_iread_all_c(file),
        MPI_File_iread_at(file),
        MPI_File_iread_at_all(file),
        MPI_File_iread_at_all_c(file),
        MPI_File_iread_at_c(file),
        MPI_File_iread_c(file),
        MPI_File_iread_shared(file),
        MPI_File_iread_shared_c(file),
        MPI_File_iwrite(file),
        MPI_File_iwrite_all(file),
        MPI_File_iwrite_all_c(file),
        MPI_File_iwrite_at(file),
        MPI_File_iwrite_at_all(file),
        MPI_File_iwrite_at_all_c(file),
        MPI_File_iwrite_at_c(file),
        MPI_File_iwrite_c(file),
        MPI_File_iwrite_shared(file),
        MPI_File_iwrite_shared_c(file),
        MPI_File_read(file),
        MPI_File_read_all(file),
        MPI_File_read_all_begin(file),
        MPI_File_read_all_begin_c(file),
        MPI_File_read_all_c(file),
        MPI_File_read_all_end(file),
        MPI_File_read_at(file),
        MPI_File_read_at_all(file),
        MPI_File_read_at_all_begin(file),
        MPI_File_read_at_all_begin_c(file),
        MPI_File_read_at_all_c(file),
        MPI_File_read_at_all_end(file),
        MPI_File_read_at_c(file),
        MPI_File_read_c(file),
        MPI_File_read_ordered(file),
        MPI_File_read_ordered_begin(file),
        MPI_File_read_ordered_begin_c(file),
        MPI_File_read_ordered_c(file),
        MPI_File_read_ordered_end(file),
        MPI_File_read_shared(file),
        MPI_File_read_shared_c(file),
        MPI_File_seek(file),
        MPI_File_seek_shared(file),
        MPI_File_set_view(file),
        MPI_File_write(file),
        MPI_File_write_all(file),
        MPI_File_write_all_begin(file),
        MPI_File_write_all_begin_c(file),
        MPI_File_write_all_c(file),
        MPI_File_write_all_end(file),
        MPI_File_write_at(file),
        MPI_File_write_at_all(file),
        MPI_File_write_at_all_begin(file),
        MPI_File_write_at_all_begin_c(file),
        MPI_File_write_at_all_c(file),
        MPI_File_write_at_all_end(file),
        MPI_File_write_at_c(file),
        MPI_File_write_c(file),
        MPI_File_write_ordered(file),
        MPI_File_write_ordered_begin(file),
        MPI_File_write_ordered_begin_c(file),
        MPI_File_write_ordered_c(file),
        MPI_File_write_ordered_end(file),
        MPI_File_write_shared(file),
        MPI_File_write_shared_c(file),
        MPI_Register_datarep(no_file),
        MPI_Register_datarep_c(no_file),
    }
    15 "Tool support" {
        MPI_T_category_changed(tool),
        MPI_T_category_get_categories(tool),
        MPI_T_category_get_cvars(tool),
        MPI_T_category_get_events(tool),
        MPI_T_category_get_index(tool),
        MPI_T_category_get_info(tool),
        MPI_T_category_get_num(tool),
        MPI_T_category_get_num_events(tool),
        MPI_T_category_get_pvars(tool),
        MPI_T_cvar_get_index(tool),
        MPI_T_cvar_get_info(tool),
        MPI_T_cvar_get_num(tool),
        MPI_T_cvar_handle_alloc(tool),
        MPI_T_cvar_handle_free(tool),
        MPI_T_cvar_read(tool),
        MPI_T_cvar_write(tool),
        MPI_T_enum_get_info(tool),
        MPI_T_enum_get_item(tool),
        MPI_T_event_callback_get_info(tool),
        MPI_T_event_callback_set_info(tool),
        MPI_T_event_copy(tool),
        MPI_T_event_get_index(tool),
        MPI_T_event_get_info(tool),
        MPI_T_event_get_num(tool),
        MPI_T_event_get_source(tool),
        MPI_T_event_get_timestamp(tool),
        MPI_T_event_handle_alloc(tool),
        MPI_T_event_handle_free(tool),
        MPI_T_event_handle_get_info(tool),
        MPI_T_event_handle_set_info(tool),
        MPI_T_event_read(tool),
        MPI_T_event_register_callback(tool),
        MPI_T_event_set_dropped_handler(tool),
        MPI_T_finalize(tool),
        MPI_T_init_thread(tool),
        MPI_T_pvar_get_index(tool),
        MPI_T_pvar_get_info(tool),
        MPI_T_pvar_get_num(tool),
        MPI_T_pvar_handle_alloc(tool),
        MPI_T_pvar_handle_free(tool),
        MPI_T_pvar_read(tool),
        MPI_T_pvar_readreset(tool),
        MPI_T_pvar_reset(tool),
        MPI_T_pvar_session_create(tool),
        MPI_T_pvar_session_free(tool),
        MPI_T_pvar_start(tool),
        MPI_T_pvar_stop(tool),
        MPI_T_pvar_write(tool),
        MPI_T_source_get_info(tool),
        MPI_T_source_get_num(tool),
        MPI_T_source_get_timestamp(tool),
    }
}
