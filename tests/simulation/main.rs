//! The engine under the simulator: many ranks, many seeds. See `weft::sim`; a failure says how to replay it.

mod cancel;
mod death;
mod files;
mod garbage;
mod goodbye;
mod intercomm;
mod jobs;
mod late_sessions;
mod lifecycle;
mod matching;
mod one_sided;
mod partitioned;
mod point_to_point;
mod reordering;
mod starting;
mod tasks;
mod topologies;
mod windows;
