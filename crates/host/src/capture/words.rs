//! Command lines without their secrets: what is not known to be harmless becomes `-`.

use super::Keeps;

/// Stands for a word that was taken out.
const GONE: &str = "-";

/// Programs whose options are looked at. Of any other program only its name is kept, whatever its options are called:
/// `-p` is a port here and a password there.
const PROGRAMS: [&str; 19] = [
    "postgres",
    "postmaster",
    "edb-postgres",
    "edb-postmaster",
    "mysqld",
    "mariadbd",
    "mysqld_safe",
    "mariadbd-safe",
    "java",
    "redis-server",
    "redis-sentinel",
    "valkey-server",
    "valkey-sentinel",
    "mongod",
    "mongos",
    "qemu-kvm",
    "kvm",
    "oracle",
    "keydb-server",
];

/// Titles of PostgreSQL's own processes; every other one names a user, a database and a client.
const ROLES: [&str; 19] = [
    "checkpointer",
    "background writer",
    "walwriter",
    "wal writer",
    "autovacuum launcher",
    "autovacuum worker",
    "logical replication launcher",
    "logical replication worker",
    "logical replication apply worker",
    "logical replication tablesync worker",
    "archiver",
    "stats collector",
    "logger",
    "startup",
    "walreceiver",
    "walsender",
    "io worker",
    "slotsync worker",
    "walsummarizer",
];

/// Options of `java` whose value is the next word.
const JAVA_PAIRS: [&str; 11] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--add-opens",
    "--add-exports",
    "--add-reads",
    "--patch-module",
];

/// Words in a value that make it a secret, whatever option it belongs to.
const SUSPECT: [&str; 7] = ["passw", "secret", "token", "credential", "apikey", "private", "auth="];

/// /proc/PID/cmdline with placeholders.
pub(super) fn command_line(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let end = text.trim_end_matches('\0');
    let tail = text.get(end.len()..).unwrap_or_default();
    let words: Vec<&str> = end.split('\0').collect();
    let kept = match words.as_slice() {
        [] | [""] => Vec::new(),
        [only] => vec![title(only)],
        [program, arguments @ ..] => {
            let mut kept = vec![title(program)];
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
    if !PROGRAMS.contains(&name) && !name.starts_with("qemu-system-") {
        return arguments.iter().map(|_| GONE.to_owned()).collect();
    }
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        if let Some(title_word) = endpoint(word).filter(|_| !name.starts_with("java")) {
            kept.push(title_word);
            continue;
        }
        if name == "java" && JAVA_PAIRS.contains(&word) {
            kept.push(GONE.to_owned());
            kept.extend(words.next().map(|_| GONE.to_owned()));
            continue;
        }
        if name == "java" && word.starts_with("@/") {
            kept.push(if harmless(word) { word.to_owned() } else { GONE.to_owned() });
            continue;
        }
        if !word.starts_with('-') {
            let main_class = name == "java";
            kept.push(if main_class { main_class_of(word) } else { config_file(word) });
            if main_class {
                // What follows the main class belongs to the application.
                kept.extend(words.by_ref().map(|_| GONE.to_owned()));
            }
            continue;
        }
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        match value {
            Some(value) if keeps.has_option(option) || keeps.has_setting(option) => {
                kept.push(if harmless(value) && harmless(word) { word.to_owned() } else { GONE.to_owned() });
            }
            None if keeps.has_prefix(option) && harmless(option) => kept.push(option.to_owned()),
            None if keeps.has_exactly(option) => {
                kept.push(option.to_owned());
                if let Some(value) = words.next_if(|next| !next.starts_with('-')) {
                    kept.push(option_value(value, keeps));
                }
                if option == "-jar" && name == "java" {
                    kept.extend(words.by_ref().map(|_| GONE.to_owned()));
                }
            }
            None if keeps.has_setting(option) => kept.push(option.to_owned()),
            // postgres -D/data
            None => match option.get(..2).filter(|short| name == "postgres" && keeps.has_exactly(short)) {
                Some(short) => {
                    let value = option_value(option.get(2..).unwrap_or_default(), keeps);
                    kept.push(format!("{short}{value}"));
                }
                None => kept.push(GONE.to_owned()),
            },
            Some(_) => kept.push(GONE.to_owned()),
        }
    }
    kept
}

/// The word after an option: `postgres -c NAME=VALUE` names a setting of its own.
fn option_value(value: &str, keeps: &Keeps) -> String {
    let name = value.split_once('=').map(|(name, _)| name);
    let known = name.is_none_or(|name| value.contains(',') || keeps.has_setting(name));
    if known && harmless(value) { value.to_owned() } else { GONE.to_owned() }
}

pub(super) fn harmless(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let url_with_user = lower.contains('@') && lower.contains("://");
    !url_with_user
        && !lower.starts_with("-xx:on")
        && !lower.starts_with("secret,")
        && !lower.contains("data=")
        && !SUSPECT.iter().any(|word| lower.contains(word))
}

/// `org.apache.cassandra.service.CassandraDaemon`.
fn main_class_of(word: &str) -> String {
    let is_class =
        word.contains('.') && word.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"._$".contains(&sign));
    if is_class { word.to_owned() } else { GONE.to_owned() }
}

