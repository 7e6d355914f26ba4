//! OSWatcher's folder: a file an hour of each tool. A ring may be made up by somebody, and others may write to the folder that the
//! new one is in: what is written is bounded, lies below a folder that is held open, and goes to files that this run has made.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hugewise_record::ring::{Entry, read_in_order};
use hugewise_record::{Sample, status};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};

use super::Span;
use super::export::refused;
use super::oswatcher::{meminfo, vmstat};

/// Hours of any recording: 31 days and a part of an hour.
const HOURS: usize = 31 * 24 + 1;
/// Hours of the largest one that `--days` allows.
const MOST_HOURS: usize = 366 * 24 + 1;
/// Hours that a block has samples of, but for what [`HOURS`] allows anyhow.
const HOURS_A_BLOCK: usize = 2;

/// Writes what a ring has of a stretch of time to a folder as OSWatcher does, which is made, readable by its owner alone.
///
/// # Errors
/// The ring cannot be read, or has samples of more hours than a recording of its size; something has the folder's name, or the
/// disk takes no more.
pub fn export_oswatcher(ring: &Path, span: Span, folder: &Path) -> io::Result<()> {
    let file = status::open(ring)?;
    let most = hours(&file)?;
    let folder = make(CWD, folder)?;
    let mut tools = [
        Hours::new(make(&folder, "oswmeminfo")?, "meminfo", most),
        Hours::new(make(&folder, "oswvmstat")?, "vmstat", most),
    ];
    let mut before: Option<(u64, Box<Sample>)> = None;
    let mut failed = Ok(());
    let mut host = String::new();
    let mut page = 4096;
    read_in_order(&file, &mut |position, entry| match entry {
        Entry::About(about) => {
            host = plain(&about.host);
            page = about.base_page;
        }
        Entry::Sample(sample) if failed.is_ok() => {
            let earlier = before.take().filter(|(run, _)| *run == position.run).map(|(_, sample)| sample);
            if span.has(sample.wall) {
                failed = write(&mut tools, &host, page, earlier.as_deref(), sample);
            }
            before = Some((position.run, Box::new(sample.clone())));
        }
        _ => {}
    })
    .map_err(refused)?;
    failed?;
    tools.into_iter().try_for_each(Hours::finish)
}

/// How many hours its size allows, where it keeps to that.
fn hours(file: &File) -> io::Result<usize> {
    let mut names = BTreeSet::new();
    let mut host = String::new();
    let (mut blocks, mut last) = (0_usize, None);
    read_in_order(file, &mut |position, entry| {
        if last.replace(position.sequence) != Some(position.sequence) {
            blocks += 1;
        }
        match entry {
            Entry::About(about) => host = plain(&about.host),
            Entry::Sample(sample) if names.len() <= MOST_HOURS => {
                names.extend(hour(sample).map(|(hour, _)| format!("{host} {hour}")));
            }
            _ => {}
        }
    })
    .map_err(refused)?;
    let most = blocks.saturating_mul(HOURS_A_BLOCK).clamp(HOURS, MOST_HOURS);
    if names.len() > most { Err(too_many(most)) } else { Ok(most) }
}

fn too_many(most: usize) -> io::Error {
    refused(format!(
        "the recording has samples of more than {most} different hours, which is more than one of its size can hold: it is \
         damaged or made up, and nothing more is written"
    ))
}

/// A host's name as a part of a file's.
fn plain(host: &str) -> String {
    let fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-');
    host.chars().map(|one| if fit(one) { one } else { '-' }).collect()
}

/// The hour of a sample as it stands in a file's name, and its time; `None` outside of the years that there are.
fn hour(sample: &Sample) -> Option<(String, jiff::Zoned)> {
    let time = Timestamp::from_millisecond(sample.wall).ok()?.to_zoned(TimeZone::UTC);
    Some((time.strftime("%y.%m.%d.%H00").to_string(), time))
}

/// Makes a folder that is not there yet, and opens it.
fn make(below: impl AsFd, path: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    mkdirat(&below, path, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(&below, path, flags, Mode::empty())?;
    if fstat(&folder)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("another user put a folder in the place of the one that was made"));
    }
    Ok(folder)
}

fn write(tools: &mut [Hours; 2], host: &str, page: u64, before: Option<&Sample>, sample: &Sample) -> io::Result<()> {
    let Some((hour, time)) = hour(sample) else { return Ok(()) };
    let stamp = time.strftime("zzz ***%a %b %e %H:%M:%S UTC %Y").to_string();
    let [memory, table] = tools;
    let out = memory.hour(host, &hour)?;
    writeln!(out, "{stamp}")?;
    meminfo(sample, out)?;
    let out = table.hour(host, &hour)?;
    writeln!(out, "{stamp}")?;
    match before {
        Some(before) => vmstat(before, sample, page, out),
        None => Ok(()),
    }
}

