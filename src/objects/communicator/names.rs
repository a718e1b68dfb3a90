//! Names of communicators for people, in reports.

use rustc_hash::FxHashMap;

use crate::engine::describe::Called;
use crate::engine::mismatch::Step;
use crate::identity::Context;

/// The names of communicators by their context ids, as they were when this was made.
#[derive(Default)]
pub struct Names(FxHashMap<Context, String>);

impl FromIterator<(Context, String)> for Names {
    fn from_iter<I: IntoIterator<Item = (Context, String)>>(names: I) -> Names {
        Names(names.into_iter().collect())
    }
}

impl Names {
    /// The name for people of the messages of a context and a tag.
    pub fn called(&self, context: Context, tag: Option<i32>) -> Called {
        if context.is_finalizing() {
            return Called {
                name: "MPI_Finalize".into(),
                own: true,
            };
        }
        let id = context.communicator();
        let name = match self.0.get(&id) {
            Some(name) => name.clone(),
            None => "a communicator that is gone or not made yet".into(),
        };
        if let Some(step) = tag.filter(|_| context.is_collective()).and_then(Step::of_tag) {
            return Called {
                name: format!("{} on {name}", step.words()),
                own: true,
            };
        }
        match context == id {
            true => Called { name, own: false },
            false if context.is_partitioned() => Called {
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
    use crate::engine::mismatch::{Kind, Operation};

    #[test]
    fn contexts_have_the_names_of_communicators() {
        let world = Context::WORLD;
        let [halo, gone] = [0x12, 0x44].map(Context::of_bits);
        let names: Names = [(world, "MPI_COMM_WORLD".to_string()), (halo, "halo".into())]
            .into_iter()
            .collect();
        let called = |context, tag| {
            let called = names.called(context, Some(tag));
            (called.name, called.own)
        };
        assert_eq!(called(world, 7), ("MPI_COMM_WORLD".into(), false));
        assert_eq!(called(halo, 0), ("halo".into(), false));
        let steps = crate::engine::mismatch::Begun::default();
        let barrier = steps
            .next(const { Operation::named("MPI_Barrier") }, Kind::Blocking)
            .tag();
        assert_eq!(
            called(halo.collective(), barrier),
            ("MPI_Barrier on halo".into(), true)
        );
        assert_eq!(
            called(Context::FINALIZE.collective(), 0),
            ("MPI_Finalize".into(), true)
        );
        let gone = called(gone, 0).0;
        assert!(gone.contains("gone"), "{gone}");
        let (name, own) = called(halo.partitioned_offers(), 0);
        assert!(
            name.contains("partitioned") && name.contains("halo") && own,
            "{name}"
        );
    }
}
