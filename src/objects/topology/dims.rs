//! Sizes of Cartesian grids (`MPI_Dims_create`, MPI 5.0 section 8.5.2).
//!
//! "As close to each other as possible" is taken to mean: the difference of the largest and the smallest of the chosen
//! sizes is as small as possible; of such grids, one is chosen whose smallest size is the greatest, then the one whose second largest
//! size is least, and so on. (So does MPICH 5.0.2, but for 2 of the grids of up to 20,000 nodes in 2 to 6 dimensions.)

use crate::base::error::Result;
use crate::err;

/// Sets the sizes that are 0, in non-increasing order, so that a grid of all these sizes has `nodes` nodes (1 or more).
pub fn fill(nodes: u32, sizes: &mut [i32]) -> Result<()> {
    let mut given: u32 = 1;
    for (index, &size) in sizes.iter().enumerate() {
        let size = u32::try_from(size).map_err(|_| {
            err!(
                Dims,
                "dims[{index}] is {size}; a size is at least 1, or 0 to be chosen"
            )
        })?;
        if size > 0 {
            given = given
                .checked_mul(size)
                .filter(|given| nodes.is_multiple_of(*given))
                .ok_or_else(|| {
                    err!(
                        Dims,
                        "nnodes is {nodes}, which is not a multiple of the sizes that dims gives, up to dims[{index}]"
                    )
                })?;
        }
    }
    let free = sizes.iter().filter(|size| **size == 0).count();
    if free == 0 && given != nodes {
        return Err(err!(
            Dims,
            "nnodes is {nodes}, but a grid of the {} sizes that dims gives has {given} nodes, and there is none to choose",
            sizes.len()
        ));
    }
    let chosen = balanced(nodes / given, free);
    for (size, chosen) in sizes.iter_mut().filter(|size| **size == 0).zip(chosen) {
        *size = chosen as i32;
    }
    Ok(())
}

/// The factorization of `number` into this many factors, in non-increasing order. (Without factors: only of 1.)
fn balanced(number: u32, factors: usize) -> Vec<u32> {
    let mut primes = primes(number);
    if primes.len() <= factors {
        // Any other factorization puts two primes together where a 1 could be split off.
        primes.reverse();
        primes.resize(factors, 1);
        return primes;
    }
    let mut search = Search {
        divisors: divisors(number),
        chosen: vec![0; factors],
        best: Vec::new(),
        spread: u32::MAX,
    };
    search.choose(number, 0);
    search.best
}

/// Goes through factorizations from the one whose largest factor is the least on.
struct Search {
    /// The divisors of the number, ascending.
    divisors: Vec<u32>,
    /// Factors, non-increasing; those after the one being chosen have no meaning.
    chosen: Vec<u32>,
    best: Vec<u32>,
    /// The largest less the smallest of `best`.
    spread: u32,
}

impl Search {
    /// Chooses the factors from the one at `at` on, whose product is `rest`.
    fn choose(&mut self, rest: u32, at: usize) {
        let missing = self.chosen.len() - at;
        let bound = if at == 0 { rest } else { self.chosen[at - 1] };
        if missing == 1 {
            if rest <= bound {
                self.chosen[at] = rest;
                let spread = self.chosen[0] - rest;
                let larger = || self.best.first().is_none_or(|largest| self.chosen[0] > *largest);
                if spread < self.spread || spread == self.spread && larger() {
                    self.spread = spread;
                    self.best.clone_from(&self.chosen);
                }
            }
            return;
        }
        // The largest factor of the rest takes its largest prime, and is no less than the mean.
        let mut least = root(rest, missing as u32);
        least += u32::from(u64::from(least).pow(missing as u32) < u64::from(rest));
        let least = least.max(primes(rest).last().copied().unwrap_or(1));
        let first = self.divisors.partition_point(|divisor| *divisor < least);
        for index in first..self.divisors.len() {
            let factor = self.divisors[index];
            if factor > bound {
                return;
            }
            if !rest.is_multiple_of(factor) {
                continue;
            }
            let largest = if at == 0 { factor } else { self.chosen[0] };
            let smallest_at_most = root(rest / factor, missing as u32 - 1);
            if largest - smallest_at_most.min(largest) > self.spread {
                // Nor is any with a larger factor here better.
                return;
            }
            self.chosen[at] = factor;
            self.choose(rest / factor, at + 1);
        }
    }
}

/// The largest number whose power is at most `number`.
fn root(number: u32, power: u32) -> u32 {
    let fits = |root: u32| {
        let product = u64::from(root).checked_pow(power);
        product.is_some_and(|product| product <= u64::from(number))
    };
    // Floating point may be off by one.
    let mut root = (f64::from(number).powf(1.0 / f64::from(power)) as u32).saturating_sub(1);
    while fits(root + 1) {
        root += 1;
    }
    root
}

/// Its prime factors, ascending.
fn primes(mut number: u32) -> Vec<u32> {
    let mut primes = Vec::new();
    let mut prime = 2;
    while prime <= number / prime {
        while number.is_multiple_of(prime) {
            primes.push(prime);
            number /= prime;
        }
        prime += 1;
    }
    if number > 1 {
        primes.push(number);
    }
    primes
}

