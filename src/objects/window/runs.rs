//! Where an operation accesses its target: from count, datatype and displacement to groups of runs ([`Runs`]), and these in messages.
//!
//! The target never sees a datatype: it gets groups of runs of bytes, or, to accumulate, of elements of a predefined type, by offsets from
//! the beginning of its window. In a window whose memory is attached, they are addresses. A message holds a piece of an access
//! ([`Access::piece`]); a vector is one group, however long it is.
//!
//! ```text
//!   one run:        at: 8, len: 8                              little-endian; units, not bytes
//!   several:        at: 8, len | 1 << 63: 8, count: 8, stride: 8
//! ```

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::attached::Attached;
use crate::base::error::Result;
use crate::data::datatype::{Datatype, Runs, Unit};
use crate::data::memory::Memory;
use crate::err;

/// Groups of runs, in packed order.
pub type Groups = SmallVec<[Runs; 2]>;

/// In the length: there are several runs.
const SEVERAL: u64 = 1 << 63;

/// The fewest bytes that a group has in a message.
pub const GROUP_BYTES_MIN: usize = 16;
/// The most.
pub const GROUP_BYTES_MAX: usize = 32;

/// Where a target's elements begin, in bytes from the window's beginning: `disp` units of the target's.
///
/// # Errors
/// `MPI_ERR_DISP` where that is negative, or no address.
pub fn offset(disp: i64, disp_unit: i64) -> Result<u64> {
    let bytes = i128::from(disp) * i128::from(disp_unit);
    match i64::try_from(bytes) {
        Ok(bytes @ 0..) => Ok(bytes as u64),
        _ => Err(err!(
            Disp,
            "target_disp is {disp}, in units of {disp_unit} bytes; that must be from 0 to 2^63 - 1 bytes"
        )),
    }
}

/// What one operation accesses at a target.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    datatype: &'a Datatype,
    count: u64,
    at: u64,
    unit: Unit,
    len: u64,
}

