//! One file or folder a format, each from a stream to [`Series`]; [`FORMATS`] lists them. Formats
//! are told apart by content, never by name.

mod archive_format;
pub mod atop;
mod bytes;
pub mod collectl;
pub mod dstat;
mod external_tool;
mod foreign;
mod iostat;
pub mod kubernetes;
mod line_timestamp;
mod lines;
pub mod nmon;
pub mod oswatcher;
mod pasted;
pub mod pcp;
pub mod pidstat;
pub mod proc_log;
mod process_end;
mod ps;
pub mod recorder;
pub mod server_log;
mod slabinfo;
pub mod sysstat;
pub mod system_log;
mod top;
pub mod vmstat;
mod wrapped_log;

use std::io::{self, Read};

use crate::Series;
use crate::gather::budget::FileBudget;
pub(crate) use archive_format::Promise;
use archive_format::{ArchiveFile, recognize_format};
pub use archive_format::{ArchiveFormat, HEAD, describe_format, list_tools, may_be_collector_file};
pub use pasted::Pasted;

/// Why a file is not read at all. A problem in a part of a file is a [`Problem`](crate::Problem) of
/// its series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FileRefused(pub String);

/// Lines in which a tool's heading stands.
const FOREMOST: usize = 20;

/// The formats that are read, in the order in which they are tried.
pub static FORMATS: &[&ArchiveFormat] = &[
    &recorder::FORMAT,
    &sysstat::FORMAT,
    &atop::FORMAT,
    &pcp::FORMAT,
    &sysstat::sadf::FORMAT,
    &oswatcher::FORMAT,
    &collectl::FORMAT,
    &dstat::FORMAT,
    &nmon::FORMAT,
    &atop::TEXT_FORMAT,
    &pidstat::FORMAT,
    &sysstat::text::FORMAT,
    &vmstat::FORMAT,
    &proc_log::FORMAT,
    &system_log::FORMAT,
    &wrapped_log::FORMAT,
    &server_log::FORMAT,
    &kubernetes::FORMAT,
];

/// Reads a file of any known format, compressed or not; one series for each host in it.
///
/// # Errors
/// Its format is not known, or the format's reader refuses it.
pub fn read(stream: impl Read, source: &str) -> Result<Vec<Series>, FileRefused> {
    read_as(stream, source, ReadingMode::default())
}

/// Whether lines are of a tool that nothing else looks like, though they lack its first line or a date.
pub(crate) fn is_unmistakable(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.lines().take(FOREMOST).any(|line| {
        top::Pass::is_heading(line) || sysstat::text::is_heading(line) || pidstat::is_heading(line)
    })
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadingMode<'a> {
    /// Of the file around it; one of its own without.
    pub(crate) budget: Option<&'a FileBudget>,
    /// How to read text without times, if somebody gave the file by name and may have pasted it.
    pub(crate) pasted: Option<Pasted>,
    /// Whether metrics that are only told may be left out.
    pub(crate) judged: bool,
}

fn unknown_format() -> FileRefused {
    FileRefused(format!(
        "is in no format that hugewise knows; investigate reads what {} write, and the logs of \
         kernels and database servers",
        list_tools()
    ))
}

fn unreadable(error: io::Error) -> FileRefused {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            FileRefused("is cut off, and none of it can be unpacked".into())
        }
        _ => FileRefused(format!("cannot be read: {error}")),
    }
}

