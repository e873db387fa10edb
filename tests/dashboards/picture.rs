//! Owns the pictures of the dashboard's data, drawn from the answers to its queries over a demo. Does not own the queries.

use crate::{
    asked, panels,
    server::{Prometheus, Series},
};
use plotters::{coord::Shift, prelude::*};
use serde_json::Value;
use std::path::Path;

/// Names the folder that pictures are written to.
pub const FOLDER: &str = "RECEIPTED_PICTURES";
/// Of a column, and of a line, of the dashboard's grid.
const PIXELS: (u32, u32) = (50, 34);
/// Entries that a legend has room for.
const LEGEND_MAX: usize = 7;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Each row's title with its panels.
pub fn rows(dashboard: &Value) -> Vec<(String, Vec<Value>)> {
    let mut rows: Vec<(String, Vec<Value>)> = Vec::new();
    for panel in panels::list(dashboard, "/panels") {
        match (panels::text(panel, "/type"), rows.last_mut()) {
            ("row", _) => rows.push((panels::text(panel, "/title").to_owned(), Vec::new())),
            (_, Some((_, panels))) => panels.push(panel.clone()),
            (..) => panic!("a panel above the first row"),
        }
    }
    rows
}

/// The name of a row's picture.
pub fn file(row: &str) -> String {
    format!("{}.svg", row.to_lowercase().replace(' ', "-"))
}

/// Whether a picture has the panel, under its title and in its unit.
pub fn shows(drawn: &str, panel: &Value) -> bool {
    drawn.lines().any(|line| line.trim() == caption(panel))
}

fn caption(panel: &Value) -> String {
    let unit = match panels::text(panel, "/fieldConfig/defaults/unit") {
        "s" => ", seconds",
        "ops" => ", per second",
        "bytes" => ", MiB",
        _ => "",
    };
    panels::text(panel, "/title").to_owned() + unit
}

/// Draws each row into a file of its own.
pub fn draw(dashboard: &Value, prometheus: &Prometheus, seconds: u64, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (row, panels) in rows(dashboard) {
        let at = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().and_then(|cells| u32::try_from(cells).ok()).unwrap();
        let top = panels.iter().map(|panel| at(panel, "y")).min().unwrap();
        let height = panels.iter().map(|panel| at(panel, "y") + at(panel, "h")).max().unwrap() - top;
        let path = folder.join(file(&row));
        let root = SVGBackend::new(&path, (24 * PIXELS.0, height * PIXELS.1)).into_drawing_area();
        root.fill(&WHITE).unwrap();
        for panel in &panels {
            let (x, y) = (at(panel, "x") * PIXELS.0, (at(panel, "y") - top) * PIXELS.1);
            let area = root.clone().shrink((x, y), (at(panel, "w") * PIXELS.0, at(panel, "h") * PIXELS.1));
            draw_panel(&area, panel, &lines(panel, prometheus, seconds), seconds);
        }
        root.present().unwrap();
    }
}

/// The lines of a panel with their names. Those that stay at 0 share one.
fn lines(panel: &Value, prometheus: &Prometheus, seconds: u64) -> Vec<(String, Vec<(f64, f64)>)> {
    let unit = if panels::text(panel, "/fieldConfig/defaults/unit") == "bytes" { 1_048_576.0 } else { 1.0 };
    let (mut lines, mut flat) = (Vec::new(), Vec::new());
    for target in panels::list(panel, "/targets") {
        for series in prometheus.range(&asked(panels::text(target, "/expr")), seconds).unwrap() {
            let name = name(panels::text(target, "/legendFormat"), &series);
            let points: Vec<_> = series.points.iter().map(|(at, value)| (*at, value / unit)).collect();
            if points.iter().all(|(_, value)| *value == 0.0) { flat.push((name, points)) } else { lines.push((name, points)) }
        }
    }
    let others = flat.len();
    if let Some((name, points)) = flat.pop() {
        lines.push((if others == 1 { format!("{name}: 0") } else { format!("{others} others: 0") }, points));
    }
    lines
}

/// A legend as Grafana writes it, without the instance, of which there is one, and the prefix of the demo's topics.
fn name(format: &str, series: &Series) -> String {
    let labels = || series.labels.iter().filter(|(label, _)| !["job", "instance", "__name__"].contains(&&***label));
    if format.is_empty() {
        return labels().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
    }
    let named = labels().fold(format.to_owned(), |name, (label, value)| name.replace(&format!("{{{{{label}}}}}"), value));
    named.replace("{{instance}}", "").replace("receipted-demo.", "").trim().to_owned()
}

fn draw_panel(area: &Area<'_>, panel: &Value, lines: &[(String, Vec<(f64, f64)>)], seconds: u64) {
    let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
    let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let high = if high > low { high + (high - low) * 0.1 } else { low + 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(caption(panel), ("sans-serif", 14))
        .margin(6)
        .margin_right(12)
        .x_label_area_size(20)
        .y_label_area_size(40)
        .build_cartesian_2d(0.0..seconds as f64 * 1.6, low..high) // room for the legend beside the lines
        .unwrap();
    let narrow = area.dim_in_pixel().0 < 250;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .x_labels(if narrow { 3 } else { 6 })
        .y_labels(4)
        .x_label_formatter(&|second| format!("{second:.0} s"))
        .y_label_formatter(&|value| number(*value))
        .label_style(("sans-serif", 11))
        .draw()
        .unwrap();
    for (at, (name, points)) in lines.iter().enumerate() {
        let style = Palette99::pick(at).stroke_width(2);
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), style)).unwrap();
        if at < LEGEND_MAX {
            drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], style));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.75))
        .legend_area_size(16)
        .label_font(("sans-serif", 11))
        .draw()
        .unwrap();
}

/// As short as it stays readable.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 1e6 => format!("{:.1}M", value / 1e6),
        v if v >= 1e4 => format!("{:.0}k", value / 1e3),
        v if v >= 10.0 => format!("{value:.0}"),
        v if v >= 0.1 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}
