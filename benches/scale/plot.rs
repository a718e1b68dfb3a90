//! A plot for each operation: time over ranks, a panel for each length.

use std::path::Path;

use plotters::prelude::*;
use weft::instance::selection::Operation;
use weft::objects::collective::model::algorithms;

use crate::{Case, MACHINES};

/// One panel's pixels.
const PANEL: (u32, u32) = (460, 380);
const HEAD: u32 = 30;
const FONT: &str = "sans-serif";
/// Of the algorithms: colours that people who see few colours tell apart (after Okabe and Ito), then greys.
const COLOURS: [RGBColor; 9] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(150, 120, 40),
    RGBColor(120, 120, 120),
    RGBColor(90, 60, 140),
];
/// The machine of the plots.
const MACHINE: &str = MACHINES[1].name;

/// Writes `plots/scale-OPERATION.svg` for every operation.
pub fn write(cases: &[Case], docs: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for &operation in Operation::ALL {
        let cases: Vec<&Case> = cases
            .iter()
            .filter(|case| {
                case.call.operation == operation && case.machine.name == MACHINE && case.call.per_host == 1
            })
            .collect();
        let mut lengths: Vec<u64> = cases.iter().map(|case| case.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let path = docs.join(format!("plots/scale-{}.svg", operation.name()));
        let columns = lengths.len().clamp(1, 2);
        let rows = lengths.len().div_ceil(2).max(1);
        let size = (PANEL.0 * columns as u32, HEAD + PANEL.1 * rows as u32);
        let root = SVGBackend::new(&path, size).into_drawing_area();
        root.fill(&WHITE)?;
        let title = format!(
            "{} on {MACHINE}: time by ranks (black: chosen, grey: bound)",
            operation.name()
        );
        let root = root.titled(&title, (FONT, 16))?;
        for (panel, &length) in root.split_evenly((rows, columns)).iter().zip(&lengths) {
            let of: Vec<&Case> = cases
                .iter()
                .copied()
                .filter(|case| case.length == length)
                .collect();
            draw(panel, operation, length, &of)?;
        }
        root.present()?;
    }
    Ok(())
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(
    panel: &Panel<'_>,
    operation: Operation,
    length: u64,
    cases: &[&Case],
) -> Result<(), Box<dyn std::error::Error>> {
    let us = |ps: u64| ps as f64 / 1e6;
    let point = |case: &Case, ps: u64| (f64::from(case.call.ranks), us(ps).max(0.01));
    let times = cases
        .iter()
        .flat_map(|case| case.each.iter().flatten().map(|cost| us(cost.time)));
    let low = cases
        .iter()
        .map(|case| us(case.bound))
        .fold(f64::MAX, f64::min)
        .max(0.01);
    let high = times.fold(low, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .margin(8)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .caption(
            if length == 0 {
                String::new()
            } else {
                format!("{length} bytes")
            },
            (FONT, 14),
        )
        .build_cartesian_2d((8.0..130_000.0).log_scale(), (low / 2.0..high * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("ranks")
        .y_desc("µs")
        .label_style((FONT, 11))
        .draw()?;
    for (at, algorithm) in algorithms(operation).iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points = cases
            .iter()
            .filter_map(|case| Some(point(case, case.each[at]?.time)));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(2))?
            .label(*algorithm)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
    }
    let bounds = cases.iter().map(|case| point(case, case.bound));
    chart.draw_series(LineSeries::new(bounds, RGBColor(190, 190, 190).stroke_width(3)))?;
    let chosen = cases
        .iter()
        .filter_map(|case| Some(point(case, case.chosen?.time)));
    chart.draw_series(chosen.map(|point| Circle::new(point, 4, BLACK.stroke_width(2))))?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 10))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
