//! OSWatcher's folder: a file per hour and tool. A ring may be forged, and others may write to the
//! folder above: output is bounded, lies below a folder that is held open, and goes to files that
//! this run has made.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use hugewise_host::source::output_place::OutputPlace;
use hugewise_model::calendar::civil_time;
use hugewise_record::ring::{RingEntry, read_in_order};
use hugewise_record::{HostSample, status};
use jiff::civil::DateTime;
use rustix::fs::{Mode, OFlags, openat};

use super::ExportSpan;
use super::export::export_error;
use super::oswatcher::{write_meminfo, write_vmstat};

/// Hours of any recording: 31 days and a part of an hour.
const HOURS: usize = 31 * 24 + 1;
/// Hours of the largest recording that `--days` allows.
const MOST_HOURS: usize = 366 * 24 + 1;
/// Hours that a block can have samples of.
const HOURS_A_BLOCK: usize = 2;

/// Writes a ring's samples of a time span to a new folder as OSWatcher does, readable by its owner
/// alone.
///
/// # Errors
/// Where the ring cannot be read or has samples of more hours than its size allows, the folder
/// exists, or the disk is full.
pub fn export_oswatcher(ring: &Path, span: ExportSpan, folder: &Path) -> io::Result<()> {
    let file = status::open_ring(ring)?;
    let most = hours_allowed(&file)?;
    let folder = OutputPlace::find(folder)?.create_folder()?;
    let create_inner = |name: &str| OutputPlace::below(folder.try_clone()?, name).create_folder();
    let mut tools = [
        HourlyFiles::new(create_inner("oswmeminfo")?, "meminfo", most),
        HourlyFiles::new(create_inner("oswvmstat")?, "vmstat", most),
    ];
    let mut before: Option<(u64, Box<HostSample>)> = None;
    let mut failed = Ok(());
    let mut host = String::new();
    let mut page = 4096;
    read_in_order(&file, &mut |position, entry| match entry {
        RingEntry::About(about) => {
            host = to_file_name(&about.host);
            page = about.base_page;
        }
        RingEntry::Sample(sample) if failed.is_ok() => {
            let earlier =
                before.take().filter(|(run, _)| *run == position.run).map(|(_, sample)| sample);
            if span.contains_moment(sample.wall) {
                failed = write(&mut tools, &host, page, earlier.as_deref(), sample);
            }
            before = Some((position.run, Box::new(sample.clone())));
        }
        _ => {}
    })
    .map_err(export_error)?;
    failed?;
    tools.into_iter().try_for_each(HourlyFiles::finish)
}

/// The hours that a ring's size allows; an error if it has samples of more.
fn hours_allowed(file: &File) -> io::Result<usize> {
    let mut names = BTreeSet::new();
    let mut host = String::new();
    let (mut blocks, mut last) = (0_usize, None);
    read_in_order(file, &mut |position, entry| {
        if last.replace(position.sequence) != Some(position.sequence) {
            blocks += 1;
        }
        match entry {
            RingEntry::About(about) => host = to_file_name(&about.host),
            RingEntry::Sample(sample) if names.len() <= MOST_HOURS => {
                names.extend(sample_hour(sample).map(|(hour, _)| format!("{host} {hour}")));
            }
            _ => {}
        }
    })
    .map_err(export_error)?;
    let most = blocks.saturating_mul(HOURS_A_BLOCK).clamp(HOURS, MOST_HOURS);
    if names.len() > most { Err(too_many(most)) } else { Ok(most) }
}

fn too_many(most: usize) -> io::Error {
    export_error(format!(
        "the recording has samples of more than {most} different hours, which is more than one of \
             its size can hold: it is \
         damaged or made up, and nothing more is written"
    ))
}

fn to_file_name(host: &str) -> String {
    let fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-');
    host.chars().map(|one| if fit(one) { one } else { '-' }).collect()
}

/// The hour of a sample as in a file's name, and its time.
fn sample_hour(sample: &HostSample) -> Option<(String, DateTime)> {
    let time = civil_time(sample.wall)?;
    Some((time.strftime("%y.%m.%d.%H00").to_string(), time))
}

fn write(
    tools: &mut [HourlyFiles; 2],
    host: &str,
    page: u64,
    before: Option<&HostSample>,
    sample: &HostSample,
) -> io::Result<()> {
    let Some((hour, time)) = sample_hour(sample) else { return Ok(()) };
    let stamp = time.strftime("zzz ***%a %b %e %H:%M:%S UTC %Y").to_string();
    let [memory, table] = tools;
    let out = memory.open_hour(host, &hour)?;
    writeln!(out, "{stamp}")?;
    write_meminfo(sample, out)?;
    let out = table.open_hour(host, &hour)?;
    writeln!(out, "{stamp}")?;
    match before {
        Some(before) => write_vmstat(before, sample, page, out),
        None => Ok(()),
    }
}

struct HourlyFiles {
    folder: OwnedFd,
    tool: &'static str,
    most: usize,
    made: BTreeSet<String>,
    open: Option<(String, BufWriter<File>)>,
}

