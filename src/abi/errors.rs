//! Error codes: what `MPI_Error_class` and `MPI_Error_string` make of them.
//!
//! A code is its class in the low six bits and, above them, the number of a place in a ring of the latest messages
//! (0: none). So a code tells what exactly was wrong for as long as no more than [`PLACES`] others came after it,
//! and a code of an older error still has its class. Classes and codes that the user adds (`added`) start above all of
//! these.

use std::ffi::c_int;

use parking_lot::Mutex;

use super::added;
use super::constants::MPI_ERR_LASTCODE;
use crate::error::Error;

const CLASS_BITS: u32 = 6;
const PLACES: usize = 127;
/// The largest code of the library itself.
const LAST_CODE: c_int = ((PLACES as c_int + 1) << CLASS_BITS) - 1;

const _: () = assert!(LAST_CODE <= MPI_ERR_LASTCODE);

struct Ring {
    next: usize,
    messages: Vec<(i32, String)>,
}

static RING: Mutex<Ring> = Mutex::new(Ring {
    next: 0,
    messages: Vec::new(),
});

/// A code for an error of the procedure `name`. A code that a callback of the user's returned stays what it is, unless it
/// is no more than a class: then there is a code that says more.
#[cold]
pub fn code_of(name: &str, error: &Error) -> c_int {
    let class = match error.code {
        Some(code) if !is_class(code) => return code,
        Some(class) => class,
        None => error.class as c_int,
    };
    let mut ring = RING.lock();
    let place = ring.next;
    ring.next = (place + 1) % PLACES;
    let text = (class, format!("{name}: {error}"));
    match ring.messages.get_mut(place) {
        Some(old) => *old = text,
        None => ring.messages.push(text),
    }
    class | ((place as c_int) + 1) << CLASS_BITS
}

/// Whether a number is a class of the standard.
pub fn is_class(number: c_int) -> bool {
    (0..CLASSES.len() as c_int).contains(&number)
}

/// The class of a code; `None` for any other number.
pub fn class_of(code: c_int) -> Option<c_int> {
    if !(0..=LAST_CODE).contains(&code) {
        return added::class_of(code);
    }
    let class = code & ((1 << CLASS_BITS) - 1);
    is_class(class).then_some(class)
}

/// What a code means in words.
pub fn text_of(code: c_int) -> Option<String> {
    if code > LAST_CODE {
        return added::text_of(code);
    }
    let class = class_of(code)?;
    let place = (code >> CLASS_BITS) as usize;
    if place > 0
        && let Some((known, text)) = RING.lock().messages.get(place - 1)
        && *known == class
    {
        return Some(text.clone());
    }
    let (name, text) = CLASSES[class as usize];
    Some(format!("{name}: {text}"))
}

/// The exit status of a process that aborts with a code: its low 8 bits, as of a status that `main` returns. Only the code
/// 0 itself looks like success.
pub fn exit_status(code: c_int) -> c_int {
    match code & 0xff {
        0 if code != 0 => 1,
        status => status,
    }
}

/// The name of a class: `MPI_ERR_RANK`.
pub fn class_name(class: c_int) -> &'static str {
    CLASSES
        .get(class as usize)
        .map_or("a class of the user's", |(name, _)| name)
}

