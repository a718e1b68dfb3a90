//! A section as a datatype: so that a message is sent from it and received into it without a copy, however long that takes.

use smallvec::SmallVec;

use super::section::Section;
use crate::abi::{Count, Datatype, Handle, Int, SUCCESS};
use crate::bindings::pmpi;

/// What C says of a datatype.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    lower: Count,
    extent: Count,
    true_lower: Count,
    true_extent: Count,
}

impl Extent {
    /// Of this datatype; or C's error code.
    pub fn of(datatype: Datatype) -> Result<Self, Int> {
        let mut it = Self {
            lower: 0,
            extent: 0,
            true_lower: 0,
            true_extent: 0,
        };
        // SAFETY: C checks the datatype.
        unsafe {
            ok(pmpi::PMPI_Type_get_extent_c(
                datatype,
                &mut it.lower,
                &mut it.extent,
            ))?;
            ok(pmpi::PMPI_Type_get_true_extent_c(
                datatype,
                &mut it.true_lower,
                &mut it.true_extent,
            ))?;
        }
        Ok(it)
    }

    /// Whether each item lies in its own extent, of which an element of the section has a whole number: then the items of a message are
    /// in the elements one after the other.
    pub fn fits(&self, section: &Section) -> bool {
        self.lower == 0
            && self.extent > 0
            && self.true_lower >= 0
            && self
                .true_lower
                .checked_add(self.true_extent)
                .is_some_and(|end| end <= self.extent)
            && section.element as Count % self.extent == 0
    }

    /// The bytes from the first that so many items lie in. None if some are before it, or are more than can be counted.
    pub fn reach(&self, count: Count) -> Option<usize> {
        let last = self.extent.checked_mul(count - 1)?;
        let begin = self.true_lower.checked_add(last.min(0))?;
        let end = self
            .true_lower
            .checked_add(self.true_extent)?
            .checked_add(last.max(0))?;
        if begin < 0 && self.true_extent > 0 {
            None
        } else {
            usize::try_from(end).ok()
        }
    }
}

fn ok(error: Int) -> Result<(), Int> {
    if error == SUCCESS { Ok(()) } else { Err(error) }
}

/// Why there is no datatype.
pub enum Failure {
    /// There are more items than the section has room for.
    TooMany,
    /// C's error code.
    Code(Int),
}

impl From<Int> for Failure {
    fn from(code: Int) -> Self {
        Self::Code(code)
    }
}

/// Datatypes that are freed when they are no more needed.
#[derive(Default)]
pub struct Types(SmallVec<[Datatype; 4]>);

impl Types {
    fn add(&mut self, make: impl FnOnce(&mut Datatype) -> Int) -> Result<Datatype, Int> {
        let mut made = Datatype::NULL;
        ok(make(&mut made))?;
        self.0.push(made);
        Ok(made)
    }

    /// Commits one of these; the program's own it may have committed or not.
    fn commit(&self, mut datatype: Datatype) -> Result<(), Int> {
        if self.0.contains(&datatype) {
            // SAFETY: `add` made it.
            ok(unsafe { pmpi::PMPI_Type_commit(&mut datatype) })?;
        }
        Ok(())
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        for datatype in &mut self.0 {
            // SAFETY: `add` made it.
            unsafe { pmpi::PMPI_Type_free(datatype) };
        }
    }
}

/// So many of a datatype beside each other.
#[derive(Clone, Copy)]
struct Block {
    count: Count,
    datatype: Datatype,
}

