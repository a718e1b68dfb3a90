//! The key `soft`: the numbers of processes that are allowed, as a list of Fortran's triplets `a`, `a:b` and `a:b:c`
//! (MPI 5.0, section 11.8.4).

/// The largest number of the set that is not above `most`; `None`: it has none from 0 on.
///
/// # Errors
/// `text` is no such list.
pub fn largest(text: &str, most: u32) -> Result<Option<u32>, String> {
    let mut best = None;
    for triplet in text.split(',') {
        let (first, last, step) = read(triplet.trim()).ok_or_else(|| {
            format!("'{triplet}' in soft='{text}': a, a:b or a:b:c is expected, with c towards b")
        })?;
        best = best.max(of_triplet(first, last, step, most));
    }
    Ok(best)
}

fn read(triplet: &str) -> Option<(i64, i64, i64)> {
    // So are numbers of processes; and sums of two of them fit.
    let number = |text: &str| text.trim().parse::<i32>().ok().map(i64::from);
    let words: Vec<&str> = triplet.split(':').collect();
    let (first, last, step) = match words[..] {
        [first] => (number(first)?, number(first)?, 1),
        [first, last] => (number(first)?, number(last)?, 1),
        [first, last, step] => (number(first)?, number(last)?, number(step)?),
        _ => return None,
    };
    let fits = match last.cmp(&first) {
        std::cmp::Ordering::Less => step < 0,
        std::cmp::Ordering::Equal => step != 0,
        std::cmp::Ordering::Greater => step > 0,
    };
    fits.then_some((first, last, step))
}

/// The largest of `first`, `first + step`, … up to `last` that is in `0..=most`.
fn of_triplet(first: i64, last: i64, step: i64, most: u32) -> Option<u32> {
    // The same set upwards.
    let (low, high, step) = match step > 0 {
        true => (first, last, step),
        false => (first + (first - last) / -step * step, first, -step),
    };
    let high = high.min(i64::from(most));
    let found = low + (high - low).div_euclid(step) * step;
    u32::try_from(found).ok().filter(|_| high >= low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_allowed_number_is_found() {
        for (text, most, expected) in [
            ("3", 4, Some(3)),
            ("5", 4, None),
            ("0:64", 7, Some(7)),
            ("2:100:2", 7, Some(6)),
            ("10:1:-3", 8, Some(7)),
            ("10:1:-3", 0, None),
            ("1, 2, 4, 8", 7, Some(4)),
            ("0", 9, Some(0)),
            ("-5:-1", 9, None),
            ("-5:5:3", 9, Some(4)),
            ("7:7:-1", 9, Some(7)),
            ("0:2147483647", u32::MAX, Some(2_147_483_647)),
        ] {
            assert_eq!(largest(text, most), Ok(expected), "{text} up to {most}");
        }
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in [
            "",
            "a",
            "1,",
            "1:2:3:4",
            "2:1",
            "1:2:-1",
            "1:2:0",
            "1:1:0",
            "2147483648",
            "1;2",
            "1:",
            ":1",
        ] {
            assert!(largest(text, 4).unwrap_err().contains("is expected"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_is_that_of_a_set_written_out(first in -30i64..30, last in -30i64..30, by in 1i64..9, most in 0u32..40) {
            let step = if last < first { -by } else { by };
            let mut all = Vec::new();
            let mut next = first;
            while if step > 0 { next <= last } else { next >= last } {
                all.push(next);
                next += step;
            }
            let expected = all.into_iter().filter(|number| (0..=i64::from(most)).contains(number)).max();
            let found = largest(&format!("{first}:{last}:{step}"), most).unwrap();
            prop_assert_eq!(found.map(i64::from), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9:,\\- ]{0,20}", most: u32) {
            let _ = largest(&text, most);
        }
    }
}
