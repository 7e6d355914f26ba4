//! Values over time, beside other charts on the same axis.
//!
//! A chart is as wide as the page lets it be, and its letters keep their size: places along the
//! axis are parts of the width. What is drawn stands in a picture of its own, [`WIDE`] by [`TALL`],
//! which is stretched. The page's script changes that picture's view box to zoom, and finds in
//! `data-` attributes what else it needs.

use std::fmt::Write;

use hugewise_investigate::Moment;
use maud::{Markup, html};

use super::calendar::calendar_ticks;
use super::{Caption, ChartUnit, dash_pattern, round_to_hundredths, series_class};

/// Size of the stretched picture.
pub(crate) const WIDE: f64 = 100_000.0;
pub(crate) const TALL: f64 = 2000.0;
/// Pixels above the plot, of the plot, and below it for the times.
const HEAD: f64 = 16.0;
const PLOT: f64 = 150.0;
const FOOT: f64 = 22.0;
/// At this part of the width from an edge, a centred label would be cut off on a phone.
const EDGE: f64 = 0.06;
/// The largest end of an axis: an exbibyte, more than any host has.
const MOST: f64 = 1.2e18;

pub(crate) const STYLE: &str = "\
.time{display:block;width:100%;touch-action:pan-y;cursor:crosshair;overflow:hidden}
.time .plot{overflow:hidden}
.time path{vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.time .line{stroke-width:1.75}
.time .area{stroke-width:1}
.time .row{stroke:var(--grid);stroke-width:1}
.time .tick{stroke:var(--grid);stroke-width:1;stroke-dasharray:2 3}
.time .base{stroke:var(--faint);stroke-width:1}
.time .shade{fill:var(--shade);stroke:var(--shade);stroke-width:2;vector-effect:non-scaling-stroke}
.time .mark{stroke:var(--faint);stroke-width:1;stroke-dasharray:4 3;vector-effect:non-scaling-stroke}
.time text{paint-order:stroke;stroke:var(--ground);stroke-width:3px;stroke-linejoin:round}
.time .number{font-weight:600;font-size:12px;text-anchor:middle;fill:var(--bad)}
.time .cursor{stroke:var(--ink);stroke-width:1;pointer-events:none}
.time .chosen{fill:var(--ink);fill-opacity:.12;pointer-events:none}
";

#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub look: usize,
    /// Moments and values; a new stretch begins after a gap.
    pub stretches: Vec<Vec<(i64, f64)>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    pub window: (Moment, Moment),
    pub number: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct TimeAxis {
    pub span: (Moment, Moment),
    /// Seconds east of Greenwich.
    pub offset: i32,
    pub bands: Vec<Band>,
    /// Restarts.
    pub marks: Vec<Moment>,
}

impl TimeAxis {
    /// From 0 to 1.
    fn position_of(&self, at: i64) -> f64 {
        let length = millis_to_seconds(self.span.1.0) - millis_to_seconds(self.span.0.0);
        if length > 0.0 {
            (millis_to_seconds(at) - millis_to_seconds(self.span.0.0)) / length
        } else {
            0.0
        }
    }
}

fn millis_to_seconds(at: i64) -> f64 {
    // Split in two, as f64 cannot be made from all of i64 without loss.
    let whole =
        i32::try_from(at.div_euclid(1_000_000)).unwrap_or(if at < 0 { i32::MIN } else { i32::MAX });
    f64::from(whole) * 1000.0
        + f64::from(i32::try_from(at.rem_euclid(1_000_000)).unwrap_or(0)) / 1000.0
}

/// Lines, or areas on top of each other.
#[derive(Clone, Debug)]
pub(crate) struct TimelineChart<'a> {
    pub caption: Caption,
    pub unit: ChartUnit,
    /// The fixed top of the axis, such as 100 of per cent.
    pub top: Option<f64>,
    /// Areas; each value is the sum of its layer's and of those before it.
    pub stacked: bool,
    /// In the order of the legend; of areas, from the bottom up.
    pub layers: Vec<Layer>,
    pub axis: &'a TimeAxis,
}

