//! The pipe to rank 0's standard input.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::Agent;
use crate::wire::FromAgent;

/// The pipe, and bytes that are not in it yet.
pub struct InputPipe {
    into: Option<OwnedFd>,
    bytes: VecDeque<u8>,
    /// No more bytes come.
    ended: bool,
}

impl InputPipe {
    /// A pipe that does not block.
    pub fn new(into: OwnedFd) -> InputPipe {
        InputPipe {
            into: Some(into),
            bytes: VecDeque::new(),
            ended: false,
        }
    }
}

impl Agent {
    pub(super) fn put_input(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            input.bytes.extend(bytes);
        }
        self.write_input();
    }

    pub(super) fn end_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.ended = true;
        }
        self.write_input();
    }

    pub(super) fn write_input(&mut self) {
        let Some(input) = &mut self.input else { return };
        let Some(into) = &input.into else { return };
        let waited = !input.bytes.is_empty();
        let mut closed = false;
        while !input.bytes.is_empty() {
            let (front, _) = input.bytes.as_slices();
            match nix::unistd::write(into, front) {
                Ok(count) => drop(input.bytes.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    input.bytes.clear();
                    closed = true;
                }
            }
        }
        let waits = !input.bytes.is_empty();
        if let Some(into) = self.input.as_ref().and_then(|input| input.into.as_ref()) {
            self.watch_room(into, waits);
        }
        if closed {
            self.tell(FromAgent::InputClosed);
        } else if waited && !waits {
            self.tell(FromAgent::InputTaken);
        }
        if let Some(input) = &mut self.input
            && !waits
            && (closed || input.ended)
        {
            input.into = None;
        }
    }

    /// Rank 0 has ended.
    pub(super) fn close_input(&mut self) {
        if self.input.take().is_some() {
            self.tell(FromAgent::InputClosed);
        }
    }
}
