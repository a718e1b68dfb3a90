//! Random numbers from the system: for numbers that others must not guess and that must not occur twice.

use crate::base::error::Result;
use crate::err;

/// Fills `numbers` from the system's generator.
pub fn fill(numbers: &mut [u64]) -> Result<()> {
    let bytes = size_of_val(numbers);
    // SAFETY: the buffer has that many bytes, and every byte pattern is a number.
    let got = unsafe { libc::getrandom(numbers.as_mut_ptr().cast(), bytes, 0) };
    if got == bytes as isize {
        return Ok(());
    }
    Err(err!(
        Other,
        "the system gives no random numbers: {}",
        std::io::Error::last_os_error()
    ))
}

/// One number.
pub fn number() -> Result<u64> {
    let mut number = [0];
    fill(&mut number)?;
    Ok(number[0])
}

/// 128 bits in hexadecimal: a secret, or a name that nobody else has.
pub fn hexadecimal() -> Result<String> {
    let mut numbers = [0; 2];
    fill(&mut numbers)?;
    Ok(numbers.map(|number| format!("{number:016x}")).concat())
}

/// Whether a secret is the one that is expected: the time that this takes does not tell how much of it is the same.
pub fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).map(|(one, other)| one ^ other);
    one.len() == other.len() && std::hint::black_box(differences.fold(0, |all, next| all | next)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        assert!(is_same("abc", "abc") && is_same("", ""));
        assert!(!is_same("abc", "abd") && !is_same("ab", "abc") && !is_same("", "abc"));
    }
}
