//! Command lines without their secrets: what is not known to be harmless becomes `-`.

use super::shape::{GONE, NO_VALUE, ValueShape};
use super::{Forms, Keeps};

pub(super) fn command_line(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let end = text.trim_end_matches('\0');
    let tail = text.get(end.len()..).unwrap_or_default();
    let words: Vec<&str> = end.split('\0').collect();
    let kept = match words.as_slice() {
        [] | [""] => Vec::new(),
        [only] => vec![redact_title(only, keeps)],
        [program, arguments @ ..] => {
            let mut kept = vec![redact_title(program, keeps)];
            kept.extend(filter_arguments(program, arguments, keeps));
            kept
        }
    };
    let mut kept = kept.join("\0");
    kept.push_str(tail);
    kept.into_bytes()
}

/// Arguments of a program; of programs that are no server here none is kept.
pub(super) fn filter_arguments(program: &str, arguments: &[&str], keeps: &Keeps) -> Vec<String> {
    let name = program.rsplit('/').next().unwrap_or_default();
    if !keeps.has_program(name) {
        return arguments.iter().map(|_| GONE.to_owned()).collect();
    }
    if PASSING_ON.contains(&name) {
        return filter_passed_on(arguments, keeps);
    }
    let own =
        |forms: &&Forms| forms.arguments.and_then(|arguments_of| arguments_of(name, arguments));
    if let Some(kept) = keeps.forms.iter().find_map(own) {
        return kept;
    }
    let is_attached = keeps.forms.iter().any(|forms| forms.attached.contains(&name));
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        if let Some(title_word) = redact_endpoint(word) {
            kept.push(title_word);
            continue;
        }
        if !word.starts_with('-') {
            kept.push(redact_config_file(word));
            continue;
        }
        // -D/data
        let short = word.get(..2).filter(|short| {
            is_attached && *short != "--" && word.len() > 2 && keeps.has_exactly(short)
        });
        if let Some(short) = short {
            let value = redact_option_value(short, word.get(2..).unwrap_or_default(), keeps);
            kept.push(format!("{short}{value}"));
            continue;
        }
        let (option, value) =
            word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        match value {
            Some(value) if keeps.has_option(option) || keeps.has_setting(option) => {
                let fits = keeps.shape_of(option).matches_value(value);
                kept.push(if fits { word.to_owned() } else { format!("{option}={NO_VALUE}") });
            }
            None if keeps.has_exactly(option) => {
                kept.push(option.to_owned());
                if let Some(value) = words.next_if(|next| !next.starts_with('-')) {
                    let own = |forms: &&Forms| {
                        forms.value.and_then(|value_of| value_of(name, option, value, arguments))
                    };
                    let own = keeps.forms.iter().find_map(own);
                    kept.push(own.unwrap_or_else(|| redact_option_value(option, value, keeps)));
                }
            }
            None if keeps.has_setting(option) => kept.push(option.to_owned()),
            _ => kept.push(GONE.to_owned()),
        }
    }
    kept
}

/// Tools that start PostgreSQL with the words that an option of theirs holds.
pub(super) const PASSING_ON: [&str; 2] = ["pg_ctl", "pg_ctlcluster"];

/// What it is to do, the data directory, and what the server's own arguments keep of the rest.
fn filter_passed_on(arguments: &[&str], keeps: &Keeps) -> Vec<String> {
    let held = |text: &str| {
        let words = hugewise_config::exec_start::split_command_words(text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        filter_arguments("postgres", &words, keeps).join(" ")
    };
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let glued = word
            .strip_prefix("--options=")
            .or_else(|| word.strip_prefix("-o"))
            .filter(|text| !text.is_empty());
        match word {
            "--" | "start" | "restart" | "--skip-systemctl-redirect" => kept.push(word.to_owned()),
            "-o" | "--options" => {
                kept.push("-o".to_owned());
                kept.extend(words.next().map(held));
            }
            "-D" | "--pgdata" => {
                kept.push("-D".to_owned());
                let path = words.next().map(|path| ValueShape::Path.redact_value(path));
                kept.extend(path.map(str::to_owned));
            }
            _ if glued.is_some() => {
                kept.extend(["-o".to_owned(), glued.map(held).unwrap_or_default()])
            }
            // Its version and cluster, and files of logs: one that is no option stays one.
            _ if !word.starts_with('-') && is_cluster(word) => kept.push(word.to_owned()),
            "-l" | "-t" | "-m" | "-p" | "--log" | "--timeout" | "--mode" => drop(words.next()),
            _ => {}
        }
    }
    kept
}

/// `15`, `15-main`: what names a cluster of Debian's.
fn is_cluster(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && ValueShape::Names.matches_value(word)
        && !word.contains([' ', ','])
}

fn redact_option_value(option: &str, value: &str, keeps: &Keeps) -> String {
    let shape = keeps.shape_of(option);
    if shape != ValueShape::Setting {
        return shape.redact_value(value).to_owned();
    }
    let Some((name, value)) = value.split_once('=') else { return GONE.to_owned() };
    match keeps.has_setting(name.trim()) {
        true => format!("{name}={}", keeps.shape_of(name.trim()).redact_value(value)),
        false => GONE.to_owned(),
    }
}

fn redact_config_file(word: &str) -> String {
    let is_file = word.starts_with('/')
        && (word.ends_with(".conf") || word.ends_with(".cnf"))
        && ValueShape::Path.matches_value(word);
    if is_file { word.to_owned() } else { GONE.to_owned() }
}

/// `127.0.0.1:6379`, `*:6379`, `[cluster]` in a server's title.
fn redact_endpoint(word: &str) -> Option<String> {
    let address = word.contains(':')
        && word.bytes().all(|sign| sign.is_ascii_hexdigit() || b".:*[]".contains(&sign));
    (address || word == "[cluster]" || word == "[sentinel]").then(|| word.to_owned())
}

