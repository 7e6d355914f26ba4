//! A kernel's log in which something unknown stands before each message: what a log shipper, a web
//! page or a spreadsheet writes there. How many words that is, messages that are known tell.

use std::collections::BTreeMap;

use super::prefix::{LogLineTime, parse_day_of_year};
use crate::readers::line_timestamp::LineTimestamp;
use hugewise_model::calendar;

/// Words of such a prefix, and of a time in it.
const MOST_WORDS: usize = 12;
const TIME_WORDS: usize = 5;
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
];
const INVOKED: &str = " invoked oom-killer: gfp_mask=";

/// The log with times and senders as syslog writes them, if its messages tell its prefix.
pub(in crate::readers) fn replace_unknown_prefix(lines: &[String]) -> Option<String> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for count in lines.iter().take(LOOKED_AT).filter_map(|line| count_words_before(line)) {
        *counts.entry(count).or_default() += 1;
    }
    let (words, _) = counts.into_iter().max_by_key(|(_, times)| *times)?;
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

fn count_words_before(line: &str) -> Option<usize> {
    let words = |at: usize| line.get(..at).map(|before| before.split_whitespace().count());
    if let Some(at) = BEGINNINGS.iter().filter_map(|begin| line.find(begin)).min() {
        return words(at)
            .filter(|_| line.get(..at).is_some_and(|before| before.ends_with([' ', '\t'])));
    }
    words(line.find(INVOKED)?)?.checked_sub(1)
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
    let marks = |letter: char| matches!(letter, '[' | ']' | '"' | ',' | '@' | '|');
    let words: Vec<&str> = prefix
        .split_whitespace()
        .map(|word| word.trim_matches(marks).trim_end_matches("]:").trim_end_matches(':'))
        .filter(|word| !word.is_empty())
        .collect();
    for length in (1..=TIME_WORDS).rev() {
        for part in words.windows(length) {
            if let Some(stamp) = LineTimestamp::parse(&part.join(" ")) {
                let zone = if stamp.offset.is_some() { "Z" } else { "" };
                let Some(time) = calendar::format_wall_time(stamp.at.0) else { continue };
                return format!("{time}{zone} - kernel: ");
            }
        }
    }
    for part in words.windows(3) {
        if let [month, day, time] = part
            && let Some(LogLineTime::OfSomeYear(..)) = parse_day_of_year(month, day, time)
        {
            return format!("{month} {day} {time} - kernel: ");
        }
    }
    String::new()
}
