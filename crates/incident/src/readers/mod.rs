//! One file or folder a format, each from a stream to [`Series`]; and the one way in, which tells formats apart by what
//! is in them, never by a name.

pub mod atop;
mod calendar;
pub mod collectl;
mod iostat;
mod lines;
pub mod nmon;
mod object;
pub mod oswatcher;
mod pasted;
pub mod pcp;
pub mod proc_log;
mod ps;
pub mod recorder;
pub mod server_log;
mod slabinfo;
mod stamp;
pub mod sysstat;
pub mod system_log;
mod tool;
mod top;
pub mod vmstat;

use std::fmt;
use std::io::{Cursor, Read};

use hugewise_model::Engine;

use crate::Series;
pub use pasted::Pasted;

/// Why a file is not read at all. What is wrong in a part of a file is a [`Problem`](crate::Problem) of its series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// What is looked at to tell a format.
pub const HEAD: u64 = 64 << 10;

/// Reads a file of any format that is known, compressed or not; a series for each host in it.
///
/// # Errors
/// No format that is known; or the format's reader refuses it.
pub fn read(stream: impl Read, source: &str) -> Result<Vec<Series>, Refused> {
    read_as(stream, source, How::default())
}

/// How a file is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Somebody gave it, who may have pasted it: what says no time is read as this says.
    pub(crate) pasted: Option<Pasted>,
    /// What nothing is judged by may be left out.
    pub(crate) judged: bool,
}

/// Why a file is refused that is none of all this.
const UNKNOWN: &str = "is in no format that hugewise knows; investigate reads what sar, vmstat, iostat, atop, PCP, collectl, nmon and \
                       OSWatcher write, and the logs of kernels and database servers";

/// The same, read in that way.
pub(crate) fn read_as(stream: impl Read, source: &str, how: How) -> Result<Vec<Series>, Refused> {
    let How { pasted, judged } = how;
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Refused("is cut off, and none of it can be unpacked".into()),
        _ => Refused(format!("cannot be read: {error}")),
    };
    let mut stream = hugewise_host::compressed::open(stream).map_err(unreadable)?;
    let mut head = Vec::new();
    stream.by_ref().take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
    let format = Format::of(&head);
    let foreign = if format.is_none() { foreign(&head) } else { None };
    if format.is_none()
        && let Some(of) = foreign
    {
        return Err(Refused(format!("is {of}, which is not read")));
    }
    let plain = format.is_none_or(Format::is_text);
    let Some(pasted) = pasted.filter(|_| plain) else {
        let Some(format) = format else { return Err(Refused(UNKNOWN.into())) };
        return read_known(format, &mut Cursor::new(head).chain(&mut stream), source, judged);
    };
    let most = u64::try_from(pasted::MOST).unwrap_or(u64::MAX);
    let Some(format) = format else {
        let mut text = head;
        stream.take(most).read_to_end(&mut text).map_err(unreadable)?;
        return pasted::read(&text, source, pasted, None);
    };
    // What a reader would stumble over is taken off first, unless it is more than anybody pastes.
    if pasted::is_noisy(&head) {
        let mut text = head;
        stream.by_ref().take(most).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() <= pasted::MOST
            && let Ok(all) = pasted::read(&text, source, pasted, None)
        {
            return Ok(all);
        }
        return read_known(format, &mut Cursor::new(text).chain(&mut stream), source, judged);
    }
    let mut whole = Kept { stream: Cursor::new(head).chain(&mut stream), bytes: Vec::new() };
    let read = read_known(format, &mut whole, source, judged);
    let why = match &read {
        Ok(all) if is_empty(all) => Some(None),
        Ok(_) => None,
        Err(refused) => Some(Some(refused.clone())),
    };
    match why {
        Some(why) => {
            let mut text = whole.bytes;
            let left = most.saturating_sub(u64::try_from(text.len()).unwrap_or(u64::MAX));
            whole.stream.take(left).read_to_end(&mut text).map_err(unreadable)?;
            // Lines of vmstat that have no times are known as vmstat's all the same, and a quotation as what it quotes.
            let again = pasted::read(&text, source, pasted, why);
            if read.is_ok() { again.or(read) } else { again }
        }
        None => read,
    }
}