/// `redis-server /etc/redis/redis.conf`.
fn config_file(word: &str) -> String {
    let is_file = word.starts_with('/') && (word.ends_with(".conf") || word.ends_with(".cnf")) && harmless(word);
    if is_file { word.to_owned() } else { GONE.to_owned() }
}

/// `127.0.0.1:6379`, `*:6379`, `[cluster]` in a server's title.
fn endpoint(word: &str) -> Option<String> {
    let address = word.contains(':') && word.bytes().all(|sign| sign.is_ascii_hexdigit() || b".:*[]".contains(&sign));
    (address || word == "[cluster]" || word == "[sentinel]").then(|| word.to_owned())
}

/// A first argument: a program's path, or the title that a server wrote over it.
fn title(word: &str) -> String {
    // No server's: a tab or a line's end between words would let all of them pass for one.
    if word.contains(char::is_control) {
        return GONE.to_owned();
    }
    let Some((first, rest)) = word.split_once(' ') else {
        return if harmless(word) { word.to_owned() } else { GONE.to_owned() };
    };
    if let Some(program @ ("postgres" | "postmaster" | "edb-postgres")) = first.strip_suffix(':') {
        return format!("{program}: {}", postgres_title(rest.trim()));
    }
    if first.starts_with("oracle") && rest.starts_with('(') {
        // Connected over the net, or from this host.
        let local = if rest.contains("LOCAL=NO") { "(LOCAL=NO)" } else { "(LOCAL=YES)" };
        return format!("{first} {local}");
    }
    let name = if harmless(first) && !first.starts_with('-') { first } else { GONE };
    let rest = rest.split_ascii_whitespace().map(|word| endpoint(word).unwrap_or_else(|| GONE.to_owned()));
    format!("{name} {}", rest.collect::<Vec<_>>().join(" "))
}

/// `postgres: 15/main: user database [local] idle` keeps the cluster's name and that it is a session.
fn postgres_title(rest: &str) -> String {
    let safe = |name: &&str| name.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"._/-".contains(&sign));
    let (cluster, rest) = match rest.split_once(": ") {
        Some((cluster, rest)) if safe(&cluster) => (format!("{cluster}: "), rest),
        Some((_, rest)) => (String::new(), rest),
        None => (String::new(), rest),
    };
    let role = ROLES
        .iter()
        .find(|role| rest.strip_prefix(**role).is_some_and(|more| more.is_empty() || more.starts_with(' ')));
    let what = match (role, client(rest)) {
        (Some(&"walsender"), _) => "walsender",
        // A user may be called `startup`: whoever names a client is a session.
        (_, Some(client)) => return format!("{cluster}session - {client} idle"),
        (Some(role), None) => role,
        (None, None) if rest.starts_with("parallel worker for PID ") => "parallel worker for PID 0",
        // A worker of an extension.
        (None, None) => GONE,
    };
    format!("{cluster}{what}")
}

