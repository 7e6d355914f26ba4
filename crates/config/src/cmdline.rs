//! Huge pages that a kernel command line asks for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_model::{Bytes, PageCount, PageSize};

use hugewise_procfs::kernel::cmdline::LONGEST as LONGEST_LINE;

use super::files::split_while;

/// What `hugepages=`, `hugepagesz=` and `default_hugepagesz=` ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePageWords {
    /// `default_hugepagesz=`.
    pub default_size: Option<PageSize>,
    /// Pools, in order.
    pub pools: Vec<RequestedPool>,
    /// Words that the kernel ignores.
    pub ignored: Vec<IgnoredWord>,
    /// The sizes that are named, in order, whether pages are asked for or not.
    pub sizes: Vec<PageSize>,
}

/// A word about huge pages that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredWord {
    /// As it is written.
    pub word: String,
    /// Why the kernel ignores it.
    pub why: WordRefusal,
}

/// Why the kernel ignores a word about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordRefusal {
    /// It names no size.
    NoSize,
    /// The kernel has no pages of this size.
    UnknownSize(PageSize),
    /// This size was named before.
    SizeTwice(PageSize),
    /// A default size was named before.
    DefaultTwice,
    /// The word before it, which names the size, is ignored.
    AfterIgnoredSize,
    /// This size, or the default size, has a count already.
    CountTwice(Option<PageSize>),
    /// It is no count of pages.
    NoCount,
    /// The kernel takes so many words about huge pages, and no more.
    TooMany,
    /// Pages of such a size are made for a count directly behind its `hugepagesz=` alone.
    NotBehindSize(PageSize),
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
pub struct KernelCmdlineRules<'a> {
    /// Whether it has pages of a size.
    pub has_size: &'a dyn Fn(PageSize) -> bool,
    /// Whether a node is there.
    pub has_node: &'a dyn Fn(u32) -> bool,
    /// Words about huge pages that it takes: since Linux 6.15 two for each page size, and one more.
    pub most_words: usize,
    /// Whether it takes pages by node (since Linux 5.16).
    pub by_node: bool,
    /// On kernels before 5.8, whether a size is gigantic; none on later ones.
    pub is_gigantic_before_5_8: Option<&'a dyn Fn(PageSize) -> bool>,
}

#[derive(Default)]
struct CmdlinePages {
    /// `None` is the default size where no word names it.
    page_size: Option<PageSize>,
    total: u64,
    nodes: BTreeMap<u32, u64>,
    said: bool,
}

impl CmdlinePages {
    fn to_pools(&self) -> Vec<RequestedPool> {
        let page_size = self.page_size;
        let pool = |node, pages| RequestedPool { page_size, node, pages: PageCount(pages) };
        let nodes = self.nodes.iter().filter(|(_, pages)| **pages > 0);
        let nodes: Vec<_> = nodes.map(|(node, pages)| pool(Some(*node), *pages)).collect();
        // Where a node is named, the kernel goes by nodes alone.
        if nodes.is_empty() && self.said { vec![pool(None, self.total)] } else { nodes }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// The default size: no size was named yet.
    Default,
    /// The size of that place in the list.
    Size(usize),
}

/// How far the kernel's own reading is (mm/hugetlb.c).
struct HugePageCmdlineParser<'a> {
    kernel: KernelCmdlineRules<'a>,
    default_size: Option<PageSize>,
    default: CmdlinePages,
    sizes: Vec<CmdlinePages>,
    current: For,
    /// Whether the size named last can be taken.
    valid: bool,
    /// What the last `hugepages=` that was taken was for.
    last: Option<For>,
}

