//! Access modes of files (MPI 5.0 section 14.2.1).

use crate::base::error::Result;
use crate::err;

/// A valid access mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amode(i32);

/// Its possible bits, with the standard's names and the numbers of its ABI (section 20.3).
const MODES: [(i32, &str); 9] = [
    (Amode::APPEND, "MPI_MODE_APPEND"),
    (Amode::CREATE, "MPI_MODE_CREATE"),
    (Amode::DELETE_ON_CLOSE, "MPI_MODE_DELETE_ON_CLOSE"),
    (Amode::EXCL, "MPI_MODE_EXCL"),
    (Amode::RDONLY, "MPI_MODE_RDONLY"),
    (Amode::RDWR, "MPI_MODE_RDWR"),
    (Amode::SEQUENTIAL, "MPI_MODE_SEQUENTIAL"),
    (Amode::UNIQUE_OPEN, "MPI_MODE_UNIQUE_OPEN"),
    (Amode::WRONLY, "MPI_MODE_WRONLY"),
];

impl Amode {
    /// All file pointers begin at the end.
    pub const APPEND: i32 = 1;
    /// The file is created if there is none.
    pub const CREATE: i32 = 2;
    /// It is deleted when it is closed.
    pub const DELETE_ON_CLOSE: i32 = 4;
    /// Where the file is to be created, it is an error if there is one already.
    pub const EXCL: i32 = 8;
    /// It is only read.
    pub const RDONLY: i32 = 16;
    /// It is read and written.
    pub const RDWR: i32 = 32;
    /// It is accessed from its beginning to its end.
    pub const SEQUENTIAL: i32 = 64;
    /// No other program opens it meanwhile.
    pub const UNIQUE_OPEN: i32 = 128;
    /// It is only written.
    pub const WRONLY: i32 = 256;

    /// The access mode of these bits.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE` for what the standard does not allow together.
    pub fn new(bits: i32) -> Result<Amode> {
        let known = MODES.iter().fold(0, |all, (mode, _)| all | mode);
        if bits & !known != 0 {
            return Err(err!(
                Amode,
                "amode is {bits:#x}, of which {:#x} is not a valid access mode",
                bits & !known
            ));
        }
        let amode = Amode(bits);
        let ways = [Amode::RDONLY, Amode::RDWR, Amode::WRONLY];
        if ways.iter().filter(|&&way| amode.has(way)).count() != 1 {
            return Err(err!(
                Amode,
                "amode is {}, but must have exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY",
                amode.describe()
            ));
        }
        let forbidden = [
            (Amode::RDONLY, Amode::CREATE),
            (Amode::RDONLY, Amode::EXCL),
            (Amode::RDWR, Amode::SEQUENTIAL),
        ];
        match forbidden
            .iter()
            .find(|(one, other)| amode.has(*one) && amode.has(*other))
        {
            Some((one, other)) => Err(err!(
                Amode,
                "amode is {}, but {} does not go with {}",
                amode.describe(),
                Amode(*other).describe(),
                Amode(*one).describe()
            )),
            None => Ok(amode),
        }
    }

    /// Whether it has a mode.
    pub fn has(self, mode: i32) -> bool {
        self.0 & mode != 0
    }

    /// Whether the file may be read.
    pub fn may_read(self) -> bool {
        self.has(Amode::RDONLY | Amode::RDWR)
    }

    /// Whether the file may be written.
    pub fn may_write(self) -> bool {
        self.has(Amode::WRONLY | Amode::RDWR)
    }

    /// As the user gave it.
    pub fn number(self) -> i32 {
        self.0
    }

    /// As processes send it to each other.
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0.cast_unsigned())
    }

    fn describe(self) -> String {
        let names: Vec<&str> = MODES
            .iter()
            .filter(|(mode, _)| self.has(*mode))
            .map(|(_, name)| *name)
            .collect();
        match names.is_empty() {
            true => "0".to_string(),
            false => names.join(" | "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    /// All 512 combinations, by the standard's three rules.
    #[test]
    fn the_rules_decide() {
        for bits in 0..512 {
            let has = |mode| u32::from(bits & mode != 0);
            let one_way = has(Amode::RDONLY) + has(Amode::RDWR) + has(Amode::WRONLY) == 1;
            let creates = has(Amode::CREATE) + has(Amode::EXCL) > 0;
            let valid = one_way
                && !(has(Amode::RDONLY) == 1 && creates)
                && !(has(Amode::RDWR) == 1 && has(Amode::SEQUENTIAL) == 1);
            match Amode::new(bits) {
                Ok(amode) => {
                    assert!(valid, "{bits:#x}");
                    assert_eq!(amode.number(), bits);
                    assert_eq!(amode.may_read(), has(Amode::WRONLY) == 0);
                    assert_eq!(amode.may_write(), has(Amode::RDONLY) == 0);
                }
                Err(error) => {
                    assert!(!valid, "{bits:#x}: {error}");
                    assert_eq!(error.class, Class::Amode);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let words = |bits, words: &[&str]| {
            let error = Amode::new(bits).unwrap_err();
            for word in words {
                assert!(error.message.contains(word), "{error}");
            }
        };
        words(0, &["amode is 0,", "exactly one"]);
        words(-1, &["not a valid access mode"]);
        words(0x1000 | Amode::RDONLY, &["0x1000 is not a valid access mode"]);
        words(
            Amode::RDONLY | Amode::EXCL,
            &["MPI_MODE_EXCL does not go with MPI_MODE_RDONLY"],
        );
        words(
            Amode::RDWR | Amode::SEQUENTIAL,
            &["MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR"],
        );
    }
}