pub(crate) fn read_as(
    stream: impl Read,
    source: &str,
    mode: ReadingMode<'_>,
) -> Result<Vec<Series>, FileRefused> {
    let own = FileBudget::default();
    let opened = match mode.budget {
        Some(budget) => budget.open_decompressed(stream),
        None => own.open_decompressed(own.count_input(stream)),
    };
    let mut stream = opened.map_err(unreadable)?;
    let mut head = Vec::new();
    stream.by_ref().take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
    // What is longer was not copied from a terminal.
    if let Some(pasted) = mode.pasted.filter(|_| count_bytes(&head) < HEAD)
        && let Some(all) = pasted::read_sections(&head, source, pasted)
    {
        return Ok(all);
    }
    let format = recognize_format(&head).map(|(format, _)| format);
    let may_be_dated = mode.pasted.is_some()
        && (foreign::is_undated_iostat(&head) || pasted::printed_table::has_table(&head));
    if format.is_none()
        && !may_be_dated
        && let Some(text) = foreign::recognize_foreign_format(&head)
    {
        return Err(FileRefused(format!("is {text}, which is not read")));
    }
    match (format, mode.pasted) {
        (Some(format), Some(pasted)) if format.is_text => {
            read_given_text(format, &head, &mut stream, source, (pasted, mode.judged))
        }
        (Some(format), _) => (format.read)(ArchiveFile {
            stream: &mut head.as_slice().chain(&mut stream),
            head: &head,
            source,
            judged: mode.judged,
            began: None,
        }),
        // What is of no format so far is not unpacked to its end.
        (None, Some(pasted)) if count_bytes(&head) >= HEAD && !pasted::may_be_read(&head) => {
            pasted::read(&head, source, pasted, None)
        }
        (None, Some(pasted)) => {
            let mut text = head;
            stream.by_ref().take(pasted::MOST).read_to_end(&mut text).map_err(unreadable)?;
            if has_more(&mut stream) {
                mode.budget.unwrap_or(&own).note_excess(format!(
                    "is text without a known beginning: the part behind its first {} MiB is left \
                     out",
                    pasted::MOST >> 20
                ));
            }
            pasted::read(&text, source, pasted, None)
        }
        (None, None) => Err(unknown_format()),
    }
}

/// Reads text that somebody may have pasted: as it stands if possible, otherwise cleaned.
fn read_given_text(
    format: &ArchiveFormat,
    head: &[u8],
    stream: &mut dyn Read,
    source: &str,
    (pasted, judged): (Pasted, bool),
) -> Result<Vec<Series>, FileRefused> {
    let began = pasted.began;
    let read_known =
        |stream: &mut dyn Read| (format.read)(ArchiveFile { stream, head, source, judged, began });
    // Noise would confuse a reader, and is removed first, unless the text is too long to be pasted.
    if pasted::is_noisy(head) {
        let mut text = head.to_vec();
        (&mut *stream).take(pasted::MOST).read_to_end(&mut text).map_err(unreadable)?;
        if count_bytes(&text) <= pasted::MOST
            && let Ok(all) = pasted::read(&text, source, pasted, None)
        {
            return Ok(all);
        }
        return read_known(&mut text.as_slice().chain(stream));
    }
    let mut recorded = RecordedPrefix { stream: head.chain(stream), bytes: Vec::new() };
    let read = read_known(&mut recorded);
    let refused = match &read {
        Ok(all) if !is_empty(all) => return read,
        Ok(_) => None,
        Err(refused) => Some(refused.clone()),
    };
    let mut text = recorded.bytes;
    let left = pasted::MOST.saturating_sub(count_bytes(&text));
    recorded.stream.take(left).read_to_end(&mut text).map_err(unreadable)?;
    // Lines of vmstat without times are known all the same, and a quotation as what it quotes.
    let again = pasted::read(&text, source, pasted, refused);
    if read.is_ok() { again.or(read) } else { again }
}

fn has_more(stream: &mut dyn Read) -> bool {
    stream.read(&mut [0]).is_ok_and(|read| read > 0)
}

