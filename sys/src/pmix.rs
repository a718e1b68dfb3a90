//! Raw FFI to PMIx, 4.x and 5.x (by their headers; only 4.2.2 was tried), which share the library's name and what is declared here. Written by hand: building Weft needs no
//! headers of PMIx. What later versions added to the structures lies inside the union of [`Value`], which has room for it.
//! [`Symbols::new`] loads the library; nobody is linked to it.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// The library's name, which stands for the binary interface.
pub const NAME: &str = if cfg!(target_os = "macos") {
    "libpmix.2.dylib"
} else {
    "libpmix.so.2"
};

/// Room for the name of a namespace, with its zero byte.
pub const NAMESPACE_BYTES: usize = 256;
/// Room for a key, with its zero byte.
pub const KEY_BYTES: usize = 512;
/// The rank that stands for the whole job.
pub const RANK_WILDCARD: u32 = u32::MAX - 1;
/// The scope of a value that all processes see.
pub const GLOBAL: u8 = 3;

/// The status of success.
pub const SUCCESS: c_int = 0;
/// The operation is done, and its callback will not be called.
pub const OPERATION_SUCCEEDED: c_int = -157;
/// There is no such key, or no such process.
pub const NOT_FOUND: c_int = -46;
/// The server does not do that.
pub const NOT_SUPPORTED: c_int = -47;
/// Some of what was asked for is not there.
pub const PARTIAL_SUCCESS: c_int = -52;

/// Types of a [`Value`]. Those of numbers are as wide as their names say, `INT` and `UINT` as C's.
pub const BOOL: u16 = 1;
#[allow(missing_docs)]
pub const STRING: u16 = 3;
#[allow(missing_docs)]
pub const SIZE: u16 = 4;
#[allow(missing_docs)]
pub const INT: u16 = 6;
#[allow(missing_docs)]
pub const INT8: u16 = 7;
#[allow(missing_docs)]
pub const INT16: u16 = 8;
#[allow(missing_docs)]
pub const INT32: u16 = 9;
#[allow(missing_docs)]
pub const INT64: u16 = 10;
#[allow(missing_docs)]
pub const UINT: u16 = 11;
#[allow(missing_docs)]
pub const UINT8: u16 = 12;
#[allow(missing_docs)]
pub const UINT16: u16 = 13;
#[allow(missing_docs)]
pub const UINT32: u16 = 14;
#[allow(missing_docs)]
pub const UINT64: u16 = 15;
#[allow(missing_docs)]
pub const PROC: u16 = 22;
#[allow(missing_docs)]
pub const BYTE_OBJECT: u16 = 27;
#[allow(missing_docs)]
pub const DATA_ARRAY: u16 = 39;
#[allow(missing_docs)]
pub const PROC_RANK: u16 = 40;

/// `pmix_proc_t`: a process, or with [`RANK_WILDCARD`] all of a namespace.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Proc {
    /// Its namespace, ended by a zero byte.
    pub nspace: [c_char; NAMESPACE_BYTES],
    /// Its rank there.
    pub rank: u32,
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByteObject {
    /// The bytes.
    pub bytes: *mut c_char,
    /// How many.
    pub size: usize,
}

/// `pmix_data_array_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataArray {
    /// The type of each.
    pub kind: u16,
    /// How many.
    pub size: usize,
    /// They themselves: of [`STRING`] pointers to texts, of [`PROC`] a [`Proc`] each.
    pub array: *mut c_void,
}

/// The union of `pmix_value_t`, as far as it is used.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Data {
    /// Of [`BOOL`].
    pub flag: bool,
    /// Of [`STRING`].
    pub string: *mut c_char,
    /// Of [`BYTE_OBJECT`].
    pub object: ByteObject,
    /// Of [`DATA_ARRAY`].
    pub array: *mut DataArray,
    /// Of [`PROC`].
    pub process: *mut Proc,
    /// The bytes of a number, which begins at the first.
    pub number: [u8; 8],
    /// All of it.
    pub room: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    /// Which field of `data` is meant.
    pub kind: u16,
    /// The value.
    pub data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    /// The key, ended by a zero byte.
    pub key: [c_char; KEY_BYTES],
    /// Bit 0: it must not be ignored.
    pub flags: u32,
    /// The value.
    pub value: Value,
}

