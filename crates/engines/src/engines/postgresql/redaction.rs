//! What a capture keeps of PostgreSQL's titles and of files that are no settings.

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::{self, GONE, NO_VALUE, ValueShape};

use super::READY;
use super::conf::{self, PostgresqlConfContent};
use super::titles::{self, PROGRAMS};
use super::{control, known_settings, pg_ctl, start_conf};
use crate::shared::options;

pub(super) const FORMS: Forms = Forms {
    title: Some(redact_title),
    attached: &PROGRAMS,
    rewrite: Some(|path, bytes| match options::file_name(path) {
        "PG_VERSION" => Some(shape::version_alone(bytes)),
        "postmaster.pid" => Some(redact_lock_file(bytes)),
        "pg_control" => Some(control::redact_control_file(bytes)),
        _ => start_conf::redact_start_conf(path, bytes)
            .or_else(|| pg_ctl::redact_option_file(path, bytes)),
    }),
    ..Forms::NONE
};

/// Process, port and socket folder of postmaster.pid, whether it listens, and whether it is ready.
fn redact_lock_file(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = text.lines().map(str::trim);
    let pid = all.next().unwrap_or_default();
    if !options::is_number(pid.trim_start_matches('-')) {
        return b"?\n".to_vec();
    }
    let mut rest = all.skip(2);
    let mut next = || rest.next().unwrap_or_default();
    let port = Some(next())
        .filter(|port| port.bytes().all(|digit| digit.is_ascii_digit()))
        .unwrap_or(NO_VALUE);
    let folder =
        Some(next()).filter(|folder| ValueShape::Path.matches_value(folder)).unwrap_or_default();
    let listens = if next().is_empty() { "" } else { "*" };
    let ready = if (next(), next()).1 == READY { "\nready\n" } else { "" };
    format!("{pid}\n\n\n{port}\n{folder}\n{listens}\n{ready}").into_bytes()
}

/// A line for each way to be refused by the server.
const REFUSED: [&str; 5] = [
    "=",
    "unknown_setting =",
    "unknown_setting = '",
    "unknown_setting = !",
    "unknown_setting = 1 1",
];

/// What a capture keeps of a line that is not read: what refuses a start does so there, too.
pub(super) fn redact_conf_line(text: &str) -> Option<String> {
    match conf::parse_line(text, 1) {
        Ok(Some(PostgresqlConfContent::Set { name, value }))
            if !super::KIND.capture.settings.contains(&name.as_str()) =>
        {
            known_settings::redact_unread_setting(&name, &value)
        }
        Ok(_) => None,
        Err(error) => {
            let like =
                |refused: &&str| conf::parse_line(refused, 1).is_err_and(|other| other == error);
            REFUSED.into_iter().find(like).map(str::to_owned)
        }
    }
}

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

/// `postgres: bob shop [local] idle`: keeps that it is a session, but not whose.
fn redact_title(word: &str) -> Option<String> {
    let (program, rest) = word.split_once(": ")?;
    PROGRAMS.contains(&program).then(|| format!("{program}: {}", redact_title_body(rest.trim())))
}

