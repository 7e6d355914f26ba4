#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChartUnit {
    /// In powers of 1024.
    Bytes,
    /// From nanoseconds to hours.
    Seconds,
    /// In powers of 1000.
    Count,
    Percent,
    PerSecond,
    /// In powers of 1024.
    BytesPerSecond,
}

/// Hours and minutes have round values of their own.
const LONG_STEPS: [f64; 12] = [
    60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0,
    86_400.0,
];

impl ChartUnit {
    /// `1.5 GiB`, `250 µs`, `12.3 k`: three digits tell enough of a measurement.
    pub(crate) fn format_value(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        match self {
            Self::Bytes => format_scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
            Self::BytesPerSecond => {
                format_scaled(value, 1024.0, &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"])
            }
            Self::Count => format_scaled(value, 1000.0, &["", "k", "M", "G", "T"]),
            Self::PerSecond => format_scaled(value, 1000.0, &["/s", "k/s", "M/s", "G/s", "T/s"]),
            Self::Percent => format!("{} %", format_three_digits(value)),
            Self::Seconds => format_seconds(value),
        }
    }

    fn round_step(self, least: f64) -> f64 {
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
    let round = [1.0, 2.0, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * (1.0 - 1e-9));
    round.unwrap_or(power * 10.0)
}

fn format_scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut shown = value;
    let mut left = units.iter();
    let mut unit = left.next().copied().unwrap_or_default();
    // 1023.6 would be shown as 1024 of the smaller unit.
    while format_three_digits(shown)
        .trim_start_matches('-')
        .parse::<f64>()
        .is_ok_and(|seen| seen >= base)
    {
        let Some(next) = left.next() else { break };
        (shown, unit) = (shown / base, next);
    }
    let number = format_three_digits(shown);
    if unit.is_empty() || unit.starts_with('/') {
        format!("{number}{unit}")
    } else {
        format!("{number} {unit}")
    }
}

fn format_seconds(value: f64) -> String {
    let size = value.abs();
    if size >= 120.0 {
        return if size >= 7200.0 {
            format!("{} h", format_three_digits(value / 3600.0))
        } else {
            format!("{} min", format_three_digits(value / 60.0))
        };
    }
    let (factor, unit) = match size {
        size if size >= 0.9995 || size == 0.0 => (1.0, "s"),
        size if size >= 0.000_999_5 => (1e3, "ms"),
        size if size >= 0.000_000_999_5 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", format_three_digits(value * factor))
}

/// Three significant digits; whole numbers stay whole.
fn format_three_digits(value: f64) -> String {
    let places = match value.abs() {
        size if !(1e-12..99.95).contains(&size) => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Round values from zero to the first at or above `most`, about `wanted` of them.
pub(crate) fn linear_ticks(most: f64, unit: ChartUnit, wanted: u32) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let step = unit.round_step(most / f64::from(wanted.max(1)));
    // Adding the step up would add its error up too.
    let reaches = |count: &u32| f64::from(count.saturating_sub(1)) * step < most * (1.0 - 1e-9);
    (0..64).take_while(reaches).map(|count| f64::from(count) * step).collect()
}

/// About `wanted` powers of ten (of two, for bytes) at most, which enclose `least` to `most`.
pub(crate) fn log_ticks(least: f64, most: f64, unit: ChartUnit, wanted: u32) -> Vec<f64> {
    if !(least.is_finite() && most.is_finite()) || least <= 0.0 || most < least {
        return vec![1.0, 10.0];
    }
    let base =
        if matches!(unit, ChartUnit::Bytes | ChartUnit::BytesPerSecond) { 2_f64 } else { 10_f64 };
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    Linear,
    Logarithmic,
}

#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// The first and the last are the ends.
    pub ticks: Vec<f64>,
    spacing: Spacing,
    from: f64,
    to: f64,
    places: (f64, f64),
}

impl Scale {
    /// A logarithmic axis has no place for values of zero and below.
    pub(crate) fn new(
        values: impl Iterator<Item = f64>,
        unit: ChartUnit,
        spacing: Spacing,
        wanted: u32,
        places: (f64, f64),
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in
            values.filter(|value| value.is_finite() && (*value > 0.0 || spacing == Spacing::Linear))
        {
            least = least.min(value);
            most = most.max(value);
        }
        let ticks = match spacing {
            Spacing::Linear => linear_ticks(most, unit, wanted),
            Spacing::Logarithmic => log_ticks(least, most, unit, wanted),
        };
        let (from, to) =
            (ticks.first().copied().unwrap_or(0.0), ticks.last().copied().unwrap_or(1.0));
        Self { ticks, spacing, from, to, places }
    }

    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let part = match self.spacing {
            Spacing::Linear => (value - self.from) / (self.to - self.from),
            Spacing::Logarithmic => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        let place = self.places.0 + part * (self.places.1 - self.places.0);
        let is_on_axis = part.is_finite() && (-0.001..=1.001).contains(&part);
        is_on_axis.then(|| (place * 100.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        let shown: Vec<String> = [
            (ChartUnit::Bytes, 1_610_612_736.0),
            (ChartUnit::Bytes, 1_073_741_823.0),
            (ChartUnit::Bytes, 512.0),
            (ChartUnit::Seconds, 0.000_25),
            (ChartUnit::Seconds, 1.45),
            (ChartUnit::Seconds, 0.000_000_152),
            (ChartUnit::Seconds, 0.0),
            (ChartUnit::Seconds, 300.0),
            (ChartUnit::Count, 12_345.0),
            (ChartUnit::Count, 999.0),
            (ChartUnit::PerSecond, 54_000.0),
            (ChartUnit::Percent, 12.0),
            (ChartUnit::Count, f64::NAN),
        ]
        .into_iter()
        .map(|(unit, value)| unit.format_value(value))
        .collect();
        assert_eq!(
            shown,
            [
                "1.5 GiB", "1 GiB", "512 B", "250 µs", "1.45 s", "152 ns", "0 s", "5 min",
                "12.3 k", "999", "54 k/s", "12 %", "-"
            ]
        );
    }

    #[test]
    fn round_values_are_round_in_their_unit() {
        let mib = 1_048_576.0;
        assert_eq!(
            linear_ticks(7.6 * 1024.0 * mib, ChartUnit::Bytes, 5),
            [0.0, 2048.0 * mib, 4096.0 * mib, 6144.0 * mib, 8192.0 * mib]
        );
        assert_eq!(linear_ticks(39.4, ChartUnit::Seconds, 5), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(
            linear_ticks(500.0, ChartUnit::Seconds, 5),
            [0.0, 120.0, 240.0, 360.0, 480.0, 600.0]
        );
        assert_eq!(linear_ticks(0.3, ChartUnit::Count, 3), [0.0, 0.1, 0.2, 0.1 * 3.0]);
        assert_eq!(log_ticks(0.03, 39.0, ChartUnit::Seconds, 8), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(
            log_ticks(4096.0, 65536.0, ChartUnit::Bytes, 4),
            [4096.0, 8192.0, 16384.0, 32768.0, 65536.0]
        );
    }

    proptest! {
        #[test]
        fn an_axis_holds_its_values(values in prop::collection::vec(any::<f64>(), 0..20), log: bool, wanted in 0_u32..12) {
            for unit in [ChartUnit::Bytes, ChartUnit::Seconds, ChartUnit::Count, ChartUnit::Percent, ChartUnit::PerSecond, ChartUnit::BytesPerSecond] {
                let spacing = if log { Spacing::Logarithmic } else { Spacing::Linear };
                let scale = Scale::new(values.iter().copied(), unit, spacing, wanted, (40.0, 400.0));
                prop_assert!(scale.ticks.len() <= 70, "{}", scale.ticks.len());
                for value in values.iter().copied().filter(|value| (1e-9..1e15).contains(value)) {
                    if values.iter().all(|value| (1e-9..1e15).contains(value)) {
                        let place = scale.place(value);
                        prop_assert!(place.is_some_and(|place| (39.0..=401.0).contains(&place)), "{value} {place:?} {scale:?}");
                    }
                    let _ = unit.format_value(value);
                }
            }
        }
    }
}