/// Every class of the standard (MPI 5.0 section 9.4), by number.
const CLASSES: &[(&str, &str)] = &[
    ("MPI_SUCCESS", "no error"),
    ("MPI_ERR_BUFFER", "invalid buffer pointer"),
    ("MPI_ERR_COUNT", "invalid count argument"),
    ("MPI_ERR_TYPE", "invalid datatype argument"),
    ("MPI_ERR_TAG", "invalid tag argument"),
    ("MPI_ERR_COMM", "invalid communicator"),
    ("MPI_ERR_RANK", "invalid rank"),
    ("MPI_ERR_REQUEST", "invalid request"),
    ("MPI_ERR_ROOT", "invalid root"),
    ("MPI_ERR_GROUP", "invalid group"),
    ("MPI_ERR_OP", "invalid operation"),
    ("MPI_ERR_TOPOLOGY", "invalid topology"),
    ("MPI_ERR_DIMS", "invalid dimension argument"),
    ("MPI_ERR_ARG", "invalid argument of some other kind"),
    ("MPI_ERR_UNKNOWN", "unknown error"),
    ("MPI_ERR_TRUNCATE", "message truncated on receive"),
    ("MPI_ERR_OTHER", "known error not in this list"),
    ("MPI_ERR_INTERN", "internal error of the library"),
    ("MPI_ERR_PENDING", "pending request"),
    ("MPI_ERR_IN_STATUS", "error code is in the status"),
    ("MPI_ERR_ACCESS", "permission denied"),
    ("MPI_ERR_AMODE", "invalid access mode of a file"),
    ("MPI_ERR_ASSERT", "invalid assert argument"),
    ("MPI_ERR_BAD_FILE", "invalid file name"),
    ("MPI_ERR_BASE", "invalid base argument"),
    (
        "MPI_ERR_CONVERSION",
        "an error occurred in a data conversion function of the user's",
    ),
    ("MPI_ERR_DISP", "invalid displacement argument"),
    (
        "MPI_ERR_DUP_DATAREP",
        "a data representation of this name is already defined",
    ),
    ("MPI_ERR_FILE_EXISTS", "the file exists"),
    ("MPI_ERR_FILE_IN_USE", "the file is open in some process"),
    ("MPI_ERR_FILE", "invalid file handle"),
    ("MPI_ERR_INFO_KEY", "the info key is too long"),
    ("MPI_ERR_INFO_NOKEY", "the info key is not defined"),
    ("MPI_ERR_INFO_VALUE", "the info value is too long"),
    ("MPI_ERR_INFO", "invalid info argument"),
    ("MPI_ERR_IO", "input or output error"),
    ("MPI_ERR_KEYVAL", "invalid attribute key"),
    ("MPI_ERR_LOCKTYPE", "invalid lock type"),
    ("MPI_ERR_NAME", "the service name is not published"),
    ("MPI_ERR_NO_MEM", "memory is exhausted"),
    (
        "MPI_ERR_NOT_SAME",
        "a collective argument is not the same on all processes",
    ),
    ("MPI_ERR_NO_SPACE", "not enough space"),
    ("MPI_ERR_NO_SUCH_FILE", "the file does not exist"),
    ("MPI_ERR_PORT", "invalid port name"),
    ("MPI_ERR_QUOTA", "quota exceeded"),
    ("MPI_ERR_READ_ONLY", "read-only file or file system"),
    ("MPI_ERR_RMA_ATTACH", "memory cannot be attached"),
    ("MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"),
    ("MPI_ERR_RMA_RANGE", "target memory is not part of the window"),
    ("MPI_ERR_RMA_SHARED", "memory cannot be shared"),
    ("MPI_ERR_RMA_SYNC", "wrong synchronization of one-sided calls"),
    ("MPI_ERR_SERVICE", "invalid service name"),
    ("MPI_ERR_SIZE", "invalid size argument"),
    ("MPI_ERR_SPAWN", "error in spawning processes"),
    ("MPI_ERR_UNSUPPORTED_DATAREP", "unsupported data representation"),
    ("MPI_ERR_UNSUPPORTED_OPERATION", "unsupported operation"),
    ("MPI_ERR_WIN", "invalid window"),
    ("MPI_ERR_RMA_FLAVOR", "wrong flavor of window"),
    ("MPI_ERR_PROC_ABORTED", "a process has aborted"),
    ("MPI_ERR_VALUE_TOO_LARGE", "the value is too large to be stored"),
    ("MPI_ERR_SESSION", "invalid session"),
    ("MPI_ERR_ERRHANDLER", "invalid error handler"),
    ("MPI_ERR_ABI", "invalid or unsupported ABI"),
];

#[cfg(test)]
mod tests {
    use super::super::constants;
    use super::*;
    use crate::error::Class;

    #[test]
    fn a_code_keeps_its_class_and_its_words() {
        let code = code_of("MPI_Send", &crate::err!(Rank, "destination 7 is too far"));
        assert_eq!(class_of(code), Some(Class::Rank as i32));
        assert_eq!(
            text_of(code).as_deref(),
            Some("MPI_Send: destination 7 is too far")
        );
        for _ in 0..=PLACES {
            assert!(code_of("MPI_Recv", &crate::err!(Tag, "x")) <= LAST_CODE);
        }
        assert_eq!(class_of(code), Some(Class::Rank as i32));
        assert!(text_of(code).unwrap().starts_with("MPI_ERR_RANK"));
        assert!(class_of(-1).is_none() && class_of(LAST_CODE + 1).is_none());
    }

    #[test]
    fn a_class_from_a_callback_becomes_a_code_that_says_more() {
        let of = |code| Error {
            code: Some(code),
            ..crate::err!(Other, "the callback returned {code}")
        };
        let code = code_of("MPI_Comm_free", &of(Class::Rank as c_int));
        assert_eq!(class_of(code), Some(Class::Rank as c_int));
        assert_eq!(
            text_of(code).as_deref(),
            Some("MPI_Comm_free: the callback returned 6")
        );
        assert_eq!(code_of("MPI_Comm_free", &of(1234)), 1234);
    }

    #[test]
    fn names_are_the_standards() {
        for constant in constants::ALL
            .iter()
            .filter(|constant| constant.name.starts_with("MPI_ERR_"))
        {
            if !constant.name.contains("HANDLER_") && !constant.name.ends_with("LASTCODE") {
                assert_eq!(class_name(constant.value as c_int), constant.name);
            }
        }
    }
}
