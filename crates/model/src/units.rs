//! Units that cannot be mixed up: [`Bytes`], [`PageSize`], [`PageCount`].

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

mod size;

pub use size::NoSize;

/// An amount of memory in bytes. Arithmetic saturates: a captured file can hold any number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No memory at all.
    pub const ZERO: Self = Self(0);

    /// From what the kernel prints as `kB`: 1024 bytes.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1 << 10))
    }

    /// From mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    /// From gibibytes.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(1 << 30))
    }

    /// A size as on a command line: `34G`, `34GiB`, `34GB`, `512m`, `1.5 TiB`, or `8192` bytes.
    /// Every unit is a power of 1024, `GB` too, as databases and the kernel mean it; a part of a
    /// byte is cut.
    /// Errors: what is wrong with the text: no size, zero, negative, or 2^63 bytes and more.
    pub fn parse(text: &str) -> Result<Self, NoSize> {
        size::parse(text).map(Self)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What is left after taking `other` away, never below zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This amount `factor` times.
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// An equal share of this amount, rounded down; `None` for zero shares.
    pub const fn shared_by(self, shares: u64) -> Option<Self> {
        match self.0.checked_div(shares) {
            Some(each) => Some(Self(each)),
            None => None,
        }
    }

    /// This amount as a part of `whole`, from 0.0 up; `None` where `whole` is zero.
    pub fn part_of(self, whole: Self) -> Option<f64> {
        (whole.0 > 0).then(|| self.as_f64() / whole.as_f64())
    }

    /// For ratios and texts, never for counting.
    #[allow(clippy::cast_precision_loss)]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// `34.0 GiB`, `14.1 MiB`, `64 KiB`, `512 B`: one decimal from a mebibyte up.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let text = match UNITS.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, "KiB")) => format!("{} KiB", self.0 / size),
            Some((size, name)) => format!("{:.1} {name}", self.as_f64() / Self(*size).as_f64()),
            None => format!("{} B", self.0),
        };
        f.pad(&text)
    }
}

/// The size of one page, base or huge: a power of two of at least 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct PageSize(u64);

impl PageSize {
    /// The base page of x86-64.
    pub const KIB_4: Self = Self(4 << 10);
    /// The usual huge page of x86-64.
    pub const MIB_2: Self = Self(2 << 20);
    /// The gigantic page of x86-64.
    pub const GIB_1: Self = Self(1 << 30);

    /// A page of `bytes`; `None` unless a power of two from 4 KiB up.
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= 4096 { Some(Self(bytes)) } else { None }
    }

    /// A page of `kib` kibibytes, as the kernel names its pools (`hugepages-2048kB`).
    pub const fn from_kib(kib: u64) -> Option<Self> {
        match kib.checked_mul(1024) {
            Some(bytes) => Self::new(bytes),
            None => None,
        }
    }

    /// The page's size.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0)
    }

    /// As boot parameters name it: `2M`, `1G`, `64K`.
    pub fn boot_name(self) -> String {
        self.to_string().replace([' ', 'i', 'B'], "")
    }

    /// How many pages of this size hold `amount`, rounded up.
    pub const fn pages_for(self, amount: Bytes) -> PageCount {
        PageCount(amount.0.div_ceil(self.0))
    }
}

impl TryFrom<u64> for PageSize {
    type Error = String;
    fn try_from(bytes: u64) -> Result<Self, Self::Error> {
        Self::new(bytes).ok_or_else(|| format!("{bytes} bytes is not a page size"))
    }
}

impl From<PageSize> for u64 {
    fn from(page: PageSize) -> Self {
        page.0
    }
}

/// `4 KiB`, `2 MiB`, `1 GiB`.
impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
            bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
            bytes => format!("{} KiB", bytes >> 10),
        };
        f.pad(&text)
    }
}

/// A number of pages; the size is given elsewhere.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PageCount(pub u64);

impl PageCount {
    /// `1 page`, `537 pages`: for texts.
    pub fn in_pages(self) -> String {
        format!("{self} {}", if self.0 == 1 { "page" } else { "pages" })
    }

    /// `1 page of 1 GiB`, `537 pages of 2 MiB`.
    pub fn in_pages_of(self, page: PageSize) -> String {
        format!("{} of {page}", self.in_pages())
    }

    /// `1 more page`, `537 more pages`.
    pub fn in_more_pages(self) -> String {
        format!("{self} more {}", if self.0 == 1 { "page" } else { "pages" })
    }

    /// `is` or `are` for so many pages.
    pub const fn linking_verb(self) -> &'static str {
        if self.0 == 1 { "is" } else { "are" }
    }

    /// No pages.
    pub const ZERO: Self = Self(0);

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The memory of this many pages of `page`.
    pub const fn to_bytes(self, page: PageSize) -> Bytes {
        page.bytes().saturating_mul(self.0)
    }

    /// What is left after taking `other` away, never below zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for PageCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for PageCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

/// With separators, as page counts run to six digits.
impl fmt::Display for PageCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&group_thousands(self.0))
    }
}

/// `17,411`.
pub fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_as_people_say_them() {
        assert_eq!(Bytes::ZERO.to_string(), "0 B");
        assert_eq!(Bytes::from_kib(64).to_string(), "64 KiB");
        assert_eq!(Bytes(36_507_222_016).to_string(), "34.0 GiB");
        assert_eq!(Bytes::from_gib(2048).to_string(), "2.0 TiB");
        assert_eq!(format!("{:>9}", Bytes::from_mib(14)), " 14.0 MiB");
    }

    #[test]
    fn pages_round_up_to_hold_everything() {
        assert_eq!(PageSize::MIB_2.pages_for(Bytes(1)), PageCount(1));
        assert_eq!(PageSize::MIB_2.pages_for(Bytes::from_gib(6)), PageCount(3072));
        assert_eq!(PageSize::MIB_2.pages_for(Bytes(0)), PageCount(0));
        assert_eq!(PageCount(17_411).to_string(), "17,411");
        assert_eq!(PageCount(999).to_string(), "999");
        assert_eq!(PageCount(1_000_000).to_string(), "1,000,000");
    }

    #[test]
    fn one_is_a_page_and_others_are_pages() {
        let said = |pages| {
            let pages = PageCount(pages);
            format!(
                "{}, {} {}",
                pages.in_pages_of(PageSize::GIB_1),
                pages.in_more_pages(),
                pages.linking_verb()
            )
        };
        let one = "1 page of 1 GiB, 1 more page is";
        assert_eq!(
            [0, 1, 2].map(said),
            ["0 pages of 1 GiB, 0 more pages are", one, "2 pages of 1 GiB, 2 more pages are"]
        );
    }

    #[test]
    fn a_page_size_is_a_power_of_two() {
        assert_eq!(PageSize::new(3 << 20), None);
        assert_eq!(PageSize::new(0), None);
        assert_eq!(PageSize::from_kib(u64::MAX), None);
        assert_eq!(PageSize::from_kib(2048), Some(PageSize::MIB_2));
        assert_eq!(PageSize::new(64 << 10).map(|p| p.to_string()), Some("64 KiB".into()));
    }
}