/// Whether nothing came of a file.
fn is_empty(all: &[Series]) -> bool {
    all.iter().all(|series| series.span().is_none() && series.marks.is_empty())
}

/// A stream of which the beginning is kept, as much as anybody pastes.
struct Kept<R> {
    stream: R,
    bytes: Vec<u8>,
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let left = pasted::MOST.saturating_sub(self.bytes.len()).min(read);
        self.bytes.extend_from_slice(buffer.get(..left).unwrap_or_default());
        Ok(read)
    }
}

/// Reads a file of a format.
fn read_known(format: Format, mut whole: &mut dyn Read, source: &str, judged: bool) -> Result<Vec<Series>, Refused> {
    match format {
        Format::Sysstat => sysstat::read_as(&mut whole, source, judged).map(|series| vec![series]),
        Format::Sar => sysstat::text::read(&mut whole, source),
        Format::Sadf => sysstat::sadf::read(&mut whole, source),
        Format::Vmstat => vmstat::read(&mut whole, source).map(|series| vec![series]),
        Format::Atop => atop::file(&mut whole, source).map(|series| vec![series]),
        Format::AtopText => atop::read(&mut whole, source).map(|series| vec![series]),
        Format::Collectl => collectl::read(&mut whole, source).map(|series| vec![series]),
        Format::Nmon => nmon::read(&mut whole, source).map(|series| vec![series]),
        Format::Recorder => recorder::read(&mut whole, source).map(|series| vec![series]),
        Format::Pcp => Err(Refused(
            "is one of three or more files of a PCP archive, which pmrep reads together: give the path without .0, .meta or .index"
                .into(),
        )),
        Format::OsWatcher => oswatcher::read(&mut whole, source),
        Format::ProcLog => proc_log::read(&mut whole, source).map(|series| vec![series]),
        Format::ServerLog(engine) => server_log::read(&mut whole, source, engine).map(|series| vec![series]),
        Format::SystemLog => system_log::read(&mut whole, source).map(|series| vec![series]),
    }
}

/// What a file is called in a sentence, as its first bytes tell, unpacked; none where they tell nothing.
pub fn called(head: &[u8]) -> Option<&'static str> {
    Some(match Format::of(head)? {
        Format::Sysstat | Format::Sar => "a sar file",
        // Any JSON or XML begins like this.
        Format::Sadf => return String::from_utf8_lossy(head).contains("sysstat").then_some("sadf's output"),
        Format::Vmstat => "vmstat's output",
        Format::Atop | Format::AtopText => "an atop file",
        Format::Collectl => "a collectl file",
        Format::Nmon => "an nmon file",
        Format::Recorder => "a recording of hugewise record",
        Format::Pcp => "part of a PCP archive",
        Format::OsWatcher => "an OSWatcher file",
        Format::ProcLog => "a log of /proc/meminfo or /proc/vmstat",
        Format::SystemLog => "a system log",
        Format::ServerLog(_) => "a database server's log",
    })
}

/// What is known by name and not read.
fn foreign(head: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(head);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let any = |what: &str| text.lines().take(40).any(|line| line.contains(what));
    if first.starts_with("#<----") || first.starts_with("waiting for ") && (any("<----") || any("# CPU SUMMARY")) {
        Some("a table that collectl prints (its files are read: raw, and -P)")
    } else if first.starts_with("\"Dstat ") || first.starts_with("\"pcp-dstat") || any("----total-cpu-usage----") {
        Some("of dstat")
    } else if first.starts_with("avg-cpu:") || iostat::is_disks(first) {
        Some("what iostat prints")
    } else if is_sar_of_another_system(&text, first) {
        Some("what sar prints on another system than Linux")
    } else if text.lines().take(40).any(is_vmstat_of_another_system) {
        Some("what vmstat prints on another system than Linux")
    } else if first.starts_with("Linux version ") && text.lines().nth(1).is_some() {
        // /proc/version is such a line alone.
        Some("a kernel log without times (dmesg -T and journalctl -k print them)")
    } else {
        None
    }
}

