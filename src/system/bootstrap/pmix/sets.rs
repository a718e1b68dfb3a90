//! The process sets that the launcher has made (`prterun --pset NAME`).

use std::ptr;

use super::Pmix;
use super::sys;
use super::values::{self, Said};
use crate::base::error::Result;
use crate::system::bootstrap::process_sets::ProcessSet;

impl Pmix {
    /// Those whose members are all of this job of `size` processes. Slurm's server says at once that it knows none.
    pub(super) fn process_sets(&self, namespace: &str, size: u32) -> Result<Vec<ProcessSet>> {
        let names: Vec<String> = match self.query("pmix.qry.psets", None)? {
            // PRRTE 3 (Open MPI 5), as the header has it.
            Some(Said::Text(names)) => names.split(',').map(str::to_string).collect(),
            Some(Said::Texts(names)) => names,
            _ => return Ok(Vec::new()),
        };
        let mut sets = Vec::new();
        for name in names {
            let Some(Said::Processes(members)) = self.query("pmix.qry.pmems", Some(&name))? else {
                continue;
            };
            let own = |(space, rank): (String, u32)| (space == namespace && rank < size).then_some(rank);
            let ranks: Option<Vec<u32>> = members.into_iter().map(own).collect();
            sets.extend(ranks.and_then(|ranks| ProcessSet::of(&name, ranks)));
        }
        Ok(sets)
    }

    /// What the server says of a process set, or of all; `None`: nothing.
    fn query(&self, key: &str, set: Option<&str>) -> Result<Option<Said>> {
        let key = values::text(key)?;
        let set = set.map(values::text).transpose()?;
        let mut keys = [key.as_ptr().cast_mut(), ptr::null_mut()];
        let mut of = set.as_ref().map(|name| values::of_text("pmix.pset.nm", name));
        let mut query = sys::Query {
            keys: keys.as_mut_ptr(),
            qualifier_count: of.iter().count(),
            qualifiers: of.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
        };
        let (mut infos, mut count) = (ptr::null_mut(), 0);
        // SAFETY: one query of one key and of an attribute or none, which live until the call returns; room for a pointer and a number.
        let status = unsafe { (self.library.PMIx_Query_info)(&mut query, 1, &mut infos, &mut count) };
        if status != sys::SUCCESS {
            return Ok(None);
        }
        // SAFETY: the library has allocated that many for the caller.
        Ok(unsafe { values::take_infos(infos, count) }.into_iter().next())
    }
}
