//! Machines of the model, and how fast an operation can be on them at best.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Call;
use crate::instance::selection::Operation;

/// The numbers of LogGP in picoseconds, `G` per byte.
#[derive(Clone, Copy, Debug)]
pub struct LogGp {
    /// Latency.
    pub l: u64,
    /// Overhead.
    pub o: u64,
    /// Gap between messages.
    pub g: u64,
    /// Gap per byte.
    pub big_g: u64,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its name.
    pub name: &'static str,
    /// Where its numbers are from.
    pub source: &'static str,
    /// Between hosts.
    pub network: LogGp,
    /// Between processes of a host.
    pub memory: LogGp,
    /// To combine a byte with another, in picoseconds.
    pub combine: u64,
    /// To copy a byte, in picoseconds.
    pub copy: u64,
}

/// Messages through Weft's shared memory (`docs/performance.md`), rounded.
const MEMORY: LogGp = LogGp {
    l: 100_000,
    o: 60_000,
    g: 60_000,
    big_g: 100,
};

/// A cluster of 2012 with QDR InfiniBand.
pub const INFINIBAND: Machine = Machine {
    name: "InfiniBand",
    source: "Tukey (Argonne National Laboratory, QDR InfiniBand, MVAPICH), measured by netgauge: `tests/conf/ng-mpi-tukey.dat` of the \
             simulator CODES. g, o and half a round trip less 2 o of messages of 8 bytes, G of those of 1 MiB",
    network: LogGp {
        l: 3_150_000,
        o: 1_110_000,
        g: 1_080_000,
        big_g: 498,
    },
    memory: MEMORY,
    combine: 100,
    copy: 50,
};

/// A machine of 2024 with Slingshot.
pub const SLINGSHOT: Machine = Machine {
    name: "Slingshot",
    source: "Alps (CSCS, Slingshot 11): the parameters with which ATLAHS (S. Shen and others, 2025) simulates it by LogGOPSim",
    network: LogGp {
        l: 3_700_000,
        o: 200_000,
        g: 5_000,
        big_g: 40,
    },
    memory: MEMORY,
    combine: 100,
    copy: 50,
};

/// When the last of `ranks` processes can know what one knew at the beginning, as each that knows it tells others as fast as it can: the
/// optimal broadcast tree of the LogP model (Karp and others, 1993). Backwards, it is the time in which one can hear of all.
fn broadcast(LogGp { l, o, g, .. }: LogGp, ranks: u32) -> u64 {
    // When processes could finish another send.
    let mut next = BinaryHeap::from([Reverse(l + 2 * o)]);
    let mut last = 0;
    for _ in 1..ranks {
        let Reverse(knows) = next.pop().expect("one more after each");
        last = knows;
        next.push(Reverse(knows + g.max(o)));
        next.push(Reverse(knows + l + 2 * o));
    }
    last
}

/// A time that no algorithm can beat, with one process on each host: that in which a process can have heard of all others, and that in
/// which the bytes that some process at least has to send or to receive pass its port (the bounds of E. Chan and others, 2007).
pub fn bound(machine: &Machine, call: &Call) -> u64 {
    let network = machine.network;
    let others = u64::from(call.ranks) - 1;
    if others == 0 {
        return 0;
    }
    let part = |bytes: u64| bytes / u64::from(call.ranks) * others;
    let (through_port, combined) = match call.operation {
        Operation::Barrier => (0, 0),
        Operation::Bcast => (call.bytes, 0),
        Operation::Gather | Operation::Scatter | Operation::Alltoall => (call.bytes * others, 0),
        Operation::Allgather => (part(call.bytes), 0),
        Operation::Reduce => (call.bytes, part(call.bytes)),
        Operation::Allreduce => (2 * part(call.bytes), part(call.bytes)),
        Operation::ReduceScatter => (part(call.bytes), part(call.bytes)),
    };
    // Combining goes on while other bytes come.
    let bytes = (through_port.saturating_sub(1) * network.big_g).max(combined * machine.combine);
    let bytes = network.l + 2 * network.o + bytes;
    bytes.max(broadcast(network, call.ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_is_as_fast_as_the_example_of_the_logp_paper() {
        // D. Culler and others, 1993, figure 3: P = 8, L = 6, g = 4, o = 2.
        let example = LogGp {
            l: 6,
            o: 2,
            g: 4,
            big_g: 0,
        };
        assert_eq!(broadcast(example, 8), 24);
        assert_eq!(broadcast(example, 2), 10);
        assert_eq!(broadcast(example, 1), 0);
    }
}
