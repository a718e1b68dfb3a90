//! Raw FFI to libfabric, 1.17 to 2.x, for Weft: what bindgen makes of the installed headers, and in [`ops`] the calls
//! that libfabric declares as `static inline`. [`library`] loads the library when it is first needed; programs that use
//! this crate are not linked to it. Nothing else here is safe, and nothing adds meaning to the C interface; the
//! man pages (`fi_endpoint(3)`, `fi_cq(3)`, …) are the documentation.
//!
//! Declarations differ between versions of libfabric only by fields and enumerators added at the end, so code that
//! compiles against 1.17 compiles against 2.x. Whoever fills a struct starts from `Default::default()`.
//!
//! [`hwloc`] is the same of hwloc 2, and [`pmix`] of PMIx, by declarations of its own.

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
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod connect;
pub mod hwloc;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imports;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kernel_symbols;
mod library;
pub mod ops;
pub mod pmix;

pub use bindings::*;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use connect::BeforeConnect;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use kernel_symbols::without_kernel_symbols;
pub use library::{Library, LoadError, library};
pub use ops::*;

/// Elsewhere there is nothing to prevent.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn without_kernel_symbols<R>(_library: &Library, call: impl FnOnce() -> R) -> R {
    call()
}

/// Elsewhere nothing is called.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub struct BeforeConnect(());

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl BeforeConnect {
    /// Calls nothing.
    pub fn new(
        _library: &Library,
        _prepare: fn(std::os::fd::BorrowedFd<'_>, std::net::SocketAddr),
    ) -> BeforeConnect {
        BeforeConnect(())
    }
}
