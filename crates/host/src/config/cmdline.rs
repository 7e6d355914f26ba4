//! Huge pages that a kernel command line asks for.

use hugewise_model::{PageCount, PageSize};

/// What `hugepages=`, `hugepagesz=` and `default_hugepagesz=` ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePageWords {
    /// `default_hugepagesz=`.
    pub default_size: Option<PageSize>,
    /// Pools, in order.
    pub pools: Vec<RequestedPool>,
    /// Words that the kernel ignores, as they are written.
    pub ignored: Vec<String>,
}

/// Pages that the command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedPool {
    /// `None` is the kernel's default size.
    pub page_size: Option<PageSize>,
    /// Node; `None` where the kernel spreads the pages over all.
    pub node: Option<u32>,
    /// Pages.
    pub pages: PageCount,
}

/// The size that a following `hugepages=` is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Current {
    /// No size was named yet: the default.
    Default,
    Size(PageSize),
    /// The last size named was none, or was named before.
    Invalid,
}

/// Reads the words as the kernel does (mm/hugetlb.c since Linux 5.8): `hugepages=` belongs to the size named before
/// it, and to the default size where none was; it is ignored after a size that is none, after one named twice, and
/// where it comes twice for one size. Whether this processor has pages of a size is not asked.
pub fn huge_page_words<S: AsRef<str>>(words: &[S]) -> HugePageWords {
    let mut found = HugePageWords::default();
    let mut sizes: Vec<PageSize> = Vec::new();
    let mut counted: Vec<Current> = Vec::new();
    let mut current = Current::Default;
    // Words after `--` are for init.
    for word in words.iter().map(AsRef::as_ref).take_while(|word| *word != "--") {
        let taken = if let Some(value) = word.strip_prefix("hugepagesz=") {
            let size = parse_size(value).filter(|size| {
                let is_default = found.default_size == Some(*size) && !counted.contains(&Current::Size(*size));
                is_default || !sizes.contains(size)
            });
            sizes.extend(size);
            current = size.map_or(Current::Invalid, Current::Size);
            size.is_some()
        } else if let Some(value) = word.strip_prefix("default_hugepagesz=") {
            let size = parse_size(value).filter(|_| found.default_size.is_none());
            current = size.map_or(Current::Invalid, Current::Size);
            if let Some(size) = size {
                found.default_size = Some(size);
                sizes.push(size);
            }
            size.is_some()
        } else if let Some(value) = word.strip_prefix("hugepages=") {
            let pools = match current {
                Current::Invalid => None,
                again if counted.contains(&again) => None,
                Current::Default => parse_pages(value, None),
                Current::Size(size) => parse_pages(value, Some(size)),
            };
            // A size that is none costs one `hugepages=`; the next one would be the last valid size's, which
            // has its own already or is asked for by nobody.
            counted.extend(pools.is_some().then_some(current));
            let taken = pools.is_some();
            found.pools.extend(pools.into_iter().flatten());
            taken
        } else {
            continue;
        };
        if !taken {
            found.ignored.push(word.to_owned());
        }
    }
    if let Some(default) = found.default_size {
        for pool in &mut found.pools {
            pool.page_size.get_or_insert(default);
        }
    }
    found
}

/// A number with a suffix, in the kernel's way: `2M`, `1G`, `0x200000`, `2048K`.
pub fn parse_size(text: &str) -> Option<PageSize> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, suffix) = digits.split_at_checked(end)?;
    let shift = match suffix.chars().next().map(|c| c.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        None => 0,
        Some(_) => return None,
    };
    PageSize::new(u64::from_str_radix(number, radix).ok()?.checked_mul(1 << shift)?)
}

/// `512`, or by node `0:512,1:512`; what the kernel calls invalid counts as far as it was read.
fn parse_pages(value: &str, page_size: Option<PageSize>) -> Option<Vec<RequestedPool>> {
    if !value.contains(':') {
        let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
        let pages = PageCount(value.get(..end)?.parse().ok()?);
        return Some(vec![RequestedPool { page_size, node: None, pages }]);
    }
    let mut pools = Vec::new();
    for part in value.split(',') {
        let Some((node, pages)) = part.split_once(':') else { break };
        let (Ok(node), Ok(pages)) = (node.parse(), pages.parse()) else { break };
        pools.push(RequestedPool { page_size, node: Some(node), pages: PageCount(pages) });
    }
    (!pools.is_empty()).then_some(pools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pools(line: &str) -> Vec<(Option<u64>, Option<u32>, u64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = huge_page_words(&words);
        found.pools.iter().map(|p| (p.page_size.map(|size| size.bytes().get() >> 20), p.node, p.pages.get())).collect()
    }

    #[test]
    fn counts_follow_their_sizes() {
        // Documentation/admin-guide/kernel-parameters.txt and hugetlbpage.rst of Linux 6.1.
        assert_eq!(pools("quiet hugepages=512"), [(None, None, 512)]);
        assert_eq!(
            pools("default_hugepagesz=1G hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=512"),
            [(Some(1024), None, 4), (Some(2), None, 512)]
        );
        assert_eq!(pools("hugepages=0:1,1:2"), [(None, Some(0), 1), (None, Some(1), 2)]);
        assert_eq!(pools("hugepagesz=2M hugepages=0:512,1:512"), [(Some(2), Some(0), 512), (Some(2), Some(1), 512)]);
        assert_eq!(pools("default_hugepagesz=1G hugepages=3"), [(Some(1024), None, 3)]);
        assert_eq!(pools("hugepages=3 default_hugepagesz=1G"), [(Some(1024), None, 3)]);
    }

    #[test]
    fn words_that_the_kernel_ignores() {
        assert_eq!(pools("hugepagesz=3M hugepages=5"), []);
        assert_eq!(pools("hugepagesz=2M hugepages=5 hugepages=6"), [(Some(2), None, 5)]);
        assert_eq!(pools("hugepagesz=2M hugepages=5 hugepagesz=2M hugepages=6"), [(Some(2), None, 5)]);
        assert_eq!(pools("hugepages=x -- hugepages=7"), []);
        assert_eq!(huge_page_words(&["hugepagesz=lots", "hugepages=5"]).ignored, ["hugepagesz=lots", "hugepages=5"]);
    }

    #[test]
    fn sizes_have_the_kernels_suffixes() {
        for text in ["2M", "2m", "2048K", "2097152", "0x200000"] {
            assert_eq!(parse_size(text), Some(PageSize::MIB_2), "{text}");
        }
        assert_eq!(parse_size("1G"), Some(PageSize::GIB_1));
        assert_eq!(parse_size("0"), None);
        assert_eq!(parse_size(""), None);
        assert_eq!(parse_size("99999999999999T"), None);
    }

    proptest! {
        #[test]
        fn any_words_are_survived(words in proptest::collection::vec("(hugepages=|hugepagesz=|default_hugepagesz=|)[0-9:,KMGxé]{0,9}", 0..9)) {
            huge_page_words(&words);
        }
    }
}
