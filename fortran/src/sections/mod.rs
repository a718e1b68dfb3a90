//! Array sections as buffers. `mpi_f08` passes a buffer as a descriptor (`CFI_cdesc_t`), which tells where its elements are. One that
//! is contiguous is as good as an address; what is done with another is a [`Plan`].
//!
//! - `descriptor`: what the compiler passes
//! - `section`: where the elements are
//! - `described`: a section as a datatype
//! - `staged`, [`pending`]: copies of sections, and those that operations in progress work on
//! - `native`: tools in Fortran, and the descriptors that those get

mod described;
mod descriptor;
mod native;
pub mod pending;
mod plan;
mod section;
mod staged;

pub use descriptor::{Buffer, Descriptor, character};
pub use native::{Described, Native, Tool};
pub use plan::{Plan, Until, Way, refuse};
