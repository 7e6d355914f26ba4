//! The variants of an experiment: the pages that memory is on.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use hugewise_model::PageSize;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The pages of one variant's memory. Written `4k`, `thp`, `thp-64k`, `2m`, `1g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Variant {
    /// The base page, without transparent huge pages.
    Base,
    /// PMD-sized transparent huge pages (2 MiB on x86-64), by madvise.
    Thp,
    /// Smaller transparent huge pages ("mTHP", Linux 6.8), by madvise.
    Mthp(PageSize),
    /// Pages of the pool of this size (hugetlb).
    Huge(PageSize),
}

impl Variant {
    /// 2 MiB pages of the pool.
    pub const MIB_2: Self = Self::Huge(PageSize::MIB_2);
    /// 1 GiB pages of the pool.
    pub const GIB_1: Self = Self::Huge(PageSize::GIB_1);

    /// The size of its hugetlb pages; `None` for what takes no pages of a pool.
    pub const fn pool_page_size(self) -> Option<PageSize> {
        match self {
            Self::Huge(page) => Some(page),
            Self::Base | Self::Thp | Self::Mthp(_) => None,
        }
    }

    pub(crate) const fn is_transparent(self) -> bool {
        matches!(self, Self::Thp | Self::Mthp(_))
    }
}

/// The base page of the running kernel.
pub fn base_page() -> PageSize {
    u64::try_from(rustix::param::page_size())
        .ok()
        .and_then(PageSize::new)
        .unwrap_or(PageSize::KIB_4)
}

fn short_page_size(page: PageSize) -> String {
    page.boot_name().to_lowercase()
}

fn page_size(text: &str) -> Option<PageSize> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << unit).and_then(PageSize::new)
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Base => short_page_size(base_page()),
            Self::Thp => "thp".to_owned(),
            Self::Mthp(page) => format!("thp-{}", short_page_size(*page)),
            Self::Huge(page) => short_page_size(*page),
        };
        f.pad(&text)
    }
}

/// A word that names no pages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a page size that the lab knows: use 4k, thp, thp-64k, 2m or 1g")]
pub struct UnknownPages(pub String);

impl FromStr for Variant {
    type Err = UnknownPages;

    fn from_str(text: &str) -> Result<Self, UnknownPages> {
        let lower = text.to_ascii_lowercase();
        let unknown = || UnknownPages(text.to_owned());
        match lower.strip_prefix("thp") {
            Some("") => Ok(Self::Thp),
            Some(size) => {
                size.strip_prefix('-').and_then(page_size).map(Self::Mthp).ok_or_else(unknown)
            }
            None if lower == "base" => Ok(Self::Base),
            None => match page_size(&lower).ok_or_else(unknown)? {
                page if page == base_page() => Ok(Self::Base),
                page => Ok(Self::Huge(page)),
            },
        }
    }
}

impl TryFrom<String> for Variant {
    type Error = UnknownPages;
    fn try_from(text: String) -> Result<Self, UnknownPages> {
        text.parse()
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.to_string()
    }
}

impl JsonSchema for Variant {
    fn schema_name() -> Cow<'static, str> {
        "Pages".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The pages that the memory is on: base pages (`4k`), transparent huge \
                 pages (`thp`, or \
                            `thp-64k` and the like), pages of a pool (`2m`, `1g`)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_read_as_they_are_written() {
        let kib_64 = PageSize::from_kib(64).unwrap();
        for (text, variant) in [
            ("thp", Variant::Thp),
            ("thp-64k", Variant::Mthp(kib_64)),
            ("2m", Variant::MIB_2),
            ("1g", Variant::GIB_1),
            (&Variant::Base.to_string(), Variant::Base),
        ] {
            assert_eq!(text.parse(), Ok(variant));
            assert_eq!(variant.to_string(), text);
        }
        assert_eq!("2MiB".parse(), Ok(Variant::MIB_2));
        assert_eq!("base".parse(), Ok(Variant::Base));
        for nonsense in
            ["", "thp-", "thpx", "3m", "m", "2x", "-2m", "99999999999999999999g", "1048576g9"]
        {
            assert!(nonsense.parse::<Variant>().is_err(), "{nonsense}");
        }
    }
}
