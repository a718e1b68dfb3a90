//! Every setting of Weft, declared once: environment, `weft-info` and (later) MPI_T control variables read this table.

use crate::base::error::Result;

/// What a setting accepts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// A whole number between the bounds; suffixes K, M and G multiply by 1024, 1024² and 1024³.
    Number {
        /// Least accepted.
        min: u64,
        /// Most accepted.
        max: u64,
    },
    /// Some of these words, with commas between them.
    List {
        /// The words.
        of: &'static [&'static str],
    },
    /// One of these words.
    Word {
        /// The words.
        of: &'static [&'static str],
    },
    /// 0 or 1, `no` or `yes`, `off` or `on`, `false` or `true`.
    Switch,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its environment variable.
    pub name: &'static str,
    /// What it accepts.
    pub kind: ValueKind,
    /// The default as the user would write it; empty: none.
    pub default: &'static str,
    /// One line for people.
    pub help: &'static str,
}

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The table's default.
    Default,
    /// The environment variable of the setting's name.
    Environment,
}

macro_rules! settings {
    ($($(#[doc = $help:literal])+ $field:ident: $type:ty = $name:literal, $kind:expr, $default:literal;)+) => {
        /// The table.
        pub static TABLE: &[Setting] = &[
            $(Setting { name: $name, kind: $kind, default: $default, help: concat!($($help),+) },)+
        ];

        /// The values in force for one instance.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        impl Settings {
            /// Reads every setting through `lookup` (the environment, or a test's own). A bad value is an error that
            /// names the setting and what it accepts.
            pub fn read(mut lookup: impl FnMut(&str) -> Option<String>) -> Result<Settings> {
                Ok(Settings {
                    $($field: {
                        let text = lookup($name).unwrap_or_else(|| $default.to_string());
                        <$type as Value>::from_text(&text, $kind).map_err(|expected| {
                            $crate::err!(Arg, "the setting {} has the value '{}': expected {}", $name, text, expected)
                        })?
                    },)+
                })
            }
        }
    };
}

settings! {
    /// what may carry messages: shm (shared memory within one machine), ofi (libfabric); by default both, or ofi alone if a provider is named
    lanes: Vec<&'static str> = "WEFT_LANES", ValueKind::List { of: &["shm", "ofi"] }, "";
    /// for tests: treat the ranks of one machine as if they were on this many machines (by rank modulo that number); 0 and 1: as they are
    fake_nodes: u64 = "WEFT_FAKE_NODES", ValueKind::Number { min: 0, max: u32::MAX as u64 }, "0";
    /// for tests: treat the ranks of one machine as if they were bound to this many packages in turn, where they are reordered; 0: as they are
    fake_packages: u64 = "WEFT_FAKE_PACKAGES", ValueKind::Number { min: 0, max: u32::MAX as u64 }, "0";
    /// for tests: whether a barrier, broadcasts and reductions over several hosts go through one rank of each; it has to be the same on all ranks
    two_level: bool = "WEFT_TWO_LEVEL", ValueKind::Switch, "1";
    /// whether blocking and persistent collective operations of ranks on one machine go through memory that these share
    shared_collectives: bool = "WEFT_SHARED_COLLECTIVES", ValueKind::Switch, "1";
    /// a file with lines of the table that says which algorithms collective operations use; they come before Weft's own (docs/collectives.md). All ranks need the same
    collectives: Option<String> = "WEFT_COLLECTIVES", ValueKind::Text, "";
    /// whether large messages over shared memory, and blocks of collective operations, may be read from the memory of the process that has them (process_vm_readv), and results written into it
    cma: bool = "WEFT_CMA", ValueKind::Switch, "1";
    /// how a window's memory is accessed: auto (directly on the same machine, by remote writes and reads of the network where its hardware performs them, otherwise by messages), messages (by nothing else, not even a process's own memory), attach (as auto, but that of other processes is not mapped, but read and written by process_vm_readv and process_vm_writev), direct (as auto), rdma (that of other processes by remote writes and reads wherever the network has any, even where it emulates them, otherwise by messages)
    windows: Access = "WEFT_WINDOWS", ValueKind::Word { of: &["auto", "messages", "attach", "direct", "rdma"] }, "auto";
    /// whether a thread makes progress while the program computes, so that one-sided operations that go by messages need no call of their target; a window's info key weft_progress_thread asks for it, too
    progress_thread: bool = "WEFT_PROGRESS_THREAD", ValueKind::Switch, "0";
    /// how long messages are written into shared memory: cached (ordinary store instructions), streaming (they bypass the caches); by default whichever proves faster
    stores: Vec<&'static str> = "WEFT_STORES", ValueKind::List { of: &["cached", "streaming"] }, "";
    /// libfabric provider to use, such as `tcp;ofi_rxm`; if it is not set, FI_PROVIDER counts
    provider: Option<String> = "WEFT_PROVIDER", ValueKind::Text, "";
    /// network interfaces whose addresses the provider may use, best first, separated by commas: names, addresses or networks (10.0.0.0/8)
    interface: Option<String> = "WEFT_INTERFACE", ValueKind::Text, "";
    /// largest payload in bytes that is sent at once, without asking the receiver; 0: Weft decides
    eager_max: u64 = "WEFT_EAGER_MAX", ValueKind::Number { min: 0, max: 1 << 30 }, "0";
    /// bytes of messages from one sender that a process stores before there are receives for them; beyond that, the sender keeps its messages until the receiver asks for them
    unexpected_max: u64 = "WEFT_UNEXPECTED_MAX", ValueKind::Number { min: 0, max: u64::MAX }, "64M";
    /// whether large messages may be read from the sender's memory by the network's remote reads
    rma: bool = "WEFT_RMA", ValueKind::Switch, "1";
    /// for tests: whether atomic operations on remote memory are left to libfabric even where no hardware performs them
    emulated_atomics: bool = "WEFT_EMULATED_ATOMICS", ValueKind::Switch, "0";
    /// microseconds that a waiting process spins before it gives its core to others; 0: at once
    spin_us: Option<u64> = "WEFT_SPIN_US", ValueKind::Number { min: 0, max: 1_000_000_000 }, "";
    /// seconds after which a line is printed about a process that can't be reached, with its address; 0: never
    contact_report_s: u64 = "WEFT_CONTACT_REPORT_S", ValueKind::Number { min: 0, max: 86_400 }, "60";
    /// for tests: the longest time in milliseconds that a waiting process sleeps before it looks again by itself
    sleep_max_ms: u64 = "WEFT_SLEEP_MAX_MS", ValueKind::Number { min: 1, max: 86_400_000 }, "20";
    /// seconds after which an MPI_Finalize that still waits prints for what; 0: never
    finalize_report_s: u64 = "WEFT_FINALIZE_REPORT_S", ValueKind::Number { min: 0, max: 86_400 }, "10";
    /// what MPI_Finalize prints: `startup`: where the time of MPI_Init and MPI_Finalize went (on rank 0; with `all`, on every rank); `transports`: which lane carried messages between which hosts (with `all`, between which ranks)
    report: Report = "WEFT_REPORT", ValueKind::List { of: &["startup", "transports", "all"] }, "";
    /// whether MPI_Finalize prints what the program has left behind: requests, communicators, datatypes and other objects that are not completed, freed or closed, and messages that nobody received; and whether accesses to windows that conflict are looked for (then all operations on windows are messages)
    check: bool = "WEFT_CHECK", ValueKind::Switch, "0";
}

/// Variables outside the table that have a meaning, or that a site may well set for its own use; a `*` stands for any ending.
const OTHERS: &[&str] = &[
    // Set by Weft's launcher for its ranks.
    "WEFT_LAUNCH_*",
    // The mpiexec that a process without a launcher spawns by.
    "WEFT_MPIEXEC",
    // Where mpiexec finds the names of services.
    "WEFT_NAME_SERVER",
    // mpicc's.
    "WEFT_CC",
    "WEFT_CXX",
    // Where environment modules say that Weft is.
    "WEFT_ROOT",
    "WEFT_HOME",
    "WEFT_DIR",
    "WEFT_PREFIX",
    "WEFT_VERSION",
    // Weft's own tests'.
    "WEFT_TEST_*",
    "WEFT_SIM_*",
    "WEFT_SOAK_*",
    "WEFT_MPI4PY_*",
    "WEFT_FORBID*",
    "WEFT_BLESS",
    "WEFT_TYPE_CASES",
];

/// A line for each of these environment variables that looks like a setting but is not one.
pub fn misspelt<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let is_known = |name: &str| {
        TABLE.iter().any(|setting| setting.name == name)
            || OTHERS.iter().any(|other| match other.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => *other == name,
            })
    };
    let unknown = names
        .into_iter()
        .filter(|name| name.starts_with("WEFT_") && !is_known(name));
    let lines = unknown.map(|name| {
        let distance = |setting: &&Setting| strsim::damerau_levenshtein(setting.name, name);
        let nearest = TABLE.iter().min_by_key(distance);
        // At most two wrong letters, or a third of the name after WEFT_.
        let near = nearest.filter(|setting| distance(setting) <= 2.max((name.len() - 5) / 3));
        match near {
            Some(setting) => format!("{name} is not a setting of Weft: did you mean {}?", setting.name),
            None => format!("{name} is not a setting of Weft (weft-info lists all)"),
        }
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines.dedup();
    lines
}

/// The same for this process's environment.
pub fn misspelt_here() -> Vec<String> {
    let names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .collect();
    misspelt(names.iter().map(String::as_str))
}

/// What `WEFT_REPORT` asks for: words with commas between them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Where the time of Init and Finalize went.
    pub startup: bool,
    /// Which lane carried whose messages.
    pub transports: bool,
    /// For each rank: not for rank 0 alone, and not for hosts.
    pub all: bool,
}

