//! What is wrong with an argument's value.

use hugewise_model::NoSize;

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    #[error(transparent)]
    Size(#[from] NoSize),
    /// Whoever writes a number alone means another unit.
    #[error("{bytes} bytes? write {instead}")]
    Bare { bytes: u64, instead: String },
    #[error("{0:?} is not a page size: use a power of two from 4K up, such as 2M or 1G")]
    PageSize(String),
    #[error("{0:?} is not a percentage: use a whole number from 0 to 100")]
    Percent(String),
    #[error("{0:?} is not SIZE=PAGES, such as 2M=100")]
    Overcommit(String),
    #[error("{0:?} is not thp, 2M or 1G")]
    Pages(String),
}
