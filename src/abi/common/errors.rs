//! Error codes: what `MPI_Error_class` and `MPI_Error_string` return for them.
//!
//! A code is its class in the low six bits and, above them, the number of an entry in a ring of the latest messages (0:
//! none). So a code identifies the exact error for as long as no more than [`PLACES`] others came after it, and a code of
//! an older error still has its class. Classes and codes that the user adds (`added`) start above all of these. The codes
//! of tool calls (`MPI_T_ERR_…`) are classes too, and lie among these codes: one number is left out for them (section
//! 15.3.10 requires that they are equal to no other code).

use std::ffi::c_int;

use parking_lot::Mutex;

use crate::abi::common::constants::{MPI_ERR_LASTCODE, MPI_T_ERR_CANNOT_INIT, MPI_T_ERR_PVAR_NO_ATOMIC};
use crate::abi::environment::added;
use crate::base::error::Error;

const CLASS_BITS: u32 = 6;
const PLACES: usize = 126;
/// The number of the entry that would have the codes of tool calls.
const TOOL_PLACE: c_int = MPI_T_ERR_CANNOT_INIT >> CLASS_BITS;
/// The largest code of the library itself.
const LAST_CODE: c_int = ((PLACES as c_int + 2) << CLASS_BITS) - 1;

const _: () = assert!(LAST_CODE <= MPI_ERR_LASTCODE);
const _: () = assert!(TOOL_PLACE == MPI_T_ERR_PVAR_NO_ATOMIC >> CLASS_BITS);

struct Ring {
    next: usize,
    messages: Vec<(i32, String)>,
}

static RING: Mutex<Ring> = Mutex::new(Ring {
    next: 0,
    messages: Vec::new(),
});

/// A code for an error of the procedure `name`. A code that a callback of the user's returned is kept, unless it
/// is only a class: then a code with the message is made.
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
    class | number_of(place) << CLASS_BITS
}

/// The number of an entry in codes.
fn number_of(place: usize) -> c_int {
    let number = place as c_int + 1;
    number + c_int::from(number >= TOOL_PLACE)
}

/// The entry of a number in codes.
fn place_of(number: c_int) -> Option<usize> {
    match number {
        0 | TOOL_PLACE => None,
        _ => usize::try_from(number - 1 - c_int::from(number > TOOL_PLACE)).ok(),
    }
}

/// Whether a number is a class of the standard.
pub fn is_class(number: c_int) -> bool {
    (0..CLASSES.len() as c_int).contains(&number) || tool_class(number).is_some()
}

/// Name and meaning of a class of tool calls.
fn tool_class(number: c_int) -> Option<(&'static str, &'static str)> {
    let place = number.checked_sub(MPI_T_ERR_CANNOT_INIT)?;
    TOOL_CLASSES.get(usize::try_from(place).ok()?).copied()
}

/// The class of a code; `None` for any other number.
pub fn class_of(code: c_int) -> Option<c_int> {
    if !(0..=LAST_CODE).contains(&code) {
        return added::class_of(code);
    }
    if tool_class(code).is_some() {
        return Some(code);
    }
    let class = code & ((1 << CLASS_BITS) - 1);
    (is_class(class) && code >> CLASS_BITS != TOOL_PLACE).then_some(class)
}

/// The text of a code.
pub fn text_of(code: c_int) -> Option<String> {
    if code > LAST_CODE {
        return added::text_of(code);
    }
    let class = class_of(code)?;
    if let Some(place) = place_of(code >> CLASS_BITS)
        && let Some((known, text)) = RING.lock().messages.get(place)
        && *known == class
    {
        return Some(text.clone());
    }
    let (name, text) = tool_class(class).unwrap_or_else(|| CLASSES[class as usize]);
    Some(format!("{name}: {text}"))
}

/// The name of a class: `MPI_ERR_RANK`.
pub fn class_name(class: c_int) -> &'static str {
    let found = CLASSES.get(class as usize).copied().or_else(|| tool_class(class));
    found.map_or("a class of the user's", |(name, _)| name)
}

