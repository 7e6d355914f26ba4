//! Bars across: amounts from zero.

use maud::html;

use super::{Caption, Scale, Spacing, Svg, Unit, WIDTH, across, class, length, nth, round};

/// One amount.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Whose it is.
    pub label: String,
    /// Its look.
    pub look: usize,
    /// How much.
    pub value: f64,
}

/// Amounts side by side. The axis begins at zero, for a bar's length is its amount.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Title and description.
    pub caption: Caption,
    /// What is counted.
    pub unit: Unit,
    /// From the top down.
    pub bars: Vec<Bar>,
}

const ROW: f64 = 28.0;

impl BarChart {
    /// Draws it.
    pub fn draw(&self) -> Svg {
        let widest = self.bars.iter().map(|bar| length(&bar.label)).fold(0.0, f64::max);
        let left = (widest * 7.4 + 10.0).min(WIDTH * 0.4);
        let (top, bottom) = (28.0, 28.0 + ROW * nth(self.bars.len()));
        let values = self.bars.iter().map(|bar| bar.value);
        let scale = Scale::new(values, self.unit, Spacing::Linear, 4, (left, WIDTH - 70.0));
        let body = html! {
            (across(&scale, self.unit, top, bottom))
            @for (at, bar) in self.bars.iter().enumerate() {
                @let y = top + ROW * nth(at);
                text x="0" y=(round(y + 19.0)) { (bar.label) }
                @if let Some(end) = scale.place(bar.value) {
                    rect class={ "bar " (class(bar.look)) } x=(round(left)) y=(round(y + 5.0)) width=(round(end - left)) height="18" {}
                    text x=(round(end + 5.0)) y=(round(y + 19.0)) { (self.unit.show(bar.value)) }
                } @else {
                    text.faint x=(round(left + 5.0)) y=(round(y + 19.0)) { "not known" }
                }
            }
            line.axis x1=(round(left)) x2=(round(left)) y1=(top) y2=(round(bottom)) {}
        };
        Svg { caption: self.caption.clone(), height: round(bottom + 24.0), body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::is_sound;

    #[test]
    fn a_bar_is_as_long_as_its_amount() {
        let bar = |value| Bar { label: "x".into(), look: 0, value };
        let caption = Caption { title: "t".into(), description: "d".into() };
        let chart = BarChart { caption, unit: Unit::Seconds, bars: vec![bar(2.0), bar(1.0), bar(f64::NAN)] };
        let svg = chart.draw().inline().into_string();
        is_sound(&svg);
        let widths: Vec<f64> =
            svg.split(" width=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
        assert!((widths[0] - 2.0 * widths[1]).abs() < 0.02, "{widths:?}");
        assert!(svg.contains("not known"));
    }
}
