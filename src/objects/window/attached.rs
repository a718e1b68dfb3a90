//! The memory that is attached to a window of [`Flavor::Dynamic`](super::Flavor::Dynamic) (MPI 5.0 section 12.2.4).

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;

use crate::base::error::Result;
use crate::err;

/// Regions of this process's memory, none of which overlaps another: size by address.
#[derive(Default, Debug)]
pub struct Attached {
    regions: Mutex<BTreeMap<usize, usize>>,
}

impl Attached {
    /// Attaches `size` bytes at an address, which end within the address space.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_ATTACH` where one of them is attached already, or another region begins there.
    pub fn attach(&self, base: usize, size: usize) -> Result<()> {
        let mut regions = self.regions.lock();
        // The last region that begins before the end of the new one, or at the same address.
        let before = regions.range(..base.saturating_add(size.max(1))).next_back();
        if let Some((&start, &len)) = before
            && (start >= base || start + len > base)
        {
            return Err(err!(
                RmaAttach,
                "the {size} bytes at base {base:#x} overlap memory that is attached already: {len} bytes at {start:#x}"
            ));
        }
        regions.insert(base, size);
        Ok(())
    }

    /// Detaches the region that begins at an address.
    ///
    /// # Errors
    /// `MPI_ERR_BASE` where none does.
    pub fn detach(&self, base: usize) -> Result<()> {
        match self.regions.lock().remove(&base) {
            Some(_) => Ok(()),
            None => Err(err!(
                Base,
                "base is {base:#x}, which is not the start of memory that is attached to the window"
            )),
        }
    }

    /// Whether all bytes of a range of addresses are attached; regions may touch.
    pub fn holds(&self, addresses: &Range<i128>) -> bool {
        let (Ok(mut at), Ok(end)) = (usize::try_from(addresses.start), usize::try_from(addresses.end)) else {
            return false;
        };
        let regions = self.regions.lock();
        while at < end {
            match regions.range(..=at).next_back() {
                Some((&start, &len)) if at - start < len => at = start + len,
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    #[test]
    fn regions_do_not_overlap() {
        let attached = Attached::default();
        attached.attach(1000, 100).unwrap();
        attached.attach(1100, 50).unwrap();
        attached.attach(2000, 0).unwrap();
        attached.attach(900, 100).unwrap();
        for (base, size) in [
            (1000, 100),
            (999, 1),
            (1050, 10),
            (1149, 1),
            (800, 101),
            (0, 10000),
            (950, 300),
            (1000, 0),
            (2000, 1),
            (1990, 20),
        ] {
            let error = attached.attach(base, size).unwrap_err();
            assert_eq!(error.class, Class::RmaAttach, "{size} bytes at {base}");
        }
        attached.attach(1150, 850).unwrap();
        attached.attach(usize::MAX - 10, 10).unwrap();
    }

    #[test]
    fn what_is_detached_can_be_attached_again() {
        let attached = Attached::default();
        attached.attach(1000, 100).unwrap();
        for base in [999, 1001, 1100, 0] {
            assert_eq!(attached.detach(base).unwrap_err().class, Class::Base);
        }
        attached.detach(1000).unwrap();
        assert_eq!(attached.detach(1000).unwrap_err().class, Class::Base);
        attached.attach(950, 100).unwrap();
    }
}
