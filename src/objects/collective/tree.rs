//! The k-nomial tree: process `r`, counted from the root, is a child of the one whose number in base `k` has a zero for the lowest
//! digit of `r` that is none. So the processes below each one are those that follow it. With radix 2 it is binomial.
//!
//! A larger radix makes the tree flatter: where a process can send several messages in the time that one takes to arrive, all have the
//! message sooner (R. M. Karp, A. Sahay, E. E. Santos, K. E. Schauser: Optimal broadcast and summation in the LogP model, SPAA 1993).

/// How far below a process its children begin: the power of the radix of its lowest digit that is not zero, or for the root the first
/// power that is not less than the number of processes.
fn stride(relative: u32, size: u32, radix: u32) -> u64 {
    if radix == 2 {
        return match relative {
            0 => u64::from(size).next_power_of_two(),
            _ => 1 << relative.trailing_zeros(),
        };
    }
    let mut stride = 1;
    while stride < u64::from(size) && u64::from(relative) % (stride * u64::from(radix)) == 0 {
        stride *= u64::from(radix);
    }
    stride
}

/// The parent of a process that is not the root.
pub(super) fn parent(relative: u32, radix: u32) -> u32 {
    if radix == 2 {
        return relative & (relative - 1);
    }
    let stride = stride(relative, u32::MAX, radix) as u32;
    relative - relative / stride % radix * stride
}

/// The children of a process, those with the largest subtrees first, each with the number of processes below and including it. All are
/// counted from the root.
pub(super) fn children(
    relative: u32,
    size: u32,
    radix: u32,
) -> impl Iterator<Item = (u32, u32)> + Clone + Send {
    let first = stride(relative, size, radix) / u64::from(radix);
    let strides = std::iter::successors(Some(first), move |stride| Some(stride / u64::from(radix)));
    strides.take_while(|&stride| stride > 0).flat_map(move |stride| {
        let child = move |digit: u32| u64::from(relative) + u64::from(digit) * stride;
        (1..radix)
            .map(child)
            .take_while(move |&child| child < u64::from(size))
            .map(move |child| (child as u32, stride.min(u64::from(size) - child) as u32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_one_parent_and_is_counted() {
        for radix in [2, 3, 4, 7, 64] {
            for size in 1..70 {
                let mut parents = vec![0; size as usize];
                for relative in 0..size {
                    let mut behind = relative + 1;
                    let mut ascending: Vec<_> = children(relative, size, radix).collect();
                    ascending.sort();
                    for (child, number) in ascending {
                        parents[child as usize] += 1;
                        assert_eq!(parent(child, radix), relative);
                        assert_eq!(child, behind, "subtrees follow each other");
                        behind += number;
                        let below: u32 = children(child, size, radix).map(|(_, number)| number).sum();
                        assert_eq!(number, below + 1);
                    }
                }
                assert_eq!(parents[0], 0);
                assert!(parents[1..].iter().all(|&parents| parents == 1), "{size} {radix}");
            }
        }
    }

    #[test]
    fn the_largest_subtrees_come_first() {
        let of_root = |size, radix| children(0, size, radix).collect::<Vec<_>>();
        assert_eq!(of_root(7, 2), [(4, 3), (2, 2), (1, 1)]);
        assert_eq!(of_root(9, 3), [(3, 3), (6, 3), (1, 1), (2, 1)]);
        assert_eq!(of_root(5, 64), [(1, 1), (2, 1), (3, 1), (4, 1)]);
        assert_eq!(
            children(1 << 31, u32::MAX, 2).next(),
            Some((3 << 30, (1 << 30) - 1))
        );
    }
}
