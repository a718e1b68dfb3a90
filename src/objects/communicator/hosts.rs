//! Which processes of a communicator share a host, for collective operations in two levels.

use std::sync::Arc;

use super::Communicator;
use crate::instance::hosts::distinguished;

/// The ranks of a communicator by host. Hosts are numbered in the order of their lowest ranks.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// All ranks, host by host, and inside a host in order.
    ranks: Arc<[u32]>,
    /// Where each host's ranks begin; behind the last, where they end.
    starts: Arc<[u32]>,
    /// The host of each rank.
    host_of: Arc<[u32]>,
    /// This process's host.
    mine: u32,
    /// Whether the ranks of each host are consecutive.
    consecutive: bool,
}

impl Hosts {
    /// `None` where nothing is gained: one host, hosts of one process each, processes of other jobs (nothing is known of their hosts),
    /// or the setting `two_level`.
    pub(super) fn of(communicator: &Communicator) -> Option<Hosts> {
        let instance = communicator.instance();
        let job = instance.job();
        if communicator.is_inter() || !distinguished(job, instance.settings()) {
            return None;
        }
        let processes = communicator.group().iter();
        let nodes = processes.map(|process| {
            let own_job = process.rank_in(job.size).is_some();
            own_job.then(|| instance.node_of(process))
        });
        Hosts::by_node(&nodes.collect::<Option<Vec<u64>>>()?, communicator.rank())
    }

    /// By the node of each rank, as this one of them sees it.
    pub(in crate::objects) fn by_node(nodes: &[u64], rank: u32) -> Option<Hosts> {
        let mut ranks: Vec<u32> = (0..nodes.len() as u32).collect();
        let node = |rank: u32| nodes[rank as usize];
        ranks.sort_by_key(|&rank| (node(rank), rank));
        let mut hosts: Vec<&[u32]> = ranks.chunk_by(|&one, &next| node(one) == node(next)).collect();
        if hosts.len() < 2 || hosts.len() == nodes.len() {
            return None;
        }
        hosts.sort_by_key(|ranks| ranks[0]);
        let mut host_of = vec![0; nodes.len()];
        let mut starts = vec![0];
        for (host, ranks) in (0..).zip(&hosts) {
            for &rank in *ranks {
                host_of[rank as usize] = host;
            }
            starts.push(starts[host as usize] + ranks.len() as u32);
        }
        let ranks = hosts.concat();
        Some(Hosts {
            mine: host_of[rank as usize],
            consecutive: ranks.is_sorted(),
            ranks: ranks.into(),
            starts: starts.into(),
            host_of: host_of.into(),
        })
    }

    /// The same as another of the ranks sees them.
    #[cfg(feature = "sim")]
    pub(in crate::objects) fn seen_by(&self, rank: u32) -> Hosts {
        Hosts {
            mine: self.host_of(rank),
            ..self.clone()
        }
    }

    /// How many hosts there are.
    pub fn number(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// This process's host.
    pub fn mine(&self) -> u32 {
        self.mine
    }

    /// The host of a rank.
    pub fn host_of(&self, rank: u32) -> u32 {
        self.host_of[rank as usize]
    }

    /// The ranks of a host, in order.
    pub fn ranks(&self, host: u32) -> &[u32] {
        let host = host as usize;
        &self.ranks[self.starts[host] as usize..self.starts[host + 1] as usize]
    }

    /// Where a rank is among those of its host.
    pub fn place(&self, rank: u32) -> u32 {
        let ranks = self.ranks(self.host_of(rank));
        ranks.partition_point(|&other| other < rank) as u32
    }

    /// Whether the ranks of each host are consecutive: then what is combined host by host is combined in the order of ranks.
    pub fn consecutive(&self) -> bool {
        self.consecutive
    }
}

#[cfg(test)]
mod tests {
    use super::Hosts;

    #[test]
    fn ranks_are_put_together_by_host() {
        let hosts = Hosts::by_node(&[7, 7, 3, 3, 3], 4).expect("two hosts");
        assert_eq!((hosts.number(), hosts.mine()), (2, 1));
        assert_eq!((hosts.ranks(0), hosts.ranks(1)), (&[0, 1][..], &[2, 3, 4][..]));
        assert_eq!([0, 1, 2, 3, 4].map(|rank| hosts.host_of(rank)), [0, 0, 1, 1, 1]);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| hosts.place(rank)), [0, 1, 0, 1, 2]);
        assert!(hosts.consecutive());
    }

    #[test]
    fn they_need_not_be_consecutive() {
        let hosts = Hosts::by_node(&[5, 0, 9, 5, 0], 3).expect("three hosts");
        assert_eq!((hosts.number(), hosts.mine()), (3, 0));
        assert_eq!(
            [0, 1, 2].map(|host| hosts.ranks(host)),
            [&[0, 3][..], &[1, 4], &[2]]
        );
        assert_eq!([0, 1, 2, 3, 4].map(|rank| hosts.place(rank)), [0, 0, 0, 1, 1]);
        assert!(!hosts.consecutive());
    }

    #[test]
    fn one_host_and_hosts_of_one_are_no_two_levels() {
        assert!(Hosts::by_node(&[4, 4, 4], 0).is_none());
        assert!(Hosts::by_node(&[4, 5, 6], 0).is_none());
        assert!(Hosts::by_node(&[4], 0).is_none());
    }
}
