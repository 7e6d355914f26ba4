//! Debian's `start.conf`: whether the boot starts a cluster, and whether pg_ctlcluster starts it at all.

use hugewise_host::Door;
use hugewise_host::config::files::lines;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Startup;
use hugewise_model::{Host, Process};

use super::settings;
use crate::options;

/// What the file beside the configuration of a cluster says, where pg_ctlcluster has started it: it names
/// `/etc/postgresql/VERSION/CLUSTER/postgresql.conf` on the command line.
pub(super) fn read(host: &Host, door: &mut Door<'_>, main: &Process) -> Option<Startup> {
    let arguments = main.command.known().map_or(&[][..], Vec::as_slice);
    let given = settings::command_line(arguments).into_iter().rev().find(|(name, _)| name == "config_file");
    let folder = given?.1.strip_suffix("/postgresql.conf")?.to_owned();
    let cluster = folder.strip_prefix("/etc/postgresql/")?;
    if cluster.split('/').count() != 2 || cluster.split('/').any(|part| part.is_empty() || part == "..") {
        return None;
    }
    let file = format!("{folder}/start.conf");
    let path = options::as_reader_opens(host, main, &file);
    let found = door.parse(&path, |bytes| Ok(parse(bytes))).into_known().flatten()?;
    let place = Place { file: path, line: found.line };
    match found.word {
        "auto" if found.alone => None,
        // pg_ctlcluster takes it, and the generator that tells the boot does not.
        "auto" => Some(Startup::NotAtBoot(format!("start.conf holds more than auto ({place})"))),
        "manual" => Some(Startup::NotAtBoot(format!("start.conf=manual ({place})"))),
        // Of any other word pg_ctlcluster says that it is invalid, and starts nothing.
        "disabled" => Some(Startup::Never(format!("start.conf=disabled ({place})"))),
        _ => Some(Startup::Never(format!("start.conf is invalid ({place})"))),
    }
}

/// What decides in the file.
struct Found {
    /// `auto`, `manual`, `disabled`, or `?`.
    word: &'static str,
    line: u64,
    /// Nothing else stands in the file: systemd's generator takes `auto` no other way.
    alone: bool,
}

/// The first line that is no comment decides (PgCommon.pm of postgresql-common 248): by how it begins, one of three words.
fn parse(bytes: &[u8]) -> Option<Found> {
    let mut texts =
        lines(bytes).map(|(number, line)| (number, text(&line).to_owned())).filter(|(_, it)| !it.is_empty());
    let (line, first) = texts.next()?;
    let word = word(&first);
    Some(Found { word, line, alone: first == word && texts.next().is_none() })
}

fn text(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

fn word(text: &str) -> &'static str {
    ["auto", "manual", "disabled"].into_iter().find(|word| text.starts_with(word)).unwrap_or("?")
}

/// What a capture keeps of it: of each line the word, and whether it is that word alone.
pub(super) fn kept(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with("/etc/postgresql/") || !path.ends_with("/start.conf") {
        return None;
    }
    let line = |line: &str| match text(line) {
        "" => "\n".to_owned(),
        text if text == word(text) => format!("{text}\n"),
        text => format!("{}?\n", word(text).trim_end_matches('?')),
    };
    Some(lines(bytes).map(|(_, text)| line(&text)).collect::<String>().trim_end().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `perl -MPgCommon -e 'print get_cluster_start_conf ...'` of postgresql-common says of each; `?` is its error.
    #[test]
    fn the_first_word_decides() {
        for (text, word) in [
            ("auto\n", Some("auto")),
            ("# c\n\n  manual # c\n", Some("manual")),
            ("disabled\nauto\n", Some("disabled")),
            ("automatic\n", Some("auto")),
            ("Manual\n", Some("?")),
            ("off\n", Some("?")),
            ("#manual\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text.as_bytes()).map(|found| found.word), word, "{text}");
        }
    }

    /// What /lib/systemd/system-generators/postgresql-generator makes of each: only `auto` is linked.
    #[test]
    fn the_generator_takes_auto_alone() {
        let alone = |text: &str| parse(text.as_bytes()).is_some_and(|found| found.word == "auto" && found.alone);
        assert!(alone("# c\n\n  auto # c\n") && alone("auto"));
        assert!(!alone("automatic\n") && !alone("auto\nmanual\n") && !alone("auto x\n"));
    }

    #[test]
    fn a_capture_keeps_the_word_on_its_line() {
        let path = "/etc/postgresql/15/main/start.conf";
        assert_eq!(kept(path, b"# S3\n manual # S3\n").as_deref(), Some(&b"\nmanual"[..]));
        assert_eq!(kept(path, b"S3\n").as_deref(), Some(&b"?"[..]));
        assert_eq!(kept(path, b"").as_deref(), Some(&b""[..]));
        assert_eq!(kept(path, b"autoS3\nauto\n").as_deref(), Some(&b"auto?\nauto"[..]));
        assert_eq!(kept(path, b"auto?\nauto").as_deref(), Some(&b"auto?\nauto"[..]));
        assert_eq!(kept("/etc/other/start.conf", b"x"), None);
    }
}
