//! Where ranks are bound, drawn (`--report-bindings`): one line for each rank.
//!
//! ```text
//!   rank 0 is bound to core 0 of socket 0 (processors 0,4): [BB/..][../..]
//! ```

use std::fmt::Write;

use weft::tools::locality::{HardwareKind, Processors, Topology};

/// The machine, as it is drawn.
#[derive(Debug)]
pub struct Picture {
    /// The cores of each socket; or why hwloc does not report them.
    sockets: Result<Vec<Vec<Processors>>, String>,
    /// The processors that the job may use.
    allowed: Processors,
}

impl Picture {
    /// That of this machine; the job may use what this process may.
    pub fn of_this_machine() -> Picture {
        let sockets = Topology::discover().map(|topology| sockets(&topology));
        Picture {
            sockets,
            allowed: Processors::of_thread(0),
        }
    }

    /// The line for a rank that may run on these processors; `meant`: those that it was to be bound to, if it was.
    pub fn line(&self, rank: usize, to: &Processors, meant: Option<&Processors>) -> String {
        let mut text = match meant {
            Some(meant) if meant == to => format!("rank {rank} is bound to "),
            Some(meant) => format!("rank {rank} could not be bound to {meant} and may run on "),
            None => format!("rank {rank} is not bound and may run on "),
        };
        let s = if to.len() == 1 { "" } else { "s" };
        // Writing to a String does not fail.
        let _ = match &self.sockets {
            Ok(sockets) => write!(
                text,
                "{} (processor{s} {to}): {}",
                words(sockets, to),
                self.draw(sockets, to)
            ),
            Err(why) if rank == 0 => write!(text, "processor{s} {to} (no picture: {why})"),
            Err(_) => write!(text, "processor{s} {to}"),
        };
        text
    }

    fn draw(&self, sockets: &[Vec<Processors>], to: &Processors) -> String {
        let sign = |processor| match (to.contains(processor), self.allowed.contains(processor)) {
            (true, _) => 'B',
            (false, true) => '.',
            (false, false) => '-',
        };
        let socket = |cores: &Vec<Processors>| {
            let cores: Vec<String> = cores.iter().map(|core| core.iter().map(sign).collect()).collect();
            format!("[{}]", cores.join("/"))
        };
        sockets.iter().map(socket).collect()
    }
}

/// The cores of each socket. Where hwloc knows none, all cores are in one; where it knows no cores, each processor is one.
fn sockets(topology: &Topology) -> Vec<Vec<Processors>> {
    let mut cores = topology.instances(HardwareKind::Core);
    if cores.is_empty() {
        cores = topology.instances(HardwareKind::Thread);
    }
    let inside = |package: &Processors| {
        let cores = cores.iter().filter(|core| package.contains_all(core));
        cores.cloned().collect()
    };
    match topology.instances(HardwareKind::Package) {
        [] => vec![cores.to_vec()],
        packages => packages.iter().map(inside).collect(),
    }
}

/// "core 0 of socket 0", "cores 0-3 of socket 0 and core 5 of socket 1": the cores of these processors; a part of a
/// core is enough. Cores are counted through the machine, as hwloc and Open MPI do.
fn words(sockets: &[Vec<Processors>], to: &Processors) -> String {
    let mut parts = Vec::new();
    let mut number = 0;
    for (socket, cores) in sockets.iter().enumerate() {
        let numbered = cores.iter().zip(number..);
        let mine: Processors = (numbered.filter(|(core, _)| core.meets(to)))
            .map(|(_, number)| number)
            .collect();
        number += cores.len();
        match mine.len() {
            0 => {}
            1 => parts.push(format!("core {mine} of socket {socket}")),
            _ => parts.push(format!("cores {mine} of socket {socket}")),
        }
    }
    match parts.is_empty() {
        true => "no core that hwloc knows".into(),
        false => parts.join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[usize]) -> Processors {
        of.iter().copied().collect()
    }

    /// Two sockets with two cores of two hardware threads each; processors 6 and 7 are not for this job.
    fn picture() -> Picture {
        let topology = Topology::of([
            (
                HardwareKind::Package,
                vec![set(&[0, 1, 4, 5]), set(&[2, 3, 6, 7])],
            ),
            (
                HardwareKind::Core,
                vec![set(&[0, 4]), set(&[1, 5]), set(&[2, 6]), set(&[3, 7])],
            ),
        ]);
        Picture {
            sockets: Ok(sockets(&topology)),
            allowed: set(&[0, 1, 2, 3, 4, 5]),
        }
    }

    fn bound(picture: &Picture, rank: usize, to: &[usize]) -> String {
        picture.line(rank, &set(to), Some(&set(to)))
    }

    #[test]
    fn a_line_has_words_and_a_picture() {
        let picture = picture();
        assert_eq!(
            bound(&picture, 0, &[0, 4]),
            "rank 0 is bound to core 0 of socket 0 (processors 0,4): [BB/..][.-/.-]"
        );
        assert_eq!(
            bound(&picture, 3, &[1, 2, 3, 5]),
            "rank 3 is bound to core 1 of socket 0 and cores 2-3 of socket 1 (processors 1-3,5): [../BB][B-/B-]"
        );
        assert_eq!(
            bound(&picture, 12, &[3]),
            "rank 12 is bound to core 3 of socket 1 (processor 3): [../..][.-/B-]"
        );
        assert_eq!(
            picture.line(1, &picture.allowed, None),
            "rank 1 is not bound and may run on cores 0-1 of socket 0 and cores 2-3 of socket 1 (processors 0-5): \
             [BB/BB][B-/B-]"
        );
    }

    #[test]
    fn what_did_not_work_is_not_told_as_done() {
        let picture = picture();
        let line = picture.line(1, &picture.allowed, Some(&set(&[1])));
        assert!(
            line.starts_with("rank 1 could not be bound to 1 and may run on cores 0-1"),
            "{line}"
        );
    }

    #[test]
    fn without_hwloc_there_are_numbers() {
        let picture = Picture {
            sockets: Err("hwloc is away".into()),
            allowed: set(&[0, 1]),
        };
        assert_eq!(
            bound(&picture, 0, &[1]),
            "rank 0 is bound to processor 1 (no picture: hwloc is away)"
        );
        assert_eq!(bound(&picture, 1, &[0]), "rank 1 is bound to processor 0");
    }

    #[test]
    fn machines_without_sockets_or_cores_are_drawn_as_well() {
        let threads = Topology::of([(HardwareKind::Thread, vec![set(&[0]), set(&[1])])]);
        let picture = Picture {
            sockets: Ok(sockets(&threads)),
            allowed: set(&[0, 1]),
        };
        assert_eq!(
            bound(&picture, 0, &[1]),
            "rank 0 is bound to core 1 of socket 0 (processor 1): [./B]"
        );
        assert!(bound(&picture, 0, &[9]).contains("no core that hwloc knows"));
    }
}
