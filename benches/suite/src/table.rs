//! Results as Markdown: all of them as a document, and the most important ones as a part of a page.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::goal;
use crate::plot::Plot;
use crate::results::{Cell, Results, Row};

/// A document of everything that was measured, beside which the plots lie.
pub fn full(results: &Results) -> String {
    let mut text = format!("# weft-bench, {}\n\n{}", results.date, circumstances(results));
    text += &goals(results, "##");
    for measure in results.measures() {
        let _ = write!(text, "\n## {}, {}\n\n", measure.title, measure.unit);
        // What has no numbers is not drawn.
        if results
            .rows_of(measure)
            .any(|row| row.cells.iter().any(Option::is_some))
        {
            let _ = write!(text, "![]({}.svg)\n\n", measure.name);
        }
        text += &table("at", results, results.rows_of(measure), |row| row.label.clone());
    }
    if !results.failures.is_empty() {
        text += "\n## Failed\n";
    }
    for failure in &results.failures {
        let _ = write!(text, "\n- {}\n\n      {}\n", failure.title(), failure.command);
        for line in failure.said.lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

/// For a page: what became of the goals, and section by section a table of key points and the plots, which lie in that folder
/// as seen from the page.
pub fn for_page(results: &Results, plots: &[Plot], folder: &Path) -> String {
    let title = |row: &Row| match row.measure() {
        Some(measure) => format!("{}, {}, {}", measure.title, row.label, measure.unit),
        None => row.measure.clone(),
    };
    let mut text = format!("{}, {}", results.date, circumstances(results));
    text += &goals(results, "###");
    let measures: Vec<_> = results.measures().collect();
    for section in measures.chunk_by(|one, next| one.section == next.section) {
        let rows = section.iter().flat_map(|measure| {
            let key = |row: &&Row| measure.key.is_empty() || measure.key.contains(&row.point);
            results.rows_of(measure).filter(key)
        });
        let _ = write!(text, "\n### {}\n\n", section[0].section);
        text += &table("measure", results, rows, title);
        for plot in plots
            .iter()
            .filter(|plot| plot.measure.section == section[0].section)
        {
            let file = folder.join(&plot.file);
            let _ = write!(text, "\n![{}]({})\n", plot.measure.title, file.display());
        }
    }
    text
}

/// Where and how it was measured.
fn circumstances(results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "{} processors of {}, Linux {}, load {} at the start; rounds in turn: {}. \
         Medians of the rounds, with the least and the most. \
         *own* is each library's own choice between ranks of one machine.\n\n",
        machine.processors,
        machine.processor,
        machine.kernel,
        machine.load,
        rounds(results)
    );
    for library in &results.libraries {
        let _ = writeln!(text, "- {}: {}", library.name, library.version);
    }
    let failed = results
        .failures
        .iter()
        .map(|failure| format!("Not measured to its end: {}.", failure.title()));
    let notes: Vec<_> = results.notes.iter().cloned().chain(failed).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// `3`, or `5 (latency), 3 (rate, idle)`.
fn rounds(results: &Results) -> String {
    let mut groups: Vec<(usize, Vec<&str>)> = Vec::new();
    for measure in results.measures() {
        let rounds = results.rounds_of(measure);
        match groups.iter_mut().find(|(count, _)| *count == rounds) {
            Some((_, names)) => names.push(measure.name),
            None => groups.push((rounds, vec![measure.name])),
        }
    }
    let words: Vec<_> = match &groups[..] {
        [(rounds, _)] => vec![rounds.to_string()],
        groups => groups
            .iter()
            .map(|(rounds, names)| format!("{rounds} ({})", names.join(", ")))
            .collect(),
    };
    words.join(", ")
}

/// Goal by goal, with a heading; nothing where no goal's measure was made.
fn goals(results: &Results, heading: &str) -> String {
    let outcomes: Vec<_> = goal::ALL
        .iter()
        .filter_map(|goal| goal.outcome(results))
        .collect();
    if outcomes.is_empty() {
        return String::new();
    }
    let head = ["goal", "over", "Weft", "best peer", "ratio", "wanted", "reached"].map(String::from);
    let mut text =
        format!("\n{heading} Goal by goal\n\n") + &line(&head) + &line(&head.clone().map(|_| "---".into()));
    for outcome in outcomes {
        let or_none = |value: Option<String>| value.unwrap_or("-".into());
        text += &line(&[
            outcome.title,
            over(outcome.over),
            or_none(outcome.weft.map(number)),
            or_none(
                outcome
                    .best
                    .map(|(name, median)| format!("{} ({name})", number(median))),
            ),
            or_none(outcome.ratio.map(|ratio| format!("{ratio:.2}"))),
            outcome.wanted,
            match outcome.reached {
                Some(true) => "yes".into(),
                Some(false) => "**no**".into(),
                None => "not measured".into(),
            },
        ]);
    }
    text
}

/// What carried the messages, in Markdown.
fn over(name: &str) -> String {
    match name {
        "own" => "own".into(),
        provider => format!("`{provider}`"),
    }
}

fn table<'a>(
    first: &str,
    results: &Results,
    rows: impl Iterator<Item = &'a Row>,
    title: impl Fn(&Row) -> String,
) -> String {
    let peers = results.libraries.iter().any(|library| !library.weft);
    let mut head = vec![first.to_string(), "over".to_string()];
    head.extend(results.libraries.iter().map(|library| library.name.clone()));
    if peers {
        head.push("Weft / best peer".into());
    }
    let mut text = line(&head) + &line(&vec!["---".to_string(); head.len()]);
    for row in rows {
        let mut cells = vec![title(row), over(&row.over)];
        cells.extend(
            row.cells
                .iter()
                .map(|cell| cell.as_ref().map_or("-".into(), spread)),
        );
        if peers {
            cells.push(
                results
                    .ratio(row)
                    .map_or("-".into(), |ratio| format!("{ratio:.2}")),
            );
        }
        text += &line(&cells);
    }
    text
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn spread(cell: &Cell) -> String {
    match cell.values.len() {
        1 => number(cell.median),
        _ => format!(
            "{} ({} to {})",
            number(cell.median),
            number(cell.min),
            number(cell.max)
        ),
    }
}

/// Three significant digits, or a few more before the point.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.9995 => 2,
        value if value >= 0.09995 => 3,
        value if value >= 0.009995 => 4,
        _ => 5,
    };
    format!("{value:.digits$}")
}