/// `pmix_query_t`.
#[repr(C)]
pub struct Query {
    /// What is asked for: texts, and a null pointer behind them.
    pub keys: *mut *mut c_char,
    /// Of what.
    pub qualifiers: *mut Info,
    /// How many of these.
    pub qualifier_count: usize,
}

/// `pmix_app_t`: a program to start.
#[repr(C)]
pub struct App {
    /// Its file.
    pub command: *mut c_char,
    /// Its name and its arguments: texts, and a null pointer behind them.
    pub arguments: *mut *mut c_char,
    /// Changes of the environment, `NAME=VALUE`, in the same way.
    pub environment: *mut *mut c_char,
    /// The working directory.
    pub directory: *mut c_char,
    /// How many processes.
    pub count: c_int,
    /// Attributes.
    pub infos: *mut Info,
    /// How many of these.
    pub info_count: usize,
}

/// `pmix_pdata_t`: something that was published.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Published {
    /// Who has.
    pub process: Proc,
    /// The key, ended by a zero byte.
    pub key: [c_char; KEY_BYTES],
    /// The value.
    pub value: Value,
}

const _: () = assert!(size_of::<App>() == 56 && size_of::<Published>() == 808);
const _: () = assert!(size_of::<Query>() == 24 && size_of::<DataArray>() == 24);
const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

/// `pmix_op_cbfunc_t`.
pub type OperationCallback = unsafe extern "C" fn(status: c_int, data: *mut c_void);
/// `pmix_value_cbfunc_t`. The value is the library's.
pub type ValueCallback = unsafe extern "C" fn(status: c_int, value: *mut Value, data: *mut c_void);
/// `pmix_spawn_cbfunc_t`. The text is the new namespace, and the library's.
pub type SpawnCallback = unsafe extern "C" fn(status: c_int, namespace: *mut c_char, data: *mut c_void);

macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty,)*) => {
        /// The functions of a loaded library; see `pmix.h`.
        #[allow(non_snake_case, missing_docs)]
        pub struct Symbols {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: Library,
        }

        impl Symbols {
            /// Loads the library of that name or path, and looks all of its functions up.
            ///
            /// # Safety
            /// As for [`Library::new`]; and it is PMIx 4 or 5.
            ///
            /// # Errors
            /// There is no such library, or it lacks a function.
            pub unsafe fn new(name: &str) -> Result<Symbols, libloading::Error> {
                // SAFETY: the caller's promise.
                let library = unsafe { Library::new(name) }?;
                Ok(Symbols {
                    // SAFETY: the functions have these types in 4.x and 5.x. They are kept no longer than the library.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                    _library: library,
                })
            }
        }
    };
}

symbols! {
    PMIx_Init: fn(*mut Proc, *mut Info, usize) -> c_int,
    PMIx_Finalize: fn(*const Info, usize) -> c_int,
    PMIx_Abort: fn(c_int, *const c_char, *mut Proc, usize) -> c_int,
    PMIx_Put: fn(u8, *const c_char, *mut Value) -> c_int,
    PMIx_Commit: fn() -> c_int,
    PMIx_Fence_nb: fn(*const Proc, usize, *const Info, usize, OperationCallback, *mut c_void) -> c_int,
    PMIx_Get: fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int,
    PMIx_Get_nb: fn(*const Proc, *const c_char, *const Info, usize, ValueCallback, *mut c_void) -> c_int,
    PMIx_Query_info: fn(*mut Query, usize, *mut *mut Info, *mut usize) -> c_int,
    PMIx_Resolve_nodes: fn(*const c_char, *mut *mut c_char) -> c_int,
    PMIx_Resolve_peers: fn(*const c_char, *const c_char, *mut *mut Proc, *mut usize) -> c_int,
    PMIx_Spawn_nb: fn(*const Info, usize, *const App, usize, SpawnCallback, *mut c_void) -> c_int,
    PMIx_Publish: fn(*const Info, usize) -> c_int,
    PMIx_Lookup: fn(*mut Published, usize, *const Info, usize) -> c_int,
    PMIx_Unpublish: fn(*mut *mut c_char, *const Info, usize) -> c_int,
    PMIx_Error_string: fn(c_int) -> *const c_char,
}
