//! From values to places, and the round values that an axis names.

/// What a number counts, which says how its round values look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, in powers of 1024.
    Bytes,
    /// Seconds, from nanoseconds to hours.
    Seconds,
    /// Things, in powers of 1000.
    Count,
    /// Per cent.
    Percent,
    /// Things a second.
    PerSecond,
    /// Bytes a second, in powers of 1024.
    BytesPerSecond,
}

/// Hours and minutes have round values of their own.
const LONG_STEPS: [f64; 12] =
    [60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0];

impl Unit {
    /// The value for people: `1.5 GiB`, `250 µs`, `12.3 k`. Three digits tell enough of a measurement.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        match self {
            Self::Bytes => scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
            Self::BytesPerSecond => scaled(value, 1024.0, &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"]),
            Self::Count => scaled(value, 1000.0, &["", "k", "M", "G", "T"]),
            Self::PerSecond => scaled(value, 1000.0, &["/s", "k/s", "M/s", "G/s", "T/s"]),
            Self::Percent => format!("{} %", digits(value)),
            Self::Seconds => seconds(value),
        }
    }

    /// The smallest round step of at least `least`.
    fn step(self, least: f64) -> f64 {
        match self {
            Self::Bytes | Self::BytesPerSecond => least.max(1.0).log2().ceil().exp2(),
            Self::Seconds if least > 30.0 => {
                let round = LONG_STEPS.into_iter().find(|step| *step >= least);
                round.unwrap_or_else(|| decimal_step(least / 86_400.0) * 86_400.0)
            }
            _ => decimal_step(least),
        }
    }
}

/// 1, 2 or 5 times a power of ten.
fn decimal_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * (1.0 - 1e-9));
    round.unwrap_or(power * 10.0)
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut shown = value;
    let mut left = units.iter();
    let mut unit = left.next().copied().unwrap_or_default();
    // 1023.6 would be shown as 1024 of the smaller unit.
    while digits(shown).trim_start_matches('-').parse::<f64>().is_ok_and(|seen| seen >= base) {
        let Some(next) = left.next() else { break };
        (shown, unit) = (shown / base, next);
    }
    let number = digits(shown);
    if unit.is_empty() || unit.starts_with('/') { format!("{number}{unit}") } else { format!("{number} {unit}") }
}

fn seconds(value: f64) -> String {
    let size = value.abs();
    if size >= 120.0 {
        return if size >= 7200.0 {
            format!("{} h", digits(value / 3600.0))
        } else {
            format!("{} min", digits(value / 60.0))
        };
    }
    let (factor, unit) = match size {
        size if size >= 0.9995 || size == 0.0 => (1.0, "s"),
        size if size >= 0.000_999_5 => (1e3, "ms"),
        size if size >= 0.000_000_999_5 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", digits(value * factor))
}

/// Three digits that count, whole numbers whole.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if !(1e-12..99.95).contains(&size) => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Round values from zero to the first at or above `most`, about `wanted` of them.
pub fn ticks(most: f64, unit: Unit, wanted: u32) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let step = unit.step(most / f64::from(wanted.max(1)));
    // Adding the step up would add its error up too.
    let reaches = |count: &u32| f64::from(count.saturating_sub(1)) * step < most * (1.0 - 1e-9);
    (0..64).take_while(reaches).map(|count| f64::from(count) * step).collect()
}

/// Powers of ten (of two, for bytes) that enclose `least` to `most`, at most about `wanted` of them.
pub(crate) fn log_ticks(least: f64, most: f64, unit: Unit, wanted: u32) -> Vec<f64> {
    if !(least.is_finite() && most.is_finite()) || least <= 0.0 || most < least {
        return vec![1.0, 10.0];
    }
    let base = if matches!(unit, Unit::Bytes | Unit::BytesPerSecond) { 2_f64 } else { 10_f64 };
    let (from, to) = ((least.log(base) + 1e-9).floor(), (most.log(base) - 1e-9).ceil());
    let to = to.max(from + 1.0);
    let every = ((to - from) / f64::from(wanted.max(1))).ceil().max(1.0);
    let mut ticks = vec![base.powf(from)];
    let mut exponent = from;
    while exponent < to && ticks.len() < 64 {
        exponent += every;
        ticks.push(base.powf(exponent));
    }
    ticks
}

/// How values are laid along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Zero at the start, equal steps.
    Linear,
    /// Equal factors.
    Logarithmic,
}

