//! What people call communicators, for reports.

use rustc_hash::FxHashMap;

use super::{Communicator, PARTITIONED};
use crate::engine::describe::Called;
use crate::engine::mismatch::Step;

/// The names of communicators by their context ids, as they were when somebody looked.
#[derive(Default)]
pub struct Names(FxHashMap<u64, String>);

impl FromIterator<(u64, String)> for Names {
    fn from_iter<I: IntoIterator<Item = (u64, String)>>(names: I) -> Names {
        Names(names.into_iter().collect())
    }
}

impl Names {
    /// What people call the messages of a context and a tag.
    pub fn called(&self, context: u64, tag: Option<i32>) -> Called {
        if Communicator::is_finalizing(context) {
            return Called {
                name: "MPI_Finalize".into(),
                own: true,
            };
        }
        let id = Communicator::context_id(context);
        let name = match self.0.get(&id) {
            Some(name) => name.clone(),
            None => "a communicator that is gone or not made yet".into(),
        };
        if let Some(step) = tag
            .filter(|&tag| Communicator::of_collective(context, tag).is_some())
            .and_then(Step::of_tag)
        {
            return Called {
                name: format!("{} on {name}", step.words()),
                own: true,
            };
        }
        match context == id {
            true => Called { name, own: false },
            false if context & PARTITIONED != 0 => Called {
                name: format!("partitioned communication on {name}"),
                own: true,
            },
            false => Called {
                name: format!("the making of an object on {name}"),
                own: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mismatch::Operation;

    #[test]
    fn contexts_have_the_names_of_communicators() {
        let names: Names = [(2, "MPI_COMM_WORLD".to_string()), (0x12, "halo".into())]
            .into_iter()
            .collect();
        let called = |context, tag| {
            let called = names.called(context, Some(tag));
            (called.name, called.own)
        };
        assert_eq!(called(2, 7), ("MPI_COMM_WORLD".into(), false));
        assert_eq!(called(0x12, 0), ("halo".into(), false));
        let steps = crate::engine::mismatch::Begun::default();
        let barrier = steps.next(const { Operation::named("MPI_Barrier") }, false).tag();
        assert_eq!(called(0x13, barrier), ("MPI_Barrier on halo".into(), true));
        assert_eq!(called(7, 0), ("MPI_Finalize".into(), true));
        let gone = called(0x44, 0).0;
        assert!(gone.contains("gone"), "{gone}");
        let (name, own) = called(0x12 | PARTITIONED, 0);
        assert!(
            name.contains("partitioned") && name.contains("halo") && own,
            "{name}"
        );
    }
}