impl HugePageCmdlineParser<'_> {
    /// `hugepagesz=`: a size counts once, and the default size once more while it has no pages.
    fn apply_hugepagesz(&mut self, value: &str) -> Result<(), WordRefusal> {
        self.valid = false;
        let size = self.known_size(value)?;
        match self.sizes.iter().position(|asked| asked.page_size == Some(size)) {
            Some(at) => {
                let free = self.sizes.get(at).is_some_and(|asked| asked.total == 0);
                if self.default_size != Some(size) || !free {
                    return Err(WordRefusal::SizeTwice(size));
                }
                self.current = For::Size(at);
            }
            None => self.add(size),
        }
        self.valid = true;
        Ok(())
    }

    fn known_size(&self, value: &str) -> Result<PageSize, WordRefusal> {
        let size = parse_size(value).ok_or(WordRefusal::NoSize)?;
        if (self.kernel.has_size)(size) { Ok(size) } else { Err(WordRefusal::UnknownSize(size)) }
    }

    fn add(&mut self, size: PageSize) {
        self.current = For::Size(self.sizes.len());
        self.sizes.push(CmdlinePages { page_size: Some(size), ..CmdlinePages::default() });
    }

    /// `default_hugepagesz=`: once, and pages that came before any size are of this one.
    fn apply_default_hugepagesz(&mut self, value: &str) -> Result<(), WordRefusal> {
        if self.kernel.is_gigantic_before_5_8.is_some() {
            self.default_size = Some(self.known_size(value)?);
            return Ok(());
        }
        self.valid = false;
        if self.default_size.is_some() {
            return Err(WordRefusal::DefaultTwice);
        }
        let size = self.known_size(value)?;
        // A size that is there already is not added: the next pages stay those of the size added
        // last.
        if self.sizes.iter().all(|asked| asked.page_size != Some(size)) {
            self.add(size);
        }
        self.valid = true;
        self.default_size = Some(size);
        let default = std::mem::take(&mut self.default);
        if default.total > 0
            && let Some(asked) = self.sizes.iter_mut().find(|asked| asked.page_size == Some(size))
        {
            *asked = CmdlinePages { page_size: Some(size), ..default };
        }
        Ok(())
    }

    /// Counts for the default size that a kernel before 5.8 drops, and why.
    fn drop_late_default(&mut self) -> Option<WordRefusal> {
        let is_gigantic = self.kernel.is_gigantic_before_5_8?;
        let size = self.default_size.filter(|_| self.default.total > 0)?;
        let named = |asked: &CmdlinePages| asked.page_size == Some(size) && asked.total > 0;
        let why = match () {
            () if self.sizes.iter().any(named) => WordRefusal::CountTwice(Some(size)),
            () if is_gigantic(size) => WordRefusal::NotBehindSize(size),
            () => return None,
        };
        self.default = CmdlinePages::default();
        Some(why)
    }

    /// `hugepages=`: for the size before it, and once only unless another size's stands in between.
    fn apply_hugepages(&mut self, value: &str) -> Result<(), WordRefusal> {
        if !self.valid {
            self.valid = true;
            return Err(WordRefusal::AfterIgnoredSize);
        }
        let current = self.current;
        if self.last == Some(current) {
            let size = match current {
                For::Default => self.default_size,
                For::Size(at) => self.sizes.get(at).and_then(|asked| asked.page_size),
            };
            return Err(WordRefusal::CountTwice(size));
        }
        let asked = match current {
            For::Default => Some(&mut self.default),
            For::Size(at) => self.sizes.get_mut(at),
        };
        let Some(asked) = asked else { return Err(WordRefusal::AfterIgnoredSize) };
        if parse_pages(value, asked, self.kernel).is_none() {
            (asked.total, asked.said) = (0, false);
            asked.nodes.clear();
            return Err(WordRefusal::NoCount);
        }
        asked.said = true;
        self.last = Some(current);
        Ok(())
    }
}

/// Reads the words as a kernel does that has pages of every size, and every node.
pub fn huge_page_words<S: AsRef<str>>(words: &[S]) -> HugePageWords {
    let any = KernelCmdlineRules {
        has_size: &|_| true,
        has_node: &|_| true,
        most_words: usize::MAX,
        by_node: true,
        is_gigantic_before_5_8: None,
    };
    huge_page_words_of(words, any)
}

