//! Chapter 5: datatypes.
//!
//! - `construct`: making them
//! - `inquire`: what they are, and how many elements a status counts
//! - `pack`: packing and unpacking
//!
//! What does not belong here: layouts and copying (`data::datatype`).

mod construct;
mod inquire;
mod pack;
