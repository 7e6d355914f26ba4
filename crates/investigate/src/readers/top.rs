//! What `top -b` prints, pass by pass: load, processors, memory, and the kernel's reclaim threads.

use crate::{Metric, Series};
use hugewise_model::calendar::time_of_day;

/// The kernel's threads that reclaim, compact and make huge pages.
pub(super) const THREADS: &[(&str, Metric)] = &[
    ("kswapd", Metric::KswapdCpu),
    ("kcompactd", Metric::KcompactdCpu),
    ("khugepaged", Metric::KhugepagedCpu),
];

/// Percent by which a percentage differs from another, and the part of the larger one.
const LEAST_APART: f64 = 0.3;
const APART: f64 = 0.25;
/// Percent since the boot of a process that is not often idle.
const OF_SOMEBODY_BUSY: f64 = 2.0;
/// Percent of a processor that one thread takes at most, with what a short interval adds.
const ONE_PROCESSOR: f64 = 110.0;
/// Percent in the kernel or of waits for disks, and of stolen time, that no host has had since its
/// boot in peace.
const EXTREME_SYSTEM: f64 = 60.0;
const EXTREME_STEAL: f64 = 40.0;
/// A load of more than the task that one looks at.
const MANY: f64 = 3.0;
/// How threads of the kernel are called that begin with it.
const FROM_BOOT: &[&str] =
    &["kswapd", "kcompactd", "khugepaged", "ksoftirqd", "rcu_", "migration", "arc_"];

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pass {
    /// Seconds since midnight, if the first line has them.
    pub(super) time: Option<i64>,
    gauges: Vec<(Metric, f64)>,
    /// Percentages of processor time: since the boot in the first pass of a run.
    shares: Vec<(Metric, f64)>,
    /// Processors with a line each.
    processors: f64,
    total: Option<f64>,
    threads: [f64; 3],
    seen: [bool; 3],
    columns: Option<PassColumns>,
    /// Seconds that the host has been up.
    uptime: Option<f64>,
    /// Whether a thread's percentage is not what it took since the boot.
    of_interval: bool,
    listed: f64,
    least: Option<f64>,
}

impl Pass {
    pub(super) fn is_heading(line: &str) -> bool {
        line.starts_with("top - ")
    }

    /// `top - 23:58:47 up  4:38,  0 users,  load average: 35.92, 21.68, 16.81`
    pub(super) fn new(heading: &str) -> Self {
        let mut pass = Self {
            time: heading.split_ascii_whitespace().nth(2).and_then(time_of_day),
            uptime: parse_uptime(heading),
            ..Self::default()
        };
        if let Some((_, loads)) = heading.split_once("load average:") {
            let loads =
                loads.split_ascii_whitespace().map(|load| parse_number(load.trim_end_matches(',')));
            for (metric, load) in
                [Metric::Load1, Metric::Load5, Metric::Load15].into_iter().zip(loads)
            {
                pass.gauges.extend(load.map(|load| (metric, load)));
            }
        }
        pass
    }

    pub(super) fn parse_line(&mut self, line: &str) {
        let line = line.trim_start();
        if self.columns.is_some() {
            self.read_process(line);
        } else if let Some(rest) = line.strip_prefix("Tasks:") {
            self.total = rest.split_ascii_whitespace().next().and_then(parse_number);
            self.gauges.extend(self.total.map(|total| (Metric::Processes, total)));
        } else if let Some(rest) = line.strip_prefix("Threads:") {
            self.total = rest.split_ascii_whitespace().next().and_then(parse_number);
            self.gauges.extend(self.total.map(|total| (Metric::Tasks, total)));
        } else if let Some((_, rest)) = line.split_once("Cpu(s):") {
            self.read_processors(rest);
        } else if let Some(rest) = split_processor(line) {
            self.read_one_processor(rest);
        } else if let Some((before, rest)) =
            line.split_once("Mem").filter(|(_, rest)| is_table(rest))
        {
            self.read_memory(before, rest, false);
        } else if let Some((before, rest)) =
            line.split_once("Swap").filter(|(_, rest)| is_table(rest))
        {
            self.read_memory(before, rest, true);
        } else if line.starts_with("PID ") {
            let place = |name: &str| line.split_ascii_whitespace().position(|word| word == name);
            self.columns =
                place("%CPU").zip(place("COMMAND")).map(|(share, command)| PassColumns {
                    share,
                    command,
                    used: place("TIME+").or_else(|| place("TIME")),
                    owner: place("USER"),
                    memory: [place("VIRT").or_else(|| place("SIZE")), place("RES")],
                });
        }
    }

