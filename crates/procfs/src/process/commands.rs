//! /proc/PID/cmdline, and how much of it is kept.
//!
//! A process moves the bounds of its command line without any right (`PR_SET_MM_MAP` of prctl(2)):
//! what lies there can be as large as its memory, and its children have it at no cost.

use hugewise_model::Observed;

use super::budget::{BudgetLimits, UserBudget};
use hugewise_source::LONGEST_COMMAND;
use hugewise_source::ParseError;

/// No server has more; each costs far more here than the two bytes that a process pays.
const MOST_ARGUMENTS: usize = 16 << 10;
const ARGUMENT: u64 = 48;

/// Free of charge: the memory of a Java server's eighty options and 4 KiB class path; a process
/// costs the kernel more.
const ORDINARY: u64 = 8 << 10;
/// For all longer ones of a user: two hundred servers with class paths of 80 KiB.
const TOGETHER: u64 = 16 << 20;

pub(super) const LIMITS: BudgetLimits = BudgetLimits {
    file: "cmdline",
    ordinary: ORDINARY,
    ordinary_together: u64::MAX,
    larger_together: TOGETHER,
    why: "left out: together this user's take more than 16 MiB",
};

/// Splits /proc/PID/cmdline, unless it is longer than any server's.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<String>, ParseError> {
    if !u64::try_from(bytes.len()).is_ok_and(|length| length <= LONGEST_COMMAND) {
        return Err(ParseError::whole_file("larger than 1 MiB"));
    }
    // A rewritten title leaves zero bytes behind, which are no arguments.
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if bytes.iter().take(end).filter(|byte| **byte == 0).count() >= MOST_ARGUMENTS {
        return Err(ParseError::whole_file("more than 16384 arguments"));
    }
    Ok(super::split_arguments(bytes))
}

pub(super) fn command_bytes(command: &[String]) -> u64 {
    let count_of =
        |word: &String| u64::try_from(word.len()).unwrap_or(u64::MAX).saturating_add(ARGUMENT);
    command.iter().map(count_of).fold(0, u64::saturating_add)
}

/// The command line of a process, within its user's limit; `uid` is who started it.
pub(super) fn admit_command(
    budget: &mut UserBudget,
    pid: u32,
    uid: u32,
    command: Observed<Vec<String>>,
) -> Observed<Vec<String>> {
    let kept = command.and_then(|command| {
        let held = command_bytes(&command);
        if !budget.has_room(uid, held) {
            return budget.refuse_fact(uid);
        }
        budget.count_held(uid, held);
        Observed::Known(command)
    });
    budget.note_left_out(pid, uid, &kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::super::{PageSizeFacts, read};
    use super::*;
    use hugewise_source::FactReader;
    use hugewise_source::MapSource;

    fn source(processes: &[(u32, u32, &str)]) -> MapSource {
        processes.iter().fold(MapSource::new(), |source, (pid, uid, command)| {
            let status =
                format!("Name:\tx\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmSize:\t100 kB\n");
            source
                .with_file(&format!("/proc/{pid}/status"), status)
                .with_file(&format!("/proc/{pid}/cmdline"), *command)
        })
    }

    /// Bytes that are held of command lines, the processes that have one, and what was left out.
    fn kept(source: &MapSource) -> (u64, Vec<u32>, Vec<String>) {
        let mut door = FactReader::new(source);
        let processes =
            read(&mut door, PageSizeFacts::default(), None).processes.into_known().unwrap();
        let bytes = processes
            .iter()
            .filter_map(|process| process.command.as_known())
            .map(|command| command_bytes(command))
            .sum();
        let with = processes
            .iter()
            .filter(|process| process.command.is_known())
            .map(|process| process.pid)
            .collect();
        let unread = door.unread.iter().map(|unread| format!("{}: {}", unread.what, unread.why));
        (bytes, with, unread.filter(|said| said.contains("cmdline")).collect())
    }

    #[test]
    fn a_command_line_that_no_server_has_is_not_kept() {
        let long = "x".repeat(15 << 20);
        let (bytes, with, unread) =
            kept(&source(&[(7, 61_234, &long), (8, 61_234, "sleep\x0060\0")]));
        assert!(bytes < 1000, "{bytes} bytes are held");
        assert_eq!(
            (with, unread),
            (vec![8], vec!["/proc/7/cmdline: larger than 1 MiB".to_owned()])
        );
        // A class path of 110 KB.
        let java = format!("java\0-cp\0{}\0Main\0", "/usr/share/java/x.jar:".repeat(5000));
        assert_eq!(kept(&source(&[(9, 5, &java)])).1, [9]);
    }

    #[test]
    fn one_users_command_lines_take_nothing_from_others() {
        let long = format!("{}\0", "x".repeat(900 << 10));
        let mut all: Vec<(u32, u32, &str)> =
            (100..140).map(|pid| (pid, 61_234, long.as_str())).collect();
        // A title of his, a server of root's with a class path, both behind the crowd, and one who
        // has the ids behind a user's.
        all.extend([
            (300, 61_234, "bash\0"),
            (301, 0, long.as_str()),
            (302, 165_536, &long),
            (303, 165_600, &long),
        ]);
        let (bytes, with, unread) = kept(&source(&all));
        assert!(bytes < 20 << 20, "{bytes} bytes are held");
        // 16 MiB hold 18 lines of 900 KiB.
        assert_eq!(with, (100..118).chain(300..304).collect::<Vec<u32>>());
        let why = "left out: together this user's take more than 16 MiB";
        assert_eq!(unread, [format!("/proc/PID/cmdline of 22 processes of user 61234: {why}")]);
    }

    #[test]
    fn many_short_arguments_count_by_what_they_take() {
        let short = "a\0".repeat(16_000);
        let all: Vec<(u32, u32, &str)> = (100..200).map(|pid| (pid, 5, short.as_str())).collect();
        let (bytes, with, _) = kept(&source(&all));
        assert!(bytes <= TOGETHER && with.len() < 30, "{bytes} bytes, {} processes", with.len());
        let too_many = "a\0".repeat(20_000);
        assert_eq!(
            kept(&source(&[(7, 5, &too_many)])).2,
            ["/proc/7/cmdline: malformed: more than 16384 arguments"]
        );
    }
}
