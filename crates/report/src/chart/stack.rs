//! Bars made of parts, one behind the other: how an amount is dealt out, and what of it is beyond a bound.

use maud::html;

use super::{Caption, Scale, Spacing, Svg, Unit, WIDTH, across, class, length, nth, round};

/// One bar.
#[derive(Clone, Debug)]
pub struct Stack {
    /// What it is.
    pub label: String,
    /// Its parts from the left: the look of each, and how much it is.
    pub parts: Vec<(usize, f64)>,
}

/// Bars of parts below each other, on one axis from zero.
#[derive(Clone, Debug)]
pub struct StackChart {
    /// Title and description.
    pub caption: Caption,
    /// What is counted.
    pub unit: Unit,
    /// Names of the looks that the parts have.
    pub names: Vec<String>,
    /// From the top down.
    pub stacks: Vec<Stack>,
    /// Where all of it ends: drawn as a line.
    pub bound: Option<f64>,
}

const ROW: f64 = 34.0;
const KEY: f64 = 18.0;
/// Names of looks stand in so many columns.
const KEYS_ACROSS: usize = 3;

impl StackChart {
    /// Draws it.
    pub fn draw(&self) -> Svg {
        let widest = self.stacks.iter().map(|stack| length(&stack.label)).fold(0.0, f64::max);
        let left = (widest * 7.4 + 10.0).min(WIDTH * 0.4);
        let keys = nth(self.names.len().div_ceil(KEYS_ACROSS)) * KEY;
        let top = 28.0 + keys;
        let bottom = top + ROW * nth(self.stacks.len());
        let sums = self.stacks.iter().map(|stack| stack.parts.iter().map(|(_, value)| value).sum::<f64>());
        let scale = Scale::new(sums.chain(self.bound), self.unit, Spacing::Linear, 4, (left, WIDTH - 10.0));
        let body = html! {
            @for (at, name) in self.names.iter().enumerate() {
                @let x = nth(at % KEYS_ACROSS) * WIDTH / nth(KEYS_ACROSS);
                @let y = 26.0 + nth(at / KEYS_ACROSS) * KEY;
                rect class={ "bar " (class(at)) (shade(at)) } x=(round(x)) y=(round(y)) width="12" height="12" {}
                text.faint x=(round(x + 17.0)) y=(round(y + 11.0)) { (name) }
            }
            (across(&scale, self.unit, top, bottom))
            @for (at, stack) in self.stacks.iter().enumerate() {
                @let y = top + ROW * nth(at);
                text x="0" y=(round(y + 21.0)) { (stack.label) }
                @for (look, start, end) in ends(&stack.parts) {
                    @if let (Some(start), Some(end)) = (scale.place(start), scale.place(end)) {
                        rect class={ "bar " (class(look)) (shade(look)) } x=(round(start)) y=(round(y + 6.0)) width=(round(end - start)) height="22" {}
                    }
                }
            }
            @if let Some(bound) = self.bound.and_then(|bound| scale.place(bound)) {
                line.axis x1=(round(bound)) x2=(round(bound)) y1=(round(top)) y2=(round(bottom)) stroke-width="2" {}
            }
        };
        Svg { caption: self.caption.clone(), height: round(bottom + 24.0), body }
    }
}

/// Where each part begins and ends.
fn ends(parts: &[(usize, f64)]) -> Vec<(usize, f64, f64)> {
    let mut sum = 0.0;
    let end = |(look, value): &(usize, f64)| {
        let start = sum;
        sum += value;
        (*look, start, sum)
    };
    parts.iter().map(end).collect()
}

/// Looks beyond those that differ in colour are paler.
pub(crate) fn shade(look: usize) -> &'static str {
    if look < super::LOOKS { "" } else { " sample" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::is_sound;

    #[test]
    fn parts_stand_one_behind_the_other_up_to_the_bound() {
        let caption = Caption { title: "t".into(), description: "d".into() };
        let stack = |parts| Stack { label: "now".into(), parts };
        let chart = StackChart {
            caption,
            unit: Unit::Bytes,
            names: vec!["a".into(), "b".into()],
            stacks: vec![stack(vec![(0, 2.0e9), (1, 1.0e9)]), stack(Vec::new())],
            bound: Some(4.0e9),
        };
        let svg = chart.draw().inline().into_string();
        is_sound(&svg);
        let bars: Vec<(f64, f64)> = svg
            .split("<rect ")
            .filter(|rect| rect.contains("height=\"22\""))
            .map(|rect| {
                let number = |name: &str| {
                    let (_, rest) = rect.split_once(&format!(" {name}=\"")).unwrap();
                    rest.split('"').next().unwrap().parse().unwrap()
                };
                (number("x"), number("width"))
            })
            .collect();
        let [(first, wide), (second, narrow)] = bars.as_slice() else { panic!("{bars:?}") };
        assert!((wide - 2.0 * narrow).abs() < 0.03 && (first + wide - second).abs() < 0.03, "{bars:?}");
    }
}