impl<'a> Access<'a> {
    /// `count` elements of a datatype that is made of such units, `at` bytes from the window's beginning.
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE` where they have more than 2^63 - 1 bytes of data.
    pub fn new(datatype: &'a Datatype, count: u64, at: u64, unit: Unit) -> Result<Access<'a>> {
        let len = count
            .checked_mul(datatype.size())
            .filter(|&len| i64::try_from(len).is_ok());
        let len = len.ok_or_else(|| {
            err!(
                ValueTooLarge,
                "target_count is {count}, which with elements of {} bytes does not fit in 63 bits of bytes",
                datatype.size()
            )
        })?;
        Ok(Access {
            datatype,
            count,
            at,
            unit,
            len,
        })
    }

    /// Bytes of data, packed.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// From the lowest byte to after the highest; `None` if there are none.
    pub fn span(&self) -> Option<Range<i128>> {
        self.datatype.span(self.count, self.at)
    }

    /// Puts the groups into `into` that hold its data from the packed byte `from` on: up to `bytes` of it, but at least a unit,
    /// and up to `groups` groups, at least one. Returns how many bytes they hold: none at the end. The first piece is from byte 0, and each
    /// next one from where the one before it ended.
    pub fn piece(&self, from: u64, bytes: u64, groups: usize, into: &mut Groups) -> u64 {
        into.clear();
        let size = self.unit.size;
        let bytes = (bytes / size * size).max(size);
        let range = from..self.len.min(from.saturating_add(bytes));
        let mut taken = 0;
        self.datatype
            .runs_of(self.at, self.count, range, self.unit, &mut |runs| {
                into.push(runs);
                taken += runs.units() * size;
                into.len() < groups
            });
        taken
    }
}

/// Whether a target of so many bytes has all bytes of a span.
///
/// # Errors
/// `MPI_ERR_RMA_RANGE`.
pub fn check_range(span: &Range<i128>, size: u64, rank: u32) -> Result<()> {
    match 0 <= span.start && span.end <= i128::from(size) {
        true => Ok(()),
        false => Err(err!(
            RmaRange,
            "the operation accesses bytes {} to {} of the window at rank {rank}, which exposes {size} bytes there",
            span.start,
            span.end - 1
        )),
    }
}

/// As [`check_range`], for one group.
pub fn is_within(runs: &Runs, unit: Unit, size: u64) -> bool {
    let span = runs.span(unit);
    0 <= span.start && span.end <= i128::from(size)
}

/// Whether memory of all these runs, which are at addresses, is attached.
pub fn is_attached(runs: &Runs, unit: Unit, attached: &Attached) -> bool {
    let alone = |at| Runs {
        at,
        count: 1,
        ..*runs
    };
    attached.holds(&runs.span(unit))
        || runs.count > 1 && runs.places().all(|at| attached.holds(&alone(at).span(unit)))
}

/// Bytes of a group in a message.
pub fn len_in_message(runs: &Runs) -> usize {
    match runs.count {
        1 => GROUP_BYTES_MIN,
        _ => GROUP_BYTES_MAX,
    }
}

/// Adds a group to a message.
pub fn encode(runs: &Runs, into: &mut Vec<u8>) {
    into.extend(runs.at.to_le_bytes());
    if runs.count == 1 {
        into.extend(runs.len.to_le_bytes());
        return;
    }
    into.extend((runs.len | SEVERAL).to_le_bytes());
    into.extend(runs.count.to_le_bytes());
    into.extend(runs.stride.to_le_bytes());
}

/// The group that some bytes begin with, and the bytes behind it. `None`: they make no sense.
fn decode_one(bytes: &[u8]) -> Option<(Runs, &[u8])> {
    let (at, bytes) = bytes.split_first_chunk()?;
    let (len, bytes) = bytes.split_first_chunk()?;
    let (at, len) = (u64::from_le_bytes(*at), u64::from_le_bytes(*len));
    let (mut count, mut stride, mut rest) = (1, 0, bytes);
    if len & SEVERAL != 0 {
        let (number, bytes) = bytes.split_first_chunk()?;
        let (apart, bytes) = bytes.split_first_chunk()?;
        (count, stride, rest) = (u64::from_le_bytes(*number), i64::from_le_bytes(*apart), bytes);
    }
    let len = len & !SEVERAL;
    let runs = Runs {
        at,
        len,
        count,
        stride,
    };
    (len > 0 && count > 0).then_some((runs, rest))
}

/// The groups that some bytes begin with, `number` of them; how many bytes of data they hold; and the bytes behind them. `None`: they make no sense.
pub fn decode(bytes: &[u8], number: usize, unit: Unit) -> Option<(Groups, u64, &[u8])> {
    // Before room is made for them.
    if number > bytes.len() / GROUP_BYTES_MIN {
        return None;
    }
    let (mut groups, mut data, mut rest) = (Groups::with_capacity(number), 0u64, bytes);
    for _ in 0..number {
        let (runs, behind) = decode_one(rest)?;
        let size = runs.len.checked_mul(runs.count)?.checked_mul(unit.size)?;
        data = data.checked_add(size)?;
        groups.push(runs);
        rest = behind;
    }
    i64::try_from(data).ok()?;
    Some((groups, data, rest))
}

/// Where bytes that are so far from the window's beginning are, or at that address if the beginning is null.
#[inline(always)]
pub fn place(base: *mut u8, at: u64) -> *mut u8 {
    match base.is_null() {
        true => std::ptr::with_exposed_provenance_mut(at as usize),
        false => base.wrapping_add(at as usize),
    }
}

/// Groups of runs of bytes in a window that begins at `base`, to be sent or received.
///
/// # Errors
/// `MPI_ERR_VALUE_TOO_LARGE` where they don't fit in 63 bits.
pub fn memory(base: *mut u8, groups: &[Runs]) -> Result<Memory> {
    let signed = |value: u64| {
        i64::try_from(value).map_err(|_| err!(ValueTooLarge, "{value} bytes do not fit in 63 bits"))
    };
    let byte = Datatype::byte();
    match groups {
        [] => Ok(Memory::empty()),
        [runs] if runs.count == 1 => Ok(Memory::run(place(base, runs.at), signed(runs.len)? as usize)),
        [runs] => {
            let all = Datatype::hvector(signed(runs.count)?, signed(runs.len)?, runs.stride, byte)?;
            Ok(Memory::new(place(base, runs.at), 1, &all))
        }
        [first, ..] => {
            // From the first one: what lies far from the beginning of address space, as addresses do, may be near.
            let places = groups
                .iter()
                .map(|runs| runs.at.wrapping_sub(first.at) as i64)
                .collect::<Vec<_>>();
            let all = if groups.iter().all(|runs| runs.count == 1) {
                let lengths = groups
                    .iter()
                    .map(|runs| signed(runs.len))
                    .collect::<Result<Vec<_>>>()?;
                Datatype::hindexed(&lengths, &places, byte)?
            } else {
                let vector = |runs: &Runs| -> Result<Arc<Datatype>> {
                    Datatype::hvector(signed(runs.count)?, signed(runs.len)?, runs.stride, byte)
                };
                let types = groups.iter().map(vector).collect::<Result<Vec<_>>>()?;
                Datatype::struct_(&vec![1; types.len()], &places, &types)?
            };
            Ok(Memory::new(place(base, first.at), 1, &all))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Class;

    pub fn named(name: &str) -> &'static Arc<Datatype> {
        Datatype::all_predefined()
            .find(|(_, datatype)| datatype.name() == name)
            .expect("a predefined type")
            .1
    }

    fn component() -> impl Strategy<Value = &'static Arc<Datatype>> {
        const NAMES: [&str; 6] = [
            "MPI_BYTE",
            "MPI_INT",
            "MPI_SHORT_INT",
            "MPI_DOUBLE_INT",
            "MPI_2INT",
            "MPI_C_LONG_DOUBLE_COMPLEX",
        ];
        prop::sample::select(&NAMES[..]).prop_map(named)
    }

    /// A datatype made of one predefined type, nested up to three times.
    pub fn datatype() -> impl Strategy<Value = (Arc<Datatype>, &'static Arc<Datatype>)> {
        let step = prop_oneof![
            (0..5i64, 0..4i64, -6..7i64).prop_map(|(count, length, stride)| vec![count, length, stride]),
            prop::collection::vec(0..4i64, 4..24),
            (1..4i64, 0..40i64).prop_map(|(count, gap)| vec![count, gap]),
        ];
        (component(), prop::collection::vec(step, 0..4)).prop_map(|(component, steps)| {
            let mut all = component.clone();
            for step in steps {
                all = match step[..] {
                    [count, length, stride] => Datatype::vector(count, length, stride, &all).unwrap(),
                    [count, gap] => {
                        let spread = Datatype::resized(&all, all.lb(), all.extent() + gap).unwrap();
                        Datatype::contiguous(count, &spread).unwrap()
                    }
                    _ => {
                        let (lengths, places) = step.split_at(step.len() / 2);
                        let places: Vec<i64> = places[..lengths.len()]
                            .iter()
                            .enumerate()
                            .map(|(index, gap)| index as i64 * 4 + gap)
                            .collect();
                        Datatype::indexed(lengths, &places, &all).unwrap()
                    }
                };
            }
            (all, component)
        })
    }

    /// Where the datatype's own walk has each packed byte.
    pub fn places(datatype: &Datatype, at: u64, count: u64) -> Vec<u64> {
        let runs = datatype.segments(at as usize, count, 0, usize::MAX >> 1, usize::MAX);
        runs.iter()
            .flat_map(|&(at, len)| (0..len).map(move |byte| at.wrapping_add(byte) as u64))
            .collect()
    }

    /// Where groups of elements of a predefined type have each packed byte.
    fn places_of(groups: &[Runs], component: &Datatype) -> Vec<u64> {
        let extent = component.extent() as u64;
        let elements = groups.iter().flat_map(|runs| {
            let len = runs.len;
            runs.places()
                .flat_map(move |at| (0..len).map(move |index| at.wrapping_add(index * extent)))
        });
        elements.flat_map(|at| places(component, at, 1)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Pieces of any size hold all bytes of an access, in order, and say where they reach to.
        #[test]
        fn pieces_are_all_of_it(
            (datatype, component) in datatype(),
            count in 0..4u64,
            at in prop_oneof![Just(1 << 20), Just(0u64)],
            bytes in prop_oneof![1..200u64, Just(u64::MAX)],
            most in prop_oneof![1..5usize, Just(usize::MAX)],
            by_byte in any::<bool>(),
        ) {
            let (unit, component) = match by_byte {
                true => (Unit::BYTE, named("MPI_BYTE")),
                false => (Unit::element(component), component),
            };
            let access = Access::new(&datatype, count, at, unit).unwrap();
            prop_assert_eq!(access.len(), count * datatype.size());
            let (mut all, mut groups, mut from) = (Vec::new(), Groups::new(), 0);
            loop {
                let taken = access.piece(from, bytes, most, &mut groups);
                prop_assert_eq!(taken, groups.iter().map(Runs::units).sum::<u64>() * unit.size);
                prop_assert!(taken <= bytes.max(unit.size) && groups.len() <= most);
                prop_assert!(taken > 0 || from == access.len());
                if taken == 0 {
                    break;
                }
                from += taken;
                all.extend(groups.drain(..));
            }
            let expected = places(&datatype, at, count);
            prop_assert_eq!(places_of(&all, component), &expected[..]);
            let touched = expected.iter().map(|&at| i128::from(at as i64));
            match access.span() {
                None => prop_assert!(expected.is_empty()),
                Some(span) => {
                    prop_assert_eq!(span.start, touched.clone().min().unwrap());
                    prop_assert_eq!(span.end, touched.clone().max().unwrap() + 1);
                }
            }
            // Of a group, too, where nothing is below the window's beginning.
            if at > 0 {
                for runs in &all {
                    let touched = places_of(std::slice::from_ref(runs), component);
                    let span = runs.span(unit);
                    prop_assert_eq!(span.start, i128::from(*touched.iter().min().unwrap()));
                    prop_assert_eq!(span.end, i128::from(*touched.iter().max().unwrap()) + 1);
                    let end = span.end as u64;
                    prop_assert!(is_within(runs, unit, end) && !is_within(runs, unit, end - 1));
                }
            }
            // As a memory.
            if by_byte {
                let memory = memory(std::ptr::null_mut(), &all).unwrap();
                let pieces = memory.pieces(0, u64::MAX, usize::MAX);
                let listed: Vec<u64> = pieces.iter().flat_map(|piece| (0..piece.len).map(|byte| (piece.address as u64).wrapping_add(byte as u64))).collect();
                prop_assert_eq!(listed, expected);
            }
            // And in a message.
            let mut message = Vec::new();
            all.iter().for_each(|runs| encode(runs, &mut message));
            prop_assert!((GROUP_BYTES_MIN * all.len()..=GROUP_BYTES_MAX * all.len()).contains(&message.len()));
            message.push(7);
            let (groups, data, rest) = decode(&message, all.len(), unit).unwrap();
            prop_assert_eq!((&groups[..], data, rest), (&all[..], access.len(), &[7u8][..]));
            prop_assert!(all.is_empty() || decode(&message[..message.len() - 2], all.len(), unit).is_none());
        }

        /// Any bytes are groups that can be used, or none.
        #[test]
        fn garbage_spoils_nothing(
            words in prop::collection::vec(prop_oneof![any::<u64>(), 0..40u64, (0..40u64).prop_map(|low| low | SEVERAL)], 0..12),
            number in prop_oneof![0..5usize, any::<usize>()],
            size in 0..1000u64,
        ) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let unit = Unit::element(named("MPI_DOUBLE_INT"));
            if let Some((groups, data, rest)) = decode(&bytes, number, unit) {
                prop_assert_eq!(groups.len(), number);
                prop_assert!(rest.len() <= bytes.len() - number * GROUP_BYTES_MIN && data <= i64::MAX as u64);
                for runs in &groups {
                    let span = runs.span(unit);
                    prop_assert!(span.start < span.end);
                    if is_within(runs, unit, size) {
                        let end = size as i128;
                        prop_assert!(span.end <= end && (runs.stride == 0 || runs.count <= size));
                    }
                    let _ = is_attached(&Runs { count: runs.count.min(9), ..*runs }, unit, &Attached::default());
                }
                let _ = memory(std::ptr::null_mut(), &groups);
            }
        }
    }

    #[test]
    fn displacements_are_checked() {
        assert_eq!(
            (offset(3, 8), offset(0, 1), offset(i64::MAX, 1)),
            (Ok(24), Ok(0), Ok(i64::MAX as u64))
        );
        for (disp, unit) in [(-1, 4), (i64::MAX, 2), (i64::MIN, i64::MAX)] {
            assert_eq!(offset(disp, unit).unwrap_err().class, Class::Disp);
        }
    }

    #[test]
    fn ranges_are_checked() {
        check_range(&(0..100), 100, 0).unwrap();
        let error = check_range(&(-4..96), 100, 3).unwrap_err();
        assert_eq!(error.class, Class::RmaRange);
        assert_eq!(
            error.message,
            "the operation accesses bytes -4 to 95 of the window at rank 3, which exposes 100 bytes there"
        );
        assert!(check_range(&(1..101), 100, 0).is_err());
        let error = Access::new(named("MPI_INT"), 1 << 61, 0, Unit::BYTE)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.class, Class::ValueTooLarge);
    }

    #[test]
    fn runs_may_lie_in_several_attached_regions() {
        let attached = Attached::default();
        attached.attach(1000, 100).unwrap();
        attached.attach(1100, 50).unwrap();
        attached.attach(2000, 100).unwrap();
        let runs = |at, len, count, stride| Runs {
            at,
            len,
            count,
            stride,
        };
        let check = |runs| is_attached(&runs, Unit::BYTE, &attached);
        assert!(
            check(runs(1000, 150, 1, 0)) && check(runs(1000, 10, 2, 1000)) && check(runs(2090, 10, 2, -1000))
        );
        assert!(
            !check(runs(1000, 151, 1, 0)) && !check(runs(1000, 10, 3, 500)) && !check(runs(999, 1, 1, 0))
        );
        assert!(!check(runs(u64::MAX, 1, 1, 0)) && !check(runs(2099, 1, 2, 1)));
    }
}
