//! Which hosts collective operations distinguish. All processes of a job have to see the same ones, or they choose different algorithms:
//! so cards have a digest of them, and a peer that sees others is lost.

use crate::base::settings::Settings;
use crate::identity::fnv;
use crate::system::bootstrap::Job;

/// Whether there are hosts to distinguish: several of them, real or pretended, unless the setting `two_level` is off.
pub fn distinguished(job: &Job, settings: &Settings) -> bool {
    settings.two_level && !(job.local_only && settings.fake_nodes <= 1)
}

/// The same where each rank is on the same node, in whatever words the launcher says so.
pub(super) fn digest(job: &Job, settings: &Settings) -> u32 {
    if !distinguished(job, settings) {
        return 0;
    }
    let node = |rank| job.layout.pretended_node_of(rank, settings.fake_nodes);
    fnv((0..job.size).flat_map(|rank| node(rank).to_le_bytes())) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::bootstrap::{Bootstrap, singleton::Singleton};
    use crate::system::locality::Layout;

    fn of(layout: &str, changed: &[(&str, &str)]) -> u32 {
        let layout = Layout::parse(layout).expect("a layout");
        let job = Job {
            size: 4,
            local_only: layout.locals_of(0, 4).count == 4,
            layout,
            ..Singleton::new().job().clone()
        };
        let value = |name: &str| {
            let found = changed.iter().find(|(changed, _)| *changed == name);
            found.map(|(_, value)| value.to_string())
        };
        digest(&job, &Settings::read(value).expect("good settings"))
    }

    #[test]
    fn only_the_same_hosts_have_the_same_digest() {
        let two = of("(vector,(0,2,2))", &[]);
        assert_eq!(two, of("(vector,(0,2,2))", &[("WEFT_FAKE_NODES", "1")]));
        assert_eq!(two, of("(vector,0,0,(1,1,2))", &[]), "other words for it");
        let one = of("(vector,(0,1,4))", &[]);
        // Neither makes a difference on one host.
        assert_eq!(one, of("(vector,(0,1,4))", &[("WEFT_TWO_LEVEL", "0")]));
        let others = [
            one,
            of("(vector,(0,2,1))", &[]),
            of("(vector,(0,2,2))", &[("WEFT_FAKE_NODES", "2")]),
            of("(vector,(0,2,2))", &[("WEFT_TWO_LEVEL", "0")]),
            of("(vector,(0,1,4))", &[("WEFT_FAKE_NODES", "2")]),
        ];
        assert!(others.iter().all(|&other| other != two), "{two} {others:?}");
        assert!(others[1..3].iter().chain(&others[4..]).all(|&other| other != one));
    }
}
