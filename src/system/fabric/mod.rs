//! Safe wrappers over libfabric.
//!
//! Users: [`info::query`] asks what libfabric offers, [`select`] chooses a provider and an interface, and the objects
//! ([`Fabric`], [`Domain`], [`Endpoint`], [`CompletionQueue`], [`AddressVector`], [`MemoryRegion`]) are opened from the
//! chosen [`Info`]. Each object holds a reference to those that it depends on, so they close in the only order that libfabric allows,
//! whatever order they are dropped in.
//!
//! Implementation: every C call goes through [`call`], so that an error names the libfabric function that
//! failed and gives libfabric's own reason. Posting operations is `unsafe`, because libfabric keeps pointers to
//! buffers until they complete; the owner of the buffers (the lane) states why that is so.
//!
//! What does not belong here: which messages are sent, and when (`lane::ofi`).

pub mod call;
mod completion;
mod endpoint;
mod guard;
pub mod info;
mod interface;
mod listener;
mod objects;
pub mod select;
mod sockets;

use crate::base::error::Result;
use crate::err;

pub use call::{CallError, Posted};
pub use completion::{Batch, Completion, CompletionQueue, Failure, Polled};
#[cfg(test)]
pub(crate) use endpoint::hooked::{PostedReceive, endpoint as hooked_endpoint};
pub use endpoint::{Asks, AtomicCall, Endpoint, Takes, When};
pub(crate) use guard::{UnpacedLoopback, lengthen_accepted, limit_patience};
pub use info::{Facts, Info, InfoList};
pub(crate) use interface::socket_address;
pub(crate) use listener::{Answer, Attempt};
pub use objects::{Access, AddressVector, Domain, Fabric, MemoryRegion};
pub(crate) use sockets::Sockets;

/// The version of libfabric that runs, such as (1, 17).
///
/// An error: libfabric can't be loaded.
#[doc(alias = "fi_version")]
pub fn version() -> Result<(u32, u32)> {
    // SAFETY: the call has no preconditions.
    let version = unsafe { library()?.fi_version() };
    Ok((version >> 16, version & 0xffff))
}

/// Loads libfabric now, so that its time can be measured.
///
/// An error says what to install.
pub fn load() -> Result<()> {
    library().map(drop)
}

/// libfabric, which the first call of the process loads.
///
/// An error says what to install.
pub(crate) fn library() -> Result<&'static weft_libfabric_sys::Library> {
    weft_libfabric_sys::library().map_err(|error| err!(Other, "{error}"))
}
