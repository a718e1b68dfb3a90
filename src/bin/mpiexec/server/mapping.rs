//! Where the ranks are, in the words of MPICH's clients (`PMI_process_mapping`).

/// Which rank is on which host, as MPICH writes it: `(vector,(HOST,HOSTS,RANKS),…)`, each part a number of hosts in order with that many
/// ranks each. Parts are repeated as long as there are ranks.
pub fn mapping(hosts: &[usize]) -> String {
    // Ranks that follow each other on a host.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &host in hosts {
        match runs.last_mut() {
            Some((last, count)) if *last == host => *count += 1,
            _ => runs.push((host, 1)),
        }
    }
    // The shortest beginning of which all are repetitions, for ranks that are dealt out in turn.
    let period = (1..=runs.len()).find(|&period| {
        let (last, rest) = (runs.len() - 1, runs.len() % period);
        let same = |(at, run): (usize, &(usize, usize))| {
            let first = runs[at % period];
            // The last run may have been cut off.
            *run == first || at == last && run.0 == first.0 && run.1 < first.1
        };
        (rest == 0 || runs.len() > 2 * period) && runs.iter().enumerate().all(same)
    });
    let mut parts: Vec<(usize, usize, usize)> = Vec::new();
    for &(host, ranks) in &runs[..period.unwrap_or(runs.len())] {
        match parts.last_mut() {
            Some((first, count, each)) if *first + *count == host && *each == ranks => *count += 1,
            _ => parts.push((host, 1, ranks)),
        }
    }
    let parts: String = (parts.iter())
        .map(|(first, count, each)| format!(",({first},{count},{each})"))
        .collect();
    format!("(vector{parts})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_is_short_for_regular_placements() {
        for (hosts, expected) in [
            (vec![0; 4], "(vector,(0,1,4))"),
            (vec![0, 0, 1, 1, 2, 2], "(vector,(0,3,2))"),
            (vec![0, 0, 1, 1, 2], "(vector,(0,2,2),(2,1,1))"),
            (vec![1, 0, 0, 1], "(vector,(1,1,1),(0,1,2),(1,1,1))"),
        ] {
            assert_eq!(mapping(&hosts), expected);
        }
        let in_turn: Vec<usize> = (0..60_000).map(|rank| rank % 60).collect();
        assert_eq!(mapping(&in_turn), "(vector,(0,60,1))");
        // The last round is not full.
        assert_eq!(mapping(&in_turn[..59_990]), "(vector,(0,60,1))");
        let in_pairs: Vec<usize> = (0..13).map(|rank| rank / 2 % 3).collect();
        assert_eq!(mapping(&in_pairs), "(vector,(0,3,2))");
    }
}
