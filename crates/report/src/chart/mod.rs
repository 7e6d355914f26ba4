//! Charts as SVG: lines, bars, and measurements with their spread.
//!
//! They need no script and no network. Colours are classes that the style sheet of the page (or of
//! the file) fills in, for light, dark and paper. Series differ in markers and dashes too, so that
//! nothing is lost in black and white. Each has a title and a description for screen readers. The
//! view box is narrow, so that letters are legible on a phone.

#[cfg(test)]
pub(crate) mod tests;

use maud::{Markup, PreEscaped, html};

use crate::plain;

pub(crate) mod calendar;
pub(crate) mod dots;
pub(crate) mod downsample;
pub(crate) mod line;
pub(crate) mod scale;
pub(crate) mod stack;
pub(crate) mod timeline;

pub(crate) use scale::{ChartUnit, Scale, Spacing};
pub(crate) use stack::shade_class;

/// Of every chart's view box.
pub(crate) const WIDTH: f64 = 480.0;
/// Series that differ in colour, marker and dash.
const LOOKS: usize = 6;

pub(crate) const STYLE: &str = "\
.chart{--ink:#1b1f24;--faint:#59636e;--grid:#d8dee4;--s0:#c2410c;--s1:#8250df;--s2:#0969da;--s3:#1a7f37;--s4:#9a6700;--s5:#bf3989}
@media (prefers-color-scheme:dark){.chart{--ink:#e6edf3;--faint:#9198a1;--grid:#30363d;--s0:#fb8f44;--s1:#be8fff;--s2:#58a6ff;--s3:#4ac26b;--s4:#d4a72c;--s5:#ff80c8}}
@media print{.chart{--ink:#000;--faint:#333;--grid:#bbb;--s0:#c2410c;--s1:#8250df;--s2:#0969da;--s3:#1a7f37;--s4:#9a6700;--s5:#bf3989}}
.chart text{fill:var(--ink);font:13px system-ui,sans-serif}
.chart .faint{fill:var(--faint);font-size:12px}
.chart .head{font-weight:600;font-size:15px}
.chart .grid{stroke:var(--grid);stroke-width:1}
.chart .axis{stroke:var(--faint);stroke-width:1}
.chart .end{text-anchor:end}.chart .mid{text-anchor:middle}
.chart .line{fill:none;stroke-width:2}
.chart .band{stroke:none;fill-opacity:.15}
.chart .s0{stroke:var(--s0);fill:var(--s0)}.chart .s1{stroke:var(--s1);fill:var(--s1)}
.chart .s2{stroke:var(--s2);fill:var(--s2)}.chart .s3{stroke:var(--s3);fill:var(--s3)}
.chart .s4{stroke:var(--s4);fill:var(--s4)}.chart .s5{stroke:var(--s5);fill:var(--s5)}
.chart .line{fill:none}.chart .sample{fill-opacity:.35;stroke:none}.chart .bar{stroke:none}
";

#[derive(Clone, Debug)]
pub(crate) struct Caption {
    pub title: String,
    /// What is seen, in a sentence, for those who do not see it.
    pub description: String,
}

/// A finished chart.
#[derive(Clone, Debug)]
pub struct Svg {
    caption: Caption,
    height: f64,
    body: Markup,
}

impl Svg {
    pub(crate) fn to_inline_markup(&self) -> Markup {
        self.write(None)
    }

    /// The chart as a file of its own.
    pub fn to_standalone_svg(&self) -> String {
        format!("{}\n", plain::escape_document(&self.write(Some(STYLE)).into_string()))
    }

    fn write(&self, style: Option<&str>) -> Markup {
        let view = format!("0 0 {WIDTH} {}", self.height);
        html! {
            svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox=(view) role="img" {
                title { (self.caption.title) }
                desc { (self.caption.description) }
                @if let Some(style) = style { style { (PreEscaped(style)) } }
                text.head x="0" y="16" { (self.caption.title) }
                (self.body)
            }
        }
    }
}

pub(crate) fn series_class(series: usize) -> String {
    format!("s{}", series % LOOKS)
}

pub(crate) fn dash_pattern(series: usize, forecast: bool) -> &'static str {
    if forecast {
        return "2 4";
    }
    match series % LOOKS {
        0 | 2 => "none",
        1 => "9 3",
        3 => "6 2 2 2",
        4 => "12 4",
        _ => "4 2",
    }
}

pub(crate) fn draw_marker(series: usize, x: f64, y: f64) -> Markup {
    let class = series_class(series);
    let (left, top) = (round_to_hundredths(x - 3.5), round_to_hundredths(y - 3.5));
    let circle = |radius: &str| {
        html! { circle class=(class) cx=(round_to_hundredths(x)) cy=(round_to_hundredths(y)) r=(radius) {} }
    };
    let polygon = |points: &[(f64, f64)]| {
        let place = |(dx, dy): &(f64, f64)| {
            format!("{},{}", round_to_hundredths(x + dx), round_to_hundredths(y + dy))
        };
        let points = points.iter().map(place).collect::<Vec<_>>().join(" ");
        html! { polygon class=(class) points=(points) {} }
    };
    match series % LOOKS {
        0 => circle("4"),
        1 => polygon(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
        2 => html! { rect class=(class) x=(left) y=(top) width="7" height="7" {} },
        3 => polygon(&[(0.0, -5.0), (4.5, 4.0), (-4.5, 4.0)]),
        4 => polygon(&[(0.0, 5.0), (4.5, -4.0), (-4.5, -4.0)]),
        _ => circle("3"),
    }
}

/// Draws names of series beside their markers in as many rows as needed; returns where it ended.
pub(crate) fn draw_legend<'a>(
    names: impl Iterator<Item = (usize, bool, &'a str)>,
    top: f64,
) -> (Markup, f64) {
    const LETTER: f64 = 7.2;
    const ROW: f64 = 19.0;
    let (mut x, mut y) = (6.0, top + 8.0);
    let mut entries = Vec::new();
    for (series, forecast, name) in names {
        let width = 34.0 + LETTER * count_letters(name);
        if x > 6.0 && x + width > WIDTH {
            (x, y) = (6.0, y + ROW);
        }
        entries.push((series, forecast, name, x, y));
        x += width;
    }
    let body = html! {
        @for (series, forecast, name, x, y) in &entries {
            @if *forecast {
                line class={ "line " (series_class(*series)) } stroke-dasharray=(dash_pattern(*series, true)) x1=(round_to_hundredths(x - 6.0))
                    x2=(round_to_hundredths(x + 8.0)) y1=(round_to_hundredths(*y)) y2=(round_to_hundredths(*y)) {}
            } @else {
                (draw_marker(*series, *x, *y))
            }
            text x=(round_to_hundredths(x + 10.0)) y=(round_to_hundredths(y + 4.5)) { (name) }
        }
    };
    (body, if entries.is_empty() { top } else { y + ROW - 8.0 })
}

pub(crate) fn count_letters(text: &str) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX))
}

pub(crate) fn index_to_f64(at: usize) -> f64 {
    f64::from(u32::try_from(at).unwrap_or(u32::MAX))
}

/// Hundredths of a pixel are finer than anybody sees.
pub(crate) fn round_to_hundredths(value: f64) -> f64 {
    let rounded = (value * 100.0).round() / 100.0;
    // Without the sum, a rounded -0.0 would be written as `-0`.
    rounded + 0.0
}

/// Draws an axis below a chart of rows, with lines up through them.
pub(crate) fn draw_value_axis(scale: &Scale, unit: ChartUnit, top: f64, bottom: f64) -> Markup {
    let mut shown_to = f64::NEG_INFINITY;
    let mut labels = Vec::new();
    for tick in &scale.ticks {
        let Some(x) = scale.place(*tick) else { continue };
        let text = unit.format_value(*tick);
        let half = count_letters(&text) * 3.6;
        let x_text = x.min(WIDTH - half).max(half);
        let fits = x_text - half > shown_to;
        if fits {
            shown_to = x_text + half + 6.0;
        }
        labels.push((x, x_text, fits.then_some(text)));
    }
    html! {
        @for (x, x_text, text) in &labels {
            line.grid x1=(round_to_hundredths(*x)) x2=(round_to_hundredths(*x)) y1=(round_to_hundredths(top)) y2=(round_to_hundredths(bottom)) {}
            @if let Some(text) = text {
                text.faint.mid x=(round_to_hundredths(*x_text)) y=(round_to_hundredths(bottom + 16.0)) { (text) }
            }
        }
    }
}
