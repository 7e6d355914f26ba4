use hugewise_model::NoSize;

/// The sizes of huge pages that Linux has (Documentation/admin-guide/mm/hugetlbpage.rst; arm64:
/// Documentation/arch/arm64/hugetlbpage.rst).
const SIZES: &str = "huge pages are 2M or 1G on x86-64; 64K, 2M, 32M, 512M, 1G or 16G on arm64; \
     2M, 16M, 1G or 16G on POWER";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    #[error(transparent)]
    Size(#[from] NoSize),
    #[error("{bytes} has no unit; write {instead}")]
    Bare { bytes: u64, instead: String },
    #[error("{0:?} is not a page size; {SIZES}")]
    PageSize(String),
    /// A page size whose unit is missing.
    #[error("{number} has no unit; write {instead}; {SIZES}")]
    BarePage { number: u64, instead: &'static str },
    #[error("{0:?} is not a percentage: use a whole number from 0 to 100")]
    Percent(String),
    #[error("{0:?} is not SIZE=PAGES, such as 2M=100")]
    Overcommit(String),
    #[error("{0:?} is not thp, 2M or 1G")]
    Pages(String),
    #[error("write an address and a port: {0}")]
    Listen(String),
}
