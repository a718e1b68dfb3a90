//! Files for what ranks write (`-outfile-pattern`, `-errfile-pattern`, `--output-filename`). The head writes them, so they are on its
//! machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A part of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    /// The rank, at least so many digits.
    Rank(usize),
    Host,
    HostNumber,
    Job,
    Seconds,
}

/// A pattern of file names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    pieces: Vec<Piece>,
    /// The output also goes where it goes without a pattern.
    pub copies: bool,
}

impl Pattern {
    /// Reads a pattern with `%r` and so on; `%%` is a `%`.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                plain.push(c);
                continue;
            }
            let piece = match rest.next() {
                Some('%') => {
                    plain.push('%');
                    continue;
                }
                Some('r') => Piece::Rank(1),
                Some('h') => Piece::Host,
                Some('p') => Piece::HostNumber,
                Some('g') => Piece::Job,
                Some('t') => Piece::Seconds,
                other => {
                    let sign = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "'%{sign}' in the pattern '{text}': %r, %h, %p, %g, %t or %% is expected"
                    ));
                }
            };
            pieces.extend([Piece::Text(std::mem::take(&mut plain)), piece]);
        }
        pieces.push(Piece::Text(plain));
        match text.is_empty() {
            true => Err("an empty pattern of file names".into()),
            false => Ok(Pattern {
                pieces,
                copies: false,
            }),
        }
    }

    /// Open MPI's files in a folder, for a stream of this name and so many ranks.
    pub fn of_folder(text: &str, stream: &str, size: u32) -> Result<Pattern, String> {
        let (folder, words) = text.split_once(':').unwrap_or((text, ""));
        let (mut copies, mut job) = (true, "/1");
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word {
                "nocopy" => copies = false,
                "nojobid" => job = "",
                _ => return Err(format!("':{word}' in '{text}': :nocopy or :nojobid is expected")),
            }
        }
        if folder.is_empty() {
            return Err("--output-filename needs the name of a folder".into());
        }
        let digits = size.saturating_sub(1).to_string().len();
        Ok(Pattern {
            pieces: vec![
                Piece::Text(format!("{folder}{job}/rank.")),
                Piece::Rank(digits),
                Piece::Text(format!("/{stream}")),
            ],
            copies,
        })
    }

    fn path(&self, rank: usize, host: (usize, &str), seconds: u64) -> PathBuf {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Rank(digits) => format!("{rank:0digits$}"),
            // An IPv6 address is a name of a file as well.
            Piece::Host => host.1.to_string(),
            Piece::HostNumber => host.0.to_string(),
            // There is one job.
            Piece::Job => "0".to_string(),
            Piece::Seconds => seconds.to_string(),
        };
        self.pieces.iter().map(piece).collect::<String>().into()
    }
}

/// The files of a job.
pub struct OutputFiles {
    patterns: [Option<Pattern>; 2],
    seconds: u64,
    /// `None`: it can't be written, which has been told.
    open: HashMap<PathBuf, Option<File>>,
}

impl OutputFiles {
    /// None is open yet.
    pub fn new(patterns: [Option<Pattern>; 2]) -> OutputFiles {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        OutputFiles {
            patterns,
            seconds: since.map_or(0, |since| since.as_secs()),
            open: HashMap::new(),
        }
    }

    /// Writes what a rank has written to a stream. The first value: it goes nowhere else. An error comes once for each file.
    pub fn put(
        &mut self,
        rank: usize,
        stream: usize,
        host: (usize, &str),
        bytes: &[u8],
    ) -> (bool, Option<String>) {
        let Some(Some(pattern)) = self.patterns.get(stream) else {
            return (false, None);
        };
        let path = pattern.path(rank, host, self.seconds);
        let failed = |error: &io::Error| {
            let why = crate::outcome::system_words(error);
            format!(
                "the file '{}' can't be written: {why}; output is lost",
                path.display()
            )
        };
        let mut why = None;
        let file = self.open.entry(path.clone()).or_insert_with(|| {
            let file = create(&path);
            why = file.as_ref().err().map(&failed);
            file.ok()
        });
        if let Some(open) = file
            && let Err(error) = open.write_all(bytes)
        {
            why = Some(failed(&error));
            *file = None;
        }
        (!pattern.copies, why)
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files() {
        let path = |text: &str| {
            let pattern = Pattern::parse(text).unwrap();
            pattern.path(7, (2, "h3"), 99).display().to_string()
        };
        assert_eq!(path("o-%r-%h-%p-%g-%t%%.txt"), "o-7-h3-2-0-99%.txt");
        assert_eq!(path("plain"), "plain");
        for text in ["%", "a%x", "", "%ü"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        let pattern = Pattern::of_folder("d:nocopy,nojobid", "stderr", 11).unwrap();
        assert_eq!(pattern.path(7, (0, "h"), 0), Path::new("d/rank.07/stderr"));
        assert!(!pattern.copies);
        let pattern = Pattern::of_folder("d", "stdout", 1).unwrap();
        assert_eq!(pattern.path(0, (0, "h"), 0), Path::new("d/1/rank.0/stdout"));
        assert!(
            Pattern::of_folder("d:what", "stdout", 1)
                .unwrap_err()
                .contains("what")
        );
        assert!(Pattern::of_folder(":nocopy", "stdout", 1).is_err());
    }

    #[test]
    fn ranks_may_share_a_file_and_an_error_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub/all");
        let pattern = Pattern::parse(file.to_str().unwrap()).unwrap();
        let wrong = Pattern::parse(folder.path().to_str().unwrap()).unwrap();
        let mut files = OutputFiles::new([Some(pattern), Some(wrong)]);
        assert_eq!(files.put(0, 0, (0, "h"), b"a\n"), (true, None));
        assert_eq!(files.put(1, 0, (0, "h"), b"b\n"), (true, None));
        assert_eq!(std::fs::read(&file).unwrap(), b"a\nb\n");
        assert!(files.put(0, 1, (0, "h"), b"x").1.is_some());
        assert_eq!(files.put(1, 1, (0, "h"), b"x"), (true, None));
        assert_eq!(
            OutputFiles::new([None, None]).put(0, 0, (0, "h"), b"x"),
            (false, None)
        );
    }
}
