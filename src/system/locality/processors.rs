//! Sets of processors.

use std::fmt;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// A set of processors, by the numbers that the kernel gives them. Printed as the kernel prints it: `0-3,8`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Processors {
    /// 64 processors each; the last one is not 0.
    words: Vec<u64>,
}

impl Processors {
    /// Those on which this process may run: any of its threads, as each has its own set. Empty where the system does not
    /// report it.
    pub fn of_this_process() -> Processors {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let numbers = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut all = Processors::of_thread(0);
        for number in numbers {
            // One that has ended meanwhile has no processors.
            all.extend(Processors::of_thread(number).iter());
        }
        all
    }

    /// Those on which a thread may run; 0 is the calling thread, and a process id stands for its first thread. Empty where the
    /// system does not report it.
    pub fn of_thread(number: i32) -> Processors {
        Processors::from(&sched_getaffinity(Pid::from_raw(number)).unwrap_or_default())
    }

    /// Reads what the kernel writes: `0-3,8`. `None`: it is no such list.
    pub fn parse(text: &str) -> Option<Processors> {
        /// Higher numbers are taken for an error.
        const MAX: usize = 1 << 16;
        let mut all = Processors::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if last < first || last >= MAX {
                return None;
            }
            all.extend(first..=last);
        }
        Some(all)
    }

    /// Adds one.
    pub fn insert(&mut self, processor: usize) {
        let word = processor / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (processor % 64);
    }

    /// Whether one is in it.
    pub fn contains(&self, processor: usize) -> bool {
        let word = self.words.get(processor / 64);
        word.is_some_and(|word| word >> (processor % 64) & 1 != 0)
    }

    /// Whether all of another set are in it.
    pub fn contains_all(&self, others: &Processors) -> bool {
        others.iter().all(|processor| self.contains(processor))
    }

    /// Whether the two have one in common.
    pub fn meets(&self, others: &Processors) -> bool {
        self.words.iter().zip(&others.words).any(|(a, b)| a & b != 0)
    }

    /// Those that are in another set, too.
    pub fn within(&self, others: &Processors) -> Processors {
        self.iter()
            .filter(|&processor| others.contains(processor))
            .collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * 64).filter(|&processor| self.contains(processor))
    }
}

impl From<&CpuSet> for Processors {
    fn from(set: &CpuSet) -> Processors {
        (0..CpuSet::count())
            .filter(|&processor| set.is_set(processor).unwrap_or(false))
            .collect()
    }
}

impl Extend<usize> for Processors {
    fn extend<T: IntoIterator<Item = usize>>(&mut self, processors: T) {
        for processor in processors {
            self.insert(processor);
        }
    }
}

impl FromIterator<usize> for Processors {
    fn from_iter<T: IntoIterator<Item = usize>>(processors: T) -> Processors {
        let mut all = Processors::default();
        all.extend(processors);
        all
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = all.next() {
            let mut last = first;
            while all.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last == first {
                true => write!(to, "{comma}{first}")?,
                false => write!(to, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let some: Processors = [70, 3, 3, 4, 5].into_iter().collect();
        assert_eq!(some.to_string(), "3-5,70");
        assert_eq!(some.iter().collect::<Vec<_>>(), [3, 4, 5, 70]);
        assert_eq!((some.len(), some.is_empty()), (4, false));
        let other: Processors = [5, 6].into_iter().collect();
        assert_eq!(some.within(&other).to_string(), "5");
        assert_eq!(other.within(&some), [5].into_iter().collect());
        assert!(some.meets(&other) && !some.contains_all(&other) && some.contains_all(&some.within(&other)));
        assert!(!other.contains(70) && !other.contains(100_000));
        assert_eq!(Processors::default().to_string(), "");
    }

    #[test]
    fn lists_are_read_as_they_are_printed() {
        for list in ["", "0", "0-3,8", "5,70-71"] {
            assert_eq!(
                Processors::parse(list).map(|read| read.to_string()).as_deref(),
                Some(list)
            );
        }
        for wrong in ["a", "3-1", "1-", "-1", "0-99999999", "0x1"] {
            assert_eq!(Processors::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_process_may_run_somewhere() {
        let own = Processors::of_this_process();
        assert!(!own.is_empty());
        assert!(own.contains_all(&Processors::of_thread(0)));
    }
}