    /// One of several lines, whose mean is what one line of all says.
    fn read_one_processor(&mut self, rest: &str) {
        let sums = std::mem::take(&mut self.shares);
        self.read_processors(rest);
        self.processors += 1.0;
        for (metric, share) in &mut self.shares {
            let before =
                sums.iter().find(|(other, _)| other == metric).map_or(0.0, |(_, sum)| *sum);
            *share = before + (*share - before) / self.processors;
        }
    }

    /// `51.0 us, 15.0 sy,  0.0 ni, 33.0 id,  1.0 wa, ...`; old versions have a % before the words.
    fn read_processors(&mut self, rest: &str) {
        // A comma behind a word ends a value; within a number it is a decimal point.
        let mut before = ' ';
        let part = |letter: char| {
            let ends = letter == '%' || (letter == ',' && before.is_ascii_alphabetic());
            before = letter;
            if ends { ' ' } else { letter }
        };
        let rest: String = rest.chars().map(part).collect();
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let get = |name: &str| {
            let place = words.iter().position(|word| *word == name)?;
            parse_number(words.get(place.checked_sub(1)?)?)
        };
        // A series counts interrupts with the kernel's time.
        let system =
            get("sy").map(|system| system + get("hi").unwrap_or(0.0) + get("si").unwrap_or(0.0));
        for (metric, value) in [
            (Metric::CpuUser, get("us")),
            (Metric::CpuSystem, system),
            (Metric::CpuNice, get("ni")),
            (Metric::CpuIdle, get("id")),
            (Metric::CpuIowait, get("wa")),
            (Metric::CpuIrq, get("hi")),
            (Metric::CpuSoftirq, get("si")),
            (Metric::CpuSteal, get("st")),
        ] {
            self.shares.extend(value.map(|value| (metric, value)));
        }
    }

    /// `MiB Mem :  24151.6 total,   6220.9 free`, `Mem:  16467488k total`
    fn read_memory(&mut self, before: &str, rest: &str, swap: bool) {
        let unit = before.split_ascii_whitespace().next().and_then(|unit| unit.bytes().next());
        let words: Vec<&str> =
            rest.trim_start_matches([' ', ':']).split_ascii_whitespace().collect();
        for pair in words.windows(2) {
            let &[value, name] = pair else { continue };
            let metric = match (name.trim_end_matches([',', '.']), swap) {
                ("total", false) => Metric::MemTotal,
                ("free", false) => Metric::MemFree,
                ("buffers", false) => Metric::Buffers,
                ("total", true) => Metric::SwapTotal,
                ("free", true) => Metric::SwapFree,
                ("used", true) => Metric::SwapUsed,
                ("avail", true) => Metric::MemAvailable,
                // Old versions print it only there.
                ("cached", true) => Metric::Cached,
                _ => continue,
            };
            let value = value.trim_end_matches([',', '+']);
            let own = value.bytes().last().filter(u8::is_ascii_alphabetic);
            let unit = match own.or(unit).map(|unit| unit.to_ascii_lowercase()) {
                Some(b'k') => 1024.0,
                Some(b'm') => 1_048_576.0,
                Some(b'g') => 1_073_741_824.0,
                Some(b't') => 1_099_511_627_776.0,
                _ => continue,
            };
            let value =
                parse_number(value.trim_end_matches(|last: char| last.is_ascii_alphabetic()));
            self.gauges.extend(value.map(|value| (metric, value * unit)));
        }
    }

    fn read_process(&mut self, line: &str) {
        let Some(columns) = self.columns else { return };
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(share) = words.get(columns.share).and_then(|share| parse_number(share)) else {
            return;
        };
        let Some(command) = words.get(columns.command) else { return };
        let used = columns.used.and_then(|place| parse_time_used(words.get(place)?));
        self.listed += 1.0;
        self.least = Some(self.least.map_or(share, |least| least.min(share)));
        if let Some((used, uptime)) = used.zip(self.uptime.filter(|uptime| *uptime > 0.0)) {
            self.of_interval |= is_of_now(command, share, used / uptime * 100.0);
        }
        let command = command.trim_start_matches('[');
        if !columns.may_be_kernel_thread(&words, share) {
            return;
        }
        for (((name, _), sum), seen) in THREADS.iter().zip(&mut self.threads).zip(&mut self.seen) {
            if command.starts_with(name) {
                *sum += share;
                *seen = true;
            }
        }
    }

    /// Whether its percentages are of an interval, although it is the first pass, as some process tells.
    /// Where nothing says when the boot was, it is what a running top shows.
    pub(super) const fn is_of_interval(&self) -> bool {
        self.of_interval || self.uptime.is_none()
    }