/// Reads the words as a kernel does (mm/hugetlb.c since Linux 5.8): `hugepages=` belongs to the
/// size named before it, and to the default size where none was; it is ignored after a size that is
/// none, and where it comes twice for one size. Pages of the default size that stand before any
/// size win over those that name it.
///
/// Before 5.8 `default_hugepagesz=` is no size that counts belong to, those that name a size win,
/// and gigantic pages are made for them alone: the others are made once the kernel has given memory
/// away, when it makes no gigantic ones.
pub fn huge_page_words_of<S: AsRef<str>>(
    words: &[S],
    kernel: KernelCmdlineRules<'_>,
) -> HugePageWords {
    let mut reading = HugePageCmdlineParser {
        kernel,
        default_size: None,
        default: CmdlinePages::default(),
        sizes: Vec::new(),
        current: For::Default,
        valid: true,
        last: None,
    };
    let (mut ignored, mut taken_words, mut of_default) = (Vec::new(), 0, None);
    let about_pages =
        |name: &str| matches!(name, "hugepagesz" | "default_hugepagesz" | "hugepages");
    for (name, value, word) in assignments_of(words, about_pages) {
        let read = match name.as_str() {
            "hugepagesz" => HugePageCmdlineParser::apply_hugepagesz,
            "default_hugepagesz" => HugePageCmdlineParser::apply_default_hugepagesz,
            "hugepages" => HugePageCmdlineParser::apply_hugepages,
            _ => continue,
        };
        taken_words += 1;
        let taken = match taken_words > kernel.most_words {
            true => Err(WordRefusal::TooMany),
            false => read(&mut reading, &value),
        };
        if taken.is_ok() && name == "hugepages" && reading.current == For::Default {
            of_default = Some(word.clone());
        }
        ignored.extend(taken.err().map(|why| IgnoredWord { word, why }));
    }
    let dropped = reading.drop_late_default().zip(of_default);
    ignored.extend(dropped.map(|(why, word)| IgnoredWord { word, why }));
    let sizes = reading.sizes.iter().filter_map(|asked| asked.page_size).collect();
    let default = std::iter::once(&reading.default)
        .filter(|asked| asked.total > 0 || reading.sizes.is_empty());
    let pools = default.chain(&reading.sizes).flat_map(CmdlinePages::to_pools).collect();
    HugePageWords { default_size: reading.default_size, pools, ignored, sizes }
}

/// The wanted words `name=value` up to `--`, where init's begin, in the kernel's spelling: dashes
/// in names are underscores. Double quotes go away. A line is read for few of its many words.
pub fn assignments_of<S: AsRef<str>>(
    words: &[S],
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, String, String)> {
    let plain = words.iter().map(AsRef::as_ref);
    // Nearly always the words are those that the kernel splits the line into.
    if !plain.clone().any(|word| word.as_bytes().contains(&b'"')) {
        return assignments_in(plain, wanted);
    }
    let joined = plain.collect::<Vec<_>>().join(" ");
    let split = hugewise_procfs::kernel::cmdline::parse(joined.as_bytes()).unwrap_or_default();
    assignments_in(split.iter().map(String::as_str), wanted)
}

fn assignments_in<'a>(
    words: impl Iterator<Item = &'a str>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, String, String)> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let name = if name.as_bytes().contains(&b'-') {
            Cow::Owned(name.replace('-', "_"))
        } else {
            Cow::Borrowed(name)
        };
        wanted(&name).then(|| (name.into_owned(), value.to_owned(), word.to_owned()))
    };
    // The kernel cuts what is longer off.
    let mut left = LONGEST_LINE;
    let fits = |word: &&str| {
        left = left.saturating_sub(word.len() + 1);
        left > 0 && *word != "--"
    };
    words.take_while(fits).filter_map(pair).collect()
}

/// The least that a `mem=` names, `mem=nopentium` apart; `None` where none does
/// (kernel-parameters.txt; arch/x86/kernel/e820.c takes each of them).
pub fn memory_limit<S: AsRef<str>>(words: &[S]) -> Option<Bytes> {
    let said = assignments_of(words, |name| name == "mem");
    let limits = said.iter().filter_map(|(_, value, _)| parse_bytes(value));
    limits.filter(|bytes| *bytes > 0).min().map(Bytes)
}

/// The size of a page in the kernel's way, see [`parse_bytes`].
pub fn parse_size(text: &str) -> Option<PageSize> {
    PageSize::new(parse_bytes(text)?)
}

