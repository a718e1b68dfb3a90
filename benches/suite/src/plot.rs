//! Results as pictures: an SVG for each measure, with a panel for each thing that carried the messages.
//!
//! Several points are a line for each library, over an axis of powers of two, or marks where the points are kinds of
//! something; one point is a bar for each library.
//! The spread between rounds is a thin vertical line.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::{CoordTranslate, Shift};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::measure::{Measure, Point, thousands};
use crate::results::{Results, Row};
use crate::table::number;

/// A plot that has been written.
#[derive(Debug)]
pub struct Plot {
    pub measure: &'static Measure,
    /// Its file's name.
    pub file: String,
}

/// One panel's pixels.
const PANEL: (u32, u32) = (440, 340);
/// Title and legend have room in this width.
const WIDTH_MIN: u32 = 680;
/// Pixels of title and legend above the panels.
const HEAD: u32 = 56;
const FONT: &str = "sans-serif";
/// Of the libraries, in their order: colours that people who see few colours tell apart (after Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failed = Box<dyn std::error::Error>;

/// Draws every measure that has numbers.
pub fn all(results: &Results, folder: &Path) -> Result<Vec<Plot>, String> {
    let mut plots = Vec::new();
    for measure in results.measures() {
        let panels = panels(results, measure);
        if panels.is_empty() {
            continue;
        }
        let file = format!("{}.svg", measure.name);
        let path = folder.join(&file);
        draw(results, measure, &panels, &path)
            .map_err(|error| format!("cannot draw {}: {error}", path.display()))?;
        plots.push(Plot { measure, file });
    }
    Ok(plots)
}

/// The rows of one panel.
struct Panel<'a> {
    over: &'a str,
    ranks: Option<u32>,
    rows: Vec<&'a Row>,
}

/// A panel for each thing that carried messages and has numbers.
fn panels<'a>(results: &'a Results, measure: &'static Measure) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in results
        .rows_of(measure)
        .filter(|row| row.cells.iter().any(Option::is_some))
    {
        let same = |panel: &&mut Panel| panel.over == row.over && panel.ranks == row.ranks;
        match panels.iter_mut().find(same) {
            Some(panel) => panel.rows.push(row),
            None => panels.push(Panel {
                over: &row.over,
                ranks: row.ranks,
                rows: vec![row],
            }),
        }
    }
    panels
}

fn draw(results: &Results, measure: &Measure, panels: &[Panel], path: &Path) -> Result<(), Failed> {
    let width = (PANEL.0 * panels.len() as u32).max(WIDTH_MIN);
    let size = (width, HEAD + PANEL.1);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    let better = if measure.lower_is_better {
        "lower"
    } else {
        "higher"
    };
    let title = format!("{}, {} ({better} is better)", measure.title, measure.unit);
    head.draw(&Text::new(title, (12, 8), (FONT, 17)))?;
    legend(&head, results, panels)?;
    for (panel, area) in panels.iter().zip(body.split_evenly((1, panels.len()))) {
        if panels.iter().all(|panel| panel.rows.len() == 1) {
            bars(&area, measure, panel)?;
        } else {
            lines(&area, measure, panel)?;
        }
    }
    root.present()?;
    Ok(())
}

/// Marks and names of the libraries that have a number somewhere.
fn legend(area: &Area, results: &Results, panels: &[Panel]) -> Result<(), Failed> {
    let mut left = 14;
    for (index, library) in results.libraries.iter().enumerate() {
        let shown = |panel: &Panel| panel.rows.iter().any(|row| row.cells[index].is_some());
        if !panels.iter().any(shown) {
            continue;
        }
        let colour = COLOURS[index % COLOURS.len()];
        area.draw(&PathElement::new(
            vec![(left, 40), (left + 24, 40)],
            colour.stroke_width(2),
        ))?;
        mark(area, index, (left + 12, 40))?;
        area.draw(&Text::new(library.name.clone(), (left + 30, 33), (FONT, 13)))?;
        // No font is at hand to measure with: the widest letters that names are made of.
        left += 50 + 7 * library.name.chars().count() as i32;
    }
    Ok(())
}