fn redact_title(word: &str, keeps: &Keeps) -> String {
    // No server's: a tab or a line's end between words would let all of them pass for one.
    if word.contains(char::is_control) {
        return GONE.to_owned();
    }
    let Some((first, rest)) = word.split_once(' ') else {
        return redact_program(word).to_owned();
    };
    if let Some(known) = keeps.forms.iter().find_map(|forms| forms.title?(word)) {
        return known;
    }
    let rest: Vec<String> = rest
        .split_ascii_whitespace()
        .map(|word| redact_endpoint(word).unwrap_or_else(|| GONE.to_owned()))
        .collect();
    format!("{} {}", redact_program(first), rest.join(" "))
}

fn redact_program(word: &str) -> &str {
    if ValueShape::Path.matches_value(word) && !word.starts_with('-') { word } else { GONE }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    static OWN: Forms = Forms {
        title: Some(|word| word.starts_with("own ").then(|| "own known".to_owned())),
        arguments: Some(|name, words| {
            (name == "own").then(|| words.iter().map(|_| "mine".to_owned()).collect())
        }),
        value: Some(|name, option, value, all| {
            (name == "mongod" && option == "-p").then(|| format!("{}:{}", value.len(), all.len()))
        }),
        attached: &["postgres"],
        ..Forms::NONE
    };

    fn keeps() -> Keeps {
        Keeps {
            options: vec!["-D", "-c", "-p", "--datadir"],
            settings: vec!["huge_pages", "large_pages"],
            programs: vec!["postgres", "mysqld", "redis-server", "mongod", "own", "qemu-system-*"],
            shape: Some(|name| match name {
                "datadir" | "-D" => ValueShape::Path,
                "-c" => ValueShape::Setting,
                _ => ValueShape::Plain,
            }),
            forms: vec![&OWN],
            ..Keeps::default()
        }
    }

    fn kept(words: &[&str]) -> String {
        let mut bytes = words.join("\0").into_bytes();
        bytes.push(0);
        String::from_utf8(command_line(&bytes, &keeps()))
            .unwrap()
            .trim_end_matches('\0')
            .replace('\0', " ")
    }

    #[test]
    fn what_engines_need_stays_and_secrets_go() {
        assert_eq!(
            kept(&[
                "/usr/lib/postgresql/15/bin/postgres",
                "-D",
                "/data",
                "-c",
                "huge_pages=on",
                "-c",
                "primary_conninfo=password=S3"
            ]),
            "/usr/lib/postgresql/15/bin/postgres -D /data -c huge_pages=on -c -"
        );
        assert_eq!(
            kept(&[
                "mysqld",
                "--datadir=/d",
                "--large-pages",
                "-pS3",
                "--password",
                "S3",
                "--password=S3"
            ]),
            "mysqld --datadir=/d --large-pages - - - -"
        );
        assert_eq!(kept(&["sshpass", "-p", "S3"]), "sshpass - -");
        assert_eq!(kept(&["app", "postgres://user:S3@host/db"]), "app -");
        assert_eq!(kept(&["mysqld", "--datadir=ftp://u:S3@h/"]), "mysqld --datadir=?");
        assert_eq!(
            kept(&["postgres", "-c", "huge_pages=S3", "-p", "S3"]),
            "postgres -c huge_pages=? -p ?"
        );
        assert_eq!(
            kept(&["postgres", "-D/data", "-chuge_pages=on", "-cx=S3"]),
            "postgres -D/data -chuge_pages=on -c-"
        );
        assert_eq!(kept(&["mysqld", "-D/data"]), "mysqld -");
    }

    #[test]
    fn what_an_engine_knows_of_its_own_arguments_goes_first() {
        assert_eq!(kept(&["/opt/own", "-p", "S3"]), "/opt/own mine mine");
        assert_eq!(kept(&["mongod", "-p", "S3", "S3"]), "mongod -p 2:3 -");
        assert_eq!(kept(&["mysqld", "-p", "S3"]), "mysqld -p ?");
    }

    #[test]
    fn titles_keep_a_safe_shape() {
        assert_eq!(kept(&["own S3cret"]), "own known");
        assert_eq!(kept(&["postgres: bob S3 10.0.0.1(555) idle"]), "postgres: - - - -");
        assert_eq!(
            kept(&["/usr/bin/redis-server 127.0.0.1:6379"]),
            "/usr/bin/redis-server 127.0.0.1:6379"
        );
        assert_eq!(kept(&["ora_pmon_PROD"]), "ora_pmon_PROD");
        assert_eq!(kept(&["sshd: bob@pts/0"]), "sshd: -");
        assert_eq!(kept(&["app\tS3"]), "-");
        assert_eq!(kept(&["a\x1b]0;S3\x07\nname S3"]), "-");
        assert_eq!(kept(&[""]), "");
    }

    proptest! {
        #[test]
        fn what_was_filtered_is_filtered_no_further(words in proptest::collection::vec("[ -~]{0,20}", 1..6)) {
            let once = command_line(words.join("\0").as_bytes(), &keeps());
            prop_assert_eq!(command_line(&once, &keeps()), once);
        }

        #[test]
        fn a_secret_in_an_unknown_option_goes(option in "--?[a-z]{1,8}", secret in "[A-Z]{12}") {
            for words in [vec!["mysqld".to_owned(), format!("{option}={secret}")], vec!["mysqld".into(), format!("{option}{secret}")]] {
                let line = command_line(words.join("\0").as_bytes(), &Keeps::default());
                prop_assert!(!String::from_utf8(line).unwrap().contains(&secret));
            }
        }
    }
}
