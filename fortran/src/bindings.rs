//! What the generator writes.

#![allow(
    clippy::all,
    non_snake_case,
    missing_docs,
    reason = "the generator does not care"
)]

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::abi::*;
use crate::by_hand;
use crate::convert;
use crate::sections::{Buffer, Described, Descriptor, Native, On, Plan, Tool, Until, Way, character, refuse};

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
