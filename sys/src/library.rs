//! Loads libfabric, once for the process, when it is first needed: loading it can take long (Debian's build takes 0.2 s,
//! for what it is linked against), and a process that talks to nobody does without.
//!
//! Which of a symbol's versions? `fi_getinfo`, `fi_dupinfo` and `fi_freeinfo` have a new one whenever `fi_info` or what
//! it points to grows at its end. Whatever is looked up without a version is the library's newest, so all three fit
//! each other, and they fit us as well, whatever headers this was compiled with: every `fi_info`, hints included, is
//! allocated by the library itself, and nobody here touches fields that 1.17 did not have.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::bindings::Symbols;

/// The library's name, which 1.x and 2.x share.
const NAME: &str = if cfg!(target_os = "macos") {
    "libfabric.1.dylib"
} else {
    "libfabric.so.1"
};

/// libfabric, loaded: its functions are methods. It stays loaded for the life of the process.
pub struct Library(Symbols);

impl Deref for Library {
    type Target = Symbols;
    #[inline]
    fn deref(&self) -> &Symbols {
        &self.0
    }
}

/// Why libfabric could not be loaded. Its text is one line, and says what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "libfabric 1.17 or later can't be loaded: {}. Install it (Debian, Ubuntu: apt install libfabric1; Fedora, \
             RHEL: dnf install libfabric; SUSE: zypper install libfabric1; Arch: pacman -S libfabric; macOS: brew \
             install libfabric), or name its directory in {}",
            self.0,
            if cfg!(target_os = "macos") {
                "DYLD_LIBRARY_PATH"
            } else {
                "LD_LIBRARY_PATH"
            }
        )
    }
}

impl std::error::Error for LoadError {}

/// libfabric, which the first call loads. A failure stays: later calls tell the same.
pub fn library() -> Result<&'static Library, &'static LoadError> {
    static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    LIBRARY.get_or_init(|| load(NAME)).as_ref()
}

fn load(name: &str) -> Result<Library, LoadError> {
    let handlers = Handlers::now();
    // SAFETY: libfabric's constructors, and those of what it is linked against, ask for nothing but a process. The
    // functions have the types of the installed headers, which all versions from 1.17 on share (see the module).
    let symbols = unsafe { Symbols::new(name) };
    handlers.restore();
    match symbols {
        Ok(symbols) => {
            // SAFETY: the call has no preconditions.
            let version = unsafe { symbols.fi_version() };
            let (major, minor) = (version >> 16, version & 0xffff);
            if (major, minor) < (1, 17) {
                return Err(LoadError(format!("{name} is of version {major}.{minor}")));
            }
            Ok(Library(symbols))
        }
        Err(error) => Err(LoadError(reason(&error))),
    }
}

/// What the dynamic linker says, in one line.
fn reason(error: &libloading::Error) -> String {
    let text = match error {
        libloading::Error::DlOpen { desc } | libloading::Error::DlSym { desc } => format!("{desc:?}"),
        other => other.to_string(),
    };
    text.trim_matches('"').replace('\n', " ")
}

/// The process's signal handlers. libinfinipath, which Debian's libfabric is linked against, puts its own in place of
/// them when it is loaded: for SIGSEGV, SIGABRT, SIGINT, SIGTERM and others, which then end the process with status 1.
/// Handlers that the program chose must stay.
struct Handlers(Vec<(libc::c_int, libc::sigaction)>);

impl Handlers {
    fn now() -> Handlers {
        let signals = (1..32).filter(|&signal| signal != libc::SIGKILL && signal != libc::SIGSTOP);
        Handlers(
            signals
                .filter_map(|signal| action(signal).map(|action| (signal, action)))
                .collect(),
        )
    }

    fn restore(self) {
        for (signal, before) in self.0 {
            if action(signal).is_some_and(|now| now.sa_sigaction != before.sa_sigaction) {
                // SAFETY: the action is the one that this process had for this signal.
                unsafe { libc::sigaction(signal, &before, std::ptr::null_mut()) };
            }
        }
    }
}

fn action(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a null new action only asks; `action` has room for the answer, which is written where the call succeeds.
    unsafe {
        (libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_loaded_and_has_a_version_that_weft_can_use() {
        let library = library().unwrap();
        // SAFETY: the call has no preconditions.
        assert!(unsafe { library.fi_version() } >= (1 << 16) | 17);
    }

    #[test]
    fn a_missing_library_says_what_to_install_in_one_line() {
        let error = load("libno-such-fabric.so.1").err().unwrap().to_string();
        assert!(error.contains("libno-such-fabric.so.1: cannot open"), "{error}");
        assert!(error.contains("apt install libfabric1"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn handlers_of_the_program_stay() {
        extern "C" fn handler(_: libc::c_int) {}
        let mine = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGTERM, mine) };
        let handlers = Handlers::now();
        // SAFETY: the default for a signal that nobody sends here.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_DFL) };
        handlers.restore();
        assert_eq!(
            action(libc::SIGTERM).map(|action| action.sa_sigaction),
            Some(mine)
        );
    }
}
