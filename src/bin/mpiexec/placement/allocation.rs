//! The hosts that a scheduler has given the job, as its environment says.

use std::path::Path;

use crate::host_file;
use crate::host_list::{self, Entry};

/// The schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manager {
    Slurm,
    Pbs,
    Lsf,
    Sge,
}

impl Manager {
    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Manager::Slurm => "Slurm",
            Manager::Pbs => "PBS",
            Manager::Lsf => "LSF",
            Manager::Sge => "SGE",
        }
    }
}

/// What a scheduler has given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Whose it is.
    pub manager: Manager,
    /// Its hosts, with slots; a host may come several times.
    pub hosts: Vec<Entry>,
}

impl Allocation {
    /// That of the environment, if there is one.
    pub fn find(variables: &dyn Fn(&str) -> Option<String>) -> Result<Option<Allocation>, String> {
        let variable =
            |name: &'static str| Some((name, variables(name).filter(|value| !value.trim().is_empty())?));
        let wrong = |name: &str| {
            let name = name.to_string();
            move |why: String| format!("{name}: {why}")
        };
        let slurm = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"));
        let (manager, hosts) = if let Some((name, nodes)) = slurm {
            let counts = variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
            (Manager::Slurm, of_slurm(name, &nodes, counts)?)
        } else if let Some((name, path)) = variable("PBS_NODEFILE") {
            (Manager::Pbs, of_file(&path, one_each).map_err(wrong(name))?)
        } else if let Some((name, text)) = variable("LSB_MCPU_HOSTS") {
            (Manager::Lsf, of_pairs(&text).map_err(wrong(name))?)
        } else if let Some((name, text)) = variable("LSB_HOSTS") {
            let all = text
                .split_whitespace()
                .map(one_each)
                .collect::<Result<Vec<_>, _>>();
            (Manager::Lsf, all.map_err(wrong(name))?.concat())
        } else if let Some((name, path)) = variable("LSB_DJOB_HOSTFILE") {
            (Manager::Lsf, of_file(&path, one_each).map_err(wrong(name))?)
        } else if let Some((name, path)) = variable("PE_HOSTFILE") {
            (Manager::Sge, of_file(&path, of_sge).map_err(wrong(name))?)
        } else {
            return Ok(None);
        };
        Ok(Some(Allocation { manager, hosts }))
    }
}

/// A node list, with counts such as `2(x3),1`.
fn of_slurm(name: &str, nodes: &str, counts: Option<(&str, String)>) -> Result<Vec<Entry>, String> {
    let names = host_list::expand(nodes).map_err(|why| format!("{name}: {why}"))?;
    let slots = match counts {
        None => vec![1; names.len()],
        Some((name, text)) => {
            let slots = repeated(&text).map_err(|why| format!("{name}: {why}"))?;
            if slots.len() != names.len() {
                return Err(format!(
                    "{name}: '{text}' is for {} hosts, not for {}",
                    slots.len(),
                    names.len()
                ));
            }
            slots
        }
    };
    let entry = |(name, slots): (&String, u32)| {
        Ok(Entry {
            slots: Some(slots),
            ..Entry::new(name)?
        })
    };
    names.iter().zip(slots).map(entry).collect()
}

/// The numbers of `2(x3),1`.
fn repeated(text: &str) -> Result<Vec<u32>, String> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (
                number,
                times
                    .strip_suffix(')')
                    .and_then(|times| times.parse::<usize>().ok()),
            ),
            None => (part, Some(1)),
        };
        let number = number.parse::<u32>().ok().filter(|&number| number > 0);
        let (Some(number), Some(times @ 1..=65_536)) = (number, times) else {
            return Err(format!(
                "'{part}' in '{text}': a number such as 2 or 2(x3) is expected"
            ));
        };
        numbers.extend(std::iter::repeat_n(number, times));
        if numbers.len() > 65_536 {
            return Err(format!("'{text}' is for more than 65536 hosts"));
        }
    }
    Ok(numbers)
}

fn of_file(path: &str, parse: fn(&str) -> Result<Vec<Entry>, String>) -> Result<Vec<Entry>, String> {
    let path = Path::new(path);
    host_file::lines(path, &host_file::text(path)?, parse)
}

