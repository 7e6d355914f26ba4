//! Lines: how something grows.

use maud::{Markup, html};

use super::{Caption, Scale, Spacing, Svg, Unit, WIDTH, class, dashes, legend, length, marker, round};

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it counts: `sessions`.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// How its values are laid out.
    pub spacing: Spacing,
}

/// A point, and how far its samples lay apart.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up: the median.
    pub y: f64,
    /// The least and the largest.
    pub range: Option<(f64, f64)>,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its look, which is the same for the same thing in every chart of a page.
    pub look: usize,
    /// Not measured: fine strokes and no markers.
    pub forecast: bool,
    /// In order of `x`.
    pub points: Vec<Point>,
}

/// Lines over a common axis.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Title and description.
    pub caption: Caption,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

const PLOT_HEIGHT: f64 = 230.0;

impl LineChart {
    /// Draws it.
    pub fn draw(&self) -> Svg {
        let named = self.series.iter().map(|series| (series.look, series.forecast, series.name.as_str()));
        let (legend, legend_end) = legend(named, 24.0);
        let top = legend_end + 22.0;
        let bottom = top + PLOT_HEIGHT;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let heights = points().flat_map(|point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let y = Scale::new(heights, self.y.unit, self.y.spacing, 5, (bottom, top));
        let widest = y.ticks.iter().map(|tick| length(&self.y.unit.show(*tick))).fold(0.0, f64::max);
        let left = widest * 6.8 + 10.0;
        let x = Scale::new(points().map(|point| point.x), self.x.unit, self.x.spacing, 6, (left, WIDTH - 14.0));
        let rows: Vec<(f64, String)> =
            y.ticks.iter().filter_map(|tick| Some((y.place(*tick)?, self.y.unit.show(*tick)))).collect();
        let body = html! {
            (legend)
            text.faint x="0" y=(round(top - 9.0)) { (self.y.label) }
            @for (at, text) in &rows {
                line.grid x1=(round(left)) x2=(WIDTH - 14.0) y1=(at) y2=(at) {}
                text.faint.end x=(round(left - 6.0)) y=(round(at + 4.0)) { (text) }
            }
            (super::across(&x, self.x.unit, top, bottom))
            line.axis x1=(round(left)) x2=(WIDTH - 14.0) y1=(round(bottom)) y2=(round(bottom)) {}
            text.faint.end x=(WIDTH - 14.0) y=(round(bottom + 33.0)) { (self.x.label) }
            @for series in &self.series { (draw(series, &x, &y)) }
        };
        Svg { caption: self.caption.clone(), height: round(bottom + 40.0), body }
    }
}

/// Across, up, and the ends of the range.
type Placed = (f64, f64, Option<(f64, f64)>);

fn draw(series: &Series, x: &Scale, y: &Scale) -> Markup {
    let placed: Vec<Placed> = series
        .points
        .iter()
        .filter_map(|point| {
            let range = point.range.and_then(|(low, high)| Some((y.place(low)?, y.place(high)?)));
            Some((x.place(point.x)?, y.place(point.y)?, range))
        })
        .collect();
    let line: Vec<String> = placed.iter().map(|(x, y, _)| format!("{x},{y}")).collect();
    let class = class(series.look);
    html! {
        polyline class={ "line " (class) } stroke-dasharray=(dashes(series.look, series.forecast)) points=(line.join(" ")) {}
        @if !series.forecast {
            @for (x, y, range) in &placed {
                @if let Some((low, high)) = range {
                    line class=(class) stroke-width="1.5" x1=(x) x2=(x) y1=(low) y2=(high) {}
                }
                (marker(series.look, *x, *y))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::is_sound;

    fn chart(points: Vec<Point>) -> LineChart {
        let axis = |label: &str, unit| Axis { label: label.into(), unit, spacing: Spacing::Linear };
        LineChart {
            caption: Caption { title: "Page tables".into(), description: "They grow.".into() },
            x: axis("sessions", Unit::Count),
            y: axis("page tables", Unit::Bytes),
            series: vec![
                Series { name: "4 KiB".into(), look: 0, forecast: false, points: points.clone() },
                Series { name: "forecast".into(), look: 0, forecast: true, points },
            ],
        }
    }

    #[test]
    fn points_stand_where_their_values_are() {
        let mib = 1_048_576.0;
        let at = |x, y: f64| Point { x, y: y * mib, range: Some((y * mib, y * mib)) };
        let svg = chart(vec![at(0.0, 0.0), at(50.0, 256.0), at(100.0, 512.0)]).draw().inline().into_string();
        is_sound(&svg);
        // The axis ends at 512 MiB and 100 sessions, which are the corners; the middle is in the middle.
        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let places: Vec<(f64, f64)> = line
            .split(' ')
            .map(|pair| pair.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap())
            .collect();
        assert!((places[1].0 - f64::midpoint(places[0].0, places[2].0)).abs() < 0.02, "{places:?}");
        assert!((places[0].1 - places[2].1 - PLOT_HEIGHT).abs() < 0.02, "{places:?}");
        assert!(svg.contains(">512 MiB<") && svg.contains(">100<"), "{svg}");
    }

    #[test]
    fn values_that_are_no_numbers_draw_nothing() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let point = Point { x: value, y: value, range: Some((value, value)) };
            is_sound(&chart(vec![point]).draw().inline().into_string());
        }
        is_sound(&chart(Vec::new()).draw().inline().into_string());
    }
}