impl TimelineChart<'_> {
    pub(crate) fn draw(&self) -> Markup {
        let values = || {
            self.layers.iter().flat_map(|layer| &layer.stretches).flatten().map(|(_, value)| *value)
        };
        let most = self.top.unwrap_or_else(|| values().fold(0.0, f64::max).min(MOST));
        let rows = super::scale::linear_ticks(most, self.unit, 3);
        let top = rows.last().copied().unwrap_or(1.0);
        let bottom = HEAD + PLOT;
        let y = |value: f64| round_to_hundredths(bottom - PLOT * value / top);
        let view = format!("0 0 {WIDE} {TALL}");
        let axis = self.axis;
        let percent =
            |at: Moment| format!("{}%", round_to_hundredths(100.0 * axis.position_of(at.0)));
        html! {
            svg.chart.time height=(HEAD + PLOT + FOOT) role="img" data-top=(top) {
                title { (self.caption.title) }
                desc { (self.caption.description) }
                @for row in &rows { line.row x1="0" x2="100%" y1=(y(*row)) y2=(y(*row)) {} }
                g.ticks {
                    @for tick in calendar_ticks(axis.span, axis.offset, 5) {
                        line.tick x1=(percent(tick.at)) x2=(percent(tick.at)) y1=(HEAD) y2=(bottom) {}
                        text class={ "faint " (label_anchor(axis.position_of(tick.at.0))) } x=(percent(tick.at)) y=(bottom + 16.0) { (tick.label) }
                    }
                }
                svg.plot x="0" y=(HEAD) width="100%" height=(PLOT) viewBox=(view) preserveAspectRatio="none" {
                    @for band in &axis.bands {
                        @let (from, to) = (scale_to_picture(axis, band.window.0.0), scale_to_picture(axis, band.window.1.0));
                        rect.shade x=(from) width=((to - from).max(1)) y="0" height=(TALL) {}
                    }
                    // The highest first: each that follows covers what is below it.
                    @if self.stacked {
                        @for layer in self.layers.iter().rev() {
                            path class={ "area " (series_class(layer.look)) } d=(trace_outline(layer, axis, top, true)) {}
                        }
                    } @else {
                        @for layer in &self.layers {
                            path class={ "line " (series_class(layer.look)) } stroke-dasharray=(dash_pattern(layer.look, false))
                                d=(trace_outline(layer, axis, top, false)) {}
                        }
                    }
                    @for mark in &axis.marks {
                        @let x = scale_to_picture(axis, mark.0);
                        path.mark d={ "M" (x) ",0V" (TALL) } {}
                    }
                }
                line.base x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
                @for row in rows.iter().skip(1) { text.faint x="2" y=(y(*row) - 3.0) { (self.unit.format_value(*row)) } }
                @for band in &axis.bands {
                    @let middle = i64::midpoint(band.window.0.0, band.window.1.0);
                    text.number x=(percent(Moment(middle))) y="11" data-at=(middle) { (band.number) }
                }
            }
        }
    }
}

fn label_anchor(part: f64) -> &'static str {
    match part {
        near if near < EDGE => "start",
        far if far > 1.0 - EDGE => "end",
        _ => "mid",
    }
}

fn scale_to_picture(axis: &TimeAxis, at: i64) -> i64 {
    round_to_i64(axis.position_of(at).clamp(-1.0, 2.0) * WIDE)
}

fn round_to_i64(value: f64) -> i64 {
    // Clamped to what a float holds exactly.
    format!("{:.0}", value).parse().unwrap_or(0)
}

