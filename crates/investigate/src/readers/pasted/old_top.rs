//! What top of procps 2 printed (Linux 2.4, RHEL 2.1 and 3), in the words of later ones.

use hugewise_model::calendar::time_of_day;

/// Lines from the first to that of the tasks.
const HEAD: usize = 3;
/// Names of shares, and what they are called now.
const SHARES: [(&str, &str); 9] = [
    ("user", "us"),
    ("system", "sy"),
    ("nice", "ni"),
    ("idle", "id"),
    ("iowait", "wa"),
    ("irq", "hi"),
    ("softirq", "si"),
    ("steal", "st"),
    ("guest", "gu"),
];

/// The time of its first line, and the screen as a later top prints it; nothing where none is.
pub(super) fn modernize_screen(lines: &[String]) -> Option<(String, String)> {
    let is_tasks = |line: &String| count_tasks(line).is_some();
    let (from, time) = lines.iter().enumerate().find_map(|(from, line)| {
        let time = heading_time(line)?;
        lines.iter().skip(from).take(HEAD).any(is_tasks).then_some((from, time))
    })?;
    let (_, uptime) = lines.get(from)?.split_once(" up ")?;
    let mut text = format!("top - {time} up {uptime}\n");
    let mut columns: Vec<&str> = Vec::new();
    for line in lines.get(from + 1..)? {
        if let Some(tasks) = count_tasks(line) {
            text += &format!("Tasks: {tasks} total,\n");
        } else if let Some((name, rest)) = line.trim_start().split_once("states:") {
            columns = rest.split_ascii_whitespace().collect();
            let is_table = columns.first() == Some(&"cpu");
            let shares = if is_table { None } else { shares_in_line(rest) };
            if let Some(shares) = shares {
                let number = name.trim().trim_start_matches("CPU");
                let name =
                    if number.is_empty() { "Cpu(s):".into() } else { format!("Cpu{number} :") };
                text += &format!("{name} {shares}\n");
            }
        } else if let Some(rest) = line.trim_start().strip_prefix("total ") {
            let values = rest.split_ascii_whitespace();
            let pairs = columns.iter().skip(1).zip(values);
            let shares: Vec<String> =
                pairs.filter_map(|(name, value)| format_share(name, value)).collect();
            text += &format!("Cpu(s): {}\n", shares.join(", "));
        } else {
            text += &line.replace(" av,", " total,");
            text.push('\n');
        }
    }
    Some((time, text))
}

/// ` 15:36:55  up  7:09,  1 user,  load average: 1.00`, `12:33pm  up 49 min, ...`.
fn heading_time(line: &str) -> Option<String> {
    let (time, rest) = line.trim_start().split_once(' ')?;
    let is_uptime = rest.trim_start().starts_with("up ") && rest.contains("load average: ");
    if !is_uptime {
        return None;
    }
    if time_of_day(time).is_some() {
        return Some(time.to_owned());
    }
    let (clock, half) = time.split_at_checked(time.len().checked_sub(2)?)?;
    let (hour, minute) = clock.split_once(':')?;
    let hour = hour.parse::<u32>().ok().filter(|hour| (1..=12).contains(hour))? % 12;
    let hour = match half {
        "am" => hour,
        "pm" => hour + 12,
        _ => return None,
    };
    let time = format!("{hour:02}:{minute}:00");
    time_of_day(&time).map(|_| time)
}

/// The number of `220 processes: 214 sleeping, 6 running`.
fn count_tasks(line: &str) -> Option<u64> {
    let (count, rest) = line.trim_start().split_once(' ')?;
    rest.starts_with("processes: ").then(|| count.parse().ok())?
}

/// `0.1% user,  98.3% system` as `0.1%us, 98.3%sy`.
fn shares_in_line(rest: &str) -> Option<String> {
    let words: Vec<&str> = rest.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
    let pairs = words.chunks_exact(2).filter_map(|pair| format_share(pair.get(1)?, pair.first()?));
    let shares: Vec<String> = pairs.collect();
    (!shares.is_empty()).then(|| shares.join(", "))
}

fn format_share(name: &str, value: &str) -> Option<String> {
    let (_, now) = SHARES.into_iter().find(|(old, _)| *old == name)?;
    let value = value.strip_suffix('%')?;
    value.parse::<f64>().ok()?;
    Some(format!("{value}%{now}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_old_top_says_the_same_in_todays_words() {
        let old = "12:33pm  up 49 min,  2 users,  load average: 8.88, 6.75, 4.89\n\
            220 processes: 214 sleeping, 6 running, 0 zombie, 0 stopped\n\
            CPU0 states:  0.1% user, 98.3% system,  0.3% nice,  0.6% idle\n\
            CPU1 states:  0.0% user, 98.1% system,  0.0% nice,  1.5% idle\n\
            Mem:  3924176K av, 3918888K used,    5288K free,       0K shrd,   96076K\n";
        let (time, text) = modernize_screen(&lines(old)).unwrap();
        assert_eq!(time, "12:33:00");
        for line in [
            "top - 12:33:00 up 49 min,  2 users,  load average: 8.88, 6.75, 4.89",
            "Tasks: 220 total,",
            "Cpu0 : 0.1%us, 98.3%sy, 0.3%ni, 0.6%id",
            "Mem:  3924176K total, 3918888K used,    5288K free,       0K shrd,   96076K",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
    }

    /// top 2.0.17 of RHEL 3 has a table.
    #[test]
    fn all_processors_of_a_table_are_its_total() {
        let old = " 15:36:55  up  7:09,  1 user,  load average: 1.00, 1.00, 1.00\n\
            48 processes: 46 sleeping, 2 running, 0 zombie, 0 stopped\n\
            CPU states:  cpu    user    nice  system    irq  softirq  iowait    idle\n\
            \x20          total    0.1%    0.0%   99.8%   0.0%     0.0%    0.0%    0.1%\n\
            \x20          cpu00    0.1%    0.0%   99.8%   0.0%     0.0%    0.0%    0.1%\n";
        let (_, text) = modernize_screen(&lines(old)).unwrap();
        let line = "Cpu(s): 0.1%us, 0.0%ni, 99.8%sy, 0.0%hi, 0.0%si, 0.0%wa, 0.1%id";
        assert!(text.contains(line), "{text}");
        assert!(modernize_screen(&lines("12:33pm  up 49 min,  load average: 8.88\n")).is_none());
    }
}
