//! Against pg_ctlcluster of postgresql-common 248 and pg_ctl of PostgreSQL 15.

use hugewise_host::source::MapSource;

use super::*;

const FOLDER: &str = "/etc/postgresql/15/starts";
const CONF: &str = "-c config_file=/etc/postgresql/15/starts/postgresql.conf";

fn next(file: &str, unit: Option<&str>, running: &str) -> NextCommandLine {
    let source = MapSource::new().with_file(&format!("{FOLDER}/pg_ctl.conf"), file);
    let host = Host::default();
    let scene = EngineContext::new(&host, &source);
    let main =
        Process { pid: 7, command: Observed::Known(shell_words(running)), ..Process::default() };
    let place = FileLocation { file: "/lib/systemd/system/postgresql@.service".into(), line: 9 };
    let command = unit.map(|unit| StartCommand {
        words: shell_words(unit),
        bare_words: shell_words(unit),
        place,
    });
    resolve_start_command(&scene, &main, command.as_ref(), &ServiceStart::default())
        .expect("a cluster of Debian's")
}

fn running() -> String {
    format!("/bin/postgres -D /d -cshared_buffers=64MB {CONF}")
}

/// The words that each has `postgres` started with, by /proc.
#[test]
fn options_of_the_file_stand_before_the_configuration_and_those_of_a_unit_behind() {
    let unit = "/usr/bin/pg_ctlcluster --skip-systemctl-redirect 15-starts start";
    for (file, behind, said) in [
        ("", "", "CONF"),
        ("pg_ctl_options = '-o -cshared_buffers=80MB'", "", "-cshared_buffers=80MB CONF"),
        ("pg_ctl_options = '-o --shared-buffers=80MB'", "", "--shared-buffers=80MB CONF"),
        ("pg_ctl_options = '-s -w -t 60'", "", "CONF"),
        ("pg_ctl_options = -s", "", "CONF"),
        ("pg_ctl_options = '-o -B -o 11000'", "", "-B 11000 CONF"),
        ("pg_ctl_options = '-o -cshared_buffers=86MB' # c", "", "-cshared_buffers=86MB CONF"),
        ("pg_ctl_options = '-o -cshared_buffers=''87MB'''", "", "-cshared_buffers=87MB CONF"),
        (
            "pg_ctl_options = '-o -cshared_buffers=82MB'",
            " -o '-c shared_buffers=83MB'",
            "-cshared_buffers=82MB CONF -c shared_buffers=83MB",
        ),
        (
            "pg_ctl_options = '-o -cshared_buffers=84MB'",
            " -- -o '-c shared_buffers=85MB'",
            "-c shared_buffers=85MB -cshared_buffers=84MB CONF",
        ),
    ] {
        let NextCommandLine::Words(words, _) =
            next(file, Some(&format!("{unit}{behind}")), &running())
        else {
            panic!("{file}")
        };
        // What says where it is may stand there twice.
        let text = words.join(" ").replace(&format!("{CONF} {CONF}"), CONF).replace(CONF, "CONF");
        assert_eq!(text, format!("/bin/postgres -D /d {said}"), "{file}");
    }
}

/// pg_ctlcluster: `Error: invalid line 1`; pg_ctl: `too many command-line arguments`, `invalid
/// option`.
#[test]
fn what_the_tools_do_not_take_starts_nothing() {
    for file in [
        "pg_ctl_options = no quotes",
        "pg_ctl_options = '-o \"-c shared_buffers=81MB\"'",
        "pg_ctl_options = 'start'",
        "pg_ctl_options = '-x'",
        "pg_ctl_options = '-s",
    ] {
        let is_refused = |file: &str| matches!(next(file, None, &running()), NextCommandLine::Refused(why) if why.contains("pg_ctl.conf:1"));
        assert!(is_refused(file), "{file}");
        let captured =
            redact_option_file(&format!("{FOLDER}/pg_ctl.conf"), file.as_bytes()).unwrap();
        assert!(is_refused(&String::from_utf8(captured).unwrap()), "captured {file}");
    }
}

#[test]
fn a_cluster_without_a_unit_is_started_with_its_file() {
    let NextCommandLine::Words(words, at) =
        next("\npg_ctl_options = '-o -B -o 9'", None, &running())
    else {
        panic!()
    };
    assert_eq!(words[3..5], ["-B", "9"]);
    assert_eq!(at.to_string(), format!("{FOLDER}/pg_ctl.conf:2"));
}

#[test]
fn pg_ctl_of_a_unit_hands_its_options_on() {
    let unit = "/usr/lib/postgresql/15/bin/pg_ctl start -D /e -l /log -o '-c huge_pages=off -N 7'";
    let NextCommandLine::Words(words, _) = next("", Some(unit), "/bin/postgres -D /d") else {
        panic!()
    };
    assert_eq!(words.join(" "), "/bin/postgres -D /e -c huge_pages=off -N 7");
}

#[test]
fn a_capture_keeps_settings_that_are_read_and_no_secrets() {
    let path = format!("{FOLDER}/pg_ctl.conf");
    let text = "# S3cret\n\
        pg_ctl_options = '-l /S3cret -o -cshared_buffers=1GB -o -cprimary_conninfo=S3cret'\n";
    let text = String::from_utf8(redact_option_file(&path, text.as_bytes()).unwrap()).unwrap();
    assert_eq!(text, "\npg_ctl_options = '-o --shared_buffers=1GB'");
    assert_eq!(redact_option_file("/etc/other/pg_ctl.conf", b""), None);
}
