use maud::{Markup, html};

use super::{
    Caption, ChartUnit, Scale, Spacing, Svg, WIDTH, count_letters, dash_pattern, draw_legend,
    draw_marker, round_to_hundredths, series_class,
};

#[derive(Clone, Debug)]
pub(crate) struct ValueAxis {
    pub label: String,
    pub unit: ChartUnit,
    pub spacing: Spacing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartPoint {
    pub x: f64,
    pub y: f64,
    pub range: Option<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct ChartSeries {
    pub name: String,
    /// The same for the same thing in every chart of a page.
    pub look: usize,
    pub forecast: bool,
    pub points: Vec<ChartPoint>,
}

#[derive(Clone, Debug)]
pub(crate) struct LineChart {
    pub caption: Caption,
    pub x: ValueAxis,
    pub y: ValueAxis,
    pub series: Vec<ChartSeries>,
}

const PLOT_HEIGHT: f64 = 230.0;

impl LineChart {
    pub(crate) fn draw(&self) -> Svg {
        let named =
            self.series.iter().map(|series| (series.look, series.forecast, series.name.as_str()));
        let (legend, legend_end) = draw_legend(named, 24.0);
        let top = legend_end + 22.0;
        let bottom = top + PLOT_HEIGHT;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let heights = points().flat_map(|point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let y = Scale::new(heights, self.y.unit, self.y.spacing, 5, (bottom, top));
        let widest = y
            .ticks
            .iter()
            .map(|tick| count_letters(&self.y.unit.format_value(*tick)))
            .fold(0.0, f64::max);
        let left = widest * 6.8 + 10.0;
        let x = Scale::new(
            points().map(|point| point.x),
            self.x.unit,
            self.x.spacing,
            6,
            (left, WIDTH - 14.0),
        );
        let rows: Vec<(f64, String)> = y
            .ticks
            .iter()
            .filter_map(|tick| Some((y.place(*tick)?, self.y.unit.format_value(*tick))))
            .collect();
        let body = html! {
            (legend)
            text.faint x="0" y=(round_to_hundredths(top - 9.0)) { (self.y.label) }
            @for (at, text) in &rows {
                line.grid x1=(round_to_hundredths(left)) x2=(WIDTH - 14.0) y1=(at) y2=(at) {}
                text.faint.end x=(round_to_hundredths(left - 6.0)) y=(round_to_hundredths(at + 4.0)) { (text) }
            }
            (super::draw_value_axis(&x, self.x.unit, top, bottom))
            line.axis x1=(round_to_hundredths(left)) x2=(WIDTH - 14.0) y1=(round_to_hundredths(bottom)) y2=(round_to_hundredths(bottom)) {}
            text.faint.end x=(WIDTH - 14.0) y=(round_to_hundredths(bottom + 33.0)) { (self.x.label) }
            @for series in &self.series { (draw_series(series, &x, &y)) }
        };
        Svg { caption: self.caption.clone(), height: round_to_hundredths(bottom + 40.0), body }
    }
}

type PlottedPoint = (f64, f64, Option<(f64, f64)>);

fn draw_series(series: &ChartSeries, x: &Scale, y: &Scale) -> Markup {
    let placed: Vec<PlottedPoint> = series
        .points
        .iter()
        .filter_map(|point| {
            let range = point.range.and_then(|(low, high)| Some((y.place(low)?, y.place(high)?)));
            Some((x.place(point.x)?, y.place(point.y)?, range))
        })
        .collect();
    let line: Vec<String> = placed.iter().map(|(x, y, _)| format!("{x},{y}")).collect();
    let class = series_class(series.look);
    html! {
        polyline class={ "line " (class) } stroke-dasharray=(dash_pattern(series.look, series.forecast)) points=(line.join(" ")) {}
        @if !series.forecast {
            @for (x, y, range) in &placed {
                @if let Some((low, high)) = range {
                    line class=(class) stroke-width="1.5" x1=(x) x2=(x) y1=(low) y2=(high) {}
                }
                (draw_marker(series.look, *x, *y))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::is_sound;

    fn chart(points: Vec<ChartPoint>) -> LineChart {
        let axis =
            |label: &str, unit| ValueAxis { label: label.into(), unit, spacing: Spacing::Linear };
        LineChart {
            caption: Caption { title: "Page tables".into(), description: "They grow.".into() },
            x: axis("sessions", ChartUnit::Count),
            y: axis("page tables", ChartUnit::Bytes),
            series: vec![
                ChartSeries {
                    name: "4 KiB".into(),
                    look: 0,
                    forecast: false,
                    points: points.clone(),
                },
                ChartSeries { name: "forecast".into(), look: 0, forecast: true, points },
            ],
        }
    }

    #[test]
    fn points_stand_where_their_values_are() {
        let mib = 1_048_576.0;
        let at = |x, y: f64| ChartPoint { x, y: y * mib, range: Some((y * mib, y * mib)) };
        let svg = chart(vec![at(0.0, 0.0), at(50.0, 256.0), at(100.0, 512.0)])
            .draw()
            .to_inline_markup()
            .into_string();
        is_sound(&svg);
        // The axis ends at 512 MiB and 100 sessions, which are the corners; the middle is in the
        // middle.
        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let places: Vec<(f64, f64)> = line
            .split(' ')
            .map(|pair| {
                pair.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap()
            })
            .collect();
        assert!((places[1].0 - f64::midpoint(places[0].0, places[2].0)).abs() < 0.02, "{places:?}");
        assert!((places[0].1 - places[2].1 - PLOT_HEIGHT).abs() < 0.02, "{places:?}");
        assert!(svg.contains(">512 MiB<") && svg.contains(">100<"), "{svg}");
    }

    #[test]
    fn values_that_are_no_numbers_draw_nothing() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let point = ChartPoint { x: value, y: value, range: Some((value, value)) };
            is_sound(&chart(vec![point]).draw().to_inline_markup().into_string());
        }
        is_sound(&chart(Vec::new()).draw().to_inline_markup().into_string());
    }
}
