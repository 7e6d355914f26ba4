//! Files that were torn, mixed up or made to do harm.

use hugewise_investigate::series::MarkKind;
use hugewise_investigate::{Metric, Series};
use proptest::prelude::*;

use super::file::File;
use super::{fixture, read, versions};

/// Whether a series is the beginning of another, values and all.
fn begins(part: &Series, whole: &Series) -> bool {
    let rows = part.samples().len();
    whole.samples().starts_with(part.samples())
        && Metric::ALL.iter().all(|metric| {
            (0..rows).all(|row| part.value(*metric, row) == whole.value(*metric, row))
        })
}

/// Where records end, by the parts of the file.
fn ends(file: &File) -> Vec<usize> {
    let head = file.head.len() + file.activities.concat().len() + file.extra.len();
    let lengths = file.records.iter().map(|record| record.bytes().len());
    lengths
        .scan(head, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect()
}

#[test]
fn what_is_cut_off_is_kept_up_to_the_last_whole_record() {
    let bytes = fixture("12.6.1.xz");
    let whole = read(&bytes).unwrap();
    let file = File::parse(&bytes);
    let ends = ends(&file);
    let kinds: Vec<u8> = file.records.iter().map(|record| record.header[20]).collect();
    let head = ends[0] - file.records[0].bytes().len();
    // Every byte of the head, every 13th of the rest and all near the ends of records.
    let near = |cut: usize| ends.iter().any(|end| cut.abs_diff(*end) < 3);
    for cut in (0..=bytes.len()).filter(|cut| *cut < head || cut % 13 == 0 || near(*cut)) {
        let torn = read(&bytes[..cut]);
        if cut < head {
            assert!(torn.is_err(), "{cut}");
            continue;
        }
        let torn = torn.unwrap();
        let left = ends.iter().filter(|end| **end <= cut).count();
        let samples = kinds[..left].iter().filter(|kind| **kind == 1).count();
        assert_eq!((torn.samples().len(), torn.marks.len()), (samples, left - samples), "{cut}");
        assert!(begins(&torn, &whole), "{cut}");
        let clean = cut == head || ends.contains(&cut);
        assert_eq!(torn.problems.is_empty(), clean, "{cut}: {:?}", torn.problems);
        if !clean {
            assert!(torn.problems[0].what.contains("not a whole record"), "{:?}", torn.problems);
        }
    }
}

#[test]
fn a_record_cut_short_by_a_crash_costs_nothing_but_itself() {
    let file = File::parse(&fixture("12.6.1.xz"));
    let whole = read(&file.bytes()).unwrap();
    // The fourth sample, which is the record before the comment, ends at any of its bytes.
    let place = file.records.iter().position(|record| record.header[20] == 4).unwrap() - 1;
    let length = file.records[place].bytes().len();
    for cut in (1..length).step_by(29) {
        let mut torn = file.clone();
        torn.records[place].header.truncate(cut);
        let rest = cut.saturating_sub(torn.records[place].header.len());
        let body = torn.records[place].parts.concat();
        torn.records[place].parts = vec![body[..rest].to_vec()];
        let series = read(&torn.bytes()).unwrap();
        let times: Vec<_> = series.samples().iter().map(|sample| sample.at).collect();
        let mut expected: Vec<_> = whole.samples().iter().map(|sample| sample.at).collect();
        expected.remove(3);
        assert_eq!(times, expected, "{cut} {:?}", series.problems);
        assert_eq!(series.marks, whole.marks, "{cut}");
        assert_eq!(series.problems.len(), 1, "{cut} {:?}", series.problems);
        // The samples after it are whole, with their rates.
        for (row, whole_row) in [(4, 5), (5, 6)] {
            for metric in Metric::ALL {
                assert_eq!(
                    series.value(*metric, row),
                    whole.value(*metric, whole_row),
                    "{cut} {metric:?}"
                );
            }
        }
    }
}

#[test]
fn zeros_that_a_crash_leaves_are_skipped() {
    for version in versions() {
        let bytes = fixture(&format!("{version}.xz"));
        let whole = read(&bytes).unwrap();
        let zeros = [bytes.as_slice(), &vec![0; 5000]].concat();
        let series = read(&zeros).unwrap();
        assert!(begins(&whole, &series) && begins(&series, &whole), "{version}");
        assert!(series.problems[0].what.contains("the last 5000 bytes"), "{:?}", series.problems);
    }
    // And are followed by what the next start wrote: the rates across the hole are not told.
    let mut file = File::parse(&fixture("12.6.1.xz"));
    let whole = read(&file.bytes()).unwrap();
    file.records[2].parts.push(vec![0; 4000]);
    let series = read(&file.bytes()).unwrap();
    assert_eq!(series.samples().len(), 7);
    assert!(series.problems[0].what.contains("4000 bytes make no sense"), "{:?}", series.problems);
    assert_eq!(series.value(Metric::Forks, 1), whole.value(Metric::Forks, 1));
    assert_eq!(series.value(Metric::Forks, 2), None);
    assert_eq!(series.value(Metric::Forks, 3), whole.value(Metric::Forks, 3));
}

#[test]
fn a_start_that_nobody_noted_is_seen_by_the_uptime() {
    let mut file = File::parse(&fixture("12.6.1.xz"));
    // The second boot's record is gone.
    let restart = file.records.iter().rposition(|record| record.header[20] == 2).unwrap();
    file.records.remove(restart);
    for record in &mut file.records[restart..] {
        let uptime = u64::from_le_bytes(record.header[..8].try_into().unwrap());
        record.header[..8].copy_from_slice(&(uptime - 100_000).to_le_bytes());
    }
    let series = read(&file.bytes()).unwrap();
    let kinds: Vec<_> = series.marks.iter().map(|mark| mark.kind.clone()).collect();
    assert_eq!(
        kinds,
        [MarkKind::Restart, MarkKind::Comment("before the change".into()), MarkKind::Restart]
    );
    assert_eq!(series.samples()[4].interval, None);
    assert_eq!(series.value(Metric::Forks, 4), None);
    assert!(series.value(Metric::MemFree, 4).is_some());
}

#[test]
fn a_counter_that_falls_has_no_rate() {
    let mut file = File::parse(&fixture("12.6.1.xz"));
    file.statistics(1).change(5, 8 * 2, |_| 1);
    let series = read(&file.bytes()).unwrap();
    assert_eq!(series.value(Metric::Faults, 1), None);
    assert!(series.value(Metric::Freed, 1).is_some());
}

#[test]
fn other_processors_after_a_restart() {
    // From 10.3.1 to 11.6 a restart says the number anew, of which every later record has so many
    // items.
    let bytes = fixture("11.6.6.xz");
    let count = usize::from(bytes[76 + 12]);
    let list = 76 + usize::from(bytes[8]) + 256 * usize::from(bytes[9]);
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let items: Vec<_> = (0..count)
        .map(|index| list + 20 * index)
        .map(|at| (number(at), number(at + 8), number(at + 12) * number(at + 16)))
        .collect();
    let volatile = number(76 + 16);
    let body: usize = items.iter().map(|(_, items, length)| items * length).sum();
    let head = list + 20 * count;
    // Restart, four samples, a comment, restart, three samples.
    let restart = head + 48 + 20 * volatile + 4 * (48 + body) + 48 + 64;
    assert_eq!((bytes[restart + 40], items[0]), (2, (1, 3, 160)));
    let mut fewer = bytes[..restart + 48 + 20 * volatile].to_vec();
    fewer[restart + 48..restart + 48 + 12].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    let mut at = restart + 48 + 20 * volatile;
    for _ in 0..3 {
        fewer.extend(&bytes[at..at + 48 + 2 * 160]);
        fewer.extend(&bytes[at + 48 + 3 * 160..at + 48 + body]);
        at += 48 + body;
    }
    assert_eq!(at, bytes.len());
    let series = read(&fewer).unwrap();
    assert_eq!(series.problems, []);
    let online: Vec<_> = (0..7).map(|row| series.value(Metric::Processors, row).unwrap()).collect();
    assert_eq!(online, [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0]);
}

fn any_fixture() -> impl Strategy<Value = Vec<u8>> {
    proptest::sample::select(versions()).prop_map(|version| fixture(&format!("{version}.xz")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cut_keeps_a_beginning(bytes in any_fixture(), part in 0.0..1.0_f64) {
        let whole = read(&bytes).unwrap();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let cut = (bytes.len() as f64 * part) as usize;
        if let Ok(torn) = read(&bytes[..cut]) {
            prop_assert!(begins(&torn, &whole));
        }
    }

    /// A stream may come in pieces of any size.
    #[test]
    fn pieces_make_no_difference(bytes in any_fixture(), size in 1..5000_usize) {
        struct Pieces<'a>(&'a [u8], usize);
        impl std::io::Read for Pieces<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let length = buffer.len().min(self.1).min(self.0.len());
                buffer[..length].copy_from_slice(&self.0[..length]);
                self.0 = &self.0[length..];
                Ok(length)
            }
        }
        let series = hugewise_investigate::readers::sysstat::read(&mut Pieces(&bytes, size), "sa01").unwrap();
        prop_assert_eq!(series, read(&bytes).unwrap());
    }
}

/// sadf leaves out what has another layout than it knows.
#[test]
fn an_activity_of_unknown_layout_is_left_out_and_told() {
    let whole = read(&fixture("12.6.1.xz")).unwrap();
    let mut bytes = fixture("12.6.1.xz");
    // Memory is activity 7, of layout 0x8b.
    let entry = [7u32.to_le_bytes(), 0x8bu32.to_le_bytes()].concat();
    let place = bytes.windows(8).position(|window| window == entry).unwrap();
    bytes[place + 4] = 0x99;
    let series = read(&bytes).unwrap();
    assert_eq!(series.samples().len(), whole.samples().len());
    assert!(series.column(Metric::MemFree).is_none() && whole.column(Metric::MemFree).is_some());
    assert_eq!(series.column(Metric::CpuSystem), whole.column(Metric::CpuSystem));
    let problems: Vec<String> = series.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["activity 7 has an unknown layout (0x99) and is left out"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let output = std::process::Command::new("sadf")
        .args(["-d"])
        .arg(file.path())
        .args(["--", "-r"])
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("kbmemfree"), "sadf reads it");
}
