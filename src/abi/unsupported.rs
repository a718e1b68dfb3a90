//! The procedures that are not built yet, by chapter of the standard: each raises `MPI_ERR_UNSUPPORTED_OPERATION`
//! and names itself.
//!
//! This list makes the library complete for the linker from the first day: a program links and runs as far as the
//! procedures that it calls are built. Whoever builds one takes its line out; a name that is built and still listed
//! does not compile (its symbol would be there twice). `tests/abi_symbols.rs` holds the list and what is built together
//! against the standard's 664 procedures, and `tests/abi_unsupported.rs` holds `docs/unsupported.md` against this
//! list.

use std::ffi::c_int;

use super::types::MPI_File;

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
    ($($number:literal $title:literal { $($name:ident $(($object:ident))?,)+ })+) => {
        /// What is not built yet, in the order of the chapters.
        pub const UNSUPPORTED: &[Chapter] = &[
            $(Chapter { number: $number, title: $title, procedures: &[$(stringify!($name)),+] },)+
        ];

        // A stub reads no argument, or the first one alone, so that few signatures serve all: in C's calling convention
        // the caller takes its arguments away again. All of them return an `int`: the procedures that return something else
        // are built in `trivial`.
        $($(const _: () = {
            unsupported! { @stub $name $(($object))? }
        };)+)+
    };
    (@stub $name:ident) => {
        unsupported! { @export $name () super::unsupported_call(stringify!($name)) }
    };
    // Of the file that is its first argument.
    (@stub $name:ident (file)) => {
        unsupported! { @export $name (fh: MPI_File) super::unsupported_file_call(stringify!($name), fh) }
    };
    // Of files, but of none that is there.
    (@stub $name:ident (no_file)) => {
        unsupported! { @export $name () super::unsupported_call_without_file(stringify!($name)) }
    };
    (@export $name:ident ($($arg:ident: $type:ty)?) $call:expr) => {
        #[unsafe(export_name = stringify!($name))]
        extern "C" fn mpi($($arg: $type)?) -> c_int {
            $call
        }

        #[unsafe(export_name = concat!("P", stringify!($name)))]
        extern "C" fn pmpi($($arg: $type)?) -> c_int {
            $call
        }
    };
}