/// The client of a session: a socket's, or one with an address and port.
fn client(title: &str) -> Option<&'static str> {
    title.split_ascii_whitespace().skip(2).find_map(|word| {
        let port = word.strip_suffix(')').and_then(|word| word.rsplit_once('('));
        match port {
            _ if word == "[local]" => Some("[local]"),
            Some((host, port))
                if !host.is_empty() && !port.is_empty() && port.bytes().all(|sign| sign.is_ascii_digit()) =>
            {
                Some("-(0)")
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keeps() -> Keeps {
        Keeps {
            options: vec!["-D", "-c", "-p", "--datadir", "-Xmx*", "-XX:*", "-m", "-object", "-jar"],
            settings: vec!["huge_pages", "large_pages"],
            rewrites: Vec::new(),
        }
    }

    fn kept(words: &[&str]) -> String {
        let mut bytes = words.join("\0").into_bytes();
        bytes.push(0);
        String::from_utf8(command_line(&bytes, &keeps())).unwrap().trim_end_matches('\0').replace('\0', " ")
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
            kept(&["mysqld", "--datadir=/d", "--large-pages", "-pS3", "--password", "S3", "--password=S3"]),
            "mysqld --datadir=/d --large-pages - - - -"
        );
        assert_eq!(
            kept(&["java", "-Xmx8g", "-Dpw=S3", "-XX:+UseLargePages", "-XX:OnError=curl S3", "a.b.Main", "-p", "S3"]),
            "java -Xmx8g - -XX:+UseLargePages - a.b.Main - -"
        );
        assert_eq!(
            kept(&["java", "-cp", "/a:/S3", "@/etc/args", "-Xmx8g", "a.B", "S3"]),
            "java - - @/etc/args -Xmx8g a.B -"
        );
        assert_eq!(kept(&["java", "-jar", "app.jar", "-p", "S3"]), "java -jar app.jar - -");
        assert_eq!(
            kept(&["qemu-system-x86_64", "-m", "1G", "-object", "secret,id=a,data=S3"]),
            "qemu-system-x86_64 -m 1G -object -"
        );
        assert_eq!(kept(&["sshpass", "-p", "S3"]), "sshpass - -");
        assert_eq!(kept(&["app", "postgres://user:S3@host/db"]), "app -");
        assert_eq!(kept(&["mysqld", "--datadir=ftp://u:S3@h/"]), "mysqld -");
    }

    #[test]
    fn titles_keep_a_safe_shape() {
        assert_eq!(kept(&["postgres: checkpointer "]), "postgres: checkpointer");
        assert_eq!(kept(&["postgres: 15/main: background writer "]), "postgres: 15/main: background writer");
        assert_eq!(kept(&["postgres: bob S3 10.0.0.1(555) idle"]), "postgres: session - -(0) idle");
        assert_eq!(kept(&["postgres: startup S3 [local] authentication"]), "postgres: session - [local] idle");
        assert_eq!(kept(&["postgres: walsender S3 10.0.0.1(555) streaming 0/1"]), "postgres: walsender");
        assert_eq!(kept(&["edb-postgres: S3 S3 10.0.0.1[5](5) idle"]), "edb-postgres: session - -(0) idle");
        assert_eq!(kept(&["postgres: S3 launcher"]), "postgres: -");
        assert_eq!(
            kept(&["postgres: 15/main: bob S3 [local] idle in transaction"]),
            "postgres: 15/main: session - [local] idle"
        );
        assert_eq!(kept(&["oraclePROD (LOCAL=NO)"]), "oraclePROD (LOCAL=NO)");
        assert_eq!(kept(&["oraclePROD (DESCRIPTION=(LOCAL=YES)(ADDRESS=(PROTOCOL=beq)))"]), "oraclePROD (LOCAL=YES)");
        assert_eq!(kept(&["/usr/bin/redis-server 127.0.0.1:6379"]), "/usr/bin/redis-server 127.0.0.1:6379");
        assert_eq!(kept(&["ora_pmon_PROD"]), "ora_pmon_PROD");
        assert_eq!(kept(&["sshd: bob@pts/0"]), "sshd: -");
        assert_eq!(kept(&["app\tS3"]), "-");
        assert_eq!(kept(&["a\x1b]0;S3\x07\nname S3"]), "-");
        assert_eq!(kept(&[""]), "");
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = command_line(&bytes, &keeps());
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
