//! The binomial tree of gather and scatter.

/// The children of a process in the binomial tree, the largest first, each with the number of processes below and
/// including it. Both are counted from the root.
pub(super) fn children(relative: u32, size: u32) -> impl Iterator<Item = (u32, u32)> {
    let free = match relative {
        0 => 31,
        _ => relative.trailing_zeros(),
    };
    (0..free)
        .rev()
        .map(|bit| 1 << bit)
        .filter(move |mask| relative + mask < size)
        .map(move |mask| (relative + mask, mask.min(size - relative - mask)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_one_parent_and_is_counted() {
        for size in 1..40 {
            let mut parents = vec![0; size as usize];
            for relative in 0..size {
                for (child, number) in children(relative, size) {
                    parents[child as usize] += 1;
                    assert_eq!(child & (child - 1), relative, "the parent's formula");
                    let below: u32 = children(child, size).map(|(_, number)| number).sum();
                    assert_eq!(number, below + 1);
                }
            }
            assert_eq!(parents[0], 0);
            assert!(parents[1..].iter().all(|&parents| parents == 1));
        }
    }
}
