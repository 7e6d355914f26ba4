//! Huge pages that a kernel command line asks for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_model::{Bytes, PageCount, PageSize};

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

/// What a kernel makes of the words, beyond the words themselves.
#[derive(Clone, Copy)]
pub struct Kernel<'a> {
    /// Whether it has pages of a size.
    pub has_size: &'a dyn Fn(PageSize) -> bool,
    /// Whether a node is there.
    pub has_node: &'a dyn Fn(u32) -> bool,
    /// Words about huge pages that it takes: since Linux 6.15 it stops at two for each page size and one more.
    pub most_words: usize,
    /// Whether it takes pages by node (since Linux 5.16).
    pub by_node: bool,
}

/// Pages of one size as the words leave them.
#[derive(Default)]
struct Asked {
    /// `None` is the default size where no word names it.
    page_size: Option<PageSize>,
    total: u64,
    nodes: BTreeMap<u32, u64>,
    /// Whether a `hugepages=` of this size was taken.
    said: bool,
}

impl Asked {
    fn pools(&self) -> Vec<RequestedPool> {
        let pool = |node, pages| RequestedPool { page_size: self.page_size, node, pages: PageCount(pages) };
        let nodes: Vec<RequestedPool> =
            self.nodes.iter().filter(|(_, pages)| **pages > 0).map(|(node, pages)| pool(Some(*node), *pages)).collect();
        // Where a node is named, the kernel goes by nodes alone.
        if nodes.is_empty() && self.said { vec![pool(None, self.total)] } else { nodes }
    }
}

/// What a `hugepages=` is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// The default size: no size was named yet.
    Default,
    /// The size of that place in the list.
    Size(usize),
}

/// How far the kernel's own reading is (mm/hugetlb.c).
struct Reading<'a> {
    kernel: Kernel<'a>,
    default_size: Option<PageSize>,
    default: Asked,
    /// In the order in which they were added.
    sizes: Vec<Asked>,
    /// What the next `hugepages=` is for.
    current: For,
    /// Whether the size named last can be taken.
    valid: bool,
    /// What the last `hugepages=` that was taken was for.
    last: Option<For>,
}

impl Reading<'_> {
    /// `hugepagesz=`: a size counts once, and the default size once more while it has no pages.
    fn size(&mut self, value: &str) -> bool {
        self.valid = false;
        let Some(size) = parse_size(value).filter(|size| (self.kernel.has_size)(*size)) else { return false };
        match self.sizes.iter().position(|asked| asked.page_size == Some(size)) {
            Some(at) => {
                let free = self.sizes.get(at).is_some_and(|asked| asked.total == 0);
                if self.default_size != Some(size) || !free {
                    return false;
                }
                self.current = For::Size(at);
            }
            None => self.add(size),
        }
        self.valid = true;
        true
    }

    fn add(&mut self, size: PageSize) {
        self.current = For::Size(self.sizes.len());
        self.sizes.push(Asked { page_size: Some(size), ..Asked::default() });
    }

    /// `default_hugepagesz=`: once, and pages that came before any size are of this one.
    fn default_size(&mut self, value: &str) -> bool {
        self.valid = false;
        if self.default_size.is_some() {
            return false;
        }
        let Some(size) = parse_size(value).filter(|size| (self.kernel.has_size)(*size)) else { return false };
        // A size that is there already is not added, and the next pages stay those of the size added last.
        if self.sizes.iter().all(|asked| asked.page_size != Some(size)) {
            self.add(size);
        }
        self.valid = true;
        self.default_size = Some(size);
        let default = std::mem::take(&mut self.default);
        if default.total > 0
            && let Some(asked) = self.sizes.iter_mut().find(|asked| asked.page_size == Some(size))
        {
            *asked = Asked { page_size: Some(size), ..default };
        }
        true
    }

    /// `hugepages=`: for the size before it, and once only unless another size's stands in between.
    fn pages(&mut self, value: &str) -> bool {
        if !self.valid {
            self.valid = true;
            return false;
        }
        let current = self.current;
        if self.last == Some(current) {
            return false;
        }
        let asked = match current {
            For::Default => Some(&mut self.default),
            For::Size(at) => self.sizes.get_mut(at),
        };
        let Some(asked) = asked else { return false };
        if parse_pages(value, asked, self.kernel).is_none() {
            (asked.total, asked.said) = (0, false);
            asked.nodes.clear();
            return false;
        }
        asked.said = true;
        self.last = Some(current);
        true
    }
}

/// Reads the words as a kernel does that has pages of every size, and every node.
pub fn huge_page_words<S: AsRef<str>>(words: &[S]) -> HugePageWords {
    let any = Kernel { has_size: &|_| true, has_node: &|_| true, most_words: usize::MAX, by_node: true };
    huge_page_words_of(words, any)
}

