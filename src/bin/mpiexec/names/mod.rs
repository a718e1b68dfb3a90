//! Names of services, as the head of a job keeps them for it and for the jobs that it has spawned. [`service`]: for several jobs.

pub mod service;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use weft::tools::pmi1::names::SERVICE_MAX;

/// The most names.
const NAMES_MAX: usize = 65_536;
/// The longest port (bytes).
const PORT_MAX: usize = 4096;

/// What a job wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Keep this port under this name.
    Publish { service: String, port: String },
    /// Forget it.
    Unpublish { service: String },
    /// The port of this name.
    LookUp { service: String },
    /// The job has ended: forget all of its names.
    Forget,
}

/// What a rank asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Publish,
    Unpublish,
    LookUp,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Found {
        port: String,
    },
    /// There is no such name.
    Unknown,
    /// Why not.
    Refused(String),
}

/// The names, each with its port and the job that has published it.
#[derive(Default)]
pub struct Table(HashMap<String, (String, String)>);

impl Table {
    /// Does what the job `owner` wants.
    pub fn handle(&mut self, owner: &str, request: Request) -> Answer {
        let refused = |why: &str| Answer::Refused(why.to_string());
        match request {
            Request::Publish { service, port } => {
                if service.len() > SERVICE_MAX || port.len() > PORT_MAX {
                    return refused("the name or the port is too long");
                }
                if self.0.contains_key(&service) {
                    return refused("it is published already");
                }
                if self.0.len() >= NAMES_MAX {
                    return refused("too many names are published");
                }
                self.0.insert(service, (port, owner.to_string()));
                Answer::Done
            }
            Request::Unpublish { service } => match self.0.get(&service) {
                None => refused("it is not published"),
                Some((_, publisher)) if publisher != owner => refused("another job has published it"),
                Some(_) => {
                    self.0.remove(&service);
                    Answer::Done
                }
            },
            Request::LookUp { service } => match self.0.get(&service) {
                Some((port, _)) => Answer::Found { port: port.clone() },
                None => Answer::Unknown,
            },
            Request::Forget => {
                self.0.retain(|_, (_, publisher)| publisher != owner);
                Answer::Done
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_the_job_that_published_it() {
        let mut table = Table::default();
        let publish = |service: &str, port: &str| Request::Publish {
            service: service.into(),
            port: port.into(),
        };
        let unpublish = |service: &str| Request::Unpublish {
            service: service.into(),
        };
        let look_up = |service: &str| Request::LookUp {
            service: service.into(),
        };
        let found = |port: &str| Answer::Found { port: port.into() };
        let is_refused = |answer: Answer| matches!(answer, Answer::Refused(_));
        assert_eq!(table.handle("a", publish("x y", "1")), Answer::Done);
        assert!(is_refused(table.handle("a", publish("x y", "2"))));
        assert!(is_refused(table.handle("b", publish("x y", "2"))));
        assert!(is_refused(table.handle("b", unpublish("x y"))));
        assert_eq!(table.handle("b", look_up("x y")), found("1"));
        assert_eq!(table.handle("b", publish("z", "3")), Answer::Done);
        assert_eq!(table.handle("a", Request::Forget), Answer::Done);
        assert_eq!(table.handle("b", look_up("x y")), Answer::Unknown);
        assert_eq!(table.handle("a", look_up("z")), found("3"));
        assert_eq!(table.handle("b", unpublish("z")), Answer::Done);
        assert!(is_refused(table.handle("b", unpublish("z"))));
        assert!(is_refused(
            table.handle("a", publish(&"x".repeat(SERVICE_MAX + 1), "1"))
        ));
        assert!(is_refused(
            table.handle("a", publish("x", &"1".repeat(PORT_MAX + 1)))
        ));
    }
}
