//! Chapter 5: datatypes.
//!
//! - `construct`: making them
//! - `inquire`: what they are, and how many elements a status tells of
//! - `pack`: packing and unpacking

mod construct;
mod inquire;
mod pack;
