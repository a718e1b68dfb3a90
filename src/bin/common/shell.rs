//! Words for a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A word for a shell. One that has no special characters stays as it is, for programs that use no shell.
pub fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@,=".contains(byte);
    if word.as_bytes().iter().all(plain) {
        return word.to_os_string();
    }
    let bytes = word.as_bytes().split(|&byte| byte == b'\'').collect::<Vec<_>>();
    OsStr::from_bytes(&[b"'", bytes.join(&b"'\\''"[..]).as_slice(), b"'"].concat()).to_os_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn words_pass_a_shell_unchanged() {
        for word in ["/opt/weft/bin/mpiexec", "/a b/c", "/it's/$HOME/`x`"] {
            let line = [OsStr::new("printf %s "), &quoted(OsStr::new(word))].join(OsStr::new(""));
            let output = Command::new("sh").arg("-c").arg(line).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(quoted(OsStr::new("/opt/mpiexec")), "/opt/mpiexec");
    }
}
