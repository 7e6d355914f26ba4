//! Kubernetes quantities: `1112Mi`, `1G`, `0.5Gi`, `100m`, `1e9`.

/// An amount in thousandths, as the smallest unit is a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(u128);

impl Quantity {
    pub(crate) const fn from_bytes(bytes: u64) -> Self {
        Self(bytes as u128 * 1000)
    }

    /// Rounded up, as the API server rounds.
    pub(crate) fn round_up(self) -> u64 {
        u64::try_from(self.0.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// (apimachinery, resource.Quantity) `None` for what is no quantity, or is negative.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && part.is_empty()) || part.contains('.') || part.len() > 18 {
            return None;
        }
        let factor = unit_factor(suffix)?;
        let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
        let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
        let all = digits(whole)?.checked_mul(scale)?.checked_add(digits(part)?)?;
        Some(Self(all.checked_mul(factor)?.div_ceil(scale)))
    }
}

/// What a unit stands for, in thousandths.
fn unit_factor(suffix: &str) -> Option<u128> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if let Some(power) = BINARY.iter().position(|unit| *unit == suffix) {
        return Some(1000 << (10 * (power + 1)));
    }
    let decimal = |power: u32| 10_u128.checked_pow(power);
    if let Some(power) = DECIMAL.iter().position(|unit| *unit == suffix) {
        return decimal(3 * (u32::try_from(power).ok()? + 2));
    }
    match suffix {
        "" => Some(1000),
        "m" => Some(1),
        // A thousandth is the smallest unit here; smaller ones are rounded up to it.
        "u" | "n" => Some(1),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            decimal(exponent.parse::<u32>().ok().filter(|power| *power <= 18)? + 3)
        }
    }
}

/// Bytes as a quantity that people read: `1112Mi`, `3Gi`.
pub(crate) fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let fits = |(size, _): &&(u64, &str)| bytes >= *size && bytes.is_multiple_of(*size);
    match UNITS.iter().find(fits) {
        Some((size, unit)) => format!("{}{unit}", bytes / size),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the API's documentation, "Quantity".
    #[test]
    fn quantities_are_what_kubernetes_takes_them_for() {
        for (text, expected) in [
            ("1Gi", 1 << 30),
            ("1G", 1_000_000_000),
            ("0.5Gi", 1 << 29),
            ("1073741824", 1 << 30),
            ("129e6", 129_000_000),
            ("129M", 129_000_000),
            ("128974848000m", 128_974_848),
            ("123Mi", 123 << 20),
            ("1k", 1000),
            ("100m", 1),
            (".5Ki", 512),
        ] {
            assert_eq!(Quantity::parse(text).map(Quantity::round_up), Some(expected), "{text}");
        }
        for text in ["", "Gi", "1GB", "1 Gi", "-1", "1.2.3", "1e99", "0x10", "512MiB", "."] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
        let most = Quantity::parse("999999999999999999999999Ei").map(Quantity::round_up);
        assert!(matches!(most, None | Some(u64::MAX)));
        assert_eq!(format_bytes(1112 << 20), "1112Mi");
        assert_eq!(format_bytes(3 << 30), "3Gi");
    }
}