/// Reads the words as a kernel does (mm/hugetlb.c since Linux 5.8): `hugepages=` belongs to the size named before it, and
/// to the default size where none was; it is ignored after a size that is none, and where it comes twice for one size.
/// Pages of the default size that stand before any size win over those that name it.
pub fn huge_page_words_of<S: AsRef<str>>(words: &[S], kernel: Kernel<'_>) -> HugePageWords {
    let mut reading = Reading {
        kernel,
        default_size: None,
        default: Asked::default(),
        sizes: Vec::new(),
        current: For::Default,
        valid: true,
        last: None,
    };
    let (mut ignored, mut taken_words) = (Vec::new(), 0);
    let about_pages = |name: &str| matches!(name, "hugepagesz" | "default_hugepagesz" | "hugepages");
    for (name, value, word) in assignments_of(words, about_pages) {
        let read = match name.as_str() {
            "hugepagesz" => Reading::size,
            "default_hugepagesz" => Reading::default_size,
            "hugepages" => Reading::pages,
            _ => continue,
        };
        taken_words += 1;
        if taken_words > kernel.most_words || !read(&mut reading, &value) {
            ignored.push(word);
        }
    }
    let default = std::iter::once(&reading.default).filter(|asked| asked.total > 0 || reading.sizes.is_empty());
    let pools = default.chain(&reading.sizes).flat_map(Asked::pools).collect();
    HugePageWords { default_size: reading.default_size, pools, ignored }
}

/// The words `name=value` with their names in the kernel's spelling, up to `--`, from where on they are init's. Dashes
/// and underscores are the same in names. Double quotes go away, whoever split the words.
pub fn assignments<S: AsRef<str>>(words: &[S]) -> Vec<(String, String, String)> {
    assignments_of(words, |_| true)
}

/// Those of them whose names are wanted: a line has many words, and is read for few of them.
pub fn assignments_of<S: AsRef<str>>(words: &[S], wanted: impl Fn(&str) -> bool) -> Vec<(String, String, String)> {
    let plain = words.iter().map(AsRef::as_ref);
    // Nearly always the words are those that the kernel splits the line into.
    if !plain.clone().any(|word| word.as_bytes().contains(&b'"')) {
        return assignments_in(plain, wanted);
    }
    let joined = plain.collect::<Vec<_>>().join(" ");
    let split = crate::kernel::cmdline::parse(joined.as_bytes()).unwrap_or_default();
    assignments_in(split.iter().map(String::as_str), wanted)
}

fn assignments_in<'a>(
    words: impl Iterator<Item = &'a str>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, String, String)> {
    let pair = |word: &str| {
        let equals = word.bytes().position(|byte| byte == b'=')?;
        let (name, value) = (word.get(..equals)?, word.get(equals + 1..)?);
        let name =
            if name.as_bytes().contains(&b'-') { Cow::Owned(name.replace('-', "_")) } else { Cow::Borrowed(name) };
        wanted(&name).then(|| (name.into_owned(), value.to_owned(), word.to_owned()))
    };
    words.take_while(|word| *word != "--").filter_map(pair).collect()
}

/// The memory that a kernel with these words uses at most: the least that a `mem=` names, `mem=nopentium` apart; `None` where
/// none does (kernel-parameters.txt; arch/x86/kernel/e820.c takes each of them).
pub fn memory_limit<S: AsRef<str>>(words: &[S]) -> Option<Bytes> {
    let said = assignments_of(words, |name| name == "mem");
    said.iter().filter_map(|(_, value, _)| parse_bytes(value)).filter(|bytes| *bytes > 0).min().map(Bytes)
}

/// The size of a page in the kernel's way, see [`parse_bytes`].
pub fn parse_size(text: &str) -> Option<PageSize> {
    PageSize::new(parse_bytes(text)?)
}

/// Bytes in the kernel's way (`memparse`): decimal, `0x` or octal, then one letter at most; what follows does not count.
/// `2M`, `1G`, `2048kB`, `0x200000`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let hexadecimal = hexadecimal.filter(|digits| digits.starts_with(|first: char| first.is_ascii_hexdigit()));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, suffix) = digits.split_at_checked(end)?;
    let shift = match suffix.chars().next().map(|c| c.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        Some('P') => 50,
        Some('E') => 60,
        _ => 0,
    };
    u64::from_str_radix(number, radix).ok()?.checked_mul(1 << shift)
}

/// `512`, or by node `0:512,1:512`. `None` where the kernel calls it invalid and forgets the pages of that size.
fn parse_pages(value: &str, asked: &mut Asked, kernel: Kernel<'_>) -> Option<()> {
    let mut rest = value;
    while !rest.is_empty() {
        let (number, behind) = leading_number(rest)?;
        let Some(pages) = behind.strip_prefix(':').filter(|_| kernel.by_node) else {
            // A count that is of no node stands alone; what is behind it does not count.
            if rest.len() < value.len() {
                return None;
            }
            asked.total = number;
            return Some(());
        };
        let node = u32::try_from(number).ok().filter(|node| (kernel.has_node)(*node))?;
        let (pages, behind) = leading_number(pages)?;
        asked.nodes.insert(node, pages);
        asked.total = asked.total.saturating_add(pages);
        match behind.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    Some(())
}

/// Decimal digits at the beginning (`sscanf` with `%lu`), and what follows them.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, behind) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn memory_can_be_limited() {
        let limit = |line: &str| memory_limit(&line.split(' ').collect::<Vec<_>>()).map(Bytes::get);
        assert_eq!(limit("quiet mem=1G mem=512M"), Some(512 << 20));
        assert_eq!(limit("mem=nopentium"), None);
        assert_eq!(limit("mem=0x40000000 -- mem=1M"), Some(1 << 30));
        assert_eq!(limit("quiet"), None);
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
}
