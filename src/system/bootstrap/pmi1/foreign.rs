//! What launchers other than Weft's are asked at the start, a line for each.

use super::Pmi1;
use crate::base::error::Result;
use crate::err;
use crate::system::locality::Layout;

impl Pmi1 {
    /// Whether the launcher is not Weft's.
    pub fn is_foreign(&self) -> bool {
        !self.weft
    }

    pub(super) fn ask_foreign_launcher(
        &mut self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let maxes = self.request("cmd=get_maxes\n", "maxes")?;
        self.keylen_max = maxes.number("keylen_max")?;
        self.vallen_max = maxes.number("vallen_max")?;
        self.kvsname = self
            .request("cmd=get_my_kvsname\n", "my_kvsname")?
            .get("kvsname")?
            .to_string();
        // Slurm says -1 for "unknown", as Hydra does of the universe.
        self.job.appnum = self
            .request("cmd=get_appnum\n", "appnum")?
            .number("appnum")
            .ok()
            .filter(|&appnum| appnum >= 0);
        self.job.universe_size = self
            .request("cmd=get_universe_size\n", "universe_size")?
            .number("size")
            .ok();
        let layout = match self.get_now("PMI_process_mapping")? {
            Some(mapping) => Layout::parse(&mapping),
            None => Err(err!(
                Other,
                "the launcher does not say which ranks share a machine"
            )),
        };
        self.job.layout = match layout {
            Ok(layout) => layout,
            Err(error) => {
                self.job.layout_unknown = Some(error.message.into_owned());
                self.exchange_machines()?
            }
        };
        self.job.memory_alloc_kinds = self.get_now("PMI_mpi_memory_alloc_kinds")?;
        self.ask_for_parent(environment)
    }
}