/// Draws what stands for a library at a point.
fn mark<DB: DrawingBackend, CT: CoordTranslate>(
    area: &DrawingArea<DB, CT>,
    index: usize,
    at: CT::From,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>>
where
    CT::From: Clone,
{
    let style = COLOURS[index % COLOURS.len()].filled();
    let place = EmptyElement::at(at);
    match index % 4 {
        0 => area.draw(&(place + Circle::new((0, 0), 4, style))),
        1 => area.draw(&(place + Rectangle::new([(-4, -4), (4, 4)], style))),
        2 => area.draw(&(place + Polygon::new(vec![(0, -5), (5, 4), (-5, 4)], style))),
        _ => area.draw(&(place + Polygon::new(vec![(0, -5), (5, 0), (0, 5), (-5, 0)], style))),
    }
}

/// An axis of places, evenly spread.
#[derive(Clone)]
struct Axis {
    range: Range<f64>,
    /// Where a line and a label are.
    labels: Vec<f64>,
    /// Where a finer line is.
    between: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let part = (place - self.range.start) / (self.range.end - self.range.start);
        first + (part * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.between.clone()
        } else {
            self.labels.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// The vertical axis, and how numbers become places on it.
struct Scale {
    logarithmic: bool,
    axis: Axis,
}

impl Scale {
    /// A scale that has room for all numbers from the least to the most.
    fn new(logarithmic: bool, min: f64, max: f64) -> Scale {
        // Something that measures 0 has no place on a logarithmic axis.
        if !logarithmic || min <= 0.0 {
            let top = if max > 0.0 { max * 1.12 } else { 1.0 };
            let step = step(top);
            let labels = (0..)
                .map(|n| f64::from(n) * step)
                .take_while(|at| *at <= top)
                .collect();
            let axis = Axis {
                range: 0.0..top,
                labels,
                between: vec![],
            };
            return Scale {
                logarithmic: false,
                axis,
            };
        }
        let range = (min / 1.3).log10()..(max * 1.3).log10();
        let within = |factors: &[f64]| -> Vec<f64> {
            let decades = range.start.floor() as i32..=range.end.ceil() as i32;
            let all = decades.flat_map(|decade| {
                factors
                    .iter()
                    .map(move |factor| f64::from(decade) + factor.log10())
            });
            all.filter(|at| range.contains(at)).collect()
        };
        let factors: &[f64] = if range.end - range.start < 2.2 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let labels = within(factors);
        let between = within(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let axis = Axis {
            range,
            labels,
            between,
        };
        Scale { logarithmic, axis }
    }

    fn of(measure: &Measure, panel: &Panel) -> Scale {
        let cells = || panel.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let min = cells().map(|cell| cell.min).fold(f64::INFINITY, f64::min);
        let max = cells().map(|cell| cell.max).fold(0.0, f64::max);
        Scale::new(measure.logarithmic, min, max)
    }

    fn place(&self, value: f64) -> f64 {
        if self.logarithmic { value.log10() } else { value }
    }

    /// The label at a place: as short as it can be said.
    fn label(&self, place: f64) -> String {
        let value = if self.logarithmic {
            10f64.powf(place)
        } else {
            place
        };
        let rounded = format!("{value:.3}");
        rounded.trim_end_matches('0').trim_end_matches('.').to_string()
    }
}

/// 1, 2, 2.5 or 5 times a power of ten, so that there are three to six steps up to the top.
fn step(top: f64) -> f64 {
    let rough = top / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|factor| factor * power >= rough)
        .unwrap_or(10.0);
    factor * power
}

/// `8`, `64K`, `4M`; a number of ranks as it is.
fn short(point: Point, value: u64) -> String {
    match point {
        Point::Bytes if value.is_multiple_of(1 << 20) => format!("{}M", value >> 20),
        Point::Bytes if value.is_multiple_of(1 << 10) => format!("{}K", value >> 10),
        Point::Layout | Point::Operation => {
            let kind = point.kinds().get(value as usize);
            kind.map_or("?", |(kind, _)| kind).into()
        }
        Point::Queue => thousands(value),
        _ => value.to_string(),
    }
}

fn caption(panel: &Panel) -> String {
    let over = match panel.over {
        "own" => "each library's own choice".to_string(),
        provider => format!("over {provider}"),
    };
    match panel.ranks {
        Some(ranks) => format!("{over}, {}", Point::Ranks.label(ranks.into())),
        None => over,
    }
}

fn lines(area: &Area, measure: &Measure, panel: &Panel) -> Result<(), Failed> {
    let scale = Scale::of(measure, panel);
    // Kinds stand side by side, and nothing is between them for a line to mean.
    let kinds = !measure.point.kinds().is_empty();
    let x = |row: &Row| {
        if kinds {
            row.point as f64
        } else {
            (row.point as f64).log2()
        }
    };
    let mut points: Vec<(f64, u64)> = panel.rows.iter().map(|row| (x(row), row.point)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let margin = ((last - first) * 0.04).max(0.1);
    let across = Axis {
        range: first - margin..last + margin,
        labels: points.iter().map(|point| point.0).collect(),
        between: vec![],
    };
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(16)
        .caption(caption(panel), (FONT, 14))
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(across, scale.axis.clone())?;
    let label = |at: &f64| {
        let nearest = points
            .iter()
            .min_by(|a, b| (a.0 - at).abs().total_cmp(&(b.0 - at).abs()));
        nearest.map_or(String::new(), |&(_, value)| short(measure.point, value))
    };
    chart
        .configure_mesh()
        .bold_line_style(BLACK.mix(0.18))
        .light_line_style(BLACK.mix(0.06))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .x_desc(match measure.point {
            Point::Bytes => "message size, bytes",
            Point::Ranks => "ranks",
            Point::Layout | Point::Operation => "",
            Point::Queue => "n",
            Point::Pairs => "pairs of threads",
            Point::Milliseconds => "milliseconds",
        })
        .y_desc(measure.unit)
        .x_label_formatter(&label)
        .y_label_formatter(&|at| scale.label(*at))
        .draw()?;
    // Weft comes last, on top of the others.
    for index in (0..panel.rows[0].cells.len()).rev() {
        let colour = COLOURS[index % COLOURS.len()];
        let mut line = Vec::new();
        for row in &panel.rows {
            let Some(cell) = &row.cells[index] else { continue };
            let spread = [cell.min, cell.max].map(|value| (x(row), scale.place(value)));
            chart.draw_series([PathElement::new(spread, colour.mix(0.6))])?;
            line.push((x(row), scale.place(cell.median)));
        }
        for &at in &line {
            mark(chart.plotting_area(), index, at)?;
        }
        if !kinds {
            let width = if index == 0 { 3 } else { 2 };
            chart.draw_series([PathElement::new(line, colour.stroke_width(width))])?;
        }
    }
    Ok(())
}

fn bars(area: &Area, measure: &Measure, panel: &Panel) -> Result<(), Failed> {
    let row = panel.rows[0];
    // Bars begin at 0: on a logarithmic axis their lengths would mean nothing.
    let most = row
        .cells
        .iter()
        .flatten()
        .map(|cell| cell.max)
        .fold(0.0, f64::max);
    let scale = Scale::new(false, 0.0, most);
    let cells: Vec<_> = row
        .cells
        .iter()
        .enumerate()
        .filter_map(|(index, cell)| Some((index, cell.as_ref()?)))
        .collect();
    let across = Axis {
        range: 0.0..cells.len() as f64,
        labels: vec![],
        between: vec![],
    };
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(16)
        .caption(caption(panel), (FONT, 14))
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(across, scale.axis.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(BLACK.mix(0.18))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .x_desc(row.label.clone())
        .y_desc(measure.unit)
        .y_label_formatter(&|at| scale.label(*at))
        .draw()?;
    for (place, (index, cell)) in cells.into_iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let (left, right) = (place as f64 + 0.25, place as f64 + 0.75);
        let middle = place as f64 + 0.5;
        chart.draw_series([Rectangle::new(
            [(left, 0.0), (right, cell.median)],
            colour.mix(0.75).filled(),
        )])?;
        chart.draw_series([PathElement::new([(middle, cell.min), (middle, cell.max)], colour)])?;
        // A bar of next to nothing shows no colour.
        mark(chart.plotting_area(), index, (middle, cell.median))?;
        let style = (FONT, 12)
            .into_font()
            .into_text_style(area)
            .pos(Pos::new(HPos::Center, VPos::Bottom));
        chart.draw_series([
            EmptyElement::at((middle, cell.max)) + Text::new(number(cell.median), (0, -7), style)
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::example;

    #[test]
    fn every_measure_is_drawn_with_all_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let plots = all(&example(), folder.path()).unwrap();
        let names: Vec<_> = plots.iter().map(|plot| plot.file.as_str()).collect();
        assert_eq!(names, ["latency.svg", "rate.svg", "barrier.svg", "idle.svg"]);
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let latency = text("latency.svg");
        let words = [
            "One-way latency, µs (lower is better)",
            "Weft, 2.x",
            "MPICH",
            "Open MPI",
            "own choice",
            "over net",
            "message size, bytes",
            "1M",
            "µs",
        ];
        for word in words {
            assert!(latency.contains(word), "no {word} in {latency}");
        }
        // A mark in each of two panels, and in the legend.
        assert!(latency.matches("<circle").count() > 4, "{latency}");
        assert!(text("idle.svg").contains("0.0400") && text("idle.svg").contains("10 s"));
    }

    #[test]
    fn a_logarithmic_axis_names_powers_of_ten() {
        let scale = Scale::new(true, 0.2, 300.0);
        let labels: Vec<_> = scale.axis.labels.iter().map(|&at| scale.label(at)).collect();
        assert_eq!(labels, ["1", "10", "100"]);
        assert!(
            scale.axis.range.contains(&scale.place(0.2)) && scale.axis.range.contains(&scale.place(300.0))
        );
        let scale = Scale::new(true, 0.2, 0.9);
        let labels: Vec<_> = scale.axis.labels.iter().map(|&at| scale.label(at)).collect();
        assert_eq!(labels, ["0.2", "0.5", "1"]);
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        let scale = Scale::new(false, 3.0, 17.0);
        let labels: Vec<_> = scale.axis.labels.iter().map(|&at| scale.label(at)).collect();
        assert_eq!(labels, ["0", "5", "10", "15"]);
        // Nothing measured above 0, or 0 where logarithms were asked for: still an axis.
        assert_eq!(Scale::new(false, 0.0, 0.0).axis.range, 0.0..1.0);
        assert!(!Scale::new(true, 0.0, 5.0).logarithmic);
        for top in [0.003, 1.0, 7.0, 99.0, 1e6] {
            let steps = top / step(top);
            assert!((3.0..=6.001).contains(&steps), "{steps} up to {top}");
        }
    }

    #[test]
    fn a_measure_without_numbers_is_not_drawn() {
        let mut results = example();
        for row in &mut results.rows {
            row.cells.iter_mut().for_each(|cell| *cell = None);
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(all(&results, folder.path()).unwrap().is_empty());
    }
}