/// An axis with its ends fixed: values to places.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Round values, the first and the last at the ends.
    pub ticks: Vec<f64>,
    spacing: Spacing,
    from: f64,
    to: f64,
    places: (f64, f64),
}

impl Scale {
    /// An axis that holds all of `values`, from place `places.0` to `places.1`. Where a value is not above zero a
    /// logarithmic axis has no place for it.
    pub fn new(
        values: impl Iterator<Item = f64>,
        unit: Unit,
        spacing: Spacing,
        wanted: u32,
        places: (f64, f64),
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (*value > 0.0 || spacing == Spacing::Linear)) {
            least = least.min(value);
            most = most.max(value);
        }
        let ticks = match spacing {
            Spacing::Linear => ticks(most, unit, wanted),
            Spacing::Logarithmic => log_ticks(least, most, unit, wanted),
        };
        let (from, to) = (ticks.first().copied().unwrap_or(0.0), ticks.last().copied().unwrap_or(1.0));
        Self { ticks, spacing, from, to, places }
    }

    /// Where a value stands; `None` where it has no place.
    pub fn place(&self, value: f64) -> Option<f64> {
        let part = match self.spacing {
            Spacing::Linear => (value - self.from) / (self.to - self.from),
            Spacing::Logarithmic => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        let place = self.places.0 + part * (self.places.1 - self.places.0);
        // A hundredth of a pixel is finer than anybody sees.
        (part.is_finite() && (-0.001..=1.001).contains(&part)).then(|| (place * 100.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        let shown: Vec<String> = [
            (Unit::Bytes, 1_610_612_736.0),
            (Unit::Bytes, 1_073_741_823.0),
            (Unit::Bytes, 512.0),
            (Unit::Seconds, 0.000_25),
            (Unit::Seconds, 1.45),
            (Unit::Seconds, 0.000_000_152),
            (Unit::Seconds, 0.0),
            (Unit::Seconds, 300.0),
            (Unit::Count, 12_345.0),
            (Unit::Count, 999.0),
            (Unit::PerSecond, 54_000.0),
            (Unit::Percent, 12.0),
            (Unit::Count, f64::NAN),
        ]
        .into_iter()
        .map(|(unit, value)| unit.show(value))
        .collect();
        assert_eq!(
            shown,
            [
                "1.5 GiB", "1 GiB", "512 B", "250 µs", "1.45 s", "152 ns", "0 s", "5 min", "12.3 k", "999", "54 k/s",
                "12 %", "-"
            ]
        );
    }

    #[test]
    fn round_values_are_round_in_their_unit() {
        let mib = 1_048_576.0;
        assert_eq!(
            ticks(7.6 * 1024.0 * mib, Unit::Bytes, 5),
            [0.0, 2048.0 * mib, 4096.0 * mib, 6144.0 * mib, 8192.0 * mib]
        );
        assert_eq!(ticks(39.4, Unit::Seconds, 5), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(500.0, Unit::Seconds, 5), [0.0, 120.0, 240.0, 360.0, 480.0, 600.0]);
        assert_eq!(ticks(0.3, Unit::Count, 3), [0.0, 0.1, 0.2, 0.1 * 3.0]);
        assert_eq!(log_ticks(0.03, 39.0, Unit::Seconds, 8), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(log_ticks(4096.0, 65536.0, Unit::Bytes, 4), [4096.0, 8192.0, 16384.0, 32768.0, 65536.0]);
    }

    proptest! {
        #[test]
        fn an_axis_holds_its_values(values in prop::collection::vec(any::<f64>(), 0..20), log: bool, wanted in 0_u32..12) {
            for unit in [Unit::Bytes, Unit::Seconds, Unit::Count, Unit::Percent, Unit::PerSecond, Unit::BytesPerSecond] {
                let spacing = if log { Spacing::Logarithmic } else { Spacing::Linear };
                let scale = Scale::new(values.iter().copied(), unit, spacing, wanted, (40.0, 400.0));
                prop_assert!(scale.ticks.len() <= 70, "{}", scale.ticks.len());
                for value in values.iter().copied().filter(|value| (1e-9..1e15).contains(value)) {
                    if values.iter().all(|value| (1e-9..1e15).contains(value)) {
                        let place = scale.place(value);
                        prop_assert!(place.is_some_and(|place| (39.0..=401.0).contains(&place)), "{value} {place:?} {scale:?}");
                    }
                    let _ = unit.show(value);
                }
            }
        }
    }
}
