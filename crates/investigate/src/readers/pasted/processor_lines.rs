//! The line of the processors out of a top, as grep leaves it or a report quotes it, and the head
//! of BusyBox's top without its rows.

use std::time::Duration;

use super::times::TOP_DELAY;
use super::undated::CountedTimes;
use crate::Moment;

/// Lines of a head: memory, processors, load.
const HEAD: usize = 2;
/// How BusyBox names shares, and how top does.
const SHARES: [(&str, &str); 7] = [
    ("usr", "us"),
    ("sys", "sy"),
    ("nic", "ni"),
    ("idle", "id"),
    ("io", "wa"),
    ("irq", "hi"),
    ("sirq", "si"),
];

/// A pass of top for each line of all processors, as far apart as somebody says, or as top's passes
/// are.
pub(super) fn render_processor_lines(
    lines: &[String],
    began: Moment,
    interval: Option<Duration>,
) -> Option<String> {
    let interval = interval.filter(|interval| !interval.is_zero()).unwrap_or(TOP_DELAY);
    let mut clock = CountedTimes { at: began, interval };
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(shares) = find_shares(line) else { continue };
        let moment = clock.next();
        let (_, time) = moment.split_once('T')?;
        let load = lines.iter().skip(at + 1).take(HEAD).find_map(|line| parse_loads(line));
        let load = load.map(|load| format!(" load average: {load}")).unwrap_or_default();
        text += &format!("{}\ntop - {time}{load}\n%Cpu(s): {shares}\n", moment.replace('T', " "));
    }
    (!text.is_empty()).then_some(text)
}

/// Whether a line is of all processors, with what they were idle.
pub(super) fn is_processor_line(line: &str) -> bool {
    find_shares(line).is_some()
}

fn find_shares(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(rest) = line.trim_start_matches('%').strip_prefix("Cpu(s):") {
        let has = |name: &str| rest.split([' ', ',', '%', '\t']).any(|word| word == name);
        return (has("us") && has("sy") && has("id")).then(|| rest.trim().to_owned());
    }
    let words: Vec<&str> = line.strip_prefix("CPU:")?.split_ascii_whitespace().collect();
    let shares = words.chunks_exact(2).filter_map(|pair| {
        let &[value, name] = pair else { return None };
        let (_, now) = SHARES.into_iter().find(|(old, _)| *old == name)?;
        value.strip_suffix('%')?.parse::<f64>().ok().map(|share| format!("{share} {now}"))
    });
    let shares: Vec<String> = shares.collect();
    (shares.len() == SHARES.len()).then(|| shares.join(", "))
}

/// `Load average: 8.32 8.61 8.33 2/136 15558`
fn parse_loads(line: &str) -> Option<String> {
    let loads = line.trim_start().strip_prefix("Load average: ")?.split_ascii_whitespace();
    let loads: Vec<&str> = loads.take(3).filter(|load| load.parse::<f64>().is_ok()).collect();
    (loads.len() == 3).then(|| loads.join(", "))
}