/// The files of one tool, one an hour.
struct Hours {
    folder: OwnedFd,
    tool: &'static str,
    most: usize,
    made: BTreeSet<String>,
    open: Option<(String, BufWriter<File>)>,
}

impl Hours {
    const fn new(folder: OwnedFd, tool: &'static str, most: usize) -> Self {
        Self { folder, tool, most, made: BTreeSet::new(), open: None }
    }

    fn hour(&mut self, host: &str, hour: &str) -> io::Result<&mut BufWriter<File>> {
        let name = format!("{host}_{}_{hour}.dat", self.tool);
        if self.open.as_ref().is_none_or(|(of, _)| *of != name) {
            self.close()?;
            // A clock that went back leads to an hour that was there.
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
        self.open.as_mut().map(|(_, out)| out).ok_or_else(|| refused("no file"))
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, mut out)| out.flush())
    }

    fn finish(mut self) -> io::Result<()> {
        self.close()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::indexing_slicing)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use hugewise_record::ring::{About, Folder, Kind};
    use hugewise_record::testing::{Blocks, with_extremes};

    use super::*;

    const HOUR: i64 = 3_600_000;

    /// A ring of 20 blocks with a sample of each of so many hours.
    fn ring(folder: &Path, hours: i64) -> std::path::PathBuf {
        let opened = Folder::open(folder).unwrap().ring(Kind::Seconds, 20, &About::default()).unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        for hour in 0..hours {
            let mut sample = Sample::default();
            (sample.wall, sample.uptime) = (hour * HOUR, 1);
            blocks.push(&opened.ring, &sample);
        }
        folder.join(Kind::Seconds.file())
    }

    fn files(folder: &Path) -> usize {
        ["oswmeminfo", "oswvmstat"].iter().map(|tool| fs::read_dir(folder.join(tool)).map_or(0, Iterator::count)).sum()
    }

    #[test]
    fn a_small_ring_makes_no_thousands_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        export_oswatcher(&ring(&folder.path().join("a"), 745), Span::default(), &out).unwrap();
        assert_eq!(files(&out), 2 * 745);
        let out = folder.path().join("more");
        let why =
            export_oswatcher(&ring(&folder.path().join("b"), 746), Span::default(), &out).unwrap_err().to_string();
        assert!(why.contains("more than 745 different hours"), "{why}");
        assert!(!out.exists(), "what is refused leaves nothing");
    }

    #[test]
    fn what_others_put_there_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let sub = make(CWD, &folder.path().join("osw")).unwrap();
        let mut hours = Hours::new(sub, "meminfo", 9);
        symlink(&precious, folder.path().join("osw/db1_meminfo_26.01.01.0000.dat")).unwrap();
        fs::hard_link(&precious, folder.path().join("osw/db1_meminfo_26.01.01.0100.dat")).unwrap();
        for hour in ["26.01.01.0000", "26.01.01.0100"] {
            assert_eq!(hours.hour("db1", hour).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{hour}");
        }
        // One's own, once a clock went back; and not what came in its place.
        for hour in ["26.01.01.0200", "26.01.01.0300", "26.01.01.0200"] {
            writeln!(hours.hour("db1", hour).unwrap(), "{hour}").unwrap();
        }
        hours.close().unwrap();
        let path = folder.path().join("osw/db1_meminfo_26.01.01.0200.dat");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        fs::remove_file(&path).unwrap();
        symlink(&precious, &path).unwrap();
        assert!(hours.hour("db1", "26.01.01.0300").is_ok() && hours.hour("db1", "26.01.01.0200").is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(make(CWD, &folder.path().join("link")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn numbers_of_any_size_are_written(choices in proptest::collection::vec(proptest::num::u8::ANY, 0..1500)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ring");
            fs::write(&path, with_extremes(&choices)).unwrap();
            export_oswatcher(&path, Span::default(), &folder.path().join("out")).unwrap();
            super::super::export::lines(&path, Span::default(), &mut io::sink()).unwrap();
            let status = status::status(&status::open(&path).unwrap()).unwrap();
            let recording = super::super::Recording { folder: String::new(), rings: vec![status], now: i64::MIN };
            super::super::status::write_text(&recording, &mut io::sink()).unwrap();
            super::super::status::write_json(&recording, &mut io::sink()).unwrap();
        }
    }
}
