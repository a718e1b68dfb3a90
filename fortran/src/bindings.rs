//! What the generator writes.

#![allow(
    clippy::all,
    non_snake_case,
    missing_docs,
    reason = "people read the generator"
)]
#![allow(
    dead_code,
    reason = "all of C is declared, also what Fortran needs under one of its two names"
)]

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::abi::*;
use crate::by_hand;
use crate::convert;
use crate::errors::On;
use crate::sections::{
    Buffer, Described, Descriptor, Native, Plan, Tool, Until, Way, character, pending, refuse,
};
use crate::variables::{detached, is_in_place};

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
