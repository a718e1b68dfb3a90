//! The constants of the standard ABI (MPI 5.0, section 20.3), as one table.
//!
//! They stand in the order of `include/mpi.h`; `tests/abi_constants.rs` holds both against the standard's facts in
//! `tests/abi/constants.tsv`. Predefined callbacks are addresses and not functions: see [`Callback`].

#![cfg_attr(
    not(feature = "sim"),
    allow(dead_code, reason = "the ABI is complete, the library not yet")
)]
#![allow(missing_docs)] // The names are the standard's own.
#![allow(clippy::zero_ptr, clippy::manual_dangling_ptr)] // In a table of addresses, zero is one of them.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::common::types::*;

/// A constant of the ABI, as data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Its name in C.
    pub name: &'static str,
    /// Its type in this module, as written in the source.
    pub rust_type: &'static str,
    /// Its value, as an address where it is a handle or a pointer.
    pub value: i64,
}

macro_rules! constants {
    ($($name:ident: $type:ty = $value:literal;)+) => {
        $(pub const $name: $type = $value as $type;)+

        /// Every constant of this module.
        pub const ALL: &[Constant] = &[
            $(Constant { name: stringify!($name), rust_type: stringify!($type), value: $value },)+
        ];
    };
}

constants! {
    // The version of the standard, and of its ABI
    MPI_VERSION: c_int = 5;
    MPI_SUBVERSION: c_int = 0;
    MPI_ABI_VERSION: c_int = 1;
    MPI_ABI_SUBVERSION: c_int = 0;

    // A status as an array of Fortran INTEGERs: its length and the places of its fields
    MPI_F_STATUS_SIZE: c_int = 8;
    MPI_F_SOURCE: c_int = 0;
    MPI_F_TAG: c_int = 1;
    MPI_F_ERROR: c_int = 2;

    // Null handles
    MPI_COMM_NULL: MPI_Comm = 0x100;
    MPI_DATATYPE_NULL: MPI_Datatype = 0x200;
    MPI_ERRHANDLER_NULL: MPI_Errhandler = 0x140;
    MPI_FILE_NULL: MPI_File = 0x118;
    MPI_GROUP_NULL: MPI_Group = 0x108;
    MPI_INFO_NULL: MPI_Info = 0x130;
    MPI_MESSAGE_NULL: MPI_Message = 0x128;
    MPI_OP_NULL: MPI_Op = 0x020;
    MPI_REQUEST_NULL: MPI_Request = 0x180;
    MPI_SESSION_NULL: MPI_Session = 0x120;
    MPI_WIN_NULL: MPI_Win = 0x110;

    // Predefined communicators, groups, infos, messages, and error handlers
    MPI_COMM_WORLD: MPI_Comm = 0x101;
    MPI_COMM_SELF: MPI_Comm = 0x102;
    MPI_GROUP_EMPTY: MPI_Group = 0x109;
    MPI_INFO_ENV: MPI_Info = 0x131;
    MPI_MESSAGE_NO_PROC: MPI_Message = 0x129;
    MPI_ERRORS_ARE_FATAL: MPI_Errhandler = 0x141;
    MPI_ERRORS_ABORT: MPI_Errhandler = 0x142;
    MPI_ERRORS_RETURN: MPI_Errhandler = 0x143;

    // Predefined reduction operations
    MPI_SUM: MPI_Op = 0x021;
    MPI_MIN: MPI_Op = 0x022;
    MPI_MAX: MPI_Op = 0x023;
    MPI_PROD: MPI_Op = 0x024;
    MPI_BAND: MPI_Op = 0x028;
    MPI_BOR: MPI_Op = 0x029;
    MPI_BXOR: MPI_Op = 0x02a;
    MPI_LAND: MPI_Op = 0x030;
    MPI_LOR: MPI_Op = 0x031;
    MPI_LXOR: MPI_Op = 0x032;
    MPI_MINLOC: MPI_Op = 0x038;
    MPI_MAXLOC: MPI_Op = 0x039;
    MPI_REPLACE: MPI_Op = 0x03c;
    MPI_NO_OP: MPI_Op = 0x03d;

    // Datatypes of MPI's own integers, and packed data
    MPI_AINT: MPI_Datatype = 0x201;
    MPI_COUNT: MPI_Datatype = 0x202;
    MPI_OFFSET: MPI_Datatype = 0x203;
    MPI_PACKED: MPI_Datatype = 0x207;

    // C datatypes
    MPI_CHAR: MPI_Datatype = 0x243;
    MPI_SIGNED_CHAR: MPI_Datatype = 0x244;
    MPI_UNSIGNED_CHAR: MPI_Datatype = 0x245;
    MPI_BYTE: MPI_Datatype = 0x247;
    MPI_SHORT: MPI_Datatype = 0x208;
    MPI_UNSIGNED_SHORT: MPI_Datatype = 0x20c;
    MPI_INT: MPI_Datatype = 0x209;
    MPI_UNSIGNED: MPI_Datatype = 0x20d;
    MPI_LONG: MPI_Datatype = 0x20a;
    MPI_UNSIGNED_LONG: MPI_Datatype = 0x20e;
    MPI_LONG_LONG: MPI_Datatype = 0x20b;
    MPI_LONG_LONG_INT: MPI_Datatype = 0x20b;
    MPI_UNSIGNED_LONG_LONG: MPI_Datatype = 0x20f;
    MPI_FLOAT: MPI_Datatype = 0x210;
    MPI_DOUBLE: MPI_Datatype = 0x214;
    MPI_LONG_DOUBLE: MPI_Datatype = 0x220;
    MPI_C_BOOL: MPI_Datatype = 0x238;
    MPI_WCHAR: MPI_Datatype = 0x23c;
    MPI_C_COMPLEX: MPI_Datatype = 0x212;
    MPI_C_FLOAT_COMPLEX: MPI_Datatype = 0x212;
    MPI_C_DOUBLE_COMPLEX: MPI_Datatype = 0x216;
    MPI_C_LONG_DOUBLE_COMPLEX: MPI_Datatype = 0x224;

    // C datatypes of a fixed width
    MPI_INT8_T: MPI_Datatype = 0x240;
    MPI_UINT8_T: MPI_Datatype = 0x241;
    MPI_INT16_T: MPI_Datatype = 0x248;
    MPI_UINT16_T: MPI_Datatype = 0x249;
    MPI_INT32_T: MPI_Datatype = 0x250;
    MPI_UINT32_T: MPI_Datatype = 0x251;
    MPI_INT64_T: MPI_Datatype = 0x258;
    MPI_UINT64_T: MPI_Datatype = 0x259;

    // C++ datatypes
    MPI_CXX_BOOL: MPI_Datatype = 0x239;
    MPI_CXX_FLOAT_COMPLEX: MPI_Datatype = 0x213;
    MPI_CXX_DOUBLE_COMPLEX: MPI_Datatype = 0x217;
    MPI_CXX_LONG_DOUBLE_COMPLEX: MPI_Datatype = 0x225;

    // Fortran datatypes
    MPI_LOGICAL: MPI_Datatype = 0x218;
    MPI_INTEGER: MPI_Datatype = 0x219;
    MPI_REAL: MPI_Datatype = 0x21a;
    MPI_COMPLEX: MPI_Datatype = 0x21b;
    MPI_DOUBLE_PRECISION: MPI_Datatype = 0x21c;
    MPI_DOUBLE_COMPLEX: MPI_Datatype = 0x21d;
    MPI_CHARACTER: MPI_Datatype = 0x21e;

    // Fortran datatypes of a fixed size
    MPI_LOGICAL1: MPI_Datatype = 0x2c0;
    MPI_LOGICAL2: MPI_Datatype = 0x2c8;
    MPI_LOGICAL4: MPI_Datatype = 0x2d0;
    MPI_LOGICAL8: MPI_Datatype = 0x2d8;
    MPI_LOGICAL16: MPI_Datatype = 0x2e0;
    MPI_INTEGER1: MPI_Datatype = 0x2c1;
    MPI_INTEGER2: MPI_Datatype = 0x2c9;
    MPI_INTEGER4: MPI_Datatype = 0x2d1;
    MPI_INTEGER8: MPI_Datatype = 0x2d9;
    MPI_INTEGER16: MPI_Datatype = 0x2e1;
    MPI_REAL2: MPI_Datatype = 0x2ca;
    MPI_REAL4: MPI_Datatype = 0x2d2;
    MPI_REAL8: MPI_Datatype = 0x2da;
    MPI_REAL16: MPI_Datatype = 0x2e2;
    MPI_COMPLEX4: MPI_Datatype = 0x2d3;
    MPI_COMPLEX8: MPI_Datatype = 0x2db;
    MPI_COMPLEX16: MPI_Datatype = 0x2e3;
    MPI_COMPLEX32: MPI_Datatype = 0x2eb;

    // Pairs of a value and an index, for MPI_MINLOC and MPI_MAXLOC
    MPI_FLOAT_INT: MPI_Datatype = 0x228;
    MPI_DOUBLE_INT: MPI_Datatype = 0x229;
    MPI_LONG_INT: MPI_Datatype = 0x22a;
    MPI_2INT: MPI_Datatype = 0x22b;
    MPI_SHORT_INT: MPI_Datatype = 0x22c;
    MPI_LONG_DOUBLE_INT: MPI_Datatype = 0x22d;
    MPI_2REAL: MPI_Datatype = 0x230;
    MPI_2DOUBLE_PRECISION: MPI_Datatype = 0x231;
    MPI_2INTEGER: MPI_Datatype = 0x232;

    // Error classes (section 9.5)
    MPI_SUCCESS: c_int = 0;
    MPI_ERR_BUFFER: c_int = 1;
    MPI_ERR_COUNT: c_int = 2;
    MPI_ERR_TYPE: c_int = 3;
    MPI_ERR_TAG: c_int = 4;
    MPI_ERR_COMM: c_int = 5;
    MPI_ERR_RANK: c_int = 6;
    MPI_ERR_REQUEST: c_int = 7;
    MPI_ERR_ROOT: c_int = 8;
    MPI_ERR_GROUP: c_int = 9;
    MPI_ERR_OP: c_int = 10;
    MPI_ERR_TOPOLOGY: c_int = 11;
    MPI_ERR_DIMS: c_int = 12;
    MPI_ERR_ARG: c_int = 13;
    MPI_ERR_UNKNOWN: c_int = 14;
    MPI_ERR_TRUNCATE: c_int = 15;
    MPI_ERR_OTHER: c_int = 16;
    MPI_ERR_INTERN: c_int = 17;
    MPI_ERR_PENDING: c_int = 18;
    MPI_ERR_IN_STATUS: c_int = 19;
    MPI_ERR_ACCESS: c_int = 20;
    MPI_ERR_AMODE: c_int = 21;
    MPI_ERR_ASSERT: c_int = 22;
    MPI_ERR_BAD_FILE: c_int = 23;
    MPI_ERR_BASE: c_int = 24;
    MPI_ERR_CONVERSION: c_int = 25;
    MPI_ERR_DISP: c_int = 26;
    MPI_ERR_DUP_DATAREP: c_int = 27;
    MPI_ERR_FILE_EXISTS: c_int = 28;
    MPI_ERR_FILE_IN_USE: c_int = 29;
    MPI_ERR_FILE: c_int = 30;
    MPI_ERR_INFO_KEY: c_int = 31;
    MPI_ERR_INFO_NOKEY: c_int = 32;
    MPI_ERR_INFO_VALUE: c_int = 33;
    MPI_ERR_INFO: c_int = 34;
    MPI_ERR_IO: c_int = 35;
    MPI_ERR_KEYVAL: c_int = 36;
    MPI_ERR_LOCKTYPE: c_int = 37;
    MPI_ERR_NAME: c_int = 38;
    MPI_ERR_NO_MEM: c_int = 39;
    MPI_ERR_NOT_SAME: c_int = 40;
    MPI_ERR_NO_SPACE: c_int = 41;
    MPI_ERR_NO_SUCH_FILE: c_int = 42;
    MPI_ERR_PORT: c_int = 43;
    MPI_ERR_QUOTA: c_int = 44;
    MPI_ERR_READ_ONLY: c_int = 45;
    MPI_ERR_RMA_ATTACH: c_int = 46;
    MPI_ERR_RMA_CONFLICT: c_int = 47;
    MPI_ERR_RMA_RANGE: c_int = 48;
    MPI_ERR_RMA_SHARED: c_int = 49;
    MPI_ERR_RMA_SYNC: c_int = 50;
    MPI_ERR_SERVICE: c_int = 51;
    MPI_ERR_SIZE: c_int = 52;
    MPI_ERR_SPAWN: c_int = 53;
    MPI_ERR_UNSUPPORTED_DATAREP: c_int = 54;
    MPI_ERR_UNSUPPORTED_OPERATION: c_int = 55;
    MPI_ERR_WIN: c_int = 56;
    MPI_ERR_RMA_FLAVOR: c_int = 57;
    MPI_ERR_PROC_ABORTED: c_int = 58;
    MPI_ERR_VALUE_TOO_LARGE: c_int = 59;
    MPI_ERR_SESSION: c_int = 60;
    MPI_ERR_ERRHANDLER: c_int = 61;
    MPI_ERR_ABI: c_int = 62;
    MPI_ERR_LASTCODE: c_int = 16383;

    // Error classes of the tool information interface
    MPI_T_ERR_CANNOT_INIT: c_int = 1001;
    MPI_T_ERR_NOT_ACCESSIBLE: c_int = 1002;
    MPI_T_ERR_NOT_INITIALIZED: c_int = 1003;
    MPI_T_ERR_NOT_SUPPORTED: c_int = 1004;
    MPI_T_ERR_MEMORY: c_int = 1005;
    MPI_T_ERR_INVALID: c_int = 1006;
    MPI_T_ERR_INVALID_INDEX: c_int = 1007;
    MPI_T_ERR_INVALID_ITEM: c_int = 1008;
    MPI_T_ERR_INVALID_SESSION: c_int = 1009;
    MPI_T_ERR_INVALID_HANDLE: c_int = 1010;
    MPI_T_ERR_INVALID_NAME: c_int = 1011;
    MPI_T_ERR_OUT_OF_HANDLES: c_int = 1012;
    MPI_T_ERR_OUT_OF_SESSIONS: c_int = 1013;
    MPI_T_ERR_CVAR_SET_NOT_NOW: c_int = 1014;
    MPI_T_ERR_CVAR_SET_NEVER: c_int = 1015;
    MPI_T_ERR_PVAR_NO_WRITE: c_int = 1016;
    MPI_T_ERR_PVAR_NO_STARTSTOP: c_int = 1017;
    MPI_T_ERR_PVAR_NO_ATOMIC: c_int = 1018;

    // Addresses with a meaning of their own
    MPI_BOTTOM: *const c_void = 0;
    MPI_IN_PLACE: *const c_void = 1;
    MPI_BUFFER_AUTOMATIC: *mut c_void = 2;
    MPI_STATUS_IGNORE: *mut MPI_Status = 0;
    MPI_STATUSES_IGNORE: *mut MPI_Status = 0;
    MPI_ERRCODES_IGNORE: *mut c_int = 0;
    MPI_ARGV_NULL: *mut *mut c_char = 0;
    MPI_ARGVS_NULL: *mut *mut *mut c_char = 0;
    MPI_UNWEIGHTED: *const c_int = 10;
    MPI_WEIGHTS_EMPTY: *const c_int = 11;

    // Ranks and tags with a meaning of their own, and what stands for "not defined"
    MPI_ANY_SOURCE: c_int = -1;
    MPI_ANY_TAG: c_int = -2;
    MPI_PROC_NULL: c_int = -3;
    MPI_ROOT: c_int = -4;
    MPI_UNDEFINED: c_int = -32766;

    // Sizes of strings, in bytes with the terminating zero
    MPI_MAX_DATAREP_STRING: c_int = 128;
    MPI_MAX_OBJECT_NAME: c_int = 128;
    MPI_MAX_INFO_KEY: c_int = 256;
    MPI_MAX_PROCESSOR_NAME: c_int = 256;
    MPI_MAX_ERROR_STRING: c_int = 512;
    MPI_MAX_INFO_VAL: c_int = 1024;
    MPI_MAX_PORT_NAME: c_int = 1024;
    MPI_MAX_PSET_NAME_LEN: c_int = 1024;
    MPI_MAX_STRINGTAG_LEN: c_int = 1024;
    MPI_MAX_LIBRARY_VERSION_STRING: c_int = 8192;

    // Bytes that a buffered send needs beyond its packed message
    MPI_BSEND_OVERHEAD: c_int = 512;

    // Levels of thread support
    MPI_THREAD_SINGLE: c_int = 0;
    MPI_THREAD_FUNNELED: c_int = 1024;
    MPI_THREAD_SERIALIZED: c_int = 2048;
    MPI_THREAD_MULTIPLE: c_int = 4096;

    // Results of comparing communicators and groups
    MPI_IDENT: c_int = 201;
    MPI_CONGRUENT: c_int = 202;
    MPI_SIMILAR: c_int = 203;
    MPI_UNEQUAL: c_int = 204;

    // Ways to split a communicator
    MPI_COMM_TYPE_SHARED: c_int = 221;
    MPI_COMM_TYPE_HW_UNGUIDED: c_int = 222;
    MPI_COMM_TYPE_HW_GUIDED: c_int = 223;
    MPI_COMM_TYPE_RESOURCE_GUIDED: c_int = 224;

    // Kinds of virtual topology
    MPI_CART: c_int = 211;
    MPI_GRAPH: c_int = 212;
    MPI_DIST_GRAPH: c_int = 213;

    // Attribute keys of MPI_COMM_WORLD (section 9.1)
    MPI_KEYVAL_INVALID: c_int = 0;
    MPI_TAG_UB: c_int = 501;
    MPI_IO: c_int = 502;
    MPI_HOST: c_int = 503;
    MPI_WTIME_IS_GLOBAL: c_int = 504;
    MPI_APPNUM: c_int = 505;
    MPI_LASTUSEDCODE: c_int = 506;
    MPI_UNIVERSE_SIZE: c_int = 507;

    // Attribute keys of windows
    MPI_WIN_BASE: c_int = 601;
    MPI_WIN_DISP_UNIT: c_int = 602;
    MPI_WIN_SIZE: c_int = 603;
    MPI_WIN_CREATE_FLAVOR: c_int = 604;
    MPI_WIN_MODEL: c_int = 605;

    // Windows: how made, memory model, kinds of lock
    MPI_WIN_FLAVOR_CREATE: c_int = 311;
    MPI_WIN_FLAVOR_ALLOCATE: c_int = 312;
    MPI_WIN_FLAVOR_DYNAMIC: c_int = 313;
    MPI_WIN_FLAVOR_SHARED: c_int = 314;
    MPI_WIN_UNIFIED: c_int = 321;
    MPI_WIN_SEPARATE: c_int = 322;
    MPI_LOCK_EXCLUSIVE: c_int = 301;
    MPI_LOCK_SHARED: c_int = 302;

    // Assertions about windows
    MPI_MODE_NOCHECK: c_int = 1024;
    MPI_MODE_NOPRECEDE: c_int = 2048;
    MPI_MODE_NOPUT: c_int = 4096;
    MPI_MODE_NOSTORE: c_int = 8192;
    MPI_MODE_NOSUCCEED: c_int = 16384;

    // Files: access modes and positions
    MPI_MODE_APPEND: c_int = 1;
    MPI_MODE_CREATE: c_int = 2;
    MPI_MODE_DELETE_ON_CLOSE: c_int = 4;
    MPI_MODE_EXCL: c_int = 8;
    MPI_MODE_RDONLY: c_int = 16;
    MPI_MODE_RDWR: c_int = 32;
    MPI_MODE_SEQUENTIAL: c_int = 64;
    MPI_MODE_UNIQUE_OPEN: c_int = 128;
    MPI_MODE_WRONLY: c_int = 256;
    MPI_SEEK_CUR: c_int = 401;
    MPI_SEEK_END: c_int = 402;
    MPI_SEEK_SET: c_int = 403;
    MPI_DISPLACEMENT_CURRENT: MPI_Offset = -1;

    // How a datatype was made
    MPI_COMBINER_NAMED: c_int = 101;
    MPI_COMBINER_DUP: c_int = 102;
    MPI_COMBINER_CONTIGUOUS: c_int = 103;
    MPI_COMBINER_VECTOR: c_int = 104;
    MPI_COMBINER_HVECTOR: c_int = 105;
    MPI_COMBINER_INDEXED: c_int = 106;
    MPI_COMBINER_HINDEXED: c_int = 107;
    MPI_COMBINER_INDEXED_BLOCK: c_int = 108;
    MPI_COMBINER_HINDEXED_BLOCK: c_int = 109;
    MPI_COMBINER_STRUCT: c_int = 110;
    MPI_COMBINER_SUBARRAY: c_int = 111;
    MPI_COMBINER_DARRAY: c_int = 112;
    MPI_COMBINER_F90_REAL: c_int = 113;
    MPI_COMBINER_F90_COMPLEX: c_int = 114;
    MPI_COMBINER_F90_INTEGER: c_int = 115;
    MPI_COMBINER_RESIZED: c_int = 116;
    MPI_COMBINER_VALUE_INDEX: c_int = 117;

    // Arrays: storage order and distribution
    MPI_ORDER_C: c_int = 12;
    MPI_ORDER_FORTRAN: c_int = 15;
    MPI_DISTRIBUTE_NONE: c_int = 16;
    MPI_DISTRIBUTE_BLOCK: c_int = 17;
    MPI_DISTRIBUTE_CYCLIC: c_int = 18;
    MPI_DISTRIBUTE_DFLT_DARG: c_int = 19;

    // Classes for MPI_Type_match_size
    MPI_TYPECLASS_INTEGER: c_int = 192;
    MPI_TYPECLASS_REAL: c_int = 193;
    MPI_TYPECLASS_COMPLEX: c_int = 194;
    MPIX_TYPECLASS_LOGICAL: c_int = 191;

    // Tool information interface: verbosity
    MPI_T_VERBOSITY_USER_BASIC: c_int = 0x09;
    MPI_T_VERBOSITY_USER_DETAIL: c_int = 0x0a;
    MPI_T_VERBOSITY_USER_ALL: c_int = 0x0c;
    MPI_T_VERBOSITY_TUNER_BASIC: c_int = 0x11;
    MPI_T_VERBOSITY_TUNER_DETAIL: c_int = 0x12;
    MPI_T_VERBOSITY_TUNER_ALL: c_int = 0x14;
    MPI_T_VERBOSITY_MPIDEV_BASIC: c_int = 0x21;
    MPI_T_VERBOSITY_MPIDEV_DETAIL: c_int = 0x22;
    MPI_T_VERBOSITY_MPIDEV_ALL: c_int = 0x24;

    // Tool information interface: objects that a variable is bound to
    MPI_T_BIND_NO_OBJECT: c_int = 1;
    MPI_T_BIND_MPI_COMM: c_int = 2;
    MPI_T_BIND_MPI_DATATYPE: c_int = 3;
    MPI_T_BIND_MPI_ERRHANDLER: c_int = 4;
    MPI_T_BIND_MPI_FILE: c_int = 5;
    MPI_T_BIND_MPI_GROUP: c_int = 6;
    MPI_T_BIND_MPI_OP: c_int = 7;
    MPI_T_BIND_MPI_REQUEST: c_int = 8;
    MPI_T_BIND_MPI_WIN: c_int = 9;
    MPI_T_BIND_MPI_MESSAGE: c_int = 10;
    MPI_T_BIND_MPI_INFO: c_int = 11;
    MPI_T_BIND_MPI_SESSION: c_int = 12;

    // Tool information interface: scopes of control variables
    MPI_T_SCOPE_CONSTANT: c_int = 1;
    MPI_T_SCOPE_READONLY: c_int = 2;
    MPI_T_SCOPE_LOCAL: c_int = 3;
    MPI_T_SCOPE_GROUP: c_int = 4;
    MPI_T_SCOPE_GROUP_EQ: c_int = 5;
    MPI_T_SCOPE_ALL: c_int = 6;
    MPI_T_SCOPE_ALL_EQ: c_int = 7;

    // Tool information interface: classes of performance variables
    MPI_T_PVAR_CLASS_STATE: c_int = 1;
    MPI_T_PVAR_CLASS_LEVEL: c_int = 2;
    MPI_T_PVAR_CLASS_SIZE: c_int = 3;
    MPI_T_PVAR_CLASS_PERCENTAGE: c_int = 4;
    MPI_T_PVAR_CLASS_HIGHWATERMARK: c_int = 5;
    MPI_T_PVAR_CLASS_LOWWATERMARK: c_int = 6;
    MPI_T_PVAR_CLASS_COUNTER: c_int = 7;
    MPI_T_PVAR_CLASS_AGGREGATE: c_int = 8;
    MPI_T_PVAR_CLASS_TIMER: c_int = 9;
    MPI_T_PVAR_CLASS_GENERIC: c_int = 10;

    // Tool information interface: handles
    MPI_T_ENUM_NULL: MPI_T_enum = 0;
    MPI_T_CVAR_HANDLE_NULL: MPI_T_cvar_handle = 0;
    MPI_T_PVAR_HANDLE_NULL: MPI_T_pvar_handle = 0;
    MPI_T_PVAR_ALL_HANDLES: MPI_T_pvar_handle = 1;
    MPI_T_PVAR_SESSION_NULL: MPI_T_pvar_session = 0;

    // Tool information interface: what an event callback may do
    MPI_T_CB_REQUIRE_NONE: c_int = 0x00;
    MPI_T_CB_REQUIRE_MPI_RESTRICTED: c_int = 0x03;
    MPI_T_CB_REQUIRE_THREAD_SAFE: c_int = 0x0f;
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE: c_int = 0x3f;

    // Tool information interface: whether a source delivers its events in order
    MPI_T_SOURCE_ORDERED: c_int = 1;
    MPI_T_SOURCE_UNORDERED: c_int = 2;

    // Predefined callbacks
    MPI_COMM_NULL_COPY_FN: Callback = 0;
    MPI_COMM_DUP_FN: Callback = 1;
    MPI_COMM_NULL_DELETE_FN: Callback = 0;
    MPI_TYPE_NULL_COPY_FN: Callback = 0;
    MPI_TYPE_DUP_FN: Callback = 1;
    MPI_TYPE_NULL_DELETE_FN: Callback = 0;
    MPI_WIN_NULL_COPY_FN: Callback = 0;
    MPI_WIN_DUP_FN: Callback = 1;
    MPI_WIN_NULL_DELETE_FN: Callback = 0;
    MPI_NULL_COPY_FN: Callback = 0;
    MPI_DUP_FN: Callback = 1;
    MPI_NULL_DELETE_FN: Callback = 0;
    MPI_CONVERSION_FN_NULL: Callback = 0;
    MPI_CONVERSION_FN_NULL_C: Callback = 0;
}
