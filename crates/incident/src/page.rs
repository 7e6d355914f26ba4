//! The base page of the host that an archive is of: what counters of swap and of scans count, and what page tables map.

use hugewise_model::{Bytes, PageSize};

use crate::{History, Series};

/// The smallest base page of any kernel that runs databases: where the page is not known, an amount is at least so many.
const SMALLEST: PageSize = PageSize::KIB_4;
/// A page-table entry.
const ENTRY: f64 = 8.0;

/// A base page, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page(Option<PageSize>);

impl Page {
    /// The page that the counters of a series count: as the source says it, or as it has to be on the host.
    pub(crate) fn of(series: &Series, host: Self) -> Self {
        Self(series.counted_in.or_else(|| of_source(series)).or(host.0))
    }

    /// The page of a host: as it was captured, or as one of its sources tells.
    pub(crate) fn of_host(history: &History) -> Self {
        let captured = history.facts.as_ref().and_then(|facts| facts.base_page);
        Self(captured.or_else(|| history.series.iter().find_map(of_source)))
    }

    /// Whether it is known.
    pub(crate) const fn known(self) -> bool {
        self.0.is_some()
    }

    /// How many pages an amount is; at most so many where the page is not known.
    pub(crate) fn pages(self, amount: Bytes) -> f64 {
        amount.as_f64() / self.0.unwrap_or(SMALLEST).bytes().as_f64()
    }

    /// `12.0 MiB`, or the number of pages where nobody knows how large they are.
    pub(crate) fn words(self, pages: f64) -> String {
        match self.0 {
            Some(page) => bytes(pages * page.bytes().as_f64()).to_string(),
            None => format!("{pages:.0} pages"),
        }
    }

    /// What page tables of so many bytes map, on pages of which size: a table is a page of entries, one for each page that it
    /// maps. Where the page is not known, the smallest is taken, and the caller says so.
    pub(crate) fn mapped_by(self, tables: f64) -> (PageSize, f64) {
        let page = self.0.unwrap_or(SMALLEST);
        (page, tables * page.bytes().as_f64() / ENTRY)
    }

    /// What is to be said where nobody knows it.
    pub(crate) fn caveat(self) -> Option<String> {
        self.0.is_none().then(|| {
            format!("no source says how large a page is on this host: the smallest, {SMALLEST}, was assumed")
        })
    }
}

/// An amount that was reckoned with fractions.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an amount of memory below 2^53")]
pub(crate) fn bytes(amount: f64) -> Bytes {
    Bytes(amount.max(0.0) as u64)
}

/// What a source says, or its architecture and kernel tell.
fn of_source(series: &Series) -> Option<PageSize> {
    let of_kernel = || of_kernel(series.architecture.as_deref(), series.kernel.as_deref(), series.huge_page);
    series.base_page.or_else(of_kernel)
}

/// The base page of an architecture that has but one; of one that has several (arm64, POWER) where the kernel's release or
/// the default huge page decides.
///
/// Red Hat and Ubuntu mark their kernels of 64 KiB pages (`5.14.0-427.el9.aarch64+64k`, `6.8.0-31-generic-64k`), and no other
/// page of arm64 has huge pages of 512 MiB. Smaller ones tell nothing: 2 MiB can be had on each of its base pages
/// (Documentation/arch/arm64/hugetlbpage.rst).
pub(crate) fn of_kernel(architecture: Option<&str>, kernel: Option<&str>, huge: Option<Bytes>) -> Option<PageSize> {
    let kernel = kernel.unwrap_or_default();
    let within = kernel.rsplit(['.', '-', '+']).next().unwrap_or_default();
    match architecture.unwrap_or(within) {
        "x86_64" | "amd64" | "i386" | "i486" | "i586" | "i686" | "s390x" | "riscv64" => Some(SMALLEST),
        "aarch64" | "arm64" | "64k" => {
            let marked = kernel.ends_with("+64k") || kernel.ends_with("-64k");
            (marked || huge == Some(Bytes::from_mib(512))).then_some(PageSize::new(64 << 10)).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;

    fn kib(size: u64) -> Option<PageSize> {
        PageSize::from_kib(size)
    }

    #[test]
    fn the_architecture_decides_where_it_can() {
        let of = |architecture, kernel| of_kernel(architecture, kernel, None);
        assert_eq!(of(Some("x86_64"), None), kib(4));
        assert_eq!(of(None, Some("5.14.0-503.11.1.el9_5.x86_64")), kib(4));
        assert_eq!(of(None, Some("6.1.0-13-cloud-amd64")), kib(4));
        assert_eq!(of(Some("s390x"), Some("5.3.18-22-default")), kib(4));
        // Debian, SUSE and Red Hat build arm64 with 4 KiB, Red Hat 8 with 64 KiB: the name says neither.
        assert_eq!(of(Some("aarch64"), Some("6.1.0-13-arm64")), None);
        assert_eq!(of(None, Some("4.18.0-553.el8_10.aarch64")), None);
        assert_eq!(of(Some("aarch64"), Some("5.14.0-427.13.1.el9_4.aarch64+64k")), kib(64));
        assert_eq!(of(None, Some("6.8.0-31-generic-64k")), kib(64));
        assert_eq!(of(Some("ppc64le"), None), None);
        assert_eq!(of(None, Some("5.3.18-22-default")), None);
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn huge_pages_of_512_mib_are_of_64_kib_pages_and_those_of_2_mib_of_any() {
        let of = |mib| of_kernel(Some("aarch64"), None, Some(Bytes::from_mib(mib)));
        assert_eq!((of(512), of(2), of(32)), (kib(64), None, None));
    }

    #[test]
    fn what_a_source_says_of_itself_comes_before_what_the_host_was_captured_with() {
        let mut history = History { series: vec![Series::new("a", crate::Format::Sysstat)], ..History::default() };
        assert_eq!(Page::of_host(&history), Page(None));
        history.facts = Some(Facts { base_page: kib(64), ..Facts::default() });
        let host = Page::of_host(&history);
        let mut counted = Series::new("vmstat.log", crate::Format::Loop(crate::Tool::Vmstat));
        counted.counted_in = kib(4);
        assert_eq!((Page::of(&history.series[0], host), Page::of(&counted, host)), (Page(kib(64)), Page(kib(4))));
        // A second source of the same host does not have to say it again.
        let mut named = Series::new("b", crate::Format::Sysstat);
        named.architecture = Some("x86_64".into());
        let both = History {
            series: vec![Series::new("a", crate::Format::Loop(crate::Tool::Meminfo)), named],
            ..History::default()
        };
        assert_eq!(Page::of(&both.series[0], Page::of_host(&both)), Page(kib(4)));
    }

    #[test]
    fn amounts_by_hand() {
        let (small, large) = (Page(kib(4)), Page(kib(64)));
        assert_eq!((small.pages(Bytes::from_mib(4)), large.pages(Bytes::from_mib(4))), (1024.0, 64.0));
        assert_eq!((small.words(512.0), large.words(512.0)), ("2.0 MiB".into(), "32.0 MiB".into()));
        assert_eq!(Page(None).words(512.0), "512 pages");
        // 512 entries map 2 MiB with 4 KiB pages, 8,192 entries 512 MiB with 64 KiB pages.
        assert_eq!(small.mapped_by(4096.0), (PageSize::KIB_4, 2_097_152.0));
        assert_eq!(large.mapped_by(65_536.0).1, 536_870_912.0);
        assert_eq!(Page(None).mapped_by(4096.0), small.mapped_by(4096.0));
        assert!(Page(None).caveat().is_some() && small.caveat().is_none());
    }
}
