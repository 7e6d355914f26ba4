//! Facts in a sosreport's command outputs.

use std::collections::BTreeMap;

use hugewise_model::calendar;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PsRow {
    /// The name, where it is shown in full.
    user: Option<String>,
    uid: Option<u32>,
    parent: Option<u32>,
    /// Virtual size in KiB; kernel threads and zombies have none.
    size: Option<u64>,
    command: String,
}

impl PsRow {
    /// Arguments, ended by zero bytes as in /proc/PID/cmdline.
    pub(super) fn to_cmdline(&self) -> Option<Vec<u8>> {
        let command = self.command.as_str();
        if command.is_empty() || command.starts_with('[') {
            return None;
        }
        // A rewritten title is one argument: `postgres: checkpointer`, `oraclePROD (LOCAL=NO)`.
        let first = command.split(' ').next()?;
        let is_title = first.ends_with(':') || command.contains(" (LOCAL=");
        let mut bytes =
            if is_title { command.to_owned() } else { command.replace(' ', "\0") }.into_bytes();
        bytes.push(0);
        Some(bytes)
    }

    /// /proc/PID/status with the fields that `ps` has: no page tables, groups, capabilities.
    pub(super) fn to_status(&self) -> Option<Vec<u8>> {
        let size = self.size.filter(|size| *size > 0)?;
        let (uid, parent) = (self.uid?, self.parent?);
        let first = self.command.split(' ').next().filter(|first| !first.is_empty())?;
        let program = first.rsplit('/').next().unwrap_or(first).trim_end_matches(':');
        let name: String = program.chars().take(15).collect();
        Some(format!("Name:\t{name}\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmSize:\t{size} kB\n").into())
    }
}

/// Processes by pid, from every table of `ps` that names its columns: `ps auxwwwm`, `ps axo
/// flags,...,cmd`, `ps alxwww`.
pub(super) fn parse_ps_tables(tables: impl Iterator<Item = Vec<u8>>) -> BTreeMap<u32, PsRow> {
    let mut rows = BTreeMap::new();
    for table in tables {
        let text = String::from_utf8_lossy(&table);
        let mut lines = text.lines();
        let columns: Vec<&str> =
            lines.next().map(|line| line.split_ascii_whitespace().collect()).unwrap_or_default();
        if matches!(columns.last(), Some(&("COMMAND" | "CMD"))) && !columns.contains(&"LWP") {
            for line in lines {
                add(&mut rows, &columns, line);
            }
        }
    }
    rows
}

/// Adds one line; `None` where it is too short. Thread lines of `ps m` have `-` for the pid.
fn add(rows: &mut BTreeMap<u32, PsRow>, columns: &[&str], line: &str) -> Option<()> {
    let mut row = PsRow::default();
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
                "USER" if !word.ends_with('+') && word.parse::<u32>().is_err() => {
                    row.user = Some(word.to_owned())
                }
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
    // `ps f` draws a tree in front of the command.
    let command = rest.trim_start_matches(['|', '\\', '_', ' ']);
    if command.len() > known.command.len() && command != "-" {
        command.clone_into(&mut known.command);
    }
    Some(())
}

/// passwd(5) lines of the users in `ps`, as sos omits /etc/passwd; without their groups.
pub(super) fn build_passwd(
    rows: &BTreeMap<u32, PsRow>,
    status: impl Fn(u32) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut users = BTreeMap::new();
    for (pid, row) in rows {
        let Some(user) = row.user.as_ref().filter(|user| !users.contains_key(*user)) else {
            continue;
        };
        let status = status(*pid).unwrap_or_default();
        if let Some(uid) = effective_id(&status, "Uid:").or(row.uid) {
            let gid = effective_id(&status, "Gid:").unwrap_or(NO_GROUP);
            users.insert(user.clone(), (uid, gid));
        }
    }
    let line = |(user, (uid, gid)): (&String, &(u32, u32))| format!("{user}:x:{uid}:{gid}:::\n");
    (!users.is_empty()).then(|| users.iter().map(line).collect::<String>().into_bytes())
}

