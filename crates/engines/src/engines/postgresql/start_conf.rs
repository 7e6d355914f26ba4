//! Debian's `start.conf`: whether the boot starts a cluster, and whether pg_ctlcluster starts it at
//! all.

use hugewise_host::FactReader;
use hugewise_host::config::files::numbered_lines;
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::Startup;
use hugewise_model::{Host, Process};

use crate::shared::options;

/// What the file beside a cluster's configuration says, where pg_ctlcluster started it with
/// `/etc/postgresql/VERSION/CLUSTER/postgresql.conf` on the command line.
pub(super) fn read(host: &Host, facts: &mut FactReader<'_>, main: &Process) -> Option<Startup> {
    let folder = super::config_file_option(main)?.strip_suffix("/postgresql.conf")?.to_owned();
    if !super::is_cluster_folder(&folder) {
        return None;
    }
    let file = format!("{folder}/start.conf");
    let path = options::as_reader_opens(host, main, &file);
    let found = facts.parse(&path, |bytes| Ok(parse(bytes))).into_known().flatten()?;
    let place = FileLocation { file: path, line: found.line };
    match found.word {
        "auto" if found.alone => None,
        // pg_ctlcluster accepts it, the generator for the boot does not.
        "auto" => Some(Startup::NotAtBoot(format!("start.conf holds more than auto ({place})"))),
        "manual" => Some(Startup::NotAtBoot(format!("start.conf=manual ({place})"))),
        // pg_ctlcluster calls any other word invalid, and starts nothing.
        "disabled" => Some(Startup::Never(format!("start.conf=disabled ({place})"))),
        _ => Some(Startup::Never(format!("start.conf is invalid ({place})"))),
    }
}

struct StartConfKeyword {
    /// `auto`, `manual`, `disabled`, or `?`.
    word: &'static str,
    line: u64,
    /// Nothing else stands in the file: systemd's generator accepts only a lone `auto`.
    alone: bool,
}

/// The first line that is no comment decides (PgCommon.pm of postgresql-common 248).
fn parse(bytes: &[u8]) -> Option<StartConfKeyword> {
    let mut texts = numbered_lines(bytes)
        .map(|(number, line)| (number, strip_comment(&line).to_owned()))
        .filter(|(_, text)| !text.is_empty());
    let (line, first) = texts.next()?;
    let word = match_keyword(&first);
    Some(StartConfKeyword { word, line, alone: first == word && texts.next().is_none() })
}

fn strip_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

fn match_keyword(text: &str) -> &'static str {
    ["auto", "manual", "disabled"].into_iter().find(|word| text.starts_with(word)).unwrap_or("?")
}

/// Keeps the word of each line, and whether it stands alone.
pub(super) fn redact_start_conf(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with("/etc/postgresql/") || !path.ends_with("/start.conf") {
        return None;
    }
    let line = |line: &str| match strip_comment(line) {
        "" => "\n".to_owned(),
        text if text == match_keyword(text) => format!("{text}\n"),
        text => format!("{}?\n", match_keyword(text).trim_end_matches('?')),
    };
    Some(
        numbered_lines(bytes)
            .map(|(_, text)| line(&text))
            .collect::<String>()
            .trim_end()
            .as_bytes()
            .to_vec(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `perl -MPgCommon -e 'print get_cluster_start_conf ...'` of postgresql-common says of
    /// each; `?` is its error.
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

    /// What /lib/systemd/system-generators/postgresql-generator makes of each: only `auto` is
    /// linked.
    #[test]
    fn the_generator_takes_auto_alone() {
        let alone = |text: &str| {
            parse(text.as_bytes()).is_some_and(|found| found.word == "auto" && found.alone)
        };
        assert!(alone("# c\n\n  auto # c\n") && alone("auto"));
        assert!(!alone("automatic\n") && !alone("auto\nmanual\n") && !alone("auto x\n"));
    }

    #[test]
    fn a_capture_keeps_the_word_on_its_line() {
        let path = "/etc/postgresql/15/main/start.conf";
        assert_eq!(
            redact_start_conf(path, b"# S3\n manual # S3\n").as_deref(),
            Some(&b"\nmanual"[..])
        );
        assert_eq!(redact_start_conf(path, b"S3\n").as_deref(), Some(&b"?"[..]));
        assert_eq!(redact_start_conf(path, b"").as_deref(), Some(&b""[..]));
        assert_eq!(
            redact_start_conf(path, b"autoS3\nauto\n").as_deref(),
            Some(&b"auto?\nauto"[..])
        );
        assert_eq!(redact_start_conf(path, b"auto?\nauto").as_deref(), Some(&b"auto?\nauto"[..]));
        assert_eq!(redact_start_conf("/etc/other/start.conf", b"x"), None);
    }
}