/// One path of whole steps. An area goes down to the base line at both ends of a stretch.
fn trace_outline(layer: &Layer, axis: &TimeAxis, top: f64, filled: bool) -> String {
    let mut path = String::new();
    for stretch in &layer.stretches {
        let places: Vec<(i64, i64)> = stretch
            .iter()
            .map(|(at, value)| {
                (
                    scale_to_picture(axis, *at),
                    round_to_i64(TALL * (1.0 - (value / top).clamp(0.0, 1.0))),
                )
            })
            .collect();
        let Some((x, y)) = places.first().copied() else { continue };
        // Writing to a String cannot fail.
        let _ = match filled {
            true => write!(path, "M{x},{TALL}V{y}l"),
            false => write!(path, "M{x},{y}l"),
        };
        let (mut last, mut written) = ((x, y), false);
        for (at, place) in places.iter().enumerate().skip(1) {
            let level =
                places.get(at + 1).is_some_and(|next| next.1 == place.1 && place.1 == last.1);
            if level || *place == last {
                continue;
            }
            let (dx, dy) = (place.0 - last.0, place.1 - last.1);
            let gap = if written { " " } else { "" };
            let _ =
                if dy < 0 { write!(path, "{gap}{dx}{dy}") } else { write!(path, "{gap}{dx} {dy}") };
            (last, written) = (*place, true);
        }
        if !written {
            path.push_str("0 0");
        }
        if filled {
            let _ = write!(path, "V{TALL}Z");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::is_sound;

    fn axis() -> TimeAxis {
        TimeAxis {
            span: (Moment(0), Moment(100_000)),
            offset: 0,
            bands: vec![Band { window: (Moment(50_000), Moment(60_000)), number: 1 }],
            marks: vec![Moment(25_000)],
        }
    }

    fn layer(points: &[(i64, f64)]) -> Layer {
        Layer { look: 0, stretches: vec![points.to_vec()] }
    }

    #[test]
    fn points_stand_where_their_values_are_and_level_ones_are_left_out() {
        let points = [(0, 0.0), (10_000, 100.0), (20_000, 100.0), (30_000, 100.0), (100_000, 50.0)];
        assert_eq!(
            trace_outline(&layer(&points), &axis(), 100.0, false),
            "M0,2000l10000-2000 20000 0 70000 1000"
        );
        assert_eq!(
            trace_outline(&layer(&points[..2]), &axis(), 100.0, true),
            "M0,2000V2000l10000-2000V2000Z"
        );
        assert_eq!(trace_outline(&layer(&points[3..4]), &axis(), 100.0, false), "M30000,0l0 0");
        assert_eq!(trace_outline(&layer(&[]), &axis(), 100.0, true), "");
    }

    #[test]
    fn bands_and_marks_stand_at_their_times() {
        let caption = Caption { title: "t".into(), description: "d".into() };
        let layers = vec![layer(&[(0, 1.0), (100_000, 3.0)])];
        let axis = axis();
        let chart = TimelineChart {
            caption,
            unit: ChartUnit::Percent,
            top: Some(100.0),
            stacked: false,
            layers,
            axis: &axis,
        };
        let svg = chart.draw().into_string();
        assert!(svg.contains("<rect class=\"shade\" x=\"50000\" width=\"10000\""), "{svg}");
        assert!(svg.contains("d=\"M25000,0V2000\"") && svg.contains("data-top=\"100\""), "{svg}");
        assert!(svg.contains("x=\"55%\" y=\"11\" data-at=\"55000\">1<"), "{svg}");
    }

    #[test]
    fn labels_at_an_edge_stand_beside_their_place() {
        assert_eq!(
            [0.0, 0.05, 0.5, 0.95, 1.0].map(label_anchor),
            ["start", "start", "mid", "end", "end"]
        );
    }

    #[test]
    fn values_and_times_out_of_all_bounds_draw_a_sound_picture() {
        for (at, value) in
            [(i64::MAX, f64::MAX), (i64::MIN, f64::MIN), (0, f64::NAN), (5, f64::INFINITY)]
        {
            for span in [
                (Moment(i64::MIN), Moment(i64::MAX)),
                (Moment(5), Moment(5)),
                (Moment(9), Moment(0)),
            ] {
                let axis = TimeAxis { span, ..axis() };
                let caption = Caption { title: "t".into(), description: "d".into() };
                let layers = vec![layer(&[(at, value), (at, value)])];
                let svg = TimelineChart {
                    caption,
                    unit: ChartUnit::Bytes,
                    top: None,
                    stacked: true,
                    layers,
                    axis: &axis,
                }
                .draw();
                is_sound(&svg.into_string().replace("chart time\"", "chart\" xmlns="));
            }
        }
    }
}