/// A name is one slot.
fn one_each(line: &str) -> Result<Vec<Entry>, String> {
    Ok(vec![Entry {
        slots: Some(1),
        ..Entry::new(line)?
    }])
}

/// `h1 4 h2 2`.
fn of_pairs(text: &str) -> Result<Vec<Entry>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pair = |pair: &[&str]| match pair {
        [name, slots] => Ok(Entry {
            slots: Some(host_list::slots(name, slots)?),
            ..Entry::new(name)?
        }),
        _ => Err(format!("'{}' has no number of slots", pair.join(" "))),
    };
    words.chunks(2).map(pair).collect()
}

/// `host slots queue processors`.
fn of_sge(line: &str) -> Result<Vec<Entry>, String> {
    let words: Vec<&str> = line.split_whitespace().take(2).collect();
    of_pairs(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<String, String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| value.to_string())
        };
        Ok(match Allocation::find(&value)? {
            None => String::new(),
            Some(allocation) => {
                let text = |one: &Entry| format!(" {}:{}", one.name, one.slots.unwrap_or(0));
                let hosts: String = allocation.hosts.iter().map(text).collect();
                format!("{}{hosts}", allocation.manager.name())
            }
        })
    }

    #[test]
    fn what_slurm_says() {
        let of = |counts| {
            found(&[
                ("SLURM_JOB_NODELIST", "h[1-3],x"),
                ("SLURM_TASKS_PER_NODE", counts),
            ])
        };
        assert_eq!(of("2(x3),1"), Ok("Slurm h1:2 h2:2 h3:2 x:1".into()));
        assert_eq!(
            found(&[("SLURM_NODELIST", "h[09-10]")]),
            Ok("Slurm h09:1 h10:1".into())
        );
        for counts in [
            "2(x3)",
            "2(x4),1",
            "0(x4)",
            "2(x0)",
            "2(x",
            "2(x4",
            "a",
            "2(x99999999999)",
            "1(x65536),1",
            "-1",
            "99999999999(x4)",
        ] {
            let why = of(counts).expect_err(counts);
            assert!(why.starts_with("SLURM_TASKS_PER_NODE: "), "{why}");
        }
        assert!(
            found(&[("SLURM_JOB_NODELIST", "h[1-")])
                .unwrap_err()
                .starts_with("SLURM_JOB_NODELIST: ")
        );
        assert_eq!(found(&[("SLURM_JOB_NODELIST", "")]), Ok("".into()));
    }

    #[test]
    fn what_the_others_say() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| {
            let path = folder.path().join("hosts");
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_string()
        };
        let path = write("a\na\nb\n");
        assert_eq!(found(&[("PBS_NODEFILE", &path)]), Ok("PBS a:1 a:1 b:1".into()));
        assert_eq!(
            found(&[("LSB_DJOB_HOSTFILE", &path)]),
            Ok("LSF a:1 a:1 b:1".into())
        );
        assert_eq!(found(&[("LSB_MCPU_HOSTS", "a 4 b 2")]), Ok("LSF a:4 b:2".into()));
        assert_eq!(found(&[("LSB_HOSTS", "a a b")]), Ok("LSF a:1 a:1 b:1".into()));
        let path = write("a 4 all.q@a UNDEFINED\nb 2 all.q@b <NULL>\n");
        assert_eq!(found(&[("PE_HOSTFILE", &path)]), Ok("SGE a:4 b:2".into()));
        assert!(found(&[("LSB_MCPU_HOSTS", "a 4 b")]).unwrap_err().contains("'b'"));
        assert!(
            found(&[("LSB_MCPU_HOSTS", "a 0")])
                .unwrap_err()
                .contains("'0' slots")
        );
        assert!(
            found(&[("PBS_NODEFILE", "/no/such")])
                .unwrap_err()
                .contains("/no/such")
        );
        let path = write("a 4\nb\n");
        assert!(found(&[("PE_HOSTFILE", &path)]).unwrap_err().contains("line 2"));
    }
}
