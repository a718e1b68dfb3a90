//! Array sections as buffers. `mpi_f08` passes a buffer as a descriptor (`CFI_cdesc_t`), which tells where its elements are. One that
//! is contiguous is as good as an address; what is done with another is a [`Plan`].

mod descriptor;
mod plan;

pub use descriptor::{Buffer, Descriptor, character};
pub use plan::{On, Plan, Until, Way};
