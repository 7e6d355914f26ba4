//! Facts that a sosreport keeps as output of commands.

use super::captured::Files;

/// Arguments by pid from `ps auxwww`, ended by zero bytes as in /proc/PID/cmdline.
pub(super) fn titles(ps: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let text = String::from_utf8_lossy(ps);
    text.lines().filter_map(title).collect()
}

/// USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND; thread lines of `ps m` have `-` for the command.
fn title(line: &str) -> Option<(u32, Vec<u8>)> {
    let mut rest = line.trim();
    let mut pid = None;
    for column in 0..10 {
        let (word, after) = rest.split_once(|blank: char| blank.is_ascii_whitespace())?;
        if column == 1 {
            pid = word.parse().ok();
        }
        rest = after.trim_start();
    }
    let pid = pid?;
    if rest == "-" || rest.is_empty() || rest.starts_with('[') {
        return None;
    }
    // A rewritten title is one argument: `postgres: checkpointer`, `oraclePROD (LOCAL=NO)`.
    let first = rest.split(' ').next()?;
    let is_title = first.ends_with(':') || rest.contains(" (LOCAL=");
    let mut bytes = if is_title { rest.to_owned() } else { rest.replace(' ', "\0") }.into_bytes();
    bytes.push(0);
    Some((pid, bytes))
}

/// The machine as `uname -a` or the running kernel's release names it.
pub(super) fn architecture(files: &impl Files) -> Option<String> {
    const KNOWN: [&str; 8] = ["x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "i686", "loongarch64"];
    let paths = ["/uname", "/sos_commands/kernel/uname_-a", "/sos_commands/host/uname_-a", "/proc/version"];
    paths.iter().find_map(|path| {
        let bytes = files.read(path).into_known()?;
        let text = String::from_utf8_lossy(&bytes);
        let word =
            text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').find(|word| KNOWN.contains(word));
        word.map(str::to_owned)
    })
}

/// Seconds since the epoch of what `date` printed; `None` for zones whose offset is not certain.
pub(super) fn date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let line = text.lines().find(|line| line.matches(':').count() >= 2)?;
    let mut month = None;
    let mut day = None;
    let mut year = None;
    let mut clock = None;
    let mut afternoon = None;
    let mut offset = None;
    for word in line.split_ascii_whitespace() {
        if let Some(index) = MONTHS.iter().position(|name| word == *name) {
            month = i64::try_from(index + 1).ok();
        } else if word.contains(':') {
            let mut parts = word.split(':').map(|part| part.parse::<i64>().ok().filter(|part| (0..61).contains(part)));
            clock = Some((parts.next()??, parts.next()??, parts.next()??));
        } else if let Ok(number) = word.parse::<i64>() {
            match number {
                1..=31 => day = Some(number),
                1970..=9999 => year = Some(number),
                _ => {}
            }
        } else if word == "AM" || word == "PM" {
            afternoon = Some(word == "PM");
        } else {
            offset = zone(word).or(offset);
        }
    }
    let (hour, minute, second) = clock?;
    let hour = match afternoon {
        Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
        None => hour,
    };
    let days = days_since_epoch(year?, month?, day?);
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - offset?)
}

/// Seconds east of Greenwich of zones that mean one thing only.
fn zone(word: &str) -> Option<i64> {
    let hours = match word {
        "UTC" | "GMT" | "WET" => 0,
        "CET" => 1,
        "CEST" | "EET" => 2,
        "EEST" | "MSK" => 3,
        "JST" | "KST" => 9,
        "AEST" => 10,
        "EDT" => -4,
        "EST" => -5,
        "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        _ => return None,
    };
    Some(hours * 3_600)
}

/// Days from 1970-01-01 in the Gregorian calendar; years count from March, so that a leap day ends one.
const fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_date_prints_them() {
        assert_eq!(date("Thu Jan  1 00:00:00 UTC 1970\n"), Some(0));
        assert_eq!(date("Fri Mar  1 12:34:56 UTC 2024"), Some(1_709_296_496));
        assert_eq!(date("Fri Mar  1 01:34:56 PM CET 2024"), Some(1_709_296_496));
        assert_eq!(date("Fri 01 Mar 2024 07:34:56 AM EST"), Some(1_709_296_496));
        assert_eq!(date("Fri Mar  1 12:34:56 IST 2024"), None);
        assert_eq!(date("Fri Mar  1 12:34"), None);
    }

    #[test]
    fn threads_and_kernel_threads_have_no_title() {
        let ps = "root 2 0.0 0.0 0 0 ? S Jan01 0:00 [kthreadd]\nroot 9 0.0 0.0 0 0 ? - Jan01 0:00 -\n\
                  oracle 44 0.0 0.0 1 1 ? Ss Jan01 0:00 oraclePROD (LOCAL=NO)\n";
        assert_eq!(titles(ps.as_bytes()), [(44, b"oraclePROD (LOCAL=NO)\0".to_vec())]);
    }
}