/// How a window's memory is accessed: what `WEFT_WINDOWS` says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Access {
    /// As is best.
    #[default]
    Auto,
    /// By messages alone.
    Messages,
    /// As [`Access::Auto`], but no memory is shared that need not be.
    Attach,
    /// Directly; in a simulation, too, where otherwise messages are used.
    Direct,
    /// That of others by the one-sided operations of lanes, or by messages.
    Rdma,
}

/// A type that a setting can have.
trait Value: Sized {
    fn from_text(text: &str, kind: ValueKind) -> std::result::Result<Self, String>;
}

impl Value for Option<String> {
    fn from_text(text: &str, _: ValueKind) -> std::result::Result<Self, String> {
        Ok((!text.is_empty()).then(|| text.to_string()))
    }
}

impl Value for Vec<&'static str> {
    fn from_text(text: &str, kind: ValueKind) -> std::result::Result<Self, String> {
        let ValueKind::List { of } = kind else {
            return Err("a list".into());
        };
        let mut words = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match of.iter().find(|known| **known == word) {
                Some(known) if words.contains(known) => {}
                Some(known) => words.push(*known),
                None => return Err(format!("words of {}, with commas between them", of.join(" and "))),
            }
        }
        Ok(words)
    }
}

impl Value for Report {
    fn from_text(text: &str, kind: ValueKind) -> std::result::Result<Self, String> {
        let words: Vec<&str> = Value::from_text(text, kind)?;
        Ok(Report {
            startup: words.contains(&"startup"),
            transports: words.contains(&"transports"),
            all: words.contains(&"all"),
        })
    }
}

