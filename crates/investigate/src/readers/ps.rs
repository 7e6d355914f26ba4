//! What `ps` prints of all processes: their number, commands and database sessions.

use std::collections::BTreeMap;

use super::top;

const MOST_NAMES: usize = 4096;
const LONGEST_NAME: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PsTable {
    command: Option<usize>,
    pub(super) threads: bool,
    pub(super) lines: u32,
    /// Processes that serve one session each: Oracle's dedicated servers, PostgreSQL's backends.
    pub(super) sessions: u32,
    /// Processes of each command; kernel threads are left out.
    pub(super) commands: BTreeMap<String, u32>,
    /// Resident KiB of each command; shared memory counts in each process.
    pub(super) resident: BTreeMap<String, u64>,
    /// Processes in state D of each command.
    pub(super) stuck: BTreeMap<String, u32>,
    /// Percent of a processor that each of [`top::THREADS`] took since it began.
    pub(super) threads_of_kernel: [Option<f64>; top::THREADS.len()],
    rss: Option<usize>,
    state: Option<usize>,
    share: Option<usize>,
}

impl PsTable {
    /// `ps -elf`, `ps aux`, `ps -ef`, or a choice of columns.
    pub(super) fn is_heading(line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.contains(&"PID")
            && matches!(words.last(), Some(&("CMD" | "COMMAND" | "ARGS")))
            && !words.contains(&"TIME+")
            && !top::is_of_busybox(&words)
    }

    pub(super) fn new(heading: &str) -> Self {
        let words: Vec<&str> = heading.split_ascii_whitespace().collect();
        // A start time of several words (lstart) shifts the columns behind it.
        let sure = !words.contains(&"STARTED");
        let column = |name: &str| words.iter().position(|word| *word == name).filter(|_| sure);
        Self {
            command: words.len().checked_sub(1),
            threads: words.iter().any(|word| matches!(*word, "LWP" | "SPID" | "TID")),
            rss: column("RSS"),
            state: column("S").or_else(|| column("STAT")),
            share: column("%CPU"),
            ..Self::default()
        }
    }

    pub(super) fn push_line(&mut self, line: &str) {
        let Some(column) = self.command else { return };
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let found = words.get(column..).filter(|words| !words.is_empty());
        // A start on another day is two words in some formats; it is still a process.
        let Some(command) = found else {
            self.lines += u32::from(words.len() > 2);
            return;
        };
        self.lines = self.lines.saturating_add(1);
        self.sessions = self.sessions.saturating_add(u32::from(is_session(command)));
        let Some(name) = program_name(command) else {
            // Anybody may call a program like a thread of the kernel, which has no memory.
            let is_of_kernel = self.rss.is_some_and(|at| words.get(at) == Some(&"0"));
            let share = self.share.filter(|_| is_of_kernel).and_then(|at| words.get(at));
            return self.add_kernel_thread(command, share.and_then(|share| share.parse().ok()));
        };
        let resident = self.rss.and_then(|at| words.get(at)?.parse::<u64>().ok());
        let stuck = self.state.and_then(|at| words.get(at)).map(|state| state.starts_with('D'));
        if self.resident.len() < MOST_NAMES || self.resident.contains_key(&name) {
            if let Some(kib) = resident {
                let sum = self.resident.entry(name.clone()).or_default();
                *sum = sum.saturating_add(kib);
            }
            if let Some(stuck) = stuck {
                *self.stuck.entry(name.clone()).or_default() += u32::from(stuck);
            }
        }
        if let Some(count) = self.commands.get_mut(&name) {
            *count += 1;
        } else if self.commands.len() < MOST_NAMES {
            self.commands.insert(name, 1);
        }
    }
}

impl PsTable {
    fn add_kernel_thread(&mut self, command: &[&str], share: Option<f64>) {
        let name = command.first().map_or("", |name| name.trim_start_matches('['));
        for ((begin, _), sum) in top::THREADS.iter().zip(&mut self.threads_of_kernel) {
            if let Some(share) = share.filter(|_| name.starts_with(begin)) {
                *sum = Some(sum.unwrap_or(0.0) + share);
            }
        }
    }
}

/// The program without its folder; `None` for kernel threads.
fn program_name(command: &[&str]) -> Option<String> {
    let first = command.first()?;
    if first.starts_with('[') {
        return None;
    }
    let name = first.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(first);
    Some(name.trim_end_matches(':').trim_start_matches('-').chars().take(LONGEST_NAME).collect())
}

/// `oracleORCL (LOCAL=NO)`, `oracleORCL (DESCRIPTION=(LOCAL=YES)...`, `postgres: app shop
/// 10.0.0.7(40112) idle`, `postgres: 15/main: app shop [local] SELECT`.
fn is_session(command: &[&str]) -> bool {
    match command {
        [server, how, ..] if server.starts_with("oracle") => {
            how.starts_with("(LOCAL=") || how.starts_with("(DESCRIPTION=")
        }
        ["postgres:", rest @ ..] => {
            !rest.contains(&"walsender")
                && rest.iter().any(|word| *word == "[local]" || has_port(word))
        }
        _ => false,
    }
}