/// Bytes in the kernel's way (`memparse`): decimal, `0x` or octal, then one letter at most; what
/// follows does not count. `2M`, `1G`, `2048kB`, `0x200000`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let hexadecimal =
        hexadecimal.filter(|digits| digits.starts_with(|first: char| first.is_ascii_hexdigit()));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let (number, suffix) = split_while(digits, |sign| sign.is_digit(radix));
    let shift = match suffix.chars().next().map(|character| character.to_ascii_uppercase()) {
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

/// `512`, or by node `0:512,1:512`. `None` where the kernel refuses it and forgets that size.
fn parse_pages(
    value: &str,
    asked: &mut CmdlinePages,
    kernel: KernelCmdlineRules<'_>,
) -> Option<()> {
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
    let (digits, behind) = split_while(text, |sign| sign.is_ascii_digit());
    Some((digits.parse().ok()?, behind))
}

#[cfg(test)]
mod tests {
    /// A loader's entry of 600 KB took seconds: no kernel takes more than 64 KiB.
    #[test]
    fn words_beyond_the_longest_line_are_not_read() {
        let words = vec!["hugepages=1"; 40_000];
        let read = super::assignments_of(&words, |name| name == "hugepages");
        assert_eq!(read.len(), (64 << 10) / "hugepages=1 ".len());
    }

    use super::*;

    fn pools(line: &str) -> Vec<(Option<u64>, Option<u32>, u64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = huge_page_words(&words);
        found
            .pools
            .iter()
            .map(|p| (p.page_size.map(|size| size.bytes().get() >> 20), p.node, p.pages.get()))
            .collect()
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
        assert_eq!(
            pools("hugepagesz=2M hugepages=0:512,1:512"),
            [(Some(2), Some(0), 512), (Some(2), Some(1), 512)]
        );
        assert_eq!(pools("default_hugepagesz=1G hugepages=3"), [(Some(1024), None, 3)]);
        assert_eq!(pools("hugepages=3 default_hugepagesz=1G"), [(Some(1024), None, 3)]);
    }

    /// mm/hugetlb.c of Linux 5.4: hugetlb_nrpages_setup() makes gigantic pages of a size that
    /// hugepagesz= named, and hugetlb_init_hstates() makes all others.
    #[test]
    fn before_5_8_gigantic_pages_are_made_behind_their_size_alone() {
        let old = KernelCmdlineRules {
            has_size: &|_| true,
            has_node: &|_| true,
            most_words: usize::MAX,
            by_node: false,
            is_gigantic_before_5_8: Some(&|size| size == PageSize::GIB_1),
        };
        let read = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let found = huge_page_words_of(&words, old);
            let pools = found.pools.iter().filter(|pool| pool.pages.get() > 0);
            let pools: Vec<_> = pools.map(|pool| (pool.page_size, pool.pages.get())).collect();
            (pools, found.ignored.into_iter().map(|word| word.why).collect::<Vec<_>>())
        };
        let gib = PageSize::GIB_1;
        let none = (Vec::new(), vec![WordRefusal::NotBehindSize(gib)]);
        assert_eq!(read("hugepages=2 default_hugepagesz=1G"), none);
        assert_eq!(read("default_hugepagesz=1G hugepages=2"), none);
        for line in [
            "default_hugepagesz=1G hugepagesz=1G hugepages=2",
            "hugepagesz=1G default_hugepagesz=1G hugepages=2",
        ] {
            assert_eq!(read(line), (vec![(Some(gib), 2)], Vec::new()), "{line}");
        }
        assert_eq!(read("hugepages=512"), (vec![(None, 512)], Vec::new()));
        let named_wins = "hugepages=8 hugepagesz=2M hugepages=4 default_hugepagesz=2M";
        assert_eq!(read(named_wins).0, [(Some(PageSize::MIB_2), 4)]);
    }

    fn refusals(line: &str) -> Vec<(String, WordRefusal)> {
        let ignored = huge_page_words(&line.split(' ').collect::<Vec<_>>()).ignored.into_iter();
        ignored.map(|ignored| (ignored.word, ignored.why)).collect()
    }

    #[test]
    fn words_that_the_kernel_ignores() {
        assert_eq!(pools("hugepagesz=3M hugepages=5"), []);
        assert_eq!(pools("hugepagesz=2M hugepages=5 hugepages=6"), [(Some(2), None, 5)]);
        assert_eq!(
            pools("hugepagesz=2M hugepages=5 hugepagesz=2M hugepages=6"),
            [(Some(2), None, 5)]
        );
        assert_eq!(pools("hugepages=x -- hugepages=7"), []);
        assert_eq!(
            refusals("hugepagesz=lots hugepages=5"),
            [
                ("hugepagesz=lots".to_owned(), WordRefusal::NoSize),
                ("hugepages=5".to_owned(), WordRefusal::AfterIgnoredSize),
            ]
        );
        // dmesg of 6.1: "HugeTLB: hugepages=32 ... specified twice"; 1G stands there without pages.
        let line = "hugepagesz=1G hugepagesz=2M hugepages=32 hugepages=1024";
        let twice = WordRefusal::CountTwice(Some(PageSize::MIB_2));
        assert_eq!(refusals(line), [("hugepages=1024".to_owned(), twice)]);
        assert_eq!(pools(line), [(Some(2), None, 32)]);
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