impl Value for Access {
    fn from_text(text: &str, kind: ValueKind) -> std::result::Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Access::Auto),
            "messages" => Ok(Access::Messages),
            "attach" => Ok(Access::Attach),
            "direct" => Ok(Access::Direct),
            "rdma" => Ok(Access::Rdma),
            _ => match kind {
                ValueKind::Word { of } => Err(format!("one of the words {}", of.join(", "))),
                _ => Err("a word".into()),
            },
        }
    }
}

impl Value for bool {
    fn from_text(text: &str, _: ValueKind) -> std::result::Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "yes" | "on" | "true" => Ok(true),
            "0" | "no" | "off" | "false" => Ok(false),
            _ => Err("0 or 1".into()),
        }
    }
}

impl Value for u64 {
    fn from_text(text: &str, kind: ValueKind) -> std::result::Result<Self, String> {
        let ValueKind::Number { min, max } = kind else {
            return Err("a number".into());
        };
        number(text)
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| format!("a whole number from {min} to {max} (suffixes K, M and G are understood)"))
    }
}

/// A whole number, perhaps with a suffix K, M or G.
pub fn number(text: &str) -> Option<u64> {
    let upper = text.trim().to_ascii_uppercase();
    let (digits, factor) = match upper.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if upper.ends_with('K') => (digits, 1 << 10),
        Some(digits) if upper.ends_with('M') => (digits, 1 << 20),
        Some(digits) => (digits, 1 << 30),
        None => (upper.as_str(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Value for Option<u64> {
    fn from_text(text: &str, kind: ValueKind) -> std::result::Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        u64::from_text(text, kind).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_accepted() {
        let settings = Settings::read(|_| None).expect("every default is valid");
        assert!(settings.rma);
        assert_eq!(settings.spin_us, None);
    }

    #[test]
    fn a_bad_value_names_the_setting() {
        let error =
            Settings::read(|name| (name == "WEFT_EAGER_MAX").then(|| "lots".to_string())).unwrap_err();
        assert!(error.message.contains("WEFT_EAGER_MAX"), "{error}");
        assert!(error.message.contains("lots"), "{error}");
    }

    #[test]
    fn a_misspelt_setting_is_told_with_the_nearest_name() {
        let told = |name: &str| misspelt([name]).pop();
        for setting in TABLE {
            assert_eq!(told(setting.name), None);
        }
        for name in [
            "WEFT_LAUNCH_JOB",
            "WEFT_TEST_PEERS",
            "WEFT_ROOT",
            "WEFT",
            "FI_PROVIDR",
            "PATH",
        ] {
            assert_eq!(told(name), None);
        }
        for (name, meant) in [
            ("WEFT_PROVIDR", "WEFT_PROVIDER"),
            ("WEFT_INTERFCAE", "WEFT_INTERFACE"),
            ("WEFT_LANE", "WEFT_LANES"),
            ("WEFT_EAGERMAX", "WEFT_EAGER_MAX"),
            ("WEFT_CMMA", "WEFT_CMA"),
        ] {
            let expected = format!("{name} is not a setting of Weft: did you mean {meant}?");
            assert_eq!(told(name), Some(expected));
        }
        let far = told("WEFT_COMPLETELY_DIFFERENT").unwrap();
        assert!(far.contains("weft-info") && !far.contains("mean"), "{far}");
        assert_eq!(misspelt(["WEFT_B", "WEFT_A", "WEFT_B"]).len(), 2);
    }

    #[test]
    fn reports_are_words_with_commas() {
        let read = |text: &str| Settings::read(|name| (name == "WEFT_REPORT").then(|| text.to_string()));
        assert_eq!(read("").unwrap().report, Report::default());
        let both = Report {
            startup: true,
            transports: false,
            all: true,
        };
        assert_eq!(read("startup, all").unwrap().report, both);
        let transports = read("transports").unwrap().report;
        assert!(transports.transports && !transports.all && !transports.startup);
        let error = read("startup,weather").unwrap_err();
        assert!(
            error.message.contains("WEFT_REPORT") && error.message.contains("startup and transports and all"),
            "{error}"
        );
    }

    /// What a number between these bounds is read as; `None`: refused.
    fn setting(text: &str, min: u64, max: u64) -> Option<u64> {
        u64::from_text(text, ValueKind::Number { min, max }).ok()
    }

    #[test]
    fn one_word_is_chosen() {
        let read = |text: &str| Settings::read(|name| (name == "WEFT_WINDOWS").then(|| text.to_string()));
        assert_eq!(read("auto").unwrap().windows, Access::default());
        // Each word of the table is understood, and as another one.
        let setting = TABLE.iter().find(|setting| setting.name == "WEFT_WINDOWS");
        let Some(ValueKind::Word { of }) = setting.map(|setting| setting.kind) else {
            panic!("it accepts a word");
        };
        let mut known = of
            .iter()
            .map(|word| read(word).unwrap().windows)
            .collect::<Vec<_>>();
        known.dedup();
        assert_eq!(
            known,
            [
                Access::Auto,
                Access::Messages,
                Access::Attach,
                Access::Direct,
                Access::Rdma
            ]
        );
        for wrong in ["", "automatic", "attach,direct", "1"] {
            let error = read(wrong).unwrap_err().message;
            assert!(
                error.contains("WEFT_WINDOWS") && error.contains("messages, attach"),
                "{error}"
            );
        }
    }

    #[test]
    fn suffixes_multiply() {
        for (text, value) in [
            ("16", 16),
            (" 16 ", 16),
            ("16k", 16 << 10),
            ("16K", 16 << 10),
            ("3m", 3 << 20),
            ("3G", 3 << 30),
        ] {
            assert_eq!(setting(text, 0, u64::MAX), Some(value), "{text}");
        }
        for text in [
            "",
            "k",
            "1t",
            "1kk",
            "-1",
            "1.5",
            "0x10",
            "18446744073709551616",
            "17179869184G",
        ] {
            assert_eq!(setting(text, 0, u64::MAX), None, "{text}");
        }
        assert_eq!(
            setting("17179869183G", 0, u64::MAX),
            Some(u64::MAX - (1 << 30) + 1)
        );
    }

    #[test]
    fn bounds_are_the_least_and_the_most_that_is_accepted() {
        for (text, value) in [
            ("4", None),
            ("5", Some(5)),
            ("2048", Some(2048)),
            ("2049", None),
            ("2k", Some(2048)),
        ] {
            assert_eq!(setting(text, 5, 2048), value, "{text}");
        }
        // Each setting has its own bounds, and its error names them.
        for setting in TABLE {
            let ValueKind::Number { min, max } = setting.kind else {
                continue;
            };
            let read =
                |number: u128| Settings::read(|name| (name == setting.name).then(|| number.to_string()));
            for good in [min, max] {
                read(good.into()).unwrap_or_else(|error| panic!("{error}"));
            }
            for bad in [u128::from(min).checked_sub(1), Some(u128::from(max) + 1)]
                .into_iter()
                .flatten()
            {
                let error = read(bad).expect_err(setting.name);
                let bounds = format!("from {min} to {max}");
                assert!(
                    error.message.contains(setting.name) && error.message.contains(&bounds),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn switches_are_words() {
        for (text, value) in [
            ("1", Some(true)),
            ("yes", Some(true)),
            ("ON", Some(true)),
            ("True", Some(true)),
            ("0", Some(false)),
            ("no", Some(false)),
            ("Off", Some(false)),
            ("FALSE", Some(false)),
            ("", None),
            ("2", None),
            ("maybe", None),
        ] {
            assert_eq!(bool::from_text(text, ValueKind::Switch).ok(), value, "{text}");
        }
    }
}