/// A Markdown file with a part that is ours.
pub struct Page {
    path: PathBuf,
    /// The lines that our part is between.
    begin: String,
    end: String,
    /// The way from the page to the plots.
    pub folder: PathBuf,
}

impl Page {
    /// Finds out whether results can go into the page, into the part of that name, and where from there the plots will be.
    pub fn open(path: &Path, part: Option<&str>, output: &Path) -> Result<Page, String> {
        let real = |path: &Path| {
            path.canonicalize()
                .map_err(|error| format!("cannot find {}: {error}", path.display()))
        };
        let (real_path, output) = (real(path)?, real(output)?);
        let folder = real_path
            .parent()
            .and_then(|above| output.strip_prefix(above).ok())
            .ok_or_else(|| format!("{} is not in the folder of {}", output.display(), path.display()))?;
        let name = part.map_or(String::new(), |part| format!(" {part}"));
        let page = Page {
            path: path.into(),
            begin: format!("<!-- weft-bench{name} -->"),
            end: format!("<!-- end of weft-bench{name} -->"),
            folder: folder.into(),
        };
        page.split()?;
        Ok(page)
    }

    /// Puts the text where ours was.
    pub fn replace(&self, text: &str) -> Result<(), String> {
        let (before, after) = self.split()?;
        let Page { begin, end, .. } = self;
        let whole = format!("{before}{begin}\n{text}{end}{after}");
        fs::write(&self.path, whole).map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    /// What is before and after our part.
    fn split(&self) -> Result<(String, String), String> {
        let path = self.path.display();
        let Page { begin, end, .. } = self;
        let text = fs::read_to_string(&self.path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let parts = text
            .split_once(begin)
            .and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
        match parts {
            Some((before, after)) => Ok((before.into(), after.into())),
            None => Err(format!(
                "{path} lacks the lines {begin} and {end}, in this order, which results go between"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::example;

    const BEGIN: &str = "<!-- weft-bench -->";
    const END: &str = "<!-- end of weft-bench -->";

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.0004, "0.00040"),
            (0.0412, "0.0412"),
            (0.31, "0.310"),
            (1.0, "1.00"),
            (7.826, "7.83"),
            (9.999, "10.0"),
            (10.84, "10.8"),
            (99.97, "100"),
            (1395.4, "1395"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn the_document_has_every_row() {
        let text = full(&example());
        for expected in [
            "# weft-bench, 2026-11-21\n",
            "2 processors of Some CPU, Linux 6.1.0, load 0.02 at the start; rounds in turn: 3 (latency), 1 (rate, barrier, idle). Medians",
            "- Open MPI: Open MPI v5\n",
            "- Open MPI is not measured over net",
            "- Not measured to its end: barrier of Open MPI over own, round 2: it hung: it was ended after 120 s.\n",
            "## One-way latency, µs\n\n![](latency.svg)\n\n| at | over | Weft | Weft, 2.x | MPICH | Open MPI | Weft / best peer |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n\
             | 8 B | own | 0.300 (0.270 to 0.310) | 0.100 | 1.22 (1.20 to 1.25) | 0.200 (0.200 to 0.200) | 1.50 |\n",
            "| 1 MiB | `net` | 244 | - | 170 | - | 1.44 |\n",
            "| 8 ranks | own | 12.0 | - | 4000 | - | 0.00 |\n",
            "\n## Goal by goal\n\n| goal | over | Weft | best peer | ratio | wanted | reached |\n",
            "| One-way latency, 8 B, µs | own | 0.300 | 0.200 (Open MPI) | 1.50 | ratio ≤ 0.80 | **no** |\n",
            "## Failed\n\n- barrier of Open MPI over own, round 2: it hung: it was ended after 120 s\n\n      /opt/bin/mpiexec -n 8",
        ] {
            assert!(text.contains(expected), "no {expected}in\n{text}");
        }
    }

    #[test]
    fn weft_alone_is_compared_with_nobody() {
        let mut results = example();
        results.libraries.truncate(1);
        results.rows.iter_mut().for_each(|row| row.cells.truncate(1));
        let text = full(&results);
        assert!(text.contains("| at | over | Weft |\n"), "{text}");
        assert!(
            text.contains(
                "| One-way latency, 8 B, µs | own | 0.300 | - | - | ratio ≤ 0.80 | not measured |\n"
            ),
            "{text}"
        );
        results.rows.retain(|row| row.measure == "rate" && row.point != 8);
        assert!(!full(&results).contains("Goal"));
    }

    #[test]
    fn a_page_gets_key_points_and_plots_between_its_marks() {
        let folder = tempfile::tempdir().unwrap();
        let (page, output) = (folder.path().join("page.md"), folder.path().join("plots"));
        fs::create_dir(&output).unwrap();
        fs::write(&page, format!("before\n\n{BEGIN}\nold\n{END}\n\nafter\n")).unwrap();
        let mut results = example();
        results.rows[0].point = 64;
        results.rows[0].label = "64 B".into();
        let plots = [Plot {
            measure: results.rows[0].measure().unwrap(),
            file: "latency.svg".into(),
        }];
        for _ in 0..2 {
            let page = Page::open(&page, None, &output).unwrap();
            page.replace(&for_page(&results, &plots, &page.folder)).unwrap();
        }
        let text = fs::read_to_string(&page).unwrap();
        assert!(
            text.starts_with(&format!("before\n\n{BEGIN}\n2026-11-21, 2 processors")),
            "{text}"
        );
        assert!(
            text.ends_with(&format!("| 100 | - | 0.00 |\n{END}\n\nafter\n")),
            "{text}"
        );
        assert!(
            text.contains("| One-way latency, 1 MiB, µs | own | 106 |"),
            "{text}"
        );
        assert!(text.contains("\n### Goal by goal\n\n| goal |"), "{text}");
        assert!(text.contains("\n### Messages\n\n| measure |"), "{text}");
        assert!(
            text.contains("![One-way latency](plots/latency.svg)\n\n### Collectives\n\n| measure |"),
            "{text}"
        );
        assert!(!text.contains("64 B") && !text.contains("old"), "{text}");
    }

    #[test]
    fn a_page_has_parts_with_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        fs::write(
            &path,
            format!("{BEGIN}\nall\n{END}\n<!-- weft-bench one -->\nold\n<!-- end of weft-bench one -->\n"),
        )
        .unwrap();
        let page = Page::open(&path, Some("one"), folder.path()).unwrap();
        page.replace("new\n").unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{BEGIN}\nall\n{END}\n<!-- weft-bench one -->\nnew\n<!-- end of weft-bench one -->\n")
        );
        let error = Page::open(&path, Some("two"), folder.path()).err().unwrap();
        assert!(error.contains("weft-bench two"), "{error}");
    }

    #[test]
    fn a_page_that_will_not_do_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        let refused = |output: &Path| Page::open(&page, None, output).err().unwrap();
        assert!(refused(folder.path()).contains("cannot find"));
        fs::write(&page, format!("{END} {BEGIN}")).unwrap();
        assert!(refused(folder.path()).contains("lacks the lines"));
        assert!(refused(Path::new("/")).contains("not in the folder of"));
    }
}
