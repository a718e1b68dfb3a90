//! Raw FFI to hwloc 2: what bindgen makes of the installed headers. Nobody is linked to hwloc: `Symbols::new` loads it, by the name
//! that all of 2.x share ([`NAME`]).

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/hwloc.rs"));
}

pub use bindings::*;

/// The library's name, which stands for the binary interface.
pub const NAME: &str = if cfg!(target_os = "macos") {
    "libhwloc.15.dylib"
} else {
    "libhwloc.so.15"
};