/// Every class of tool calls (MPI 5.0 section 15.3.10), from `MPI_T_ERR_CANNOT_INIT` on.
const TOOL_CLASSES: &[(&str, &str)] = &[
    (
        "MPI_T_ERR_CANNOT_INIT",
        "the tool interface can't be initialized now",
    ),
    ("MPI_T_ERR_NOT_ACCESSIBLE", "this is not accessible to tools"),
    (
        "MPI_T_ERR_NOT_INITIALIZED",
        "the tool interface is not initialized",
    ),
    ("MPI_T_ERR_NOT_SUPPORTED", "this is not supported"),
    ("MPI_T_ERR_MEMORY", "memory is exhausted"),
    ("MPI_T_ERR_INVALID", "invalid parameter"),
    ("MPI_T_ERR_INVALID_INDEX", "invalid index"),
    ("MPI_T_ERR_INVALID_ITEM", "invalid index of an item"),
    (
        "MPI_T_ERR_INVALID_SESSION",
        "invalid session of performance variables",
    ),
    ("MPI_T_ERR_INVALID_HANDLE", "invalid handle"),
    ("MPI_T_ERR_INVALID_NAME", "invalid name"),
    ("MPI_T_ERR_OUT_OF_HANDLES", "there are no more handles"),
    (
        "MPI_T_ERR_OUT_OF_SESSIONS",
        "there are no more sessions of performance variables",
    ),
    (
        "MPI_T_ERR_CVAR_SET_NOT_NOW",
        "the control variable can't be set now",
    ),
    (
        "MPI_T_ERR_CVAR_SET_NEVER",
        "the control variable can't be set before the end",
    ),
    (
        "MPI_T_ERR_PVAR_NO_WRITE",
        "the performance variable can't be written",
    ),
    (
        "MPI_T_ERR_PVAR_NO_STARTSTOP",
        "the performance variable can't be started and stopped",
    ),
    (
        "MPI_T_ERR_PVAR_NO_ATOMIC",
        "the performance variable can't be read and reset at once",
    ),
];

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
    use crate::base::error::Class;

    /// Only a limited number of messages is kept, in one ring for the whole process: tests that are threads of one process take turns.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn a_code_keeps_its_class_and_its_words() {
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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

    /// Whatever entry its message has, no code is one of a tool call.
    #[test]
    fn codes_of_tool_calls_are_nobody_elses() {
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let tools = MPI_T_ERR_CANNOT_INIT..=MPI_T_ERR_PVAR_NO_ATOMIC;
        for nth in 0..2 * PLACES {
            for class in [Class::Buffer, Class::ProcAborted, Class::NoSuchFile] {
                let error = crate::err!(Other, "number {nth}");
                let code = code_of("MPI_Send", &Error { class, ..error });
                assert!(code <= LAST_CODE && code >> CLASS_BITS != TOOL_PLACE, "{code}");
                assert_eq!(class_of(code), Some(class as c_int));
            }
        }
        for code in tools {
            assert_eq!(class_of(code), Some(code));
            assert!(text_of(code).is_some_and(|text| text.starts_with("MPI_T_ERR_")));
        }
        for number in [MPI_T_ERR_PVAR_NO_ATOMIC + 1, c_int::MIN, c_int::MAX] {
            assert!(class_of(number).is_none() && !is_class(number), "{number}");
        }
        assert_eq!(class_of(MPI_T_ERR_CANNOT_INIT - 1), None);
    }

    #[test]
    fn names_are_the_standards() {
        for constant in constants::ALL.iter().filter(|constant| {
            constant.name.starts_with("MPI_ERR_") || constant.name.starts_with("MPI_T_ERR_")
        }) {
            if !constant.name.contains("HANDLER_") && !constant.name.ends_with("LASTCODE") {
                assert_eq!(class_name(constant.value as c_int), constant.name);
            }
        }
    }
}