/// All divisors, ascending.
fn divisors(number: u32) -> Vec<u32> {
    let mut divisors = vec![1];
    let mut before = 1;
    let mut fresh = 0;
    for prime in primes(number) {
        // A repeated prime multiplies only the divisors that it has just made.
        let start = if prime == before {
            divisors.len() - fresh
        } else {
            0
        };
        let more: Vec<u32> = divisors[start..].iter().map(|divisor| divisor * prime).collect();
        (before, fresh) = (prime, more.len());
        divisors.extend(more);
    }
    divisors.sort_unstable();
    divisors
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(nodes: u32, sizes: &[i32]) -> Vec<i32> {
        let mut sizes = sizes.to_vec();
        fill(nodes, &mut sizes).expect("there is such a grid");
        sizes
    }

    /// All factorizations in non-increasing order.
    fn all(number: u32, factors: usize, bound: u32) -> Vec<Vec<u32>> {
        if factors == 0 {
            return if number == 1 { vec![vec![]] } else { vec![] };
        }
        let mut found = Vec::new();
        for first in (1..=bound.min(number)).filter(|first| number.is_multiple_of(*first)) {
            for mut rest in all(number / first, factors - 1, first) {
                rest.insert(0, first);
                found.push(rest);
            }
        }
        found
    }

    #[test]
    fn a_root_is_the_largest_whose_power_fits() {
        for (number, power, expected) in [
            (26, 3, 2),
            (27, 3, 3),
            (28, 3, 3),
            (5, 1, 5),
            (1, 4, 1),
            (i32::MAX as u32, 2, 46340),
            (1 << 30, 10, 8),
        ] {
            assert_eq!(root(number, power), expected, "{number}, {power}");
        }
    }

    #[test]
    fn the_standards_examples() {
        assert_eq!(filled(6, &[0, 0]), [3, 2]);
        assert_eq!(filled(7, &[0, 0]), [7, 1]);
        assert_eq!(filled(6, &[0, 3, 0]), [2, 3, 1]);
        assert!(fill(7, &mut [0, 3, 0]).is_err());
        assert_eq!(filled(1, &[]), []);
    }

    #[test]
    fn as_close_to_each_other_as_possible_by_trying_all() {
        for number in 1..=400 {
            for factors in 1..=5 {
                let best = all(number, factors, number).into_iter().min_by_key(|sizes| {
                    let (largest, smallest) = (sizes[0], sizes[factors - 1]);
                    (largest - smallest, std::cmp::Reverse(smallest), sizes.clone())
                });
                assert_eq!(Some(balanced(number, factors)), best, "{number} in {factors}");
            }
        }
        assert_eq!(filled(1080, &[0, 0, 0]), [12, 10, 9]);
        // Here the closest are not the first that a search finds, nor those of the smallest ratio.
        assert_eq!(filled(3600, &[0; 4]), [10, 10, 6, 6]);
        assert_eq!(filled(4620, &[0; 3]), [22, 15, 14]);
        // As close to each other as 9, 8 and 5.
        assert_eq!(filled(360, &[0; 3]), [10, 6, 6]);
    }

    /// Numbers with as many divisors as numbers of 31 bits can have, powers, primes: each ends soon.
    #[test]
    fn large_numbers() {
        for number in [
            735_134_400,
            1_396_755_360,
            1 << 30,
            1_162_261_467,
            2_147_483_647,
            2_147_117_569,
        ] {
            for factors in 1..=32 {
                let sizes = balanced(number, factors);
                assert_eq!(sizes.iter().product::<u32>(), number);
                assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
            }
        }
        assert_eq!(balanced(1 << 30, 3), [1024, 1024, 1024]);
        assert_eq!(balanced(2_147_117_569, 2), [46337, 46337]);
    }

    #[test]
    fn grids_that_cannot_be() {
        for (nodes, sizes) in [
            (6, vec![4, 0]),
            (6, vec![2, 2]),
            (8, vec![2, 2]),
            (2, vec![]),
            (6, vec![-1, 0]),
            (6, vec![i32::MIN]),
            (4, vec![i32::MAX, i32::MAX, 0]),
            (2_147_483_647, vec![65536, 65536, 0]),
        ] {
            let mut left = sizes.clone();
            let error = fill(nodes, &mut left).expect_err("no such grid");
            assert_eq!(
                error.class,
                crate::base::error::Class::Dims,
                "{nodes} in {sizes:?}"
            );
            assert_eq!(left, sizes, "nothing is changed");
        }
    }

    proptest! {
        #[test]
        fn given_sizes_stay_and_chosen_ones_descend(
            sizes in prop::collection::vec(0..6i32, 1..7),
            more in 1..500u32,
        ) {
            let given: u32 = sizes.iter().filter(|size| **size > 0).map(|size| *size as u32).product();
            let free = sizes.contains(&0);
            let nodes = if free { given * more } else { given };
            let got = filled(nodes, &sizes);
            prop_assert_eq!(got.iter().map(|size| *size as u32).product::<u32>(), nodes);
            let chosen: Vec<i32> = got.iter().zip(&sizes).filter(|(_, size)| **size == 0).map(|(got, _)| *got).collect();
            prop_assert!(chosen.is_sorted_by(|one, next| one >= next));
            for (got, size) in got.iter().zip(&sizes) {
                prop_assert!(*size == 0 || got == size);
            }
        }
    }
}
