//! What a capture keeps of what only PostgreSQL has: its titles and the files of its data directory that are no settings.

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::{self, GONE, NO_VALUE, Shape};

use super::READY;
use super::conf::{self, Content};
use super::titles::PROGRAMS;
use super::{control, ctl, known, start_conf};
use crate::options;

pub(super) const FORMS: Forms = Forms {
    title: Some(title),
    attached: &PROGRAMS,
    rewrite: Some(|path, bytes| match options::file_name(path) {
        "PG_VERSION" => Some(shape::version_alone(bytes)),
        "postmaster.pid" => Some(lock(bytes)),
        "pg_control" => Some(control::kept(bytes)),
        _ => start_conf::kept(path, bytes).or_else(|| ctl::kept(path, bytes)),
    }),
    ..Forms::NONE
};

/// Process, port and folder of the socket of postmaster.pid, whether it listens, and whether it is ready.
fn lock(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = text.lines().map(str::trim);
    let pid = all.next().unwrap_or_default();
    let digits = pid.trim_start_matches('-');
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return b"?\n".to_vec();
    }
    let mut rest = all.skip(2);
    let mut next = || rest.next().unwrap_or_default();
    let port = Some(next()).filter(|port| port.bytes().all(|digit| digit.is_ascii_digit())).unwrap_or(NO_VALUE);
    let folder = Some(next()).filter(|folder| Shape::Path.fits(folder)).unwrap_or_default();
    let listens = if next().is_empty() { "" } else { "*" };
    let ready = if (next(), next()).1 == READY { "\nready\n" } else { "" };
    format!("{pid}\n\n\n{port}\n{folder}\n{listens}\n{ready}").into_bytes()
}

/// Lines that the server refuses, one for each way of being none.
const REFUSED: [&str; 5] =
    ["=", "unknown_setting =", "unknown_setting = '", "unknown_setting = !", "unknown_setting = 1 1"];

/// What a capture keeps of a line of a configuration file that sets nothing which is read: whatever keeps the server from starting
/// with it does so in the capture too.
pub(super) fn line(text: &str) -> Option<String> {
    match conf::line(text, 1) {
        Ok(Some(Content::Set { name, value })) if !super::KIND.settings.contains(&name.as_str()) => {
            known::kept(&name, &value)
        }
        Ok(_) => None,
        Err(error) => {
            let like = |refused: &&str| conf::line(refused, 1).is_err_and(|other| other == error);
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

/// `postgres: bob shop [local] idle`: that it is a session, and nothing of whose.
fn title(word: &str) -> Option<String> {
    let (program, rest) = word.split_once(": ")?;
    PROGRAMS.contains(&program).then(|| format!("{program}: {}", body(rest.trim())))
}

/// `postgres: 15/main: user database [local] idle` keeps the cluster's name and that it is a session.
fn body(rest: &str) -> String {
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

    /// Each keeps a server from starting, or does not, in a capture as on its host.
    #[test]
    fn a_line_is_judged_in_a_capture_as_it_is_on_its_host() {
        let judged = |text: &str, major: u32| match conf::line(text, 1) {
            Ok(Some(Content::Set { name, value })) => Ok(known::judge(&name, &value, Some(major), true)),
            Ok(_) => Ok(known::Judged::Fine),
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
            "io_method = sync",
            "io_method = S3cret",
            "promote_trigger_file = '/S3cret'",
            "a.b = S3cret",
            "# S3cret",
            "include 'S3cret'",
        ] {
            let captured = line(text).unwrap_or_default();
            assert!(!captured.contains("S3"), "{text}: {captured}");
            for major in [14, 15, 16, 18] {
                assert_eq!(judged(&captured, major), judged(text, major), "{text} in {major}: {captured}");
            }
            assert_eq!(line(&captured).unwrap_or_default(), captured, "a capture of a capture");
        }
        assert_eq!(line("shared_buffers = 4g"), None, "what is read is kept with all others that are");
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
        assert_eq!(kept("/d/postmaster.pid", real), "4242\n\n\n5432\n/var/run/postgresql\n*\n\nready\n");
        let starting = real.replace("ready   ", "starting");
        assert_eq!(kept("/d/postmaster.pid", &starting), "4242\n\n\n5432\n/var/run/postgresql\n*\n");
        assert_eq!(kept("/d/postmaster.pid", &kept("/d/postmaster.pid", real)), kept("/d/postmaster.pid", real));
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
            ("postgres: 15/main: bob S3 [local] idle in transaction", "postgres: 15/main: session - [local] idle"),
        ] {
            assert_eq!(title(written).as_deref(), Some(kept));
        }
        assert_eq!(title("sshd: bob@pts/0"), None);
    }

    proptest! {
        #[test]
        fn what_was_kept_is_kept_as_it_is(words in "postgres: [ -~]{0,40}") {
            let once = title(&words).unwrap();
            prop_assert_eq!(title(&once), Some(once));
        }
    }
}
