//! A terminal with the output of several tools, one after the other: each part is read by its own
//! reader. A loop that prints them in turn comes back to the first, and is read as one.

use super::super::top::Pass;
use super::super::{iostat, pidstat, proc_log, sysstat, vmstat};
use super::processor_lines::is_processor_line;
use super::{Pasted, clean, text_from};
use crate::Series;
use crate::readers::{ReadingMode, read_as};

/// Who printed a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printer {
    Top,
    Vmstat,
    Iostat,
    Pidstat,
    Sar,
    Fields,
    Kernel,
    /// `free`, of which nothing is read.
    Free,
}

struct Section {
    printer: Printer,
    lines: Vec<String>,
}

/// The series of all parts; nothing where fewer than two tools printed what can be read.
pub(in crate::readers) fn read_sections(
    bytes: &[u8],
    source: &str,
    pasted: Pasted,
) -> Option<Vec<Series>> {
    let text = clean::decode_text(bytes);
    if text.contains('\0') || text.lines().any(|line| line.starts_with("zzz ")) {
        return None;
    }
    let sections = split_sections(&clean::clean_lines(&text))?;
    let (mut all, mut refused, mut read) = (Vec::<Series>::new(), Vec::new(), 0);
    for section in sections.iter().filter(|section| section.printer != Printer::Free) {
        let text = text_from(&section.lines, 0);
        let mode = ReadingMode { pasted: Some(pasted), ..ReadingMode::default() };
        match read_as(text.as_bytes(), source, mode) {
            Ok(series) => {
                read += 1;
                all.extend(series);
            }
            Err(why) => refused.push(why.0),
        }
    }
    if read < 2 {
        return None;
    }
    let mut hosts: Vec<String> = all.iter().filter_map(|series| series.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    for series in all.iter_mut().filter(|_| hosts.len() == 1) {
        series.host = hosts.first().cloned();
    }
    if let Some(first) = all.first_mut() {
        refused.into_iter().for_each(|why| first.add_problem(format!("a part of it {why}")));
    }
    Some(all)
}

/// The parts in their order; nothing where one tool printed all, or where one comes again.
fn split_sections(lines: &[String]) -> Option<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for line in lines {
        let is_banner = iostat::IostatBanner::parse(line).is_some();
        let same = sections.last().map(|section| section.printer);
        match recognize_printer(line) {
            Some(printer) if same != Some(printer) => {
                if sections.iter().any(|section| section.printer == printer) {
                    return None;
                }
                let mut begun = std::mem::take(&mut before);
                begun.push(line.clone());
                sections.push(Section { printer, lines: begun });
            }
            // The first line of sysstat's tools may be of the next one.
            None if is_banner || !before.is_empty() => before.push(line.clone()),
            _ => {
                let now = std::mem::take(&mut before).into_iter().chain([line.clone()]);
                if let Some(section) = sections.last_mut() {
                    section.lines.extend(now);
                }
            }
        }
    }
    (sections.len() > 1).then_some(sections)
}

fn recognize_printer(line: &str) -> Option<Printer> {
    let line = line.trim_end();
    let trimmed = line.trim_start();
    let is_free = || {
        let words: Vec<&str> = trimmed.split_ascii_whitespace().take(3).collect();
        words == ["total", "used", "free"]
    };
    if Pass::is_heading(line) || is_processor_line(line) {
        Some(Printer::Top)
    } else if vmstat::is_heading(line) || trimmed.starts_with("procs -") {
        Some(Printer::Vmstat)
    } else if iostat::is_iostat_heading(line) {
        Some(Printer::Iostat)
    } else if pidstat::is_heading(line) {
        Some(Printer::Pidstat)
    } else if sysstat::text::is_heading(line) {
        Some(Printer::Sar)
    } else if is_free() {
        Some(Printer::Free)
    } else if is_of_kernel(line) {
        Some(Printer::Kernel)
    } else if line.starts_with("MemTotal:") && proc_log::is_field(line) {
        Some(Printer::Fields)
    } else {
        None
    }
}

/// `[ 1234.567890] message`, `May 10 10:00:00 db1 kernel: message`.
fn is_of_kernel(line: &str) -> bool {
    let printk = || {
        let (seconds, _) = line.strip_prefix('[')?.split_once(']')?;
        let (whole, part) = seconds.trim_start().split_once('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (is_number(whole) && is_number(part)).then_some(())
    };
    line.contains(" kernel: ") || printk().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, Moment};

    const TOP: &str = "top - 10:00:10 up 7 min,  1 user,  load average: 55.92, 21.33, 7.94\n\
        Tasks: 206 total,   1 running, 147 sleeping,   0 stopped,   0 zombie\n\
        %Cpu(s):  0.3 us,  0.3 sy,  0.0 ni,  0.0 id, 99.0 wa,  0.0 hi,  0.3 si,  0.0 st\n\
        KiB Mem :  8143064 total,  3897696 free,  3639180 used,   606188 buff/cache\n";
    const BANNER: &str = "Linux 6.1.0 (db1) \t05/10/2024 \t_x86_64_\t(2 CPU)\n\n";
    const REPORT: &str = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n\
        \x20          1.02    0.00    2.04   96.94    0.00    0.00\n\n\
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  \
        %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  \
        aqu-sz  %util\n\
        sda             10.00    100.00     0.00   0.00  900.00    10.00    1.00      4.00     0.00   \
        0.00   10.00     4.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00   \
        40.02 100.00\n\n";
    const KERNEL: &str = "[  910.062934] INFO: task jbd2:1 blocked for more than 120 seconds.\n";

    fn read(text: &str) -> Option<Vec<Series>> {
        let pasted = Pasted {
            interval: Some(std::time::Duration::from_secs(1)),
            began: Some(Moment(1_715_335_200_000)),
        };
        read_sections(text.as_bytes(), "paste", pasted)
    }

    #[test]
    fn each_tools_part_is_read_by_its_own_reader() {
        // The first report is of the time since the boot.
        let iostat = format!("{BANNER}{REPORT}{REPORT}");
        let text = format!("$ top\n{TOP}\n$ iostat -x 1\n{iostat}\n# dmesg\n{KERNEL}");
        let all = read(&text).unwrap();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|series| series.host.as_deref() == Some("db1")));
        let has = |metric| all.iter().any(|series| series.column(metric).is_some());
        assert!(has(Metric::Load1) && has(Metric::DiskQueue));
        assert_eq!(all.iter().map(|series| series.events().count()).sum::<usize>(), 1);
    }

    #[test]
    fn one_tools_output_and_a_loop_are_read_as_one() {
        assert!(read(TOP).is_none());
        assert!(read(&format!("{BANNER}{REPORT}{REPORT}")).is_none());
        assert!(read(&format!("{TOP}{KERNEL}{TOP}{KERNEL}")).is_none());
        assert!(read(&format!("zzz ***Fri May 10 10:00:00 UTC 2024\n{TOP}{KERNEL}")).is_none());
    }
}