/// Whether it is sar's of Solaris, AIX, HP-UX or macOS: they have `%wio`, or no column of processors before `%usr`.
fn is_sar_of_another_system(text: &str, first: &str) -> bool {
    let named = ["SunOS ", "AIX ", "HP-UX ", "Darwin "].iter().any(|system| first.starts_with(system));
    text.lines().take(40).any(|line| {
        let mut words = line.split_ascii_whitespace();
        let time = words.next().is_some_and(|word| calendar::time_of_day(word).is_some());
        let next = words.next();
        let foreign =
            |word: &str| matches!(word, "%wio" | "%runocc" | "swpq-sz" | "pgscan/s" | "freemem" | "avserv" | "physc");
        time && (next == Some("%usr") || named || next.is_some_and(foreign) || words.any(foreign))
    })
}

/// Whether a line is headings of vmstat on Solaris, AIX, HP-UX or the BSDs, which count pages that were reclaimed.
fn is_vmstat_of_another_system(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
    let memory = words.iter().any(|word| matches!(*word, "avm" | "swap" | "fre"));
    matches!(words.as_slice(), ["r", "b", ..]) && memory && !words.contains(&"swpd")
}

/// Whether a file may be a collector's or a log, by its first [`HEAD`] bytes, unpacked.
pub fn promises(head: &[u8]) -> bool {
    Promise::of(head) != Promise::None
}

/// What the first bytes of a file promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Nothing.
    None,
    /// Something: other files begin alike, so that one which is refused may well be none of a collector's.
    Likely,
    /// A file of a collector: one that is refused is a loss.
    Sure,
    /// A part of a PCP archive.
    Pcp,
}

impl Promise {
    /// Of a file's first bytes, unpacked.
    pub(crate) fn of(head: &[u8]) -> Self {
        match Format::of(head) {
            // A loss, which is told.
            None if foreign(head).is_some() => Self::Sure,
            None => Self::None,
            Some(Format::Pcp) => Self::Pcp,
            Some(
                Format::Sysstat
                | Format::Atop
                | Format::AtopText
                | Format::Collectl
                | Format::Nmon
                | Format::Recorder
                | Format::Vmstat,
            ) => Self::Sure,
            Some(Format::OsWatcher) if oswatcher::is_watchers(head) => Self::Sure,
            Some(_) => Self::Likely,
        }
    }
}

/// Formats, as the first bytes tell them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// sysstat's binary files, those that are refused by name among them.
    Sysstat,
    /// What sar prints.
    Sar,
    /// What sadf prints as XML or JSON.
    Sadf,
    /// What `vmstat -t` prints.
    Vmstat,
    /// atop's files, which atop itself reads.
    Atop,
    /// What `atop -P` prints.
    AtopText,
    /// collectl's files.
    Collectl,
    /// nmon's files.
    Nmon,
    /// A ring of hugewise's own recorder.
    Recorder,
    /// A volume, the index or the metadata of a PCP archive.
    Pcp,
    /// OSWatcher's and ExaWatcher's files, and dates with what vmstat, top, ps or slabinfo print behind each.
    OsWatcher,
    /// Dates with /proc/meminfo or /proc/vmstat behind each.
    ProcLog,
    /// What dmesg and journalctl print, and what rsyslog writes.
    SystemLog,
    /// What a database server writes.
    ServerLog(Engine),
}

impl Format {
    /// Whether it is text, which somebody may have pasted.
    const fn is_text(self) -> bool {
        !matches!(self, Self::Sysstat | Self::Atop | Self::Recorder | Self::Pcp)
    }

