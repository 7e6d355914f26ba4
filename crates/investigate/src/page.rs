//! The base page of an archive's host: counters of swap and of scans count it, page tables map it.

use hugewise_model::{Bytes, PageSize};

use crate::{IncidentHistory, Series};

/// The smallest base page of any kernel that runs databases, assumed where it is not known.
const SMALLEST: PageSize = PageSize::KIB_4;
/// Bytes of a page-table entry.
const ENTRY: f64 = 8.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasePage(Option<PageSize>);

impl BasePage {
    pub(crate) fn from_series(series: &Series, host: Self) -> Self {
        Self(series.counted_in.or_else(|| find_base_page(series)).or(host.0))
    }

    pub(crate) fn of_host(history: &IncidentHistory) -> Self {
        let captured = history.facts.as_ref().and_then(|facts| facts.base_page);
        Self(captured.or_else(|| history.series.iter().find_map(find_base_page)))
    }

    pub(crate) const fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// How many pages an amount is; at most as many where the page is not known.
    pub(crate) fn page_count(self, amount: Bytes) -> f64 {
        amount.as_f64() / self.0.unwrap_or(SMALLEST).bytes().as_f64()
    }

    /// `12.0 MiB`, or the number of pages where their size is not known.
    pub(crate) fn format_pages(self, pages: f64) -> String {
        match self.0 {
            Some(page) => bytes_from_f64(pages * page.bytes().as_f64()).to_string(),
            None => format!("{pages:.0} pages"),
        }
    }

    /// What page tables of so many bytes map, on pages of which size: each entry maps a page. Where
    /// the page is not known, the smallest is taken, and the caller says so.
    pub(crate) fn mapped_by(self, tables: f64) -> (PageSize, f64) {
        let page = self.0.unwrap_or(SMALLEST);
        (page, tables * page.bytes().as_f64() / ENTRY)
    }

    pub(crate) fn unknown_size_caveat(self) -> Option<String> {
        self.0.is_none().then(|| {
            format!(
                "no source says how large a page is on this host: the smallest, \
                 {SMALLEST}, was assumed"
            )
        })
    }
}

/// `76 % of a processor`, `1.8 processors`: threads and processes of one name may have several.
pub(crate) fn format_processor_share(percent: f64) -> String {
    if percent < 100.5 {
        format!("{percent:.0} % of a processor")
    } else {
        format!("{:.1} processors", percent / 100.0)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an amount of memory below 2^53"
)]
pub(crate) fn bytes_from_f64(amount: f64) -> Bytes {
    Bytes(amount.max(0.0) as u64)
}

fn find_base_page(series: &Series) -> Option<PageSize> {
    series.base_page.or_else(|| {
        let (architecture, kernel) = (series.architecture.as_deref(), series.kernel.as_deref());
        infer_from_kernel(architecture, kernel, series.huge_page)
    })
}

