//! Which rank is on which machine, if the launcher's mapping can't be read: each rank publishes its machine through the
//! launcher's keys. This takes a request for each rank of the job, so a mapping is better.

use super::Pmi1;
use crate::base::error::Result;
use crate::system::locality::Layout;
use crate::system::shared_memory::Machine;

/// The key of a rank's machine.
fn key(rank: u32) -> String {
    format!("weft-machine-{rank}")
}

/// The value of a rank that does not know its machine.
const UNKNOWN: &str = "unknown";

impl Pmi1 {
    /// Publishes this process's machine, and reads that of the others. All ranks do so, or none, as they all read the same mapping.
    pub(super) fn exchange_machines(&mut self) -> Result<Layout> {
        let here = match Machine::here() {
            Ok(machine) => format!("{:x}-{:x}", machine.boot, machine.pids),
            Err(_) => UNKNOWN.into(),
        };
        let put = format!(
            "cmd=put kvsname={} key={} value={here}",
            self.kvsname,
            key(self.job.rank)
        );
        self.tell(&put, "put_result")?;
        self.request("cmd=barrier_in\n", "barrier_out")?;
        let mut machines = Vec::with_capacity(self.job.size as usize);
        for rank in 0..self.job.size {
            let said = self.get_now(&key(rank))?;
            machines.push(said.filter(|machine| machine != UNKNOWN));
        }
        Ok(Layout::of_machines(&machines))
    }
}
