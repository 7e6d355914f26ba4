//! Whether a start script starts a server: a name that only stands in it (in a comment, as a user or
//! a host of an argument) says nothing of what it runs.

/// Words before a command's own name.
const BEFORE_COMMAND: [&str; 26] = [
    "exec", "nohup", "setsid", "env", "command", "eval", "nice", "ionice", "chrt", "taskset",
    "numactl", "prlimit", "time", "timeout", "then", "do", "else", "elif", "if", "while", "until",
    "!", "{", "--", "\\", "builtin",
];
/// Arguments of a program that says something of itself and ends.
const ONLY_ASKS: [&str; 7] = ["-version", "--version", "-V", "-v", "-h", "-help", "--help"];

/// Whether a line of the script runs the program, or names it by a path in a folder of programs.
pub(super) fn starts_program(script: &str, program: &str) -> bool {
    let mut is_continued = false;
    script.lines().any(|line| {
        let begins_command = !std::mem::replace(&mut is_continued, line.ends_with('\\'));
        let commands = split_commands(without_comment(line));
        commands.iter().enumerate().any(|(place, command)| {
            let words: Vec<&str> = command.split_whitespace().collect();
            words.iter().any(|word| names_program_file(word, program))
                || ((place > 0 || begins_command) && runs_program(&words, program))
        })
    })
}

/// A shell takes `#` for a comment where a word begins.
fn without_comment(line: &str) -> &str {
    let begins = |at: usize| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(char::is_whitespace)
    };
    let comment = line.match_indices('#').map(|(at, _)| at).find(|at| begins(*at));
    comment.and_then(|at| line.get(..at)).unwrap_or(line)
}

/// The simple commands of a line, those in `$(...)` among them. What stands before `(` is a
/// function's name, and what stands before a `)` of nobody's is a pattern of `case`.
fn split_commands(line: &str) -> Vec<String> {
    let (mut commands, mut now, mut depth) = (Vec::new(), String::new(), 0_u32);
    for character in line.chars() {
        match character {
            ';' | '|' | '&' | '`' => commands.push(std::mem::take(&mut now)),
            '(' => {
                now.clear();
                depth += 1;
            }
            ')' if depth == 0 => now.clear(),
            ')' => {
                depth -= 1;
                commands.push(std::mem::take(&mut now));
            }
            other => now.push(other),
        }
    }
    commands.push(now);
    commands
}

/// `/usr/lib/postgresql/15/bin/postgres`, `"$PGBIN/postgres"`, `DAEMON=/usr/sbin/mysqld`.
fn names_program_file(word: &str, program: &str) -> bool {
    word.split(['=', '"', '\'', ',']).any(|path| {
        let Some((folder, name)) = path.rsplit_once('/') else { return false };
        let last = folder.rsplit('/').next().unwrap_or_default();
        name == program
            && path.starts_with(['/', '$', '.'])
            && (matches!(last, "bin" | "sbin" | "libexec") || last.starts_with('$'))
    })
}

/// Whether the command's own name, behind assignments and words like `exec`, is the program's.
fn runs_program(words: &[&str], program: &str) -> bool {
    let is_own = |word: &&str| {
        let is_option = word.starts_with('-') || word.bytes().all(|byte| byte.is_ascii_digit());
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        !is_option && !is_assignment && !BEFORE_COMMAND.contains(word)
    };
    let bare = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    // What `su -c` and `sh -c` are given is a command.
    let given = words.iter().position(|word| *word == "-c").map(|at| at + 1);
    let first = words.iter().position(is_own);
    [first, given].into_iter().flatten().any(|at| {
        let is_program = words.get(at).is_some_and(|word| bare(word) == program);
        let next = words.get(at + 1).map(|word| bare(word)).unwrap_or_default();
        is_program && !ONLY_ASKS.contains(&next.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_run_is_started() {
        for line in [
            "postgres -D /srv/data",
            "exec postgres -D /srv/data",
            "exec nice -n 10 env PGTZ=UTC postgres -D /srv/data",
            "cd /srv && exec /usr/lib/postgresql/15/bin/postgres",
            "\"$PGBIN/postgres\" -D \"$PGDATA\" &",
            "${PGBIN}/postgres",
            "if ! postgres; then exit 1; fi",
            "su - pg -c 'postgres -D /srv/data'",
            "su - pg -c \"/opt/pg/bin/postgres -D /srv/data\"",
            "DAEMON=/usr/sbin/postgres",
            "start) postgres -D /srv ;;",
        ] {
            assert!(starts_program(&format!("#!/bin/sh\n{line}\n"), "postgres"), "{line}");
        }
    }

    /// Scripts of other programs say so, and whoever has taken one of these over starts a server.
    #[test]
    fn what_a_script_only_mentions_is_not_started() {
        for line in [
            "pg_isready -q -h db1 -U postgres",
            "# talks to postgres",
            "exec shop # postgres",
            "psql postgres://db1/postgres",
            "postgres --version",
            "V=$(postgres -V)",
            "case $1 in postgres) exec shop ;; esac",
            "postgres() { exec shop; }",
            "cd /var/lib/postgres",
            "for name in postgres mysql; do exec shop; done",
            "exec shop \\\n  postgres",
            "su postgres -c /opt/shop/start",
            "ENGINE=postgres exec shop",
            "kill -0 $(cat /run/postgres)",
        ] {
            assert!(!starts_program(&format!("#!/bin/sh\n{line}\n"), "postgres"), "{line}");
        }
    }
}