fn count_bytes(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn is_empty(all: &[Series]) -> bool {
    all.iter().all(|series| series.span().is_none() && series.marks.is_empty())
}

struct RecordedPrefix<R> {
    stream: R,
    bytes: Vec<u8>,
}

impl<R: Read> Read for RecordedPrefix<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let left = pasted::MOST.saturating_sub(count_bytes(&self.bytes));
        let kept = usize::try_from(left).unwrap_or(usize::MAX).min(read);
        self.bytes.extend_from_slice(buffer.get(..kept).unwrap_or_default());
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_what_is_in_them() {
        let mut rhel5 = [0; 64];
        rhel5[36..38].copy_from_slice(&[0x69, 0x21]);
        for (head, format) in [
            (&b"\x96\xd5\x75\x21\x0c\x06\x01\x00"[..], Some("sysstat")),
            (b"\xd5\x96\x21\x75", Some("sysstat")),
            (&rhel5, Some("sysstat")),
            (b"\nLinux 5.14.0 (db1) \t11/21/26", Some("sar")),
            (b"<?xml version=\"1.0\"?>", Some("sadf")),
            (b"{\"sysstat\": {", Some("sadf")),
            (b"procs -----------memory----------", Some("vmstat")),
            (b"--procs-- -----------------------memory----", Some("vmstat")),
            (b" r  b   swpd   free ", Some("vmstat")),
            (b"procs of the host", None),
            (b"Sat Nov 21 22:47:35 UTC 2026\nMemTotal: 1 kB\n", Some("proc_log")),
            (b"Sat Nov 21 22:47:35 UTC 2026\nall is well\n", None),
            (b"Linux OSWbb v8.0.1 db1\nSNAP_INTERVAL 30\n", Some("oswatcher")),
            (b"zzz ***Sat Nov 21 22:47:35 UTC 2026\nMemTotal: 1 kB\n", Some("oswatcher")),
            (b"####\n# Starting Time:\t11/21/2026 22:47:35\n", Some("oswatcher")),
            (b"Sat Nov 21 22:47:35 UTC 2026\ntop - 22:47:35 up 1 day\n", Some("oswatcher")),
            (b"\xef\xbe\xed\xfe\x08\x82", Some("atop_file")),
            (b"RESET\nCPL db1 1795306507 2026/11/22 00:15:07 17713 2 4.72\n", Some("atop")),
            (b"AAA,progname,nmon\n", Some("nmon")),
            (b"\x89HWR\r\n\x1a\n", Some("recorder")),
            (b"\0\0\0\x84\x50\x05\x26\x02\0\0", Some("pcp")),
            (b"", None),
        ] {
            let recognized = recognize_format(head).map(|(format, _)| format.name);
            assert_eq!(recognized, format, "{head:?}");
        }
    }

    #[test]
    fn what_is_known_and_not_read_is_refused_by_name() {
        let linux = "Linux 5.14.0-503.el9.x86_64 (db1) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n";
        for (text, who) in [
            (format!("{linux}avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n  1.0 0.0 \
                 1.0 0.0 0.0 98.0\n"), "iostat"),
            ("22:32:24  cpu  %usr %nice %sys %irq %softirq  %steal %guest  %wait %idle  _cpu_\n\
                 22:32:26  all    14   112   73    0        0       1      0      0     0\n".to_owned(), "atopsar"),
            ("avg-cpu:  %user   %nice %system\n".to_owned(), "iostat"),
            ("waiting for 1 second \
                 sample...\n#<--------CPU--------><----------Disks----------->\n#cpu sys \
                 inter  ctxsw KBRead\n".to_owned(), "collectl"),
            ("\"pcp-dstat 5.0.3 CSV Output\"\n".to_owned(), "pcp-dstat"),
            ("----total-cpu-usage---- -dsk/total-\nusr sys idl wai stl| read  writ\n".to_owned(), "dstat"),
            ("AAA,progname,topas_nmon\nAAA,AIX,7.2.4.2\nAAA,host,ora1\nCPU_ALL,CPU Total \
                 ora1,User%,Sys%,Wait%,Idle%\nZZZZ,T0001,08:00:00,21-NOV-2026\nCPU_ALL,T0001,10,20,0,70\n".to_owned(), "AIX"),
        ] {
            let refused = read(text.as_bytes(), "x").unwrap_err().0;
            assert!(refused.contains(who) && refused.contains("not read"), "{text}: {refused}");
        }
        // sar with tables of processes behind its own is sar's.
        let both = format!(
            "{linux}08:00:01 CPU %user %nice %system %iowait %steal %idle\n08:00:11 all 1.0 0.0 \
                 2.0 0.0 0.0 97.0\n\n08:00:01 UID PID %usr %system Command\n08:00:11 0 7 9.0 90.0 \
                 x\n"
        );
        let series = read(both.as_bytes(), "x").unwrap();
        assert_eq!(series[0].value(crate::Metric::CpuSystem, 0), Some(2.0));
    }

    /// Columns as sar(1) of each system has them.
    #[test]
    fn sar_of_other_systems_is_refused_by_name() {
        let row =
            "08:20:00       3       5       0      92\n08:40:00       5      55       0      40\n";
        for head in [
            "\nSunOS db1 5.11 11.3 \
                 sun4v    11/21/2026\n\n08:00:00    %usr    %sys    %wio   %idle\n",
            "\nAIX db1 2 7 00F93CFF4C00    11/21/26\n\nSystem configuration: lcpu=96\n\n08:00:00 \
                 cpu %usr %sys %wio %idle\n",
            "HP-UX db1 B.11.31 U ia64    11/21/26\n\n08:00:00    %usr    %sys    %wio   %idle\n",
            // macOS, and what was copied without its first line.
            "\n08:00:00  %usr  %nice   %sys   %idle\n",
            "08:00:00    %usr    %sys    %wio   %idle\n",
        ] {
            let text = format!("{head}{row}");
            let refused = read_as(
                text.as_bytes(),
                "x",
                ReadingMode { pasted: Some(Pasted::default()), ..ReadingMode::default() },
            )
            .unwrap_err()
            .0;
            assert!(refused.contains("another system than Linux"), "{text}: {refused}");
            assert_eq!(Promise::from_head(text.as_bytes()), Promise::Sure);
        }
        // Of Linux, with its first line left behind.
        let pasted = "08:00:00 CPU %usr %nice %sys %iowait %steal %irq %soft %guest %gnice %idle\n\
                      08:10:00 all 1 0 2 0 0 0 0 0 0 97\n08:20:00 all 1 0 2 0 0 0 0 0 0 97\n";
        assert_eq!(foreign::recognize_foreign_format(pasted.as_bytes()), None);
    }

    #[test]
    fn a_kernel_log_without_times_is_a_kernel_log() {
        let version = "Linux version 2.6.18-274.el5 (mockbuild@builder) #1 SMP Fri Jul 22 \
             04:43:29 EDT 2011\n";
        let text = format!("{version}BIOS-provided physical RAM map:\n");
        let all = read(text.as_bytes(), "dmesg").unwrap();
        assert_eq!(all[0].unplaced, Some(crate::series::UnplacedTimes::Untimed));
        // /proc/version, as every sosreport has it.
        assert_eq!(Promise::from_head(version.as_bytes()), Promise::None);
    }

    /// A sosreport has what e2freefrag prints: no loss to be told of.
    #[test]
    fn a_device_in_the_first_line_is_not_yet_iostats() {
        assert_eq!(
            Promise::from_head(b"Device: /dev/vda1\nBlocksize: 4096 bytes\nTotal blocks: 10\n"),
            Promise::None
        );
        assert_eq!(
            Promise::from_head(b"Device:            tps    kB_read/s    kB_wrtn/s\nsda 1 2 3\n"),
            Promise::Sure
        );
        assert_eq!(
            Promise::from_head(b"Device            r/s     rkB/s\nsda 1.0 2.0\n"),
            Promise::Sure
        );
    }

    #[test]
    fn what_is_of_no_format_is_refused() {
        assert_eq!(read(&b"hello"[..], "x"), Err(unknown_format()));
        assert!(read(&b"\x1f\x8b\x08torn"[..], "x").unwrap_err().0.contains("is cut off"));
        assert!(read(&b"PK\x03\x04x"[..], "x.zip").unwrap_err().0.contains("is cut off"));
        assert!(read(&b"\xd5\x96\x21\x75"[..], "x").unwrap_err().0.contains("big-endian"));
    }
}
