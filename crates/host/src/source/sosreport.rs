//! Facts that a sosreport keeps as output of commands.

use std::collections::BTreeMap;

/// One process as `ps` lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// By name, where it is shown whole.
    user: Option<String>,
    uid: Option<u32>,
    parent: Option<u32>,
    /// Virtual size in KiB; kernel threads and zombies have none.
    size: Option<u64>,
    command: String,
}

impl Row {
    /// Arguments, ended by zero bytes as in /proc/PID/cmdline.
    pub(super) fn arguments(&self) -> Option<Vec<u8>> {
        let command = self.command.as_str();
        if command.is_empty() || command.starts_with('[') {
            return None;
        }
        // A rewritten title is one argument: `postgres: checkpointer`, `oraclePROD (LOCAL=NO)`.
        let first = command.split(' ').next()?;
        let is_title = first.ends_with(':') || command.contains(" (LOCAL=");
        let mut bytes = if is_title { command.to_owned() } else { command.replace(' ', "\0") }.into_bytes();
        bytes.push(0);
        Some(bytes)
    }

    /// What /proc/PID/status would say of it in the fields that `ps` knows: no page tables, no groups, no capabilities.
    pub(super) fn status(&self) -> Option<Vec<u8>> {
        let size = self.size.filter(|size| *size > 0)?;
        let (uid, parent) = (self.uid?, self.parent?);
        let first = self.command.split(' ').next().filter(|first| !first.is_empty())?;
        let program = first.rsplit('/').next().unwrap_or(first).trim_end_matches(':');
        let name: String = program.chars().take(15).collect();
        Some(format!("Name:\t{name}\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmSize:\t{size} kB\n").into())
    }
}

/// Processes by pid, from every table of `ps` that names its columns: `ps auxwwwm`, `ps axo flags,...,cmd`, `ps alxwww`.
pub(super) fn rows(tables: impl Iterator<Item = Vec<u8>>) -> BTreeMap<u32, Row> {
    let mut rows = BTreeMap::new();
    for table in tables {
        let text = String::from_utf8_lossy(&table);
        let mut lines = text.lines();
        let columns: Vec<&str> = lines.next().map(|line| line.split_ascii_whitespace().collect()).unwrap_or_default();
        if matches!(columns.last(), Some(&("COMMAND" | "CMD"))) && !columns.contains(&"LWP") {
            lines.for_each(|line| {
                add(&mut rows, &columns, line);
            });
        }
    }
    rows
}

/// One line of a table; thread lines of `ps m` have `-` for the pid. `None` where the line is too short.
fn add(rows: &mut BTreeMap<u32, Row>, columns: &[&str], line: &str) -> Option<()> {
    let mut row = Row::default();
    let mut pid: Option<u32> = None;
    let mut rest = line.trim();
    for column in columns.split_last()?.1 {
        // `lstart` is five words: Thu Feb 29 08:00:01 2024.
        for _ in 0..if *column == "STARTED" { 5 } else { 1 } {
            let (word, after) = rest.split_once(|blank: char| blank.is_ascii_whitespace())?;
            match *column {
                "PID" => pid = word.parse().ok(),
                "PPID" => row.parent = word.parse().ok(),
                "UID" => row.uid = word.parse().ok(),
                "USER" if !word.ends_with('+') && word.parse::<u32>().is_err() => row.user = Some(word.to_owned()),
                "VSZ" => row.size = word.parse().ok(),
                _ => {}
            }
            rest = after.trim_start();
        }
    }
    let known = rows.entry(pid?).or_default();
    known.user = row.user.or(known.user.take());
    known.uid = row.uid.or(known.uid);
    known.parent = row.parent.or(known.parent);
    known.size = row.size.or(known.size);
    // `ps f` draws a tree before the command.
    let command = rest.trim_start_matches(['|', '\\', '_', ' ']);
    if command.len() > known.command.len() && command != "-" {
        command.clone_into(&mut known.command);
    }
    Some(())
}