impl HourlyFiles {
    const fn new(folder: OwnedFd, tool: &'static str, most: usize) -> Self {
        Self { folder, tool, most, made: BTreeSet::new(), open: None }
    }

    fn open_hour(&mut self, host: &str, hour: &str) -> io::Result<&mut BufWriter<File>> {
        let name = format!("{host}_{}_{hour}.dat", self.tool);
        if self.open.as_ref().is_none_or(|(text, _)| *text != name) {
            self.close()?;
            // A clock that was set back leads to an earlier file.
            let is_new = !self.made.contains(&name);
            if is_new && self.made.len() >= self.most {
                return Err(too_many(self.most));
            }
            let how = if is_new { OFlags::CREATE | OFlags::EXCL } else { OFlags::APPEND };
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
            let file = openat(&self.folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
            let mut out = BufWriter::new(File::from(file));
            if is_new {
                writeln!(out, "Linux OSWbb v8.0.1 {host}\nSNAP_INTERVAL 1")?;
                self.made.insert(name.clone());
            }
            self.open = Some((name, out));
        }
        self.open.as_mut().map(|(_, out)| out).ok_or_else(|| export_error("no file"))
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, mut out)| out.flush())
    }

    fn finish(mut self) -> io::Result<()> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)]

    use std::fs;
    use std::os::unix::fs::symlink;

    use hugewise_record::ring::{About, RingFolder, RingKind};
    use hugewise_record::testing::{Blocks, with_extremes};

    use super::*;

    const HOUR: i64 = 3_600_000;

    /// A ring of 20 blocks with a sample of each of so many hours.
    fn create_sample_ring(folder: &Path, hours: i64) -> std::path::PathBuf {
        let opened = RingFolder::open(folder)
            .unwrap()
            .open_ring(RingKind::Seconds, 20, &About::default())
            .unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        for hour in 0..hours {
            let mut sample = HostSample::default();
            (sample.wall, sample.uptime) = (hour * HOUR, 1);
            blocks.push(&opened.ring, &sample);
        }
        folder.join(RingKind::Seconds.file_name())
    }

    fn count_files(folder: &Path) -> usize {
        ["oswmeminfo", "oswvmstat"]
            .iter()
            .map(|tool| fs::read_dir(folder.join(tool)).map_or(0, Iterator::count))
            .sum()
    }

    #[test]
    fn a_small_ring_makes_no_thousands_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        export_oswatcher(
            &create_sample_ring(&folder.path().join("a"), 745),
            ExportSpan::default(),
            &out,
        )
        .unwrap();
        assert_eq!(count_files(&out), 2 * 745);
        let out = folder.path().join("more");
        let why = export_oswatcher(
            &create_sample_ring(&folder.path().join("b"), 746),
            ExportSpan::default(),
            &out,
        )
        .unwrap_err()
        .to_string();
        assert!(why.contains("more than 745 different hours"), "{why}");
        assert!(!out.exists(), "what is refused leaves nothing");
    }

    #[test]
    fn what_others_put_there_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let sub = OutputPlace::find(&folder.path().join("osw")).unwrap().create_folder().unwrap();
        let mut hours = HourlyFiles::new(sub, "meminfo", 9);
        symlink(&precious, folder.path().join("osw/db1_meminfo_26.01.01.0000.dat")).unwrap();
        fs::hard_link(&precious, folder.path().join("osw/db1_meminfo_26.01.01.0100.dat")).unwrap();
        for hour in ["26.01.01.0000", "26.01.01.0100"] {
            assert_eq!(
                hours.open_hour("db1", hour).unwrap_err().kind(),
                io::ErrorKind::AlreadyExists,
                "{hour}"
            );
        }
        // One's own, once a clock went back; and not what came in its place.
        for hour in ["26.01.01.0200", "26.01.01.0300", "26.01.01.0200"] {
            writeln!(hours.open_hour("db1", hour).unwrap(), "{hour}").unwrap();
        }
        hours.close().unwrap();
        let path = folder.path().join("osw/db1_meminfo_26.01.01.0200.dat");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        fs::remove_file(&path).unwrap();
        symlink(&precious, &path).unwrap();
        assert!(
            hours.open_hour("db1", "26.01.01.0300").is_ok()
                && hours.open_hour("db1", "26.01.01.0200").is_err()
        );
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        symlink(folder.path(), folder.path().join("link")).unwrap();
        let link = OutputPlace::find(&folder.path().join("link"));
        assert!(link.and_then(|place| place.create_folder()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn numbers_of_any_size_are_written(choices in proptest::collection::vec(proptest::num::u8::ANY, 0..1500)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ring");
            fs::write(&path, with_extremes(&choices)).unwrap();
            export_oswatcher(&path, ExportSpan::default(), &folder.path().join("out")).unwrap();
            super::super::export::export_json_lines(&path, ExportSpan::default(), &mut io::sink()).unwrap();
            let status = status::read_status(&status::open_ring(&path).unwrap()).unwrap();
            let recording = super::super::RecordingFolder { folder: String::new(), rings: vec![status], now: i64::MIN };
            super::super::status::write_text(&recording, &mut io::sink()).unwrap();
            super::super::status::write_json(&recording, &mut io::sink()).unwrap();
        }
    }
}