/// A committed datatype, of which one describes the first `count` items of a section whose elements the datatype fits. It is one of `types`.
pub fn message(
    section: &Section,
    count: Count,
    datatype: Datatype,
    extent: &Extent,
    types: &mut Types,
) -> Result<Datatype, Failure> {
    // None of these can overflow: a section has at most `isize::MAX` bytes.
    let in_element = section.element as Count / extent.extent;
    let (full, rest) = (count / in_element, count % in_element);
    let (full, room) = (full as usize, section.elements);
    if full > room || (full == room && rest > 0) {
        return Err(Failure::TooMany);
    }
    // How many elements there are in each section of the dimensions up to this.
    let mut sizes: SmallVec<[usize; 4]> = SmallVec::new();
    let mut size = 1;
    for along in &section.dimensions {
        sizes.push(size);
        size *= along.extent;
    }
    // The full sections of each dimension, from the highest: the elements of each follow those before.
    let mut wanted: SmallVec<[usize; 4]> = SmallVec::from_elem(0, sizes.len());
    let mut left = full;
    for (wanted, size) in wanted.iter_mut().zip(&sizes).rev() {
        *wanted = left / size;
        left %= size;
    }
    let mut pieces: SmallVec<[(usize, Block); 4]> = SmallVec::new();
    let mut inner = Block {
        count: in_element,
        datatype,
    };
    let mut offset = full;
    if rest > 0 {
        pieces.push((
            offset,
            Block {
                count: rest,
                datatype,
            },
        ));
    }
    for (index, along) in section.dimensions.iter().enumerate() {
        if wanted[index] > 0 {
            let block = strided(section, index, wanted[index], along.stride, inner, types)?;
            offset -= wanted[index] * sizes[index];
            pieces.push((offset, block));
        }
        if wanted[index + 1..].iter().any(|&wanted| wanted > 0) {
            inner = strided(section, index, along.extent, along.stride, inner, types)?;
        }
    }
    pieces.reverse();
    let whole = match pieces[..] {
        [(0, Block { count: 1, datatype })] => datatype,
        [(0, Block { count, datatype })] => types.add(|made| {
            // SAFETY: C gets what it says.
            unsafe { pmpi::PMPI_Type_contiguous_c(count, datatype, made) }
        })?,
        _ => joined(section, &pieces, types)?,
    };
    types.commit(whole)?;
    Ok(whole)
}

/// A committed datatype, of which `partitions` in a row describe so many times `count` items. None if they are not all the same way apart.
pub fn partitions(
    section: &Section,
    partitions: usize,
    count: Count,
    datatype: Datatype,
    extent: &Extent,
    types: &mut Types,
) -> Result<Option<Datatype>, Failure> {
    let in_element = section.element as Count / extent.extent;
    if count % in_element != 0 {
        return Ok(None);
    }
    let elements = usize::try_from(count / in_element).map_err(|_| Failure::TooMany)?;
    match elements.checked_mul(partitions) {
        Some(all) if all <= section.elements => {}
        _ => return Err(Failure::TooMany),
    }
    // A partition is a number of steps along one dimension; and so are all, without a step along the next.
    let mut size = 1;
    for along in &section.dimensions {
        let steps = elements / size;
        if elements % size != 0 {
            break;
        }
        if steps * partitions <= along.extent {
            let one = message(section, count, datatype, extent, types)?;
            let distance = (steps as isize * along.stride) as Count;
            let resized = types.add(|made| {
                // SAFETY: C gets what it says.
                unsafe { pmpi::PMPI_Type_create_resized_c(one, 0, distance, made) }
            })?;
            types.commit(resized)?;
            return Ok(Some(resized));
        }
        size *= along.extent;
    }
    Ok(None)
}

/// So many blocks along a dimension.
fn strided(
    section: &Section,
    index: usize,
    extent: usize,
    stride: isize,
    inner: Block,
    types: &mut Types,
) -> Result<Block, Int> {
    if index == 0 && stride == section.element as isize {
        return Ok(Block {
            count: inner.count * extent as Count,
            ..inner
        });
    }
    let datatype = types.add(|made| {
        // SAFETY: C gets what it says.
        unsafe {
            pmpi::PMPI_Type_create_hvector_c(
                extent as Count,
                inner.count,
                stride as Count,
                inner.datatype,
                made,
            )
        }
    })?;
    Ok(Block { count: 1, datatype })
}

/// One datatype of several pieces, each at an element of the section.
fn joined(section: &Section, pieces: &[(usize, Block)], types: &mut Types) -> Result<Datatype, Int> {
    let counts: SmallVec<[Count; 4]> = pieces.iter().map(|(_, block)| block.count).collect();
    let places: SmallVec<[Count; 4]> = pieces
        .iter()
        .map(|(element, _)| section.offset(*element) as Count)
        .collect();
    let datatypes: SmallVec<[Datatype; 4]> = pieces.iter().map(|(_, block)| block.datatype).collect();
    types.add(|made| {
        // SAFETY: the three have as many items.
        unsafe {
            pmpi::PMPI_Type_create_struct_c(
                pieces.len() as Count,
                counts.as_ptr(),
                places.as_ptr(),
                datatypes.as_ptr(),
                made,
            )
        }
    })
}