    /// Whether no host has such percentages in peace, be they of an interval or since its boot.
    fn is_extreme_since_boot(&self) -> bool {
        // One task that reads alone waits all the time, too.
        let many_wait =
            self.gauges.iter().any(|(metric, load)| *metric == Metric::Load1 && *load >= MANY);
        self.shares.iter().any(|(metric, share)| match metric {
            Metric::CpuSystem => *share >= EXTREME_SYSTEM,
            Metric::CpuIowait => *share >= EXTREME_SYSTEM && many_wait,
            Metric::CpuSteal => *share >= EXTREME_STEAL,
            _ => false,
        })
    }

    /// `shares`: its percentages are of an interval; `whole`: its table is complete.
    pub(super) fn set_sample_values(&self, series: &mut Series, shares: bool, whole: bool) {
        for (metric, value) in &self.gauges {
            series.set_value(*metric, *value);
        }
        if !shares && !self.is_extreme_since_boot() {
            return;
        }
        for (metric, value) in &self.shares {
            series.set_value(*metric, *value);
        }
        if !shares {
            return;
        }
        // A thread that is not listed took nothing if all are listed, or if idle ones are.
        let all = whole
            && self.columns.is_some()
            && (self.least == Some(0.0) || self.total.is_some_and(|total| self.listed >= total));
        for (((_, metric), sum), seen) in THREADS.iter().zip(&self.threads).zip(&self.seen) {
            if *seen || all {
                series.set_value(*metric, *sum);
            }
        }
    }
}

/// What follows `%Cpu0  :`, ` Cpu0 :`, which top shows for all processors after a key (1).
fn split_processor(line: &str) -> Option<&str> {
    let (number, rest) = line.trim_start_matches('%').strip_prefix("Cpu")?.split_once(':')?;
    let number = number.trim_end();
    let is_one = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    is_one.then_some(rest)
}

/// Whether headings of processes are BusyBox's: `PID PPID USER STAT VSZ %VSZ CPU %CPU COMMAND`, before
/// 1.15 with `%MEM` for `%VSZ`.
pub(super) fn is_of_busybox(headings: &[&str]) -> bool {
    headings.contains(&"%VSZ") || headings.ends_with(&["%MEM", "%CPU", "COMMAND"])
}

/// Places of words in a line of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PassColumns {
    share: usize,
    command: usize,
    /// Processor time used, if it is shown.
    used: Option<usize>,
    owner: Option<usize>,
    memory: [Option<usize>; 2],
}

impl PassColumns {
    /// Whether a row may be of a thread of the kernel, which is root's, has no memory of its own and
    /// runs on one processor: anybody may call a program like one.
    fn may_be_kernel_thread(&self, words: &[&str], share: f64) -> bool {
        let word = |place: Option<usize>| words.get(place?).copied();
        share <= ONE_PROCESSOR
            && word(self.owner).is_none_or(|owner| matches!(owner, "root" | "0"))
            && self.memory.iter().all(|place| word(*place).is_none_or(|size| size == "0"))
    }
}

/// Whether a percentage is not what the process took since it began, which a first pass shows: it is
/// less than it took since the boot, or the process began with the kernel and it is more. None at all
/// proves less: procps 4 begins with an instant in which most processes do nothing.
fn is_of_now(command: &str, share: f64, since_boot: f64) -> bool {
    let least = LEAST_APART.max(APART * share.max(since_boot));
    let command = command.trim_start_matches('[');
    let from_boot = FROM_BOOT.iter().any(|name| command.starts_with(name));
    let is_less = share < since_boot && (share > 0.0 || since_boot >= OF_SOMEBODY_BUSY);
    (share - since_boot).abs() > least && (is_less || from_boot && share > 0.0)
}

/// Seconds of `up 11 days, 11:51,`, `up 16:38,`, `up 45 min,`.
fn parse_uptime(heading: &str) -> Option<f64> {
    let (_, rest) = heading.split_once(" up ")?;
    let mut seconds = 0.0;
    for part in rest.split(',').map(str::trim) {
        if let Some((days, "day" | "days")) = part.split_once(' ') {
            seconds += parse_number(days)? * 86_400.0;
        } else if let Some((minutes, "min")) = part.split_once(' ') {
            return Some(seconds + parse_number(minutes)? * 60.0);
        } else {
            let (hours, minutes) = part.split_once(':')?;
            return Some(seconds + parse_number(hours)? * 3600.0 + parse_number(minutes)? * 60.0);
        }
    }
    None
}

