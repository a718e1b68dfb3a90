//! The only place for calls into libfabric: it turns return values into results that name the call.

use std::ffi::CStr;
use std::fmt;

use weft_libfabric_sys as sys;

use crate::base::error::{Class, Error};

/// A libfabric call that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The C function, such as `fi_domain`.
    pub call: &'static str,
    /// libfabric's error number, positive.
    pub code: i32,
    /// What the provider adds to it; may be empty.
    pub detail: String,
}

impl CallError {
    /// Whether the error says that the peer can't be reached (any more).
    pub fn is_unreachable(&self) -> bool {
        const UNREACHABLE: &[i32] = &[
            libc::ECONNREFUSED,
            libc::ECONNRESET,
            libc::ECONNABORTED,
            libc::ENOTCONN,
            libc::ESHUTDOWN,
            libc::EPIPE,
            libc::EHOSTDOWN,
            libc::EHOSTUNREACH,
            libc::ENETDOWN,
            libc::ENETUNREACH,
            libc::ETIMEDOUT,
        ];
        UNREACHABLE.contains(&self.code)
    }
}

/// libfabric's text for an error number (positive or negative).
#[doc(alias = "fi_strerror")]
pub fn error_text(code: i32) -> String {
    let Ok(library) = sys::library() else {
        return format!("error {code}");
    };
    // SAFETY: fi_strerror takes any number and returns a static or thread-local string; it is copied at once.
    unsafe {
        let text = library.fi_strerror(code.abs());
        if text.is_null() {
            return format!("error {code}");
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "libfabric's {} failed: {} ({})",
            self.call,
            error_text(self.code),
            self.code
        )?;
        if !self.detail.is_empty() && self.detail != error_text(self.code) {
            write!(f, "; the provider says: {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for Error {
    fn from(error: CallError) -> Error {
        let class = if error.code == libc::ENOMEM {
            Class::NoMem
        } else {
            Class::Other
        };
        Error::new(class, error.to_string())
    }
}

/// The outcome of handing an operation to libfabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// It was taken.
    Accepted,
    /// `-FI_EAGAIN`: not taken; try again after some progress.
    Again,
}

/// A return value of a call that returns 0 or a count, or a negative error.
#[inline]
pub(crate) fn check(call: &'static str, value: isize) -> Result<usize, CallError> {
    if value >= 0 {
        return Ok(value as usize);
    }
    Err(failed(call, value))
}

/// A return value of a data transfer call.
#[inline]
pub(crate) fn posted(call: &'static str, value: isize) -> Result<Posted, CallError> {
    if value == 0 {
        return Ok(Posted::Accepted);
    }
    if value == -(sys::FI_EAGAIN as isize) {
        return Ok(Posted::Again);
    }
    Err(failed(call, value))
}

#[cold]
fn failed(call: &'static str, value: isize) -> CallError {
    CallError {
        call,
        code: i32::try_from(-value).unwrap_or(libc::EIO),
        detail: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_and_gives_the_reason() {
        let error = check("fi_domain", -(libc::EADDRNOTAVAIL as isize)).unwrap_err();
        let text = Error::from(error).to_string();
        assert!(text.contains("fi_domain"), "{text}");
        assert!(text.contains("99"), "{text}");
    }

    #[test]
    fn again_is_no_error() {
        assert_eq!(posted("fi_send", -(libc::EAGAIN as isize)), Ok(Posted::Again));
        assert_eq!(posted("fi_send", 0), Ok(Posted::Accepted));
        assert!(
            posted("fi_send", -(libc::ECONNREFUSED as isize))
                .unwrap_err()
                .is_unreachable()
        );
    }
}
