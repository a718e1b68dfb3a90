//! Jobs that this one is connected with, as Weft's launcher is told of them: the lines `weft_link`, `weft_connected` and `weft_lost`.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFlags, PollTimeout};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::spawn::text_of;
use super::wire::Message;
use super::{Pmi1, io_error};
use crate::base::error::Result;
use crate::err;
use crate::identity::JobId;
use crate::system::bootstrap::Notice;

impl Pmi1 {
    /// Gives the launcher the socket of a link, with the line that says what it is.
    pub(super) fn pass_link(&mut self, job: JobId, socket: &OwnedFd) -> Result<()> {
        let line = format!("cmd=weft_link job={:016x}\n", job.0);
        let descriptors = [socket.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let sent = loop {
            let bytes = [IoSlice::new(line.as_bytes())];
            match sendmsg::<()>(self.fd, &bytes, &rights, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(sent) => break sent,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT, PollTimeout::NONE)?,
                Err(errno) => return Err(io_error(errno)),
            }
        };
        // The descriptor has gone with the first byte.
        self.write(&line[sent..])
    }

    pub(super) fn tell_connected(&mut self, job: JobId, on: bool) {
        // Where the launcher is gone, this process learns of that by itself.
        let _ = self.send(&format!(
            "cmd=weft_connected job={:016x} on={}\n",
            job.0,
            u8::from(on)
        ));
    }

    pub(super) fn read_lost(&mut self, line: &Message) -> Result<()> {
        let text = line.get("job")?;
        let job = u64::from_str_radix(text, 16).map_err(|_| {
            err!(
                Other,
                "the launcher's 'weft_lost' has job={text:.20}, which names no job"
            )
        })?;
        self.notices.push(Notice::Lost {
            job: JobId(job),
            why: text_of(line, "why")?,
        });
        Ok(())
    }
}