/// Seconds of `930:01.74` and `1304:50`, minutes and seconds.
fn parse_time_used(word: &str) -> Option<f64> {
    let (minutes, seconds) = word.split_once(':')?;
    Some(parse_number(minutes)? * 60.0 + parse_number(seconds)?)
}

fn is_table(rest: &str) -> bool {
    rest.trim_start().starts_with(':')
}

fn parse_number(word: &str) -> Option<f64> {
    let first = word.bytes().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    word.parse().ok().or_else(|| word.replacen(',', ".", 1).parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    fn parse_series(text: &str, shares: bool) -> Series {
        let mut lines = text.lines();
        let mut pass = Pass::new(lines.next().unwrap());
        lines.for_each(|line| pass.parse_line(line));
        let mut series = Series::new("top", crate::SourceFormat::Loop(crate::CollectedTool::Top));
        series.push(Moment(0), None);
        pass.set_sample_values(&mut series, shares, true);
        series
    }

    const NEW: &str = "top - 10:41:54 up 4 days,  4:38,  9 users,  load average: 35.92, 21.68, \
         16.81\n\
        Tasks: 1077 total,  37 running, 1040 sleeping,   0 stopped,   0 zombie\n\
        %Cpu(s): 29.0 us, 65.0 sy,  1.0 ni,  0.0 id,  1.0 wa,  0.5 hi,  3.5 si,  0.0 st\n\
        MiB Mem :  20480.0 total,     78.0 free,  18000.0 used,   2402.0 buff/cache\n\
        MiB Swap:   8192.0 total,    192.0 free,   8000.0 used.    512.0 avail Mem \n\n    \
        PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n     \
        55 root      20   0       0      0      0 R  76.0   0.0   9:01.01 kswapd0\n     \
        56 root      20   0       0      0      0 R  12.5   0.0   9:01.01 kswapd1\n   \
        2001 oracle    20   0  9.9g  1.1g  1.0g D   3.0   5.0   0:01.01 oracle\n";

    #[test]
    fn a_pass_is_read() {
        let series = parse_series(NEW, true);
        let mib = 1_048_576.0;
        for (metric, value) in [
            (Metric::Load1, Some(35.92)),
            (Metric::Load15, Some(16.81)),
            (Metric::Processes, Some(1077.0)),
            (Metric::CpuUser, Some(29.0)),
            (Metric::CpuSystem, Some(69.0)),
            (Metric::CpuIdle, Some(0.0)),
            (Metric::MemTotal, Some(20480.0 * mib)),
            (Metric::MemFree, Some(78.0 * mib)),
            (Metric::MemAvailable, Some(512.0 * mib)),
            (Metric::SwapUsed, Some(8000.0 * mib)),
            (Metric::KswapdCpu, Some(88.5)),
            // Those who took less than 3 % are not listed.
            (Metric::KcompactdCpu, None),
            (Metric::Cached, None),
        ] {
            assert_eq!(series.value(metric, 0), value, "{metric:?}");
        }
        assert_eq!(Pass::new(NEW.lines().next().unwrap()).time, Some(10 * 3600 + 41 * 60 + 54));
    }

    /// top of procps 3.2 and of 3.3, with a line for each processor.
    #[test]
    fn processors_of_a_line_each_are_averaged() {
        let old = "top - 09:50:20 up 11 min,  3 users,  load average: 8.94, 7.17, 3.82\n \
            Cpu0 : 38.0%us,  4.2%sy,  0.0%ni,  0.0%id,  2.4%wa,  1.8%hi,  0.0%si, 53.0%st\n \
            Cpu1 : 54.0%us,  0.6%sy,  0.0%ni,  0.6%id,  4.9%wa,  1.2%hi,  0.0%si, 38.7%st\n \
            Cpu2 : 40.0%us,  0.6%sy,  0.0%ni,  0.6%id,  4.9%wa,  1.2%hi,  0.0%si,48.3%st\n";
        let new = "top - 09:50:20 up 11 min,  3 users,  load average: 8.94, 7.17, 3.82\n\
            %Cpu0  : 38.0 us,  4.2 sy,  0.0 ni,  0.0 id,  2.4 wa,  1.8 hi,  0.0 si, 53.0 st\n\
            %Cpu1  : 54.0 us,  0.6 sy,  0.0 ni,  0.6 id,  4.9 wa,  1.2 hi,  0.0 si, 38.7 st\n\
            %Cpu2  : 40.0 us,  0.6 sy,  0.0 ni,  0.6 id,  4.9 wa,  1.2 hi,  0.0 si, 48.3 st\n";
        for text in [old, new] {
            let series = parse_series(text, true);
            // (53.0 + 38.7 + 48.3) / 3, and (38 + 54 + 40) / 3.
            let shares = [Metric::CpuSteal, Metric::CpuUser].map(|metric| series.value(metric, 0));
            for (share, expected) in shares.into_iter().zip([140.0 / 3.0, 44.0]) {
                assert!((share.unwrap() - expected).abs() < 1e-9, "{share:?} {text}");
            }
        }
    }

    #[test]
    fn a_list_that_reaches_the_idle_tells_who_took_nothing() {
        let listed = format!(
            "{NEW}  2002 oracle    20   0  9.9g  1.1g  1.0g S   0.0   5.0   0:01.01 oracle\n"
        );
        assert_eq!(parse_series(&listed, true).value(Metric::KcompactdCpu, 0), Some(0.0));
        let listed = listed.replace("65.0 sy", "25.0 sy");
        let withheld = listed.replace("0.0 st", "46.0 st");
        assert_eq!(parse_series(&withheld, false).value(Metric::CpuSteal, 0), Some(46.0));
        let since_boot = parse_series(&listed, false);
        assert_eq!(since_boot.value(Metric::CpuSteal, 0), None);
        assert_eq!(since_boot.value(Metric::KswapdCpu, 0), None);
        assert_eq!(since_boot.value(Metric::CpuSystem, 0), None);
        assert_eq!(since_boot.value(Metric::Processes, 0), Some(1077.0));
    }

    /// A miner's name proves nothing: it is a user's, has memory, or takes several processors.
    #[test]
    fn programs_called_like_threads_of_the_kernel_are_none() {
        let kernel =
            "     55 root      20   0       0      0      0 R  76.0   0.0   9:01.01 kswapd0";
        assert!(NEW.contains(kernel.trim_start()));
        for program in [
            "     55 joe       20   0       0      0      0 R  76.0   0.0   9:01.01 kswapd0",
            "     55 root      20   0 2436812  50000   3000 R  76.0   0.0   9:01.01 kswapd0",
            "     55 root      20   0       0      0      0 R 398.0   0.0   9:01.01 kswapd0",
        ] {
            let text = NEW.replace(kernel, program);
            assert_ne!(text, NEW);
            assert_eq!(parse_series(&text, true).value(Metric::KswapdCpu, 0), Some(12.5));
        }
    }

    /// A first pass has the percentages since the boot, which may have been four minutes ago.
    #[test]
    fn what_no_host_has_had_since_its_boot_counts_in_a_first_pass() {
        let since_boot = |system: &str| {
            let text = NEW.replace("65.0 sy,  1.0 ni,", system);
            assert_ne!(text, NEW);
            parse_series(&text, false).value(Metric::CpuSystem, 0)
        };
        assert_eq!(since_boot("55.0 sy,  1.0 ni,"), None);
        // With 0.5 and 3.5 of interrupts.
        assert_eq!(since_boot("94.5 sy,  1.0 ni,"), Some(98.5));
    }

    #[test]
    fn old_versions_and_commas_are_read() {
        let old = "top - 08:32:50 up 1 day,  1:02,  3 users,  load average: 1.10, 2.20, 3.30\n\
            Tasks: 300 total,   1 running, 299 sleeping,   0 stopped,   0 zombie\n\
            Cpu(s):  5.9%us, 25.0%sy,  0.0%ni, 68.6%id,  0.1%wa,  0.1%hi,  0.3%si,  0.0%st\n\
            Mem:  16467488k total, 16379424k used,    88064k free,   100000k buffers\n\
            Swap:  8388600k total,        0k used,  8388600k free,  4000000k cached\n";
        let old = parse_series(old, true);
        assert_eq!(old.value(Metric::MemFree, 0), Some(88064.0 * 1024.0));
        assert_eq!(old.value(Metric::Cached, 0), Some(4_000_000.0 * 1024.0));
        assert!((old.value(Metric::CpuSystem, 0).unwrap() - 25.4).abs() < 1e-9);
        let comma = "top - 08:32:50 up 1 day,  1:02,  3 users,  load average: 1,10, 2,20, 3,30\n\
            %Cpu(s):  5,9 us, 25,0 sy,  0,0 ni, 69,1 id,  0,0 wa,  0,0 hi,  0,0 si,  0,0 st\n\
            GiB Mem :     15,7 total,      0,1 free\n";
        let comma = parse_series(comma, true);
        assert_eq!(comma.value(Metric::Load5, 0), Some(2.2));
        assert_eq!(comma.value(Metric::CpuSystem, 0), Some(25.0));
        assert_eq!(comma.value(Metric::MemFree, 0), Some(0.1 * 1_073_741_824.0));
    }
}
