//! Curves and histograms, as SVG whose colours are the page's. Axes of magnitudes are logarithmic.

use std::ops::Range;

use maud::{Markup, PreEscaped};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::curves::Drift;
use crate::judge::decoded::Decoded;
use crate::judge::spread::{LOWEST, Spread};

/// A chart under way.
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
/// What drawing returns; into memory it fails only where the drawing is wrong.
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Colours that stand for classes of the page's style.
const INK: RGBColor = RGBColor(1, 0, 0);
const GRID: RGBColor = RGBColor(2, 0, 0);
const DRIFT: RGBColor = RGBColor(3, 0, 0);
const MADE: RGBColor = RGBColor(4, 0, 0);
const NOISE: RGBColor = RGBColor(5, 0, 0);
const PASS: RGBColor = RGBColor(6, 0, 0);
const FAIL: RGBColor = RGBColor(7, 0, 0);
const CLASSES: [&str; 7] = ["ink", "grid", "drift", "made", "noise", "pass", "fail"];

/// What a chart is drawn in.
struct Frame<'f> {
    size: (u32, u32),
    x: Range<f64>,
    y: Range<f64>,
    /// What x is, y, and the whole.
    names: [&'f str; 3],
    x_label: &'f dyn Fn(&f64) -> String,
    x_labels: usize,
}

/// Drift, what layers make, and the noise band.
pub(super) fn drift(drift: &Drift, size: (u32, u32)) -> Markup {
    let logarithms = |curve: &[(usize, f64)]| -> Vec<(f64, f64)> {
        let shown = curve.iter().filter(|(_, y)| *y > 0.0 && y.is_finite());
        shown.map(|(x, y)| (*x as f64, y.log10())).collect()
    };
    let (all, made, noise) = (logarithms(&drift.total), logarithms(&drift.made), logarithms(&drift.noise));
    let y = decades([&all, &made, &noise].into_iter().flatten().map(|point| point.1));
    let bottom = y.start;
    let last = drift.layers as f64;
    let x_label = |x: &f64| if *x == last { "logits".to_owned() } else { whole(*x) };
    let names = ["layer", "relative", "drift of the residual stream by layer"];
    let x_labels = drift.layers.min(usize::try_from(size.0 / 60).expect("small")) + 1;
    chart(Frame { size, x: -0.5..last + 0.5, y, names, x_label: &x_label, x_labels }, |chart| {
        chart.draw_series(AreaSeries::new(noise, bottom, NOISE.filled()))?;
        for (curve, color) in [(made, MADE), (all, DRIFT)] {
            chart.draw_series(LineSeries::new(curve.iter().copied(), color.stroke_width(2)))?;
            chart.draw_series(curve.iter().map(|at| Circle::new(*at, 3, color.filled())))?;
        }
        Ok(())
    })
}

/// Values by error to bound, a bar an octave, those outside in another colour.
pub(super) fn histogram(spread: &Spread) -> Markup {
    let octaves = || spread.bins.iter().zip(LOWEST..).filter(|(count, _)| **count > 0);
    let first = octaves().map(|(_, octave)| octave).min().unwrap_or(0).min(-4);
    let last = octaves().map(|(_, octave)| octave).max().unwrap_or(0).max(0) + 1;
    let highest = octaves().map(|(count, _)| *count).max().unwrap_or(1) as f64;
    let names = ["error / bound", "values", "histogram of error to bound"];
    let x_label = |x: &f64| format!("2^{x:.0}");
    let frame = Frame {
        size: (340, 200),
        x: f64::from(first)..f64::from(last),
        y: -0.3..highest.log10() + 0.2,
        names,
        x_label: &x_label,
        x_labels: 6,
    };
    chart(frame, |chart| {
        chart.draw_series(octaves().map(|(count, octave)| {
            let color = if octave < 0 { PASS } else { FAIL };
            let (left, top) = (f64::from(octave), (*count as f64).log10());
            Rectangle::new([(left + 0.08, -0.3), (left + 0.92, top)], color.filled())
        }))?;
        let bound = [(0.0, -0.3), (0.0, highest.log10() + 0.2)];
        chart.draw_series(LineSeries::new(bound, INK.stroke_width(1)))?;
        Ok(())
    })
}

/// The margin at each decoded token, and what noise explains where the token is another.
pub(super) fn margins(decoded: &Decoded) -> Markup {
    let margins = decoded.margins.iter().filter(|margin| **margin > 0.0 && margin.is_finite());
    let y = decades(margins.map(|margin| margin.log10()));
    let height = |margin: f64| margin.log10().clamp(y.start, y.end);
    let count = decoded.margins.len();
    let names = ["decoded token", "margin", "margins of the decode"];
    let x = -0.5..count as f64 - 0.5;
    let frame = Frame { size: (360, 220), x, y: y.clone(), names, x_label: &|x| whole(*x), x_labels: count.min(7) };
    chart(frame, |chart| {
        let points = decoded.margins.iter().enumerate().map(|(at, margin)| (at as f64, height(*margin)));
        chart.draw_series(points.map(|at| Circle::new(at, 3, DRIFT.filled())))?;
        chart.draw_series(decoded.divergences.iter().map(|divergence| {
            let color = if divergence.cause == crate::judge::decoded::Cause::Fault { FAIL } else { MADE };
            let at = (divergence.position as f64, height(divergence.margin.max(f64::MIN_POSITIVE)));
            EmptyElement::at(at) + Rectangle::new([(-5, -5), (5, 5)], color.stroke_width(2))
        }))?;
        Ok(())
    })
}

/// Whole powers of ten around logarithms, at least one.
fn decades(logarithms: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = logarithms.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if low > high { -1.0..0.0 } else { low.floor()..(high.floor() + 1.0) }
}

/// A whole number; nothing in between.
fn whole(x: f64) -> String {
    if x.fract() == 0.0 { x.to_string() } else { String::new() }
}

/// Draws.
fn chart(frame: Frame<'_>, draw: impl FnOnce(&mut Chart<'_, '_>) -> Drawn) -> Markup {
    let mut svg = String::new();
    drawn(&mut svg, &frame, draw).expect("a drawing into memory");
    for (number, class) in CLASSES.iter().enumerate() {
        let color = format!("#{:02X}0000", number + 1);
        for how in ["fill", "stroke"] {
            svg = svg.replace(&format!("{how}=\"{color}\""), &format!("class=\"{how}-{class}\""));
        }
    }
    let start = svg.find('>').map_or(0, |end| end + 1);
    let (width, height) = frame.size;
    let name = frame.names[2];
    PreEscaped(format!(
        "<svg class=\"plot\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{name}\">{}",
        &svg[start..].replace(" opacity=\"1\"", "").replace('\n', "")
    ))
}

fn drawn(svg: &mut String, frame: &Frame<'_>, draw: impl FnOnce(&mut Chart<'_, '_>) -> Drawn) -> Drawn {
    let root = SVGBackend::with_string(svg, frame.size).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(frame.x.clone(), frame.y.clone())?;
    let [x_name, y_name, _] = frame.names;
    let text = ("sans-serif", 14).into_font().color(&INK);
    chart
        .configure_mesh()
        .x_desc(x_name)
        .y_desc(y_name)
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(text.clone())
        .axis_desc_style(text)
        .x_labels(frame.x_labels)
        .y_labels(6)
        .x_label_formatter(frame.x_label)
        .y_label_formatter(&|y| if y.fract() == 0.0 { format!("1e{y}") } else { String::new() })
        .draw()?;
    draw(&mut chart)?;
    root.present()
}
