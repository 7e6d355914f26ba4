//! /proc/PID/maps (proc_pid_maps(5)).

use hugewise_model::{Mapping, Observed, PageSize};

use super::budget::BudgetLimits;
use hugewise_source::{MAX_FILE, ParseError};

/// Free of charge: an Oracle process has some hundreds, and a Java server's heap may have 100,000.
const ORDINARY: u64 = 1024;
/// The length of an ordinary process's file.
pub(super) const ORDINARY_TEXT: u64 = 128 << 10;
/// A name of this length counts as one mapping more.
const NAME: usize = 128;
/// To read so many bytes of text counts as one mapping, whether it is kept or not.
const TEXT: usize = 512;

/// What the longest file counts, of which nothing is kept.
pub(super) const LONGEST_TEXT: u64 = MAX_FILE / TEXT as u64;

pub(super) const LIMITS: BudgetLimits = BudgetLimits {
    file: "maps",
    ordinary: ORDINARY,
    ordinary_together: 1_000_000,
    larger_together: 250_000,
    why: "left out: together this user's processes have too many mappings",
};

/// What a mapping counts.
pub(super) const fn mapping_weight(name: &str) -> u64 {
    1 + (name.len() / NAME) as u64
}

/// What the text of the file counts beyond an ordinary one's.
pub(super) const fn text_weight(length: usize) -> u64 {
    (length as u64).saturating_sub(ORDINARY_TEXT) / TEXT as u64
}

/// From this size on a private mapping matters: below it, huge pages save nothing worth a word.
pub(crate) const LARGE_PRIVATE: u64 = 16 << 20;
/// The smallest huge page of any architecture; hugetlb mappings are multiples of their page.
const SMALLEST_HUGE: u64 = 64 << 10;

/// One line, not yet copied.
#[derive(Clone, Copy, Debug)]
pub struct MapsLine<'a> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `rw-p`.
    pub permissions: &'a [u8],
    /// Offset in the file.
    pub offset: u64,
    /// Device as one number: major in the upper half.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Path or name.
    pub name: &'a [u8],
}

impl MapsLine<'_> {
    /// Length.
    pub const fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn is_shared(&self) -> bool {
        self.permissions.get(3) == Some(&b's')
    }

    /// Whether it can matter for huge pages, by this line alone.
    pub fn may_matter(&self) -> bool {
        let anonymous = self.inode == 0 && (self.name.is_empty() || self.name.starts_with(b"["));
        self.is_shared()
            || is_hugetlb_name(self.name)
            || (self.size() >= LARGE_PRIVATE
                && (anonymous || self.permissions.get(1) == Some(&b'w')))
    }

    /// Whether its place allows hugetlb pages: only for processes that map some.
    pub const fn could_be_hugetlb(&self) -> bool {
        self.inode != 0
            && self.start.is_multiple_of(SMALLEST_HUGE)
            && self.size().is_multiple_of(SMALLEST_HUGE)
    }

    pub(crate) fn copy_mapping(&self) -> Mapping {
        Mapping {
            start: self.start,
            end: self.end,
            shared: self.is_shared(),
            accessible: !self.permissions.starts_with(b"---"),
            offset: self.offset,
            device: self.device,
            inode: self.inode,
            name: String::from_utf8_lossy(self.name).into_owned(),
            page_size: Observed::Absent,
        }
    }
}

/// Whether a mapping matters by its page size as well.
pub(super) fn is_kept(mapping: &Mapping, base: Option<PageSize>) -> bool {
    let page_size = mapping.page_size.get();
    page_size.is_none_or(|size| Some(size) > base)
        || mapping.shared
        || mapping.size().get() >= LARGE_PRIVATE
}

pub(crate) fn is_hugetlb_name(name: &[u8]) -> bool {
    name.starts_with(b"/anon_hugepage")
        || name.starts_with(b"/memfd:")
        || name.windows(4).any(|part| part == b"huge")
}

/// Parses the mappings that can matter: shared, hugetlb by name, or private and large. Fails on a
/// line that is no mapping.
pub fn parse(bytes: &[u8]) -> Result<Vec<Mapping>, ParseError> {
    parse_kept(bytes, |line| line.may_matter())
}

