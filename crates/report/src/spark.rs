//! Values as bars in a line of text.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The bar for a value where `top` is the highest; zero has the lowest, as it is known.
pub fn spark_character(value: f64, top: f64) -> char {
    let part = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
    let above = (1..LEVELS.len())
        .filter(|level| part * 8.0 > f64::from(u8::try_from(*level).unwrap_or(8)))
        .count();
    LEVELS.get(above).copied().unwrap_or('█')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_eighths() {
        let drawn: String = [0.0, 12.4, 12.6, 50.0, 87.6, 100.0, 200.0]
            .map(|value| spark_character(value, 100.0))
            .iter()
            .collect();
        assert_eq!(drawn, "▁▁▂▄███");
        assert_eq!(spark_character(0.0, 0.0), '▁');
    }
}