/// Keeps a cluster's name: `postgres: 15/main: user database [local] idle`.
fn redact_title_body(rest: &str) -> String {
    let safe = |name: &&str| {
        name.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"._/-".contains(&sign))
    };
    let (cluster, rest) = match rest.split_once(": ") {
        Some((cluster, rest)) if safe(&cluster) => (format!("{cluster}: "), rest),
        Some((_, rest)) => (String::new(), rest),
        None => (String::new(), rest),
    };
    let role = ROLES.iter().find(|role| {
        rest.strip_prefix(**role).is_some_and(|more| more.is_empty() || more.starts_with(' '))
    });
    let what = match (role, redact_client(rest)) {
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

fn redact_client(title: &str) -> Option<&'static str> {
    let client = title.split_ascii_whitespace().skip(2).find(|word| titles::is_client(word))?;
    Some(if client == "[local]" { "[local]" } else { "-(0)" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each keeps a server from starting, or does not, in a capture as on its host.
    #[test]
    fn a_line_is_judged_in_a_capture_as_it_is_on_its_host() {
        let judged = |text: &str, major: u32| match conf::parse_line(text, 1) {
            Ok(Some(PostgresqlConfContent::Set { name, value })) => {
                Ok(known_settings::judge_setting(&name, &value, Some(major), true))
            }
            Ok(_) => Ok(known_settings::SettingVerdict::Fine),
            Err(error) => Err(error),
        };
        for text in [
            "shared_buffer = 2GB",
            "shared_buffer = 'S3cret' # S3cret",
            "S3cret",
            "S3cret = 'S3cret",
            "S3cret = 1 S3cret",
            "S3cret = !S3cret",
            "= S3cret",
            "temp_file_limit = 4q",
            "temp_file_limit = 'S3cret'",
            "log_statement = S3cret",
            "log_statement = ddl",
            "temp_file_limit = 4MB",
            "primary_conninfo = 'password=S3cret'",
            "file_copy_method = copy",
            "file_copy_method = S3cret",
            "promote_trigger_file = '/S3cret'",
            "a.b = S3cret",
            "# S3cret",
            "include 'S3cret'",
        ] {
            let captured = redact_conf_line(text).unwrap_or_default();
            assert!(!captured.contains("S3"), "{text}: {captured}");
            for major in [14, 15, 16, 18] {
                assert_eq!(
                    judged(&captured, major),
                    judged(text, major),
                    "{text} in {major}: {captured}"
                );
            }
            assert_eq!(
                redact_conf_line(&captured).unwrap_or_default(),
                captured,
                "a capture of a capture"
            );
        }
        assert_eq!(
            redact_conf_line("shared_buffers = 4g"),
            None,
            "what is read is kept with all others that are"
        );
    }

    #[test]
    fn a_link_to_a_secret_by_the_name_of_a_servers_file_gives_nothing_away() {
        let kept = |path: &str, text: &str| {
            let kept = FORMS.rewrite.and_then(|rewrite| rewrite(path, text.as_bytes())).unwrap();
            String::from_utf8(kept).unwrap()
        };
        for path in ["/d/PG_VERSION", "/d/postmaster.pid"] {
            assert_eq!(kept(path, "root:$6$S3:1:2:3:::\nbin:*:1:2:3:::\n"), "?\n", "{path}");
        }
        let real = "4242\n/var/lib/postgresql/15/main\n1700000000\n5432\n/var/run/postgresql\nlocalhost\n  5432001         7\nready   \n";
        assert_eq!(
            kept("/d/postmaster.pid", real),
            "4242\n\n\n5432\n/var/run/postgresql\n*\n\nready\n"
        );
        let starting = real.replace("ready   ", "starting");
        assert_eq!(
            kept("/d/postmaster.pid", &starting),
            "4242\n\n\n5432\n/var/run/postgresql\n*\n"
        );
        assert_eq!(
            kept("/d/postmaster.pid", &kept("/d/postmaster.pid", real)),
            kept("/d/postmaster.pid", real)
        );
        assert_eq!(kept("/d/PG_VERSION", "15\n"), "15\n");
    }

    #[test]
    fn titles_keep_a_safe_shape() {
        for (written, kept) in [
            ("postgres: checkpointer ", "postgres: checkpointer"),
            ("postgres: 15/main: background writer ", "postgres: 15/main: background writer"),
            ("postgres: bob S3 10.0.0.1(555) idle", "postgres: session - -(0) idle"),
            ("postgres: startup S3 [local] authentication", "postgres: session - [local] idle"),
            ("postgres: walsender S3 10.0.0.1(555) streaming 0/1", "postgres: walsender"),
            ("edb-postgres: S3 S3 10.0.0.1[5](5) idle", "edb-postgres: session - -(0) idle"),
            ("postgres: S3 launcher", "postgres: -"),
            (
                "postgres: 15/main: bob S3 [local] idle in transaction",
                "postgres: 15/main: session - [local] idle",
            ),
        ] {
            assert_eq!(redact_title(written).as_deref(), Some(kept));
        }
        assert_eq!(redact_title("sshd: bob@pts/0"), None);
    }

    proptest! {
        #[test]
        fn what_was_kept_is_kept_as_it_is(words in "postgres: [ -~]{0,40}") {
            let once = redact_title(&words).unwrap();
            prop_assert_eq!(redact_title(&once), Some(once));
        }
    }
}
