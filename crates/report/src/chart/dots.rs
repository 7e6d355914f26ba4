use maud::html;

use super::{
    Caption, ChartUnit, Scale, Spacing, Svg, WIDTH, count_letters, draw_marker, draw_value_axis,
    index_to_f64, round_to_hundredths, series_class,
};

#[derive(Clone, Debug)]
pub(crate) struct Dots {
    pub label: String,
    pub look: usize,
    pub median: f64,
    pub range: (f64, f64),
    pub samples: Vec<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct DotChart {
    pub caption: Caption,
    pub unit: ChartUnit,
    pub spacing: Spacing,
    pub rows: Vec<Dots>,
}

const ROW: f64 = 30.0;
/// More than these would be one blot.
const MOST_SAMPLES: usize = 200;

impl DotChart {
    pub(crate) fn draw(&self) -> Svg {
        let widest = self.rows.iter().map(|row| count_letters(&row.label)).fold(0.0, f64::max);
        let left = (widest * 7.4 + 12.0).min(WIDTH * 0.45);
        let (top, bottom) = (28.0, 28.0 + ROW * index_to_f64(self.rows.len()));
        let values = self.rows.iter().flat_map(|row| [row.median, row.range.0, row.range.1]);
        let right = WIDTH - 76.0;
        let scale = Scale::new(values, self.unit, self.spacing, 4, (left, right));
        let body = html! {
            (draw_value_axis(&scale, self.unit, top, bottom))
            @for (at, row) in self.rows.iter().enumerate() {
                @let y = round_to_hundredths(top + ROW * index_to_f64(at) + ROW / 2.0);
                text x="0" y=(round_to_hundredths(y + 4.5)) { (row.label) }
                @if let (Some(low), Some(high)) = (scale.place(row.range.0), scale.place(row.range.1)) {
                    line class=(series_class(row.look)) stroke-width="2" x1=(low) x2=(high) y1=(y) y2=(y) {}
                }
                @for sample in row.samples.iter().take(MOST_SAMPLES).filter_map(|sample| scale.place(*sample)) {
                    circle class={ "sample " (series_class(row.look)) } cx=(sample) cy=(y) r="2.5" {}
                }
                @if let Some(x) = scale.place(row.median) { (draw_marker(row.look, x, y)) }
                text.end x=(WIDTH) y=(round_to_hundredths(y + 4.5)) { (self.unit.format_value(row.median)) }
            }
            line.axis x1=(round_to_hundredths(left)) x2=(round_to_hundredths(right)) y1=(round_to_hundredths(bottom)) y2=(round_to_hundredths(bottom)) {}
        };
        Svg { caption: self.caption.clone(), height: round_to_hundredths(bottom + 24.0), body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::is_sound;

    #[test]
    fn equal_factors_are_equal_steps_where_it_is_logarithmic() {
        let row = |value: f64| Dots {
            label: "x".into(),
            look: 0,
            median: value,
            range: (value, value),
            samples: vec![value, f64::NAN, -1.0],
        };
        let caption = Caption { title: "t".into(), description: "d".into() };
        let rows = vec![row(0.02), row(0.2), row(2.0), row(f64::NAN)];
        let chart =
            DotChart { caption, unit: ChartUnit::Seconds, spacing: Spacing::Logarithmic, rows };
        let svg = chart.draw().to_inline_markup().into_string();
        is_sound(&svg);
        let centres: Vec<f64> = svg
            .split("sample s0\" cx=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(centres.len(), 3);
        assert!((centres[2] - centres[1] - (centres[1] - centres[0])).abs() < 0.02, "{centres:?}");
    }
}