/// Parses the mappings that `keep` accepts; the others cost no allocation.
pub(crate) fn parse_kept(
    bytes: &[u8],
    keep: impl Fn(&MapsLine<'_>) -> bool,
) -> Result<Vec<Mapping>, ParseError> {
    let mut mappings = Vec::new();
    for_each_line(bytes, |line| {
        if keep(&line) {
            mappings.push(line.copy_mapping());
        }
        true
    })?;
    Ok(mappings)
}

/// Visits line by line until `visit` wants no more; says whether it saw all.
pub(super) fn for_each_line(
    bytes: &[u8],
    mut visit: impl FnMut(MapsLine<'_>) -> bool,
) -> Result<bool, ParseError> {
    for (number, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if text.is_empty() {
            continue;
        }
        let line = parse_single_line(text).ok_or(ParseError::at_line(number, "no mapping"))?;
        if !visit(line) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One line by itself.
pub fn parse_single_line(text: &[u8]) -> Option<MapsLine<'_>> {
    let mut fields = MapsFields(text);
    let (start, end) = parse_hex_pair(fields.next()?, b'-')?;
    let permissions = fields.next().filter(|flags| flags.len() == 4)?;
    let offset = parse_hexadecimal(fields.next()?)?;
    let (major, minor) = parse_hex_pair(fields.next()?, b':')?;
    let inode = parse_decimal(fields.next()?)?;
    (end >= start && major <= u64::from(u32::MAX) && minor <= u64::from(u32::MAX)).then(|| {
        MapsLine {
            start,
            end,
            permissions,
            offset,
            device: major << 32 | minor,
            inode,
            name: fields.0.trim_ascii_start(),
        }
    })
}

/// Splits at single blanks; the rest keeps its own.
struct MapsFields<'a>(&'a [u8]);

impl<'a> MapsFields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0;
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        self.0 = text.get(end + 1..).unwrap_or_default();
        text.get(..end).filter(|field| !field.is_empty())
    }
}

fn parse_hex_pair(field: &[u8], at: u8) -> Option<(u64, u64)> {
    let middle = field.iter().position(|byte| *byte == at)?;
    Some((parse_hexadecimal(field.get(..middle)?)?, parse_hexadecimal(field.get(middle + 1..)?)?))
}

fn parse_hexadecimal(digits: &[u8]) -> Option<u64> {
    let fits = !digits.is_empty() && digits.len() <= 16;
    let mut value = 0;
    for digit in digits.iter().filter(|_| fits) {
        value = value << 4 | u64::from(char::from(*digit).to_digit(16)?);
    }
    fits.then_some(value)
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "\
55d0c8a00000-55d0c8acd000 r--p 00000000 fe:01 \
         1835113                    /usr/lib/postgresql/15/bin/postgres
55d0c9b00000-55d0cab00000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0004000000 ---p 00000000 00:00 0 \n\
7f1000000000-7f1000200000 rw-s 00000000 00:0f 32769                      /SYSV00000000 (deleted)
7f2000000000-7f2000400000 rw-p 00000000 00:10 91                         /anon_hugepage (deleted)
7f3000000000-7f3000021000 rw-p 00000000 00:00 0 \n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn keeps_what_can_matter() {
        let mappings = parse(REAL.as_bytes()).unwrap();
        let names: Vec<_> = mappings.iter().map(|mapping| mapping.name.as_str()).collect();
        assert_eq!(names, ["[heap]", "", "/SYSV00000000 (deleted)", "/anon_hugepage (deleted)"]);
        assert_eq!(mappings[2].inode, 32769);
        assert_eq!(mappings[2].device, 0x0f);
        assert!(mappings[2].shared);
        assert!(!mappings[1].accessible);
        assert_eq!(mappings[3].size().get(), 4 << 20);
    }

    #[test]
    fn no_mapping_is_said_with_its_line() {
        assert_eq!(parse(b"0-1 rw-p 0 0:0 0\n2-1 rw-p 0 0:0 0\n").unwrap_err().line, 2);
        assert_eq!(parse(b"0-1 rw-p 0 0:0 99999999999999999999999\n").unwrap_err().line, 1);
    }

    proptest! {
        #[test]
        fn whole_lines_of_a_torn_file_are_kept(at in 0..REAL.len()) {
            crate::testing::rows_before_a_cut(REAL, at, 0, |bytes| parse_kept(bytes, |_| true));
        }

        #[test]
        fn a_bent_line_is_refused_by_its_number_or_bends_no_other(at in 0..REAL.len(), byte: u8) {
            let mut bent = REAL.as_bytes().to_vec();
            prop_assume!(byte != b'\n' && bent[at] != b'\n');
            bent[at] = byte;
            let line = REAL[..at].matches('\n').count();
            let mut whole = parse_kept(REAL.as_bytes(), |_| true).unwrap();
            match parse_kept(&bent, |_| true) {
                Err(error) => prop_assert_eq!(error.line, line as u64 + 1),
                Ok(mut rows) => {
                    prop_assert_eq!(rows.len(), whole.len());
                    rows.remove(line);
                    whole.remove(line);
                    prop_assert_eq!(rows, whole);
                }
            }
        }

        #[test]
        fn what_is_printed_comes_back(start: u64, length in 0_u64..1 << 40, inode: u64, major in 0_u64..4096, minor: u32, name in "[a-z/ ()]{0,20}") {
            let end = start.saturating_add(length);
            let name = format!("/{}", name.trim());
            let text = format!("{start:x}-{end:x} rw-s 00001000 {major:02x}:{minor:02x} \
                 {inode:<26} {name}\n");
            let parsed = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.len(), 1);
            prop_assert_eq!((parsed[0].start, parsed[0].end, parsed[0].inode), (start, end, inode));
            prop_assert_eq!(parsed[0].device, major << 32 | u64::from(minor));
            prop_assert_eq!(&parsed[0].name, &name);
        }
    }
}