/// Lines as in passwd(5) of the users whose processes `ps` names: sos leaves /etc/passwd out. Their own group is not known.
pub(super) fn accounts(rows: &BTreeMap<u32, Row>, status: impl Fn(u32) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut users = BTreeMap::new();
    for (pid, row) in rows {
        let Some(user) = row.user.as_ref().filter(|user| !users.contains_key(*user)) else { continue };
        let own = || crate::process::status::parse(&status(*pid)?).ok();
        let status = own();
        let uid = status.as_ref().map(|status| status.uid).or(row.uid);
        if let Some(uid) = uid {
            users.insert(user.clone(), (uid, status.map_or(NO_GROUP, |status| status.gid)));
        }
    }
    let line = |(user, (uid, gid)): (&String, &(u32, u32))| format!("{user}:x:{uid}:{gid}:::\n");
    (!users.is_empty()).then(|| users.iter().map(line).collect::<String>().into_bytes())
}

/// (gid_t)-1, which the kernel gives to no group.
const NO_GROUP: u32 = u32::MAX;

/// The machine as `uname -a` or the running kernel's release names it.
pub(super) fn architecture(read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<String> {
    const KNOWN: [&str; 8] = ["x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "i686", "loongarch64"];
    let paths = ["/uname", "/sos_commands/kernel/uname_-a", "/sos_commands/host/uname_-a", "/proc/version"];
    paths.iter().find_map(|path| {
        let bytes = read(path)?;
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

    const PS: &str = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n\
        root 2 0.0 0.0 0 0 ? - Jan01 0:00 [kthreadd]\n\
        root - 0.0 - - - - S Jan01 0:00 -\n\
        oracle 44 0.0 0.0 900 1 ? - Jan01 0:00 oraclePROD (LOCAL=NO)\n\
        long+ 45 0.0 0.0 900 1 ? - Jan01 0:00 \\_ /opt/x/server -D /data\n";
    const PS_O: &str = "F S   UID   PID  PPID  PGID   SID CLS PRI PSR ADDR SZ WCHAN STARTED TT TIME CMD\n\
        1 S 0 2 0 0 0 TS 19 1 - 0 - Mon Jan  1 08:00:01 2024 ? 00:00:00 [kthreadd]\n\
        0 S 54321 44 1 44 44 TS 19 1 - 9 - Mon Jan  1 08:00:01 2024 ? 00:00:00 oraclePROD (LOCAL=NO)\n\
        0 S 7 45 1 45 45 TS 19 1 - 9 - Mon Jan  1 08:00:01 2024 ? 00:00:00 /opt/x/server -D /data\n";

    fn tables() -> BTreeMap<u32, Row> {
        rows([PS, PS_O].into_iter().map(|table| table.as_bytes().to_vec()))
    }

    #[test]
    fn threads_and_kernel_threads_are_no_processes() {
        let rows = tables();
        assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [2, 44, 45]);
        assert_eq!((rows[&2].arguments(), rows[&2].status()), (None, None));
        assert_eq!(rows[&44].arguments().unwrap(), b"oraclePROD (LOCAL=NO)\0");
        assert_eq!(rows[&45].arguments().unwrap(), b"/opt/x/server\0-D\0/data\0");
    }

    #[test]
    fn two_tables_make_a_status_that_says_no_more_than_they_do() {
        let status = crate::process::status::parse(&tables()[&44].status().unwrap()).unwrap();
        assert_eq!((status.name.as_str(), status.uid, status.parent), ("oraclePROD", 54321, 1));
        assert!(status.page_tables.is_absent() && status.ipc_lock.is_absent() && status.hugetlb.is_absent());
        let one = rows([PS.as_bytes().to_vec()].into_iter());
        assert_eq!(one[&44].status(), None);
    }

    #[test]
    fn users_are_those_that_ps_shows_whole() {
        let of = |status: &dyn Fn(u32) -> Option<Vec<u8>>| {
            accounts(&tables(), status).map(|bytes| String::from_utf8(bytes).unwrap()).unwrap()
        };
        assert_eq!(of(&|_| None), "oracle:x:54321:4294967295:::\nroot:x:0:4294967295:::\n");
        let real = |pid| (pid == 44).then(|| b"Name:\ta\nUid:\t1\t5\t1\t1\nGid:\t6\t6\t6\t6\n".to_vec());
        assert!(of(&real).starts_with("oracle:x:5:6:"));
    }
}
