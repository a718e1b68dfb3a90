//! Where the ranks are, if the launcher's mapping can't be read: each tells the others which machine it is on, by the launcher's
//! keys. It takes a request for each rank of the job, so a mapping is better.

use super::Pmi1;
use crate::base::error::Result;
use crate::system::locality::Layout;
use crate::system::shared_memory::Machine;

/// The key of what a rank says.
fn key(rank: u32) -> String {
    format!("weft-machine-{rank}")
}

/// What a rank says where it can't tell.
const UNKNOWN: &str = "unknown";

impl Pmi1 {
    /// Tells the others where this process is, and hears it of them. All ranks do so, or none, as they all read the same mapping.
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