fn effective_id(status: &[u8], field: &str) -> Option<u32> {
    let text = String::from_utf8_lossy(status);
    let ids = text.lines().find_map(|line| line.strip_prefix(field))?;
    ids.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// (gid_t)-1, which is no group's.
const NO_GROUP: u32 = u32::MAX;

/// By `uname -a` or the running kernel's release.
pub(super) fn find_architecture(read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<String> {
    const KNOWN: [&str; 8] =
        ["x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "i686", "loongarch64"];
    let paths =
        ["/uname", "/sos_commands/kernel/uname_-a", "/sos_commands/host/uname_-a", "/proc/version"];
    paths.iter().find_map(|path| {
        let bytes = read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let word = text
            .split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_')
            .find(|word| KNOWN.contains(word));
        word.map(str::to_owned)
    })
}

/// Seconds since the epoch by `date`; `None` for zones without a certain offset.
pub(super) fn parse_date(text: &str) -> Option<i64> {
    let line = text.lines().find(|line| line.matches(':').count() >= 2)?;
    let (mut year, mut month, mut day) = (None, None, None);
    let (mut clock, mut afternoon, mut offset) = (None, None, None);
    for word in line.split_ascii_whitespace() {
        if let Some(number) = calendar::month_number(word) {
            month = Some(number);
        } else if word.contains(':') {
            let mut parts = word
                .split(':')
                .map(|part| part.parse::<i64>().ok().filter(|part| (0..61).contains(part)));
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
            offset = parse_zone_offset(word).or(offset);
        }
    }
    let (hour, minute, second) = clock?;
    let hour = match afternoon {
        Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
        None => hour,
    };
    let midnight = calendar::midnight_seconds(year?, month?, day?)?;
    Some(midnight + hour * 3_600 + minute * 60 + second - i64::from(offset?))
}

/// Seconds east of Greenwich of unambiguous zones, and of three whose other meanings are obsolete.
fn parse_zone_offset(word: &str) -> Option<i32> {
    let hours = match word {
        "MSK" => 3,
        "KST" => 9,
        "PST" => -8,
        _ => return calendar::zone_offset(word),
    };
    Some(hours * 3_600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_date_prints_them() {
        assert_eq!(parse_date("Thu Jan  1 00:00:00 UTC 1970\n"), Some(0));
        assert_eq!(parse_date("Fri Mar  1 12:34:56 UTC 2024"), Some(1_709_296_496));
        assert_eq!(parse_date("Fri Mar  1 01:34:56 PM CET 2024"), Some(1_709_296_496));
        assert_eq!(parse_date("Fri 01 Mar 2024 07:34:56 AM EST"), Some(1_709_296_496));
        assert_eq!(parse_date("Fri Mar  1 12:34:56 IST 2024"), None);
        assert_eq!(parse_date("Fri Mar  1 12:34"), None);
    }

    const PS: &str = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n\
        root 2 0.0 0.0 0 0 ? - Jan01 0:00 [kthreadd]\n\
        root - 0.0 - - - - S Jan01 0:00 -\n\
        oracle 44 0.0 0.0 900 1 ? - Jan01 0:00 oraclePROD (LOCAL=NO)\n\
        long+ 45 0.0 0.0 900 1 ? - Jan01 0:00 \\_ /opt/x/server -D /data\n";
    const PS_O: &str = "F S   UID   PID  PPID  PGID   SID CLS PRI PSR ADDR SZ WCHAN STARTED TT \
         TIME CMD\n\
        1 S 0 2 0 0 0 TS 19 1 - 0 - Mon Jan  1 08:00:01 2024 ? 00:00:00 [kthreadd]\n\
        0 S 54321 44 1 44 44 TS 19 1 - 9 - Mon Jan  1 08:00:01 2024 ? 00:00:00 oraclePROD \
         (LOCAL=NO)\n\
        0 S 7 45 1 45 45 TS 19 1 - 9 - Mon Jan  1 08:00:01 2024 ? 00:00:00 /opt/x/server -D \
         /data\n";

    fn tables() -> BTreeMap<u32, PsRow> {
        parse_ps_tables([PS, PS_O].into_iter().map(|table| table.as_bytes().to_vec()))
    }

    #[test]
    fn threads_and_kernel_threads_are_no_processes() {
        let rows = tables();
        assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [2, 44, 45]);
        assert_eq!((rows[&2].to_cmdline(), rows[&2].to_status()), (None, None));
        assert_eq!(rows[&44].to_cmdline().unwrap(), b"oraclePROD (LOCAL=NO)\0");
        assert_eq!(rows[&45].to_cmdline().unwrap(), b"/opt/x/server\0-D\0/data\0");
    }

    #[test]
    fn two_tables_make_a_status_that_says_no_more_than_they_do() {
        let status = tables()[&44].to_status().unwrap();
        let status = hugewise_procfs::process::status::parse(&status).unwrap().process;
        assert_eq!((status.name.as_str(), status.uid, status.parent), ("oraclePROD", 54321, 1));
        assert!(
            status.page_tables.is_absent()
                && status.ipc_lock.is_absent()
                && status.hugetlb.is_absent()
        );
        let one = parse_ps_tables([PS.as_bytes().to_vec()].into_iter());
        assert_eq!(one[&44].to_status(), None);
    }

    #[test]
    fn users_are_those_that_ps_shows_whole() {
        let option_of = |status: &dyn Fn(u32) -> Option<Vec<u8>>| {
            build_passwd(&tables(), status).map(|bytes| String::from_utf8(bytes).unwrap()).unwrap()
        };
        assert_eq!(option_of(&|_| None), "oracle:x:54321:4294967295:::\nroot:x:0:4294967295:::\n");
        let real =
            |pid| (pid == 44).then(|| b"Name:\ta\nUid:\t1\t5\t1\t1\nGid:\t6\t6\t6\t6\n".to_vec());
        assert!(option_of(&real).starts_with("oracle:x:5:6:"));
    }
}