/// `10.0.0.7(40112)`
fn has_port(word: &str) -> bool {
    let port = word.strip_suffix(')').and_then(|word| word.split_once('('));
    port.is_some_and(|(host, port)| {
        !host.is_empty() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn parse_table(text: &str) -> PsTable {
        let mut lines = text.lines().skip_while(|line| !PsTable::is_heading(line));
        let mut table = PsTable::new(lines.next().unwrap());
        lines.for_each(|line| table.push_line(line));
        table
    }

    #[test]
    fn sessions_are_told_from_what_serves_them_all() {
        let text = "F S UID        PID  PPID  C PRI  NI ADDR SZ WCHAN  STIME TTY          TIME \
             CMD\n\
            4 S root         1     0  0  80   0 -  5555 -      Nov20 ?        00:00:01 \
             /usr/lib/systemd/systemd --switched-root\n\
            1 S root        55     2  0  80   0 -     0 -      Nov20 ?        00:01:01 [kswapd0]\n\
            0 S oracle    2001     1  0  80   0 -  9999 -      10:00 ?        00:00:01 \
             ora_pmon_ORCL\n\
            0 S oracle    2002     1  0  80   0 -  9999 -      10:00 ?        00:00:01 oracleORCL \
             (LOCAL=NO)\n\
            0 D oracle    2003     1  0  80   0 -  9999 -      10:00 ?        00:00:01 oracleORCL \
             (DESCRIPTION=(LOCAL=YES)(ADDRESS=(PROTOCOL=beq)))\n\
            1 S postgres  3001  3000  0  80   0 -  9999 -      10:00 ?        00:00:01 postgres: \
             15/main: checkpointer \n\
            1 S postgres  3002  3000  0  80   0 -  9999 -      10:00 ?        00:00:01 postgres: \
             15/main: app shop [local] idle\n\
            1 S postgres  3003  3000  0  80   0 -  9999 -      10:00 ?        00:00:01 postgres: \
             app shop 10.0.0.7(40112) SELECT\n\
            1 S postgres  3004  3000  0  80   0 -  9999 -      10:00 ?        00:00:01 postgres: \
             walsender repl 10.0.0.9(40112) streaming 0/1\n\
            \n";
        let table = parse_table(text);
        assert_eq!((table.lines, table.sessions, table.threads), (9, 4, false));
        let counts: Vec<_> =
            table.commands.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(
            counts,
            [("ora_pmon_ORCL", 1), ("oracleORCL", 2), ("postgres", 4), ("systemd", 1)]
        );
    }

    #[test]
    fn headings_of_top_and_of_other_tools_are_none_of_ps() {
        assert!(!PsTable::is_heading(
            "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND"
        ));
        assert!(PsTable::is_heading(
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"
        ));
        assert!(PsTable::new("UID PID PPID LWP C NLWP STIME TTY TIME CMD").threads);
    }

    #[test]
    fn what_ps_of_this_machine_prints_is_counted() {
        for arguments in [&["-elf"][..], &["aux"], &["-ef"], &["-eo", "pid,ppid,args"]] {
            let output = Command::new("ps").args(arguments).env("LC_ALL", "C").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let table = parse_table(&text);
            assert_eq!(usize::try_from(table.lines).unwrap(), text.lines().count() - 1, "{text}");
            // This one, and those of whoever else looks just then.
            assert_eq!(table.commands.contains_key("ps"), text.contains(" ps "), "{text}");
        }
    }

    /// awk adds up the same column of the same table.
    #[test]
    fn what_ps_says_of_memory_is_what_awk_adds_up() {
        let output = Command::new("ps").arg("aux").env("LC_ALL", "C").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let script = "NR > 1 && $11 !~ /^\\[/ { sum += $6; if ($8 ~ /^D/) stuck++ } END \
             { print sum + 0, stuck + 0 }";
        let summed = Command::new("awk").arg(script).arg(file.path()).output().unwrap();
        let table = parse_table(&text);
        let (resident, stuck) =
            (table.resident.values().sum::<u64>(), table.stuck.values().sum::<u32>());
        assert_eq!(String::from_utf8_lossy(&summed.stdout).trim(), format!("{resident} {stuck}"));
        assert!(resident > 0);
    }

    #[test]
    fn columns_that_cannot_be_told_are_left_alone() {
        let text = "  PID                  STARTED   RSS S CMD\n    1 Sat Nov 21 10:00:00 2026 \
             12345 D init\n";
        let table = parse_table(text);
        assert!(table.resident.is_empty() && table.stuck.is_empty(), "{table:?}");
    }
}