unsupported! {
    6 "Collective communication" {
        MPI_Allgather_init,
        MPI_Allgather_init_c,
        MPI_Allgatherv_init,
        MPI_Allgatherv_init_c,
        MPI_Allreduce_init,
        MPI_Allreduce_init_c,
        MPI_Alltoall_init,
        MPI_Alltoall_init_c,
        MPI_Alltoallv_init,
        MPI_Alltoallv_init_c,
        MPI_Alltoallw_init,
        MPI_Alltoallw_init_c,
        MPI_Barrier_init,
        MPI_Bcast_init,
        MPI_Bcast_init_c,
        MPI_Exscan_init,
        MPI_Exscan_init_c,
        MPI_Gather_init,
        MPI_Gather_init_c,
        MPI_Gatherv_init,
        MPI_Gatherv_init_c,
        MPI_Reduce_init,
        MPI_Reduce_init_c,
        MPI_Reduce_scatter_block_init,
        MPI_Reduce_scatter_block_init_c,
        MPI_Reduce_scatter_init,
        MPI_Reduce_scatter_init_c,
        MPI_Scan_init,
        MPI_Scan_init_c,
        MPI_Scatter_init,
        MPI_Scatter_init_c,
        MPI_Scatterv_init,
        MPI_Scatterv_init_c,
    }
    8 "Virtual topologies" {
        MPI_Cart_coords,
        MPI_Cart_create,
        MPI_Cart_get,
        MPI_Cart_map,
        MPI_Cart_rank,
        MPI_Cart_shift,
        MPI_Cart_sub,
        MPI_Cartdim_get,
        MPI_Dist_graph_create,
        MPI_Dist_graph_create_adjacent,
        MPI_Dist_graph_neighbors,
        MPI_Dist_graph_neighbors_count,
        MPI_Graph_create,
        MPI_Graph_get,
        MPI_Graph_map,
        MPI_Graph_neighbors,
        MPI_Graph_neighbors_count,
        MPI_Graphdims_get,
        MPI_Ineighbor_allgather,
        MPI_Ineighbor_allgather_c,
        MPI_Ineighbor_allgatherv,
        MPI_Ineighbor_allgatherv_c,
        MPI_Ineighbor_alltoall,
        MPI_Ineighbor_alltoall_c,
        MPI_Ineighbor_alltoallv,
        MPI_Ineighbor_alltoallv_c,
        MPI_Ineighbor_alltoallw,
        MPI_Ineighbor_alltoallw_c,
        MPI_Neighbor_allgather,
        MPI_Neighbor_allgather_c,
        MPI_Neighbor_allgather_init,
        MPI_Neighbor_allgather_init_c,
        MPI_Neighbor_allgatherv,
        MPI_Neighbor_allgatherv_c,
        MPI_Neighbor_allgatherv_init,
        MPI_Neighbor_allgatherv_init_c,
        MPI_Neighbor_alltoall,
        MPI_Neighbor_alltoall_c,
        MPI_Neighbor_alltoall_init,
        MPI_Neighbor_alltoall_init_c,
        MPI_Neighbor_alltoallv,
        MPI_Neighbor_alltoallv_c,
        MPI_Neighbor_alltoallv_init,
        MPI_Neighbor_alltoallv_init_c,
        MPI_Neighbor_alltoallw,
        MPI_Neighbor_alltoallw_c,
        MPI_Neighbor_alltoallw_init,
        MPI_Neighbor_alltoallw_init_c,
    }
    11 "Process initialization, creation, and management" {
        MPI_Close_port,
        MPI_Comm_accept,
        MPI_Comm_connect,
        MPI_Comm_join,
        MPI_Comm_spawn,
        MPI_Comm_spawn_multiple,
        MPI_Lookup_name,
        MPI_Open_port,
        MPI_Publish_name,
        MPI_Unpublish_name,
    }
    12 "One-sided communications" {
        MPI_Accumulate,
        MPI_Accumulate_c,
        MPI_Compare_and_swap,
        MPI_Fetch_and_op,
        MPI_Get,
        MPI_Get_accumulate,
        MPI_Get_accumulate_c,
        MPI_Get_c,
        MPI_Put,
        MPI_Put_c,
        MPI_Raccumulate,
        MPI_Raccumulate_c,
        MPI_Rget,
        MPI_Rget_accumulate,
        MPI_Rget_accumulate_c,
        MPI_Rget_c,
        MPI_Rput,
        MPI_Rput_c,
        MPI_Win_complete,
        MPI_Win_fence,
        MPI_Win_flush,
        MPI_Win_flush_all,
        MPI_Win_flush_local,
        MPI_Win_flush_local_all,
        MPI_Win_lock,
        MPI_Win_lock_all,
        MPI_Win_post,
        MPI_Win_start,
        MPI_Win_sync,
        MPI_Win_test,
        MPI_Win_unlock,
        MPI_Win_unlock_all,
        MPI_Win_wait,
    }
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
        MPI_T_category_changed,
        MPI_T_category_get_categories,
        MPI_T_category_get_cvars,
        MPI_T_category_get_events,
        MPI_T_category_get_index,
        MPI_T_category_get_info,
        MPI_T_category_get_num,
        MPI_T_category_get_num_events,
        MPI_T_category_get_pvars,
        MPI_T_cvar_get_index,
        MPI_T_cvar_get_info,
        MPI_T_cvar_get_num,
        MPI_T_cvar_handle_alloc,
        MPI_T_cvar_handle_free,
        MPI_T_cvar_read,
        MPI_T_cvar_write,
        MPI_T_enum_get_info,
        MPI_T_enum_get_item,
        MPI_T_event_callback_get_info,
        MPI_T_event_callback_set_info,
        MPI_T_event_copy,
        MPI_T_event_get_index,
        MPI_T_event_get_info,
        MPI_T_event_get_num,
        MPI_T_event_get_source,
        MPI_T_event_get_timestamp,
        MPI_T_event_handle_alloc,
        MPI_T_event_handle_free,
        MPI_T_event_handle_get_info,
        MPI_T_event_handle_set_info,
        MPI_T_event_read,
        MPI_T_event_register_callback,
        MPI_T_event_set_dropped_handler,
        MPI_T_finalize,
        MPI_T_init_thread,
        MPI_T_pvar_get_index,
        MPI_T_pvar_get_info,
        MPI_T_pvar_get_num,
        MPI_T_pvar_handle_alloc,
        MPI_T_pvar_handle_free,
        MPI_T_pvar_read,
        MPI_T_pvar_readreset,
        MPI_T_pvar_reset,
        MPI_T_pvar_session_create,
        MPI_T_pvar_session_free,
        MPI_T_pvar_start,
        MPI_T_pvar_stop,
        MPI_T_pvar_write,
        MPI_T_source_get_info,
        MPI_T_source_get_num,
        MPI_T_source_get_timestamp,
    }
    20 "Application binary interface" {
        MPI_Abi_get_fortran_booleans,
        MPI_Abi_get_fortran_info,
        MPI_Abi_get_info,
        MPI_Abi_set_fortran_booleans,
        MPI_Abi_set_fortran_info,
    }
}
