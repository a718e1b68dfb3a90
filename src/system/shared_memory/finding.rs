//! How processes find memory that one of them has made for all: a file whose first page holds a token.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::{Machine, Map, file, is_one, open};
use crate::base::random;

const PAGE: usize = 4096;

/// Where the other processes find the file. The memory that is shared begins behind its first page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    machine: Machine,
    pid: u32,
    descriptor: u32,
    token: u64,
}

impl Finding {
    /// The bytes of its encoded form.
    pub const BYTES: usize = 40;
    /// There is no file.
    pub const NONE: [u8; Self::BYTES] = [0; Self::BYTES];

    /// Makes a file with room for `bytes` bytes, more than none, of which none is allocated. It can be found as long as the file is
    /// open. The error contains the reason.
    pub fn make(bytes: usize) -> Result<(File, Finding), String> {
        let failed = |what: &'static str| move |error| format!("{what}: {error}");
        let machine = Machine::here()?;
        let token = random::number().map_err(|error| error.to_string())?;
        let file = file((PAGE + bytes) as u64).map_err(failed("no memory file can be made"))?;
        file.write_all_at(&token.to_le_bytes(), 0)
            .map_err(failed("no memory can be allocated for it"))?;
        let finding = Finding {
            machine,
            pid: std::process::id(),
            descriptor: file.as_raw_fd() as u32,
            token,
        };
        Ok((file, finding))
    }

    /// Opens the file and maps its memory, which has `bytes` bytes. The error contains the reason.
    pub fn join(self, bytes: usize) -> Result<Map, String> {
        if Machine::here()? != self.machine {
            return Err(
                "it is on another machine than the first process, or in another pid namespace".into(),
            );
        }
        let failed = |what: &'static str| move |error| format!("{what}: {error}");
        let file =
            open(self.pid, self.descriptor).map_err(failed("the first process's memory can't be opened"))?;
        let is_one =
            is_one(&file, (PAGE + bytes) as u64).map_err(failed("the first process's memory has no size"))?;
        let mut token = [0; 8];
        if !is_one || file.read_exact_at(&mut token, 0).is_err() || u64::from_le_bytes(token) != self.token {
            return Err("what the first process names is not the memory that it made".into());
        }
        Map::new(&file, PAGE, bytes).map_err(failed("the shared memory can't be mapped"))
    }

    /// As bytes.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = Self::NONE;
        bytes[..16].copy_from_slice(&self.machine.boot.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.machine.pids.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.pid.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.descriptor.to_le_bytes());
        bytes[32..].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    /// The reverse; `None` for [`Finding::NONE`].
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Finding> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        (*bytes != Self::NONE).then(|| Finding {
            machine: Machine {
                boot: u128::from(number(8)) << 64 | u128::from(number(0)),
                pids: number(16),
            },
            pid: number(24) as u32,
            descriptor: (number(24) >> 32) as u32,
            token: number(32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let finding = Finding {
            machine: Machine {
                boot: 0x1234_5678_9abc_def0_1111_2222_3333_4444,
                pids: 4_026_531_836,
            },
            pid: 4321,
            descriptor: 17,
            token: 0xfeed,
        };
        assert_eq!(Finding::decode(&finding.encode()), Some(finding));
        assert_eq!(Finding::decode(&Finding::NONE), None);
    }

    #[test]
    fn a_wrong_token_is_found_out() {
        let (file, finding) = Finding::make(100).expect("a file");
        let map = finding.join(100).expect("the file");
        drop(map);
        let token = finding.token + 1;
        for wrong in [
            Finding { token, ..finding },
            Finding {
                machine: Machine {
                    pids: 1,
                    ..finding.machine
                },
                ..finding
            },
        ] {
            assert!(wrong.join(100).is_err());
        }
        assert!(finding.join(101).is_err());
        drop(file);
    }
}
