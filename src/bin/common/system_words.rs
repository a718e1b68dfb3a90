//! Errors of the operating system in words.

/// The operating system's text for an error, without its number.
pub fn system_words(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_string(),
        None => error.to_string(),
    }
}