    fn of(head: &[u8]) -> Option<Self> {
        if recorder::begins(head) {
            return Some(Self::Recorder);
        }
        if sysstat::begins(head) {
            return Some(Self::Sysstat);
        }
        if atop::is_file(head) {
            return Some(Self::Atop);
        }
        if pcp::is_volume(head) {
            return Some(Self::Pcp);
        }
        let text = head.trim_ascii_start();
        match text.first()? {
            b'<' | b'{' if sysstat::sadf::begins(text) => Some(Self::Sadf),
            _ if oswatcher::begins(text) => Some(Self::OsWatcher),
            _ if collectl::begins(text) => Some(Self::Collectl),
            _ if nmon::begins(text) => Some(Self::Nmon),
            _ if atop::begins(text) => Some(Self::AtopText),
            _ if text.starts_with(b"Linux ") && !text.starts_with(b"Linux version ") => Some(Self::Sar),
            _ if vmstat::begins(text) => Some(Self::Vmstat),
            _ if proc_log::begins(text) => Some(Self::ProcLog),
            _ if system_log::begins(text) => Some(Self::SystemLog),
            _ => server_log::engine(text).map(Self::ServerLog),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_what_is_in_them() {
        let mut rhel5 = [0; 64];
        rhel5[36..38].copy_from_slice(&[0x69, 0x21]);
        for (head, format) in [
            (&b"\x96\xd5\x75\x21\x0c\x06\x01\x00"[..], Some(Format::Sysstat)),
            (b"\xd5\x96\x21\x75", Some(Format::Sysstat)),
            (&rhel5, Some(Format::Sysstat)),
            (b"\nLinux 5.14.0 (db1) \t11/21/26", Some(Format::Sar)),
            (b"<?xml version=\"1.0\"?>", Some(Format::Sadf)),
            (b"{\"sysstat\": {", Some(Format::Sadf)),
            (b"procs -----------memory----------", Some(Format::Vmstat)),
            (b"--procs-- -----------------------memory----", Some(Format::Vmstat)),
            (b" r  b   swpd   free ", Some(Format::Vmstat)),
            (b"procs of the host", None),
            (b"Sat Nov 21 22:47:35 UTC 2026\nMemTotal: 1 kB\n", Some(Format::ProcLog)),
            (b"Sat Nov 21 22:47:35 UTC 2026\nall is well\n", None),
            (b"Linux OSWbb v8.0.1 db1\nSNAP_INTERVAL 30\n", Some(Format::OsWatcher)),
            (b"zzz ***Sat Nov 21 22:47:35 UTC 2026\nMemTotal: 1 kB\n", Some(Format::OsWatcher)),
            (b"####\n# Starting Time:\t11/21/2026 22:47:35\n", Some(Format::OsWatcher)),
            (b"Sat Nov 21 22:47:35 UTC 2026\ntop - 22:47:35 up 1 day\n", Some(Format::OsWatcher)),
            (b"\xef\xbe\xed\xfe\x08\x82", Some(Format::Atop)),
            (b"RESET\nCPL db1 1795306507 2026/11/22 00:15:07 17713 2 4.72\n", Some(Format::AtopText)),
            (b"AAA,progname,nmon\n", Some(Format::Nmon)),
            (b"\x89HWR\r\n\x1a\n", Some(Format::Recorder)),
            (b"\0\0\0\x84\x50\x05\x26\x02\0\0", Some(Format::Pcp)),
            (b"", None),
        ] {
            assert_eq!(Format::of(head), format, "{head:?}");
        }
    }

    #[test]
    fn what_is_known_and_not_read_is_refused_by_name() {
        let linux = "Linux 5.14.0-503.el9.x86_64 (db1) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n";
        for (text, who) in [
            (format!("{linux}08:00:01      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n08:00:02 0 7 9.0 90.0 0.0 0.0 99.0 1 x\n"), "pidstat"),
            (format!("{linux}# Time        UID       PID    %usr %system  Command\n 08:00:02 0 7 9.0 90.0 x\n"), "pidstat"),
            (format!("{linux}avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n  1.0 0.0 1.0 0.0 0.0 98.0\n"), "iostat"),
            (format!("{linux}11/21/26 08:00:01\nDevice            r/s     rkB/s\nsda 1.0 2.0\n"), "iostat"),
            ("avg-cpu:  %user   %nice %system\n".to_owned(), "iostat"),
            ("waiting for 1 second sample...\n#<--------CPU--------><----------Disks----------->\n#cpu sys inter  ctxsw KBRead\n".to_owned(), "collectl"),
            ("\"Dstat 0.7.3 CSV output\"\n".to_owned(), "dstat"),
            ("AAA,progname,topas_nmon\nAAA,AIX,7.2.4.2\nAAA,host,ora1\nCPU_ALL,CPU Total ora1,User%,Sys%,Wait%,Idle%\nZZZZ,T0001,08:00:00,21-NOV-2026\nCPU_ALL,T0001,10,20,0,70\n".to_owned(), "AIX"),
        ] {
            let refused = read(text.as_bytes(), "x").unwrap_err().0;
            assert!(refused.contains(who) && refused.contains("not read"), "{text}: {refused}");
        }
        // sar with tables of processes behind its own is sar's.
        let both = format!(
            "{linux}08:00:01 CPU %user %nice %system %iowait %steal %idle\n08:00:11 all 1.0 0.0 2.0 0.0 0.0 97.0\n\n08:00:01 UID PID %usr %system Command\n08:00:11 0 7 9.0 90.0 x\n"
        );
        let series = read(both.as_bytes(), "x").unwrap();
        assert_eq!(series[0].value(crate::Metric::CpuSystem, 0), Some(2.0));
    }

    /// Columns as sar(1) of each system has them.
    #[test]
    fn sar_of_other_systems_is_refused_by_name() {
        let row = "08:20:00       3       5       0      92\n08:40:00       5      55       0      40\n";
        for head in [
            "\nSunOS db1 5.11 11.3 sun4v    11/21/2026\n\n08:00:00    %usr    %sys    %wio   %idle\n",
            "\nAIX db1 2 7 00F93CFF4C00    11/21/26\n\nSystem configuration: lcpu=96\n\n08:00:00 cpu %usr %sys %wio %idle\n",
            "HP-UX db1 B.11.31 U ia64    11/21/26\n\n08:00:00    %usr    %sys    %wio   %idle\n",
            // macOS, and what was copied without its first line.
            "\n08:00:00  %usr  %nice   %sys   %idle\n",
            "08:00:00    %usr    %sys    %wio   %idle\n",
        ] {
            let text = format!("{head}{row}");
            let refused =
                read_as(text.as_bytes(), "x", How { pasted: Some(Pasted::default()), judged: false }).unwrap_err().0;
            assert!(refused.contains("another system than Linux"), "{text}: {refused}");
            assert_eq!(Promise::of(text.as_bytes()), Promise::Sure);
        }
        // Of Linux, with its first line left behind.
        let pasted = "08:00:00 CPU %usr %nice %sys %iowait %steal %irq %soft %guest %gnice %idle\n\
                      08:10:00 all 1 0 2 0 0 0 0 0 0 97\n08:20:00 all 1 0 2 0 0 0 0 0 0 97\n";
        assert_eq!(foreign(pasted.as_bytes()), None);
    }

    #[test]
    fn a_kernel_log_without_times_is_not_taken_for_sar() {
        let version = "Linux version 2.6.18-274.el5 (mockbuild@builder) #1 SMP Fri Jul 22 04:43:29 EDT 2011\n";
        let refused = read(format!("{version}BIOS-provided physical RAM map:\n").as_bytes(), "dmesg").unwrap_err().0;
        assert!(refused.contains("kernel log without times"), "{refused}");
        // /proc/version, as every sosreport has it.
        assert_eq!(Promise::of(version.as_bytes()), Promise::None);
    }

    /// A sosreport has what e2freefrag prints: no loss to be told of.
    #[test]
    fn a_device_in_the_first_line_is_not_yet_iostats() {
        assert_eq!(Promise::of(b"Device: /dev/vda1\nBlocksize: 4096 bytes\nTotal blocks: 10\n"), Promise::None);
        assert_eq!(Promise::of(b"Device:            tps    kB_read/s    kB_wrtn/s\nsda 1 2 3\n"), Promise::Sure);
        assert_eq!(Promise::of(b"Device            r/s     rkB/s\nsda 1.0 2.0\n"), Promise::Sure);
    }

    #[test]
    fn what_is_of_no_format_is_refused() {
        assert_eq!(read(&b"hello"[..], "x"), Err(Refused(UNKNOWN.into())));
        assert!(read(&b"\x1f\x8b\x08torn"[..], "x").unwrap_err().0.contains("is cut off"));
        assert!(read(&b"PK\x03\x04x"[..], "x.zip").unwrap_err().0.contains("is cut off"));
        assert!(read(&b"\xd5\x96\x21\x75"[..], "x").unwrap_err().0.contains("big-endian"));
    }
}
