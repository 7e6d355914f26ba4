//! What a reader registers of its format, and how a file's first bytes tell the format.

use std::io::Read;

use super::{FORMATS, FileRefused, foreign};
use crate::{Moment, Series};

/// What is looked at to tell a format.
pub const HEAD: u64 = 64 << 10;

/// A format of archives: nothing else but its reader names a format.
#[derive(Debug)]
pub struct ArchiveFormat {
    /// Its name, also that of its fuzz seed.
    pub name: &'static str,
    /// What a file of it is called in a sentence.
    pub called: &'static str,
    /// The tools that write it, for the list of what is read.
    pub tools: &'static [&'static str],
    /// Whether it is text, which somebody may have pasted.
    pub is_text: bool,
    /// What the first bytes of a file promise; text comes without the white space before it.
    pub(super) recognize: fn(&[u8]) -> Promise,
    pub(super) read: fn(ArchiveFile<'_>) -> Result<Vec<Series>, FileRefused>,
}

impl ArchiveFormat {
    fn promise_of(&self, head: &[u8]) -> Promise {
        (self.recognize)(if self.is_text { head.trim_ascii_start() } else { head })
    }

    /// Whether bytes begin like a file of it.
    pub fn may_be(&self, head: &[u8]) -> bool {
        self.promise_of(head) != Promise::None
    }

    /// Reads bytes, the first `head` of which told the format.
    ///
    /// # Errors
    /// The format's reader refuses them.
    pub fn read_bytes(
        &self,
        bytes: &[u8],
        head: u64,
        source: &str,
    ) -> Result<Vec<Series>, FileRefused> {
        self.read_pasted(bytes, head, source, None)
    }

    /// The same, of text whose lines may lack a day, which began then.
    pub(super) fn read_pasted(
        &self,
        bytes: &[u8],
        head: u64,
        source: &str,
        began: Option<Moment>,
    ) -> Result<Vec<Series>, FileRefused> {
        let head = usize::try_from(head).ok().and_then(|head| bytes.get(..head)).unwrap_or(bytes);
        (self.read)(ArchiveFile { stream: &mut &*bytes, head, source, judged: false, began })
    }
}

pub(super) struct ArchiveFile<'a> {
    pub(super) stream: &'a mut dyn Read,
    pub(super) head: &'a [u8],
    pub(super) source: &'a str,
    /// Metrics that are only told may be left out.
    pub(super) judged: bool,
    /// When lines without a day began, as a person says.
    pub(super) began: Option<Moment>,
}

impl ArchiveFile<'_> {
    /// For readers that make one series a file.
    pub(super) fn read_single(
        self,
        read: fn(&mut dyn Read, &str) -> Result<Series, FileRefused>,
    ) -> Result<Vec<Series>, FileRefused> {
        read(self.stream, self.source).map(|series| vec![series])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    None,
    /// Hardly anything: many files begin alike.
    Faint,
    /// Something: other files begin alike, so that a refused one may well be no collector's.
    Likely,
    /// A collector's file: one that is refused is a loss.
    Sure,
    /// A part of an archive that is read by its path.
    Part,
}

impl Promise {
    pub(super) const fn likely_if(recognized: bool) -> Self {
        if recognized { Self::Likely } else { Self::None }
    }

    pub(super) const fn sure_if(recognized: bool) -> Self {
        if recognized { Self::Sure } else { Self::None }
    }

    pub(crate) fn from_head(head: &[u8]) -> Self {
        match recognize_format(head) {
            Some((_, promise)) => promise,
            // Reported as a loss.
            None if foreign::recognize_foreign_format(head).is_some() => Self::Sure,
            None => Self::None,
        }
    }
}

pub(super) fn recognize_format(head: &[u8]) -> Option<(&'static ArchiveFormat, Promise)> {
    FORMATS
        .iter()
        .map(|format| (*format, format.promise_of(head)))
        .find(|(_, promise)| *promise != Promise::None)
}

/// What a file is called in a sentence, by its first bytes, unpacked; `None` if they tell nothing.
pub fn describe_format(head: &[u8]) -> Option<&'static str> {
    let (format, promise) = recognize_format(head)?;
    (promise > Promise::Faint).then_some(format.called)
}

/// Whether a file may be a collector's or a log, by its first [`HEAD`] bytes, unpacked.
pub fn may_be_collector_file(head: &[u8]) -> bool {
    Promise::from_head(head) != Promise::None
}

/// The tools whose output is read: `sar, atop, PCP`.
pub fn list_tools() -> String {
    FORMATS.iter().flat_map(|format| format.tools).copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)]

    use super::*;

    /// `fuzz/seeds/archive/NAME-VARIANT`: what the fuzz target of all formats begins with.
    #[test]
    fn each_format_has_a_seed_that_begins_like_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/archive");
        let mut seeds: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for format in FORMATS {
            let begins = format!("{}-", format.name);
            let own = seeds.extract_if(.., |seed| seed.starts_with(&begins)).collect::<Vec<_>>();
            assert!(!own.is_empty(), "{} has no seed", format.name);
            for seed in own {
                let bytes = std::fs::read(format!("{folder}/{seed}")).unwrap();
                let recognized = recognize_format(&bytes).map(|(format, _)| format.name);
                assert_eq!(recognized, Some(format.name), "{seed}");
            }
        }
        assert!(seeds.is_empty(), "{seeds:?} are of no format");
    }
}
