//! Hints about a file (MPI 5.0 section 14.2.8), as far as Weft uses them: all others are ignored. An info object of the
//! file contains those that are in use, and none of them changes while the file is open.
//!
//! - `filename`: the name with which the file was opened. It is only returned.
//! - `file_perm`: the permissions that the file gets if it is created, in octal (`0640`), without those that the process's mask takes
//!   away. The same on all processes.

use std::path::Path;

use super::Amode;
use crate::objects::info::Info;

/// The permissions of a new file.
pub const PERMISSIONS_KEY: &str = "file_perm";
const DEFAULT_PERMISSIONS: u32 = 0o666;
/// The name of the file.
const NAME_KEY: &str = "filename";
/// `MPI_MAX_INFO_VAL`: the room for a value, with its final zero.
const LONGEST_VALUE: usize = 1024;

/// The permissions of a file that is created, without those that the process's mask takes away: what the user asks for, if
/// that is valid.
pub fn permissions(asked: Option<&Info>) -> u32 {
    let asked = asked.and_then(|asked| asked.get(PERMISSIONS_KEY));
    asked
        .and_then(|asked| u32::from_str_radix(&asked, 8).ok())
        .filter(|&permissions| permissions <= 0o777)
        .unwrap_or(DEFAULT_PERMISSIONS)
}

/// The hints of a file that has been opened. A file that could not have been created has none of these permissions.
pub fn of_open(name: &Path, amode: Amode, permissions: u32) -> Info {
    let hints = Info::default();
    if let Some(name) = name.to_str().filter(|name| name.len() < LONGEST_VALUE) {
        hints.set(NAME_KEY, name);
    }
    if amode.has(Amode::CREATE) {
        hints.set(PERMISSIONS_KEY, format!("{permissions:04o}"));
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal() {
        let of = |value: &str| {
            permissions(Some(&Info::of([(
                PERMISSIONS_KEY.to_string(),
                value.to_string(),
            )])))
        };
        assert_eq!(of("0640"), 0o640);
        assert_eq!(of("7"), 7);
        for wrong in ["", "rw-r--r--", "888", "-1", "1777", "0x1ff", "777777777777"] {
            assert_eq!(of(wrong), DEFAULT_PERMISSIONS, "{wrong}");
        }
        assert_eq!(permissions(None), DEFAULT_PERMISSIONS);
    }

    #[test]
    fn what_has_no_room_or_no_meaning_is_not_told() {
        let of = |name: &str, bits| {
            let hints = of_open(Path::new(name), Amode::new(bits).unwrap(), 0o7);
            (hints.get(NAME_KEY), hints.get(PERMISSIONS_KEY))
        };
        let new = Amode::CREATE | Amode::WRONLY;
        let long = "n".repeat(LONGEST_VALUE);
        let fits = &long[1..];
        assert_eq!(of(&long, new), (None, Some("0007".into())));
        assert_eq!(of(fits, new), (Some(fits.into()), Some("0007".into())));
        assert_eq!(of("old", Amode::WRONLY), (Some("old".into()), None));
    }
}
