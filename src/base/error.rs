//! Errors as values: a class of the standard and words that a user can act on.

use std::borrow::Cow;
use std::fmt;

use crate::identity::Context;

/// The error classes of MPI 5.0, section 9.4, with the numbers of the standard ABI (section 20.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
#[allow(missing_docs)] // The names are the standard's own.
pub enum Class {
    Success = 0,
    Buffer = 1,
    Count = 2,
    Type = 3,
    Tag = 4,
    Comm = 5,
    Rank = 6,
    Request = 7,
    Root = 8,
    Group = 9,
    Op = 10,
    Topology = 11,
    Dims = 12,
    Arg = 13,
    Unknown = 14,
    Truncate = 15,
    Other = 16,
    Intern = 17,
    Pending = 18,
    InStatus = 19,
    Access = 20,
    Amode = 21,
    Assert = 22,
    BadFile = 23,
    Base = 24,
    Conversion = 25,
    Disp = 26,
    DupDatarep = 27,
    FileExists = 28,
    FileInUse = 29,
    File = 30,
    InfoKey = 31,
    InfoNokey = 32,
    InfoValue = 33,
    Info = 34,
    Io = 35,
    Keyval = 36,
    Locktype = 37,
    Name = 38,
    NoMem = 39,
    NotSame = 40,
    NoSpace = 41,
    NoSuchFile = 42,
    Port = 43,
    Quota = 44,
    ReadOnly = 45,
    RmaAttach = 46,
    RmaConflict = 47,
    RmaRange = 48,
    RmaShared = 49,
    RmaSync = 50,
    Service = 51,
    Size = 52,
    Spawn = 53,
    UnsupportedDatarep = 54,
    UnsupportedOperation = 55,
    Win = 56,
    RmaFlavor = 57,
    ProcAborted = 58,
    ValueTooLarge = 59,
    Session = 60,
    Errhandler = 61,
    Abi = 62,
}

impl Class {
    const ALL: [Class; 63] = {
        use Class::*;
        [
            Success,
            Buffer,
            Count,
            Type,
            Tag,
            Comm,
            Rank,
            Request,
            Root,
            Group,
            Op,
            Topology,
            Dims,
            Arg,
            Unknown,
            Truncate,
            Other,
            Intern,
            Pending,
            InStatus,
            Access,
            Amode,
            Assert,
            BadFile,
            Base,
            Conversion,
            Disp,
            DupDatarep,
            FileExists,
            FileInUse,
            File,
            InfoKey,
            InfoNokey,
            InfoValue,
            Info,
            Io,
            Keyval,
            Locktype,
            Name,
            NoMem,
            NotSame,
            NoSpace,
            NoSuchFile,
            Port,
            Quota,
            ReadOnly,
            RmaAttach,
            RmaConflict,
            RmaRange,
            RmaShared,
            RmaSync,
            Service,
            Size,
            Spawn,
            UnsupportedDatarep,
            UnsupportedOperation,
            Win,
            RmaFlavor,
            ProcAborted,
            ValueTooLarge,
            Session,
            Errhandler,
            Abi,
        ]
    };

    /// The class of a number, as it is in messages.
    pub fn of_number(number: u32) -> Option<Class> {
        Class::ALL.into_iter().find(|&class| class as u32 == number)
    }
}

/// What went wrong: the standard's class, and a sentence that names the argument, its value and what was expected.
///
/// The procedure's name is put in front by the bindings, which know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The class that `MPI_Error_class` reports.
    pub class: Class,
    /// One sentence without the procedure's name, starting in lower case.
    pub message: Cow<'static, str>,
    /// The exact code to give to the user where it is not the class itself: a code that a user's callback returned.
    pub code: Option<i32>,
    /// The context of the communicator whose error handler gets the error, where that is not the communicator among the
    /// call's arguments: that of a request.
    pub(crate) context: Context,
    /// For an error of class `MPI_ERR_IN_STATUS`: the code in the status of the request that failed, which the error
    /// handler gets (section 9.3).
    pub(crate) in_status: Option<i32>,
    /// Whether an error handler has been called with it already.
    pub(crate) raised: bool,
}

impl Error {
    /// An error of `class` with the text `message`.
    #[cold]
    pub fn new(class: Class, message: impl Into<Cow<'static, str>>) -> Self {
        Error {
            class,
            message: message.into(),
            code: None,
            context: Context::NONE,
            in_status: None,
            raised: false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What every fallible function of Weft returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `err!(Rank, "destination {dest} is outside …")`: an [`Error`] of that class.
#[macro_export]
macro_rules! err {
    ($class:ident, $($message:tt)+) => {
        $crate::Error::new($crate::Class::$class, format!($($message)+))
    };
}
