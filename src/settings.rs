//! Every setting of Weft, declared once: environment, `weft-info` and (later) MPI_T control variables read this table.

use crate::error::Result;

/// What a setting accepts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
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
    /// 0 or 1, `no` or `yes`, `off` or `on`, `false` or `true`.
    Switch,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// What it accepts.
    pub kind: Kind,
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
    /// ways to other processes that may be used; by default shared memory on one machine and libfabric beyond, and libfabric alone where a provider is named
    lanes: Vec<&'static str> = "WEFT_LANES", Kind::List { of: &["shm", "ofi"] }, "";
    /// for tests: pretends that the ranks of one machine sit on so many (rank modulo that number); 0 and 1 do not
    fake_nodes: u64 = "WEFT_FAKE_NODES", Kind::Number { min: 0, max: u32::MAX as u64 }, "0";
    /// whether shared memory may read large messages from the sender's memory (process_vm_readv)
    cma: bool = "WEFT_CMA", Kind::Switch, "1";
    /// by which stores long messages may be written into shared memory: through the caches, past them; by default what proves quicker
    stores: Vec<&'static str> = "WEFT_STORES", Kind::List { of: &["cached", "streaming"] }, "";
    /// libfabric provider to use, such as `tcp;ofi_rxm`; FI_PROVIDER is honoured where this is not set
    provider: Option<String> = "WEFT_PROVIDER", Kind::Text, "";
    /// network interface (name or address) whose addresses the provider may use
    interface: Option<String> = "WEFT_INTERFACE", Kind::Text, "";
    /// largest payload in bytes that is sent eagerly; 0 leaves the choice to the lane
    eager_max: u64 = "WEFT_EAGER_MAX", Kind::Number { min: 0, max: 1 << 30 }, "0";
    /// bytes of unexpected messages of one process that are held before it is asked to send none eagerly
    unexpected_max: u64 = "WEFT_UNEXPECTED_MAX", Kind::Number { min: 0, max: u64::MAX }, "64M";
    /// whether large messages may be read from the sender's memory
    rma: bool = "WEFT_RMA", Kind::Switch, "1";
    /// microseconds to spin before a waiting process yields its core; 0 yields at once
    spin_us: Option<u64> = "WEFT_SPIN_US", Kind::Number { min: 0, max: 1_000_000_000 }, "";
    /// seconds after which a process for which libfabric takes no message is told of, with its address; 0 never does
    contact_report_s: u64 = "WEFT_CONTACT_REPORT_S", Kind::Number { min: 0, max: 86_400 }, "60";
    /// for tests: the longest sleep in milliseconds of a waiting process whom something is to wake
    sleep_max_ms: u64 = "WEFT_SLEEP_MAX_MS", Kind::Number { min: 1, max: 86_400_000 }, "20";
    /// seconds after which a finalize that still waits says for what; 0 never says
    finalize_report_s: u64 = "WEFT_FINALIZE_REPORT_S", Kind::Number { min: 0, max: 86_400 }, "10";
    /// what Finalize reports: `startup`: where the time of Init and Finalize went (rank 0's; with `all`, every rank's); `transports`: which lane carried messages between which hosts (with `all`: ranks)
    report: Report = "WEFT_REPORT", Kind::List { of: &["startup", "transports", "all"] }, "";
    /// whether the library points out erroneous programs (unmatched messages, leaked requests, open files) at finalize
    check: bool = "WEFT_CHECK", Kind::Switch, "0";
}

/// What `WEFT_REPORT` asks for: words with commas between them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Where the time of Init and Finalize went.
    pub startup: bool,
    /// Which lane carried whose messages.
    pub transports: bool,
    /// Each rank by itself: not just rank 0, and not hosts.
    pub all: bool,
}

/// A type that a setting can have.
trait Value: Sized {
    fn from_text(text: &str, kind: Kind) -> std::result::Result<Self, String>;
}

impl Value for Option<String> {
    fn from_text(text: &str, _: Kind) -> std::result::Result<Self, String> {
        Ok((!text.is_empty()).then(|| text.to_string()))
    }
}

impl Value for Vec<&'static str> {
    fn from_text(text: &str, kind: Kind) -> std::result::Result<Self, String> {
        let Kind::List { of } = kind else {
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
    fn from_text(text: &str, kind: Kind) -> std::result::Result<Self, String> {
        let words: Vec<&str> = Value::from_text(text, kind)?;
        Ok(Report {
            startup: words.contains(&"startup"),
            transports: words.contains(&"transports"),
            all: words.contains(&"all"),
        })
    }
}

impl Value for bool {
    fn from_text(text: &str, _: Kind) -> std::result::Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "yes" | "on" | "true" => Ok(true),
            "0" | "no" | "off" | "false" => Ok(false),
            _ => Err("0 or 1".into()),
        }
    }
}

impl Value for u64 {
    fn from_text(text: &str, kind: Kind) -> std::result::Result<Self, String> {
        let Kind::Number { min, max } = kind else {
            return Err("a number".into());
        };
        let upper = text.trim().to_ascii_uppercase();
        let (digits, factor) = match upper.strip_suffix(['K', 'M', 'G']) {
            Some(digits) if upper.ends_with('K') => (digits, 1 << 10),
            Some(digits) if upper.ends_with('M') => (digits, 1 << 20),
            Some(digits) => (digits, 1 << 30),
            None => (upper.as_str(), 1),
        };
        digits
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| format!("a whole number from {min} to {max} (suffixes K, M and G are understood)"))
    }
}

impl Value for Option<u64> {
    fn from_text(text: &str, kind: Kind) -> std::result::Result<Self, String> {
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
    fn number(text: &str, min: u64, max: u64) -> Option<u64> {
        u64::from_text(text, Kind::Number { min, max }).ok()
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
            assert_eq!(number(text, 0, u64::MAX), Some(value), "{text}");
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
            assert_eq!(number(text, 0, u64::MAX), None, "{text}");
        }
        assert_eq!(
            number("17179869183G", 0, u64::MAX),
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
            assert_eq!(number(text, 5, 2048), value, "{text}");
        }
        // Each setting has its own, and says them.
        for setting in TABLE {
            let Kind::Number { min, max } = setting.kind else {
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
            assert_eq!(bool::from_text(text, Kind::Switch).ok(), value, "{text}");
        }
    }
}
