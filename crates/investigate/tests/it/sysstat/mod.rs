//! sysstat's files against sysstat's own words: files that sadc wrote, and what sadf makes of them.

mod file;
mod harm;

mod oracle;
mod printed;
mod refused;
mod text;

use std::io::Read;
use std::path::{Path, PathBuf};

use hugewise_investigate::{FileRefused, Series, readers};

/// Where the files are that sadc of each version wrote, and what its sadf printed of them:
/// `VERSION.xz` and `VERSION.sadf.xz`, of some what its sar printed, `VERSION.sar.xz`, and of one
/// its XML. The host swapped, held a pool of 30 huge pages and took connections; scans, steals,
/// guests, interrupts and pressure were put in afterwards, as they would have needed a host in
/// distress.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysstat")
}

/// The versions of which there are files.
fn versions() -> Vec<String> {
    let names = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut versions: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".sadf.xz").map(str::to_owned)).collect();
    versions.sort_by_key(|version| number(version));
    assert!(versions.len() >= 18, "{versions:?}");
    versions
}

/// A version as numbers.
fn number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap()).collect()
}

/// The plain bytes of a fixture.
fn fixture(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(fixtures().join(name)).unwrap();
    let mut bytes = Vec::new();
    hugewise_host::compressed::open_decompressed(file).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn read(mut bytes: &[u8]) -> Result<Series, FileRefused> {
    readers::sysstat::read(&mut bytes, "sa01")
}

/// What marks are, as what is printed tells them: it has no uptime, and both kinds of a new start
/// look alike.
pub(crate) fn printed_marks(
    series: &hugewise_investigate::Series,
) -> Vec<hugewise_investigate::MarkKind> {
    use hugewise_investigate::MarkKind;
    let kind =
        |kind: &MarkKind| if *kind == MarkKind::Resumed { MarkKind::Restart } else { kind.clone() };
    series.marks.iter().map(|mark| kind(&mark.kind)).collect()
}
