//! Stacked bars: how an amount is divided, and what of it is beyond a bound.

use maud::html;

use super::{
    Caption, ChartUnit, Scale, Spacing, Svg, WIDTH, count_letters, draw_value_axis, index_to_f64,
    round_to_hundredths, series_class,
};

#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub label: String,
    /// Series and value of each, from the left.
    pub parts: Vec<(usize, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct StackChart {
    pub caption: Caption,
    pub unit: ChartUnit,
    pub names: Vec<String>,
    pub stacks: Vec<Stack>,
    /// Where all of it ends: drawn as a line.
    pub bound: Option<f64>,
}

const ROW: f64 = 34.0;
const KEY: f64 = 18.0;
const KEYS_ACROSS: usize = 3;

impl StackChart {
    pub(crate) fn draw(&self) -> Svg {
        let widest =
            self.stacks.iter().map(|stack| count_letters(&stack.label)).fold(0.0, f64::max);
        let left = (widest * 7.4 + 10.0).min(WIDTH * 0.4);
        let keys = index_to_f64(self.names.len().div_ceil(KEYS_ACROSS)) * KEY;
        let top = 28.0 + keys;
        let bottom = top + ROW * index_to_f64(self.stacks.len());
        let sums =
            self.stacks.iter().map(|stack| stack.parts.iter().map(|(_, value)| value).sum::<f64>());
        let scale =
            Scale::new(sums.chain(self.bound), self.unit, Spacing::Linear, 4, (left, WIDTH - 10.0));
        let body = html! {
            @for (at, name) in self.names.iter().enumerate() {
                @let x = index_to_f64(at % KEYS_ACROSS) * WIDTH / index_to_f64(KEYS_ACROSS);
                @let y = 26.0 + index_to_f64(at / KEYS_ACROSS) * KEY;
                rect class={ "bar " (series_class(at)) (shade_class(at)) } x=(round_to_hundredths(x)) y=(round_to_hundredths(y)) width="12" height="12" {}
                text.faint x=(round_to_hundredths(x + 17.0)) y=(round_to_hundredths(y + 11.0)) { (name) }
            }
            (draw_value_axis(&scale, self.unit, top, bottom))
            @for (at, stack) in self.stacks.iter().enumerate() {
                @let y = top + ROW * index_to_f64(at);
                text x="0" y=(round_to_hundredths(y + 21.0)) { (stack.label) }
                @for (look, start, end) in stack_offsets(&stack.parts) {
                    @if let (Some(start), Some(end)) = (scale.place(start), scale.place(end)) {
                        rect class={ "bar " (series_class(look)) (shade_class(look)) } x=(round_to_hundredths(start)) y=(round_to_hundredths(y + 6.0)) width=(round_to_hundredths(end - start)) height="22" {}
                    }
                }
            }
            @if let Some(bound) = self.bound.and_then(|bound| scale.place(bound)) {
                line.axis x1=(round_to_hundredths(bound)) x2=(round_to_hundredths(bound)) y1=(round_to_hundredths(top)) y2=(round_to_hundredths(bottom)) stroke-width="2" {}
            }
        };
        Svg { caption: self.caption.clone(), height: round_to_hundredths(bottom + 24.0), body }
    }
}

fn stack_offsets(parts: &[(usize, f64)]) -> Vec<(usize, f64, f64)> {
    let mut sum = 0.0;
    let end = |(look, value): &(usize, f64)| {
        let start = sum;
        sum += value;
        (*look, start, sum)
    };
    parts.iter().map(end).collect()
}

/// Looks beyond those that differ in colour are paler.
pub(crate) fn shade_class(look: usize) -> &'static str {
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
            unit: ChartUnit::Bytes,
            names: vec!["a".into(), "b".into()],
            stacks: vec![stack(vec![(0, 2.0e9), (1, 1.0e9)]), stack(Vec::new())],
            bound: Some(4.0e9),
        };
        let svg = chart.draw().to_inline_markup().into_string();
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
        assert!(
            (wide - 2.0 * narrow).abs() < 0.03 && (first + wide - second).abs() < 0.03,
            "{bars:?}"
        );
    }
}
