//! Measurements: the median, its range, and every sample.

use maud::html;

use super::{Caption, Scale, Spacing, Svg, Unit, WIDTH, across, class, length, marker, nth, round};

/// One thing's samples.
#[derive(Clone, Debug)]
pub struct Dots {
    /// Whose they are.
    pub label: String,
    /// Their look.
    pub look: usize,
    /// The middle.
    pub median: f64,
    /// Least and largest.
    pub range: (f64, f64),
    /// Each.
    pub samples: Vec<f64>,
}

/// Measurements under each other.
#[derive(Clone, Debug)]
pub struct DotChart {
    /// Title and description.
    pub caption: Caption,
    /// What is counted.
    pub unit: Unit,
    /// How values are laid out; a linear axis begins at zero.
    pub spacing: Spacing,
    /// From the top down.
    pub rows: Vec<Dots>,
}

const ROW: f64 = 30.0;

/// More samples than these would be one blot.
const MOST_SAMPLES: usize = 200;

impl DotChart {
    /// Draws it.
    pub fn draw(&self) -> Svg {
        let widest = self.rows.iter().map(|row| length(&row.label)).fold(0.0, f64::max);
        let left = (widest * 7.4 + 12.0).min(WIDTH * 0.45);
        let (top, bottom) = (28.0, 28.0 + ROW * nth(self.rows.len()));
        let values = self.rows.iter().flat_map(|row| [row.median, row.range.0, row.range.1]);
        let right = WIDTH - 76.0;
        let scale = Scale::new(values, self.unit, self.spacing, 4, (left, right));
        let body = html! {
            (across(&scale, self.unit, top, bottom))
            @for (at, row) in self.rows.iter().enumerate() {
                @let y = round(top + ROW * nth(at) + ROW / 2.0);
                text x="0" y=(round(y + 4.5)) { (row.label) }
                @if let (Some(low), Some(high)) = (scale.place(row.range.0), scale.place(row.range.1)) {
                    line class=(class(row.look)) stroke-width="2" x1=(low) x2=(high) y1=(y) y2=(y) {}
                }
                @for sample in row.samples.iter().take(MOST_SAMPLES).filter_map(|sample| scale.place(*sample)) {
                    circle class={ "sample " (class(row.look)) } cx=(sample) cy=(y) r="2.5" {}
                }
                @if let Some(x) = scale.place(row.median) { (marker(row.look, x, y)) }
                text.end x=(WIDTH) y=(round(y + 4.5)) { (self.unit.show(row.median)) }
            }
            line.axis x1=(round(left)) x2=(round(right)) y1=(round(bottom)) y2=(round(bottom)) {}
        };
        Svg { caption: self.caption.clone(), height: round(bottom + 24.0), body }
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
        let chart = DotChart { caption, unit: Unit::Seconds, spacing: Spacing::Logarithmic, rows };
        let svg = chart.draw().inline().into_string();
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
