//! A kernel's log in which something unknown stands before each message: what a log shipper, a web
//! page or a spreadsheet writes there. How many words that is, messages that are known tell.

use std::collections::BTreeMap;

use super::prefix::{LogLineTime, find_prefix_time};
use hugewise_model::calendar;

/// Words of such a prefix.
const MOST_WORDS: usize = 12;
/// Lines that are looked at.
const LOOKED_AT: usize = 2000;
/// How messages begin that nothing else says; a name comes before the last.
const BEGINNINGS: &[&str] = &[
    "Out of memory: Kill",
    "Out of Memory: Kill",
    "Memory cgroup out of memory: Kill",
    "oom-kill:constraint=",
    "Killed process ",
    "Kernel panic - not syncing: ",
    "INFO: task ",
    "watchdog: BUG: soft lockup - CPU#",
    "NMI watchdog: BUG: soft lockup - CPU#",
    "BUG: soft lockup - CPU#",
    "rcu: INFO: rcu_",
    "INFO: rcu_",
    "Future hung task reports are suppressed",
    "nvme nvme",
    "blk_update_request: ",
    "print_req_error: ",
    "I/O error, dev ",
    "Aborting journal on device ",
    "EXT4-fs ",
    "XFS (",
    "nfs: server ",
];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Bytes of a process's name, which may have blanks.
const LONGEST_NAME: usize = 15;
/// The sender that syslog names, where no message is known.
const SENDER: &str = "kernel: ";
const INVOKED: &str = " invoked oom-killer: gfp_mask=";

/// The log with times and senders as syslog writes them, if its messages tell its prefix.
pub(in crate::readers) fn replace_unknown_prefix(lines: &[String]) -> Option<String> {
    let most_common = |count_of: fn(&str) -> Option<usize>| {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for count in lines.iter().take(LOOKED_AT).filter_map(|line| count_of(line)) {
            *counts.entry(count).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, times)| *times)
    };
    let filled = lines.iter().take(LOOKED_AT).filter(|line| !line.trim().is_empty()).count();
    // A word that anybody writes has to be in most lines.
    let sent = || most_common(count_words_to_sender).filter(|(_, times)| times * 2 > filled);
    let (words, _) = most_common(count_words_before).or_else(sent)?;
    if words == 0 || words > MOST_WORDS {
        return None;
    }
    let mut text = String::new();
    for line in lines {
        let Some((prefix, message)) = split_behind_words(line, words) else { continue };
        text += &render_time(prefix);
        text += message;
        text.push('\n');
    }
    Some(text)
}

/// Whether a message of the kernel's stands behind other words, which anybody may have written.
pub(super) fn is_quoted_message(line: &str) -> bool {
    // The kernel itself repeats a panic's words.
    let is_end = line.starts_with("---[ end ");
    let is_name = line.find(INVOKED).is_some_and(|at| at <= LONGEST_NAME);
    !is_end && !is_name && count_words_before(line).is_some_and(|words| words > 0)
}

fn count_words_before(line: &str) -> Option<usize> {
    let words = |at: usize| line.get(..at).map(|before| before.split_whitespace().count());
    if let Some(at) = BEGINNINGS.iter().filter_map(|begin| line.find(begin)).min() {
        return words(at)
            .filter(|_| line.get(..at).is_some_and(|before| before.ends_with([' ', '\t'])));
    }
    words(line.find(INVOKED)?)?.checked_sub(1)
}

fn count_words_to_sender(line: &str) -> Option<usize> {
    let before = line.get(..line.find(SENDER)?)?;
    let begins = before.is_empty() || before.ends_with(char::is_whitespace);
    begins.then(|| before.split_whitespace().count() + 1)
}

fn split_behind_words(line: &str, words: usize) -> Option<(&str, &str)> {
    let mut rest = line.trim_start();
    for _ in 0..words {
        let (_, behind) = rest.split_once(char::is_whitespace)?;
        rest = behind.trim_start();
    }
    let prefix = line.len().checked_sub(rest.len())?;
    line.split_at_checked(prefix)
}

/// `2017-06-14T18:01:01.000Z - kernel: `, without a year `Jun 14 18:01:01 - kernel: `, and nothing
/// where no time is found.
fn render_time(prefix: &str) -> String {
    match find_prefix_time(prefix) {
        Some(LogLineTime::At(stamp)) => {
            let zone = if stamp.offset.is_some() { "Z" } else { "" };
            let time = calendar::format_wall_time(stamp.at.0);
            time.map_or_else(String::new, |time| format!("{time}{zone} - kernel: "))
        }
        Some(LogLineTime::OfSomeYear(month, day, of_day)) => {
            let place = usize::try_from(month - 1).ok();
            let Some(month) = place.and_then(|place| MONTHS.get(place)) else {
                return String::new();
            };
            let second = of_day / 1000;
            let (hour, minute) = (second / 3600, second / 60 % 60);
            format!("{month} {day} {hour:02}:{minute:02}:{:02} - kernel: ", second % 60)
        }
        _ => String::new(),
    }
}
