//! Programs that become the one that their arguments name.

/// A launcher: its name, its options that take their value as a word of their own, and how many
/// words before the program are its own besides.
type Launcher = (&'static str, &'static [&'static str], usize);

const LAUNCHERS: &[Launcher] = &[
    ("env", &["-u", "--unset", "-C", "--chdir"], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    ("chrt", &["-T", "-P", "-D"], 1),
    ("taskset", &[], 1),
    ("numactl", NUMACTL, 0),
    ("prlimit", &[], 0),
    ("setarch", &[], 1),
    ("timeout", &["-k", "--kill-after", "-s", "--signal"], 1),
    ("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], 0),
    ("nohup", &[], 0),
    ("setsid", &[], 0),
    ("exec", &["-a"], 0),
    ("command", &[], 0),
    ("time", &[], 0),
    ("tini", &["-p"], 0),
    ("dumb-init", &["-r", "--rewrite"], 0),
    ("gosu", &[], 1),
    ("su-exec", &[], 1),
    ("s6-setuidgid", &[], 1),
    ("setpriv", SETPRIV, 0),
    ("runuser", USER_AND_GROUP, 0),
    ("sudo", USER_AND_GROUP, 0),
];
const NUMACTL: &[&str] = &[
    "-i",
    "--interleave",
    "-N",
    "--cpunodebind",
    "-C",
    "--physcpubind",
    "-m",
    "--membind",
    "-p",
    "--preferred",
];
const SETPRIV: &[&str] = &[
    "--reuid",
    "--ruid",
    "--euid",
    "--regid",
    "--rgid",
    "--egid",
    "--groups",
    "--inh-caps",
    "--ambient-caps",
    "--bounding-set",
    "--securebits",
    "--pdeathsig",
    "--selinux-label",
    "--apparmor-profile",
];
const USER_AND_GROUP: &[&str] = &["-u", "--user", "-g", "--group", "-G", "--supp-group"];

/// Whether a program of this name becomes the one that its arguments name.
pub fn is_launcher(name: &str) -> bool {
    LAUNCHERS.iter().any(|(launcher, ..)| *launcher == name)
}

/// The words from the program on that is run in the end, without its launchers and their own words;
/// empty where nothing follows them.
pub fn strip_launchers<S: AsRef<str>>(words: &[S]) -> &[S] {
    let mut rest = words;
    while let Some(behind) = strip_one(rest) {
        rest = behind;
    }
    rest
}

fn strip_one<S: AsRef<str>>(words: &[S]) -> Option<&[S]> {
    let (first, mut rest) = words.split_first()?;
    let name = first.as_ref().rsplit('/').next().unwrap_or_default();
    let (_, with_value, count) = LAUNCHERS.iter().find(|(launcher, ..)| *launcher == name)?;
    let mut own = *count;
    while let Some((word, behind)) = rest.split_first() {
        let word = word.as_ref();
        if word == "--" {
            rest = behind;
            // What follows is no option, and may be a word of its own still.
            return Some(rest.get(own..).unwrap_or_default());
        }
        if with_value.contains(&word) {
            rest = behind.get(1..).unwrap_or_default();
        } else if word.starts_with('-') || is_assignment(word) {
            rest = behind;
        } else if own > 0 && !word.starts_with('/') {
            own -= 1;
            rest = behind;
        } else {
            return Some(rest);
        }
    }
    Some(rest)
}

/// `PGDATA=/srv/data`
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_in_the_end_is_found_behind_options_with_values() {
        for words in [
            "postgres -D /d",
            "nice -n 10 postgres -D /d",
            "nice -n10 postgres -D /d",
            "numactl --interleave all postgres -D /d",
            "numactl --interleave=all -N 0 /usr/bin/env A=b postgres -D /d",
            "timeout -k 5 10 postgres -D /d",
            "taskset -c 0-3 ionice -c 2 postgres -D /d",
            "chrt -f 10 postgres -D /d",
            "setpriv --reuid pg --clear-groups -- postgres -D /d",
            "runuser -u pg -- postgres -D /d",
            "exec gosu pg postgres -D /d",
            "tini -- postgres -D /d",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(strip_launchers(&words), ["postgres", "-D", "/d"], "{words:?}");
        }
        assert_eq!(strip_launchers(&["setarch", "-R", "/bin/x"]), ["/bin/x"]);
        assert!(strip_launchers(&["nice", "-n", "10"]).is_empty());
    }
}
