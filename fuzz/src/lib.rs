//! What the fuzz targets share. A target is one line: the parser it feeds.

use std::io::Write;
use std::path::Path;

/// A target that feeds any bytes to a parser; it looks for panics, hangs and overflow, so what
/// the parser makes of them is dropped.
#[macro_export]
macro_rules! target {
    ($($parser:path),+ $(,)?) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $(let _ = ::std::hint::black_box($parser(bytes));)+
        });
    };
}

/// A plan whose checksum nobody looks at, written in every format: only one that could be written comes out.
pub fn plan_in_every_format(bytes: &[u8]) -> Option<usize> {
    let plan: hugewise_change::Plan = serde_json::from_slice(bytes).ok()?;
    let formats = [
        hugewise_report::formats::shell(&plan, true),
        hugewise_report::formats::ansible(&plan, true),
        hugewise_report::formats::cloud_init(&plan, true),
    ];
    let active = |character: char| character.is_control() && character != '\n' && character != '\t';
    for text in formats.iter().flatten() {
        assert!(!text.contains(active), "what acts on a terminal is written out or refused");
    }
    Some(formats.iter().flatten().count())
}

/// What becomes of a file with these bytes.
pub fn with_file<T>(bytes: &[u8], look: impl FnOnce(&Path) -> T) -> T {
    let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    file.write_all(bytes).expect("room for them");
    look(file.path())
}