/// The base page of an architecture that has only one; on arm64 and POWER the kernel's release or
/// the default huge page may tell.
///
/// Red Hat and Ubuntu mark their kernels of 64 KiB pages (`5.14.0-427.el9.aarch64+64k`,
/// `6.8.0-31-generic-64k`), and no other page of arm64 has huge pages of 512 MiB. Smaller ones tell
/// nothing: 2 MiB can be had on each of its base pages (Documentation/arch/arm64/hugetlbpage.rst).
pub(crate) fn infer_from_kernel(
    architecture: Option<&str>,
    kernel: Option<&str>,
    huge: Option<Bytes>,
) -> Option<PageSize> {
    let kernel = kernel.unwrap_or_default();
    let within = kernel.rsplit(['.', '-', '+']).next().unwrap_or_default();
    match architecture.unwrap_or(within) {
        "x86_64" | "amd64" | "i386" | "i486" | "i586" | "i686" | "s390x" | "riscv64" => {
            Some(SMALLEST)
        }
        "aarch64" | "arm64" | "64k" => {
            let marked = kernel.ends_with("+64k") || kernel.ends_with("-64k");
            (marked || huge == Some(Bytes::from_mib(512)))
                .then_some(PageSize::new(64 << 10))
                .flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostSetupFacts;

    fn kib(size: u64) -> Option<PageSize> {
        PageSize::from_kib(size)
    }

    #[test]
    fn the_architecture_decides_where_it_can() {
        let page_size_of = |architecture, kernel| infer_from_kernel(architecture, kernel, None);
        assert_eq!(page_size_of(Some("x86_64"), None), kib(4));
        assert_eq!(page_size_of(None, Some("5.14.0-503.11.1.el9_5.x86_64")), kib(4));
        assert_eq!(page_size_of(None, Some("6.1.0-13-cloud-amd64")), kib(4));
        assert_eq!(page_size_of(Some("s390x"), Some("5.3.18-22-default")), kib(4));
        // Debian, SUSE and Red Hat build arm64 with 4 KiB, Red Hat 8 with 64 KiB: the name says
        // neither.
        assert_eq!(page_size_of(Some("aarch64"), Some("6.1.0-13-arm64")), None);
        assert_eq!(page_size_of(None, Some("4.18.0-553.el8_10.aarch64")), None);
        assert_eq!(
            page_size_of(Some("aarch64"), Some("5.14.0-427.13.1.el9_4.aarch64+64k")),
            kib(64)
        );
        assert_eq!(page_size_of(None, Some("6.8.0-31-generic-64k")), kib(64));
        assert_eq!(page_size_of(Some("ppc64le"), None), None);
        assert_eq!(page_size_of(None, Some("5.3.18-22-default")), None);
        assert_eq!(page_size_of(None, None), None);
    }

    #[test]
    fn huge_pages_of_512_mib_are_of_64_kib_pages_and_those_of_2_mib_of_any() {
        let page_size_of =
            |mib| infer_from_kernel(Some("aarch64"), None, Some(Bytes::from_mib(mib)));
        assert_eq!((page_size_of(512), page_size_of(2), page_size_of(32)), (kib(64), None, None));
    }

    #[test]
    fn what_a_source_says_of_itself_comes_before_what_the_host_was_captured_with() {
        let mut history = IncidentHistory {
            series: vec![Series::new("a", crate::SourceFormat::SYSSTAT)],
            ..IncidentHistory::default()
        };
        assert_eq!(BasePage::of_host(&history), BasePage(None));
        history.facts = Some(HostSetupFacts { base_page: kib(64), ..HostSetupFacts::default() });
        let host = BasePage::of_host(&history);
        let mut counted =
            Series::new("vmstat.log", crate::SourceFormat::Loop(crate::CollectedTool::Vmstat));
        counted.counted_in = kib(4);
        assert_eq!(
            (
                BasePage::from_series(&history.series[0], host),
                BasePage::from_series(&counted, host)
            ),
            (BasePage(kib(64)), BasePage(kib(4)))
        );
        // A second source of the same host does not have to say it again.
        let mut named = Series::new("b", crate::SourceFormat::SYSSTAT);
        named.architecture = Some("x86_64".into());
        let both = IncidentHistory {
            series: vec![
                Series::new("a", crate::SourceFormat::Loop(crate::CollectedTool::Meminfo)),
                named,
            ],
            ..IncidentHistory::default()
        };
        assert_eq!(
            BasePage::from_series(&both.series[0], BasePage::of_host(&both)),
            BasePage(kib(4))
        );
    }

    #[test]
    fn amounts_by_hand() {
        let (small, large) = (BasePage(kib(4)), BasePage(kib(64)));
        assert_eq!(
            (small.page_count(Bytes::from_mib(4)), large.page_count(Bytes::from_mib(4))),
            (1024.0, 64.0)
        );
        assert_eq!(
            (small.format_pages(512.0), large.format_pages(512.0)),
            ("2.0 MiB".into(), "32.0 MiB".into())
        );
        assert_eq!(BasePage(None).format_pages(512.0), "512 pages");
        // 512 entries map 2 MiB with 4 KiB pages, 8,192 entries 512 MiB with 64 KiB pages.
        assert_eq!(small.mapped_by(4096.0), (PageSize::KIB_4, 2_097_152.0));
        assert_eq!(large.mapped_by(65_536.0).1, 536_870_912.0);
        assert_eq!(BasePage(None).mapped_by(4096.0), small.mapped_by(4096.0));
        assert!(
            BasePage(None).unknown_size_caveat().is_some() && small.unknown_size_caveat().is_none()
        );
    }
}
