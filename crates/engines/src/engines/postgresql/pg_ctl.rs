//! How a PostgreSQL server is started anew: by itself, by `pg_ctl`, or by Debian's `pg_ctlcluster`,
//! which has a file of options (postgresql-common 248).

use hugewise_host::FactReader;
use hugewise_host::capture::shape::NO_VALUE;
use hugewise_host::config::files::numbered_lines;
use hugewise_model::configuration::{FileLocation, ServiceStart, StartCommand};
use hugewise_model::{Host, Instance, Observed, Process};

use super::{KIND, build_instance, is_cluster_folder, settings};
use crate::EngineContext;
use crate::shared::options;
use crate::shared::settings::redact_value;
use crate::shared::starting::{NextCommandLine, Starting};
use crate::shared::unit_start::shell_words;

pub(super) static STARTING: Starting =
    Starting { would_be, decisive: find_decisive_words, made: resolve_start_command };

const PG_CTLCLUSTER: &str = "pg_ctlcluster";
/// Options of clusters that have no file of their own.
const FOR_ALL: &str = "/etc/postgresql-common/pg_ctl.conf";

fn would_be(scene: &EngineContext<'_>, main: &Process, _: &Instance) -> Instance {
    let files = scene.files_of(main);
    let data = super::option_directory(main).filter(|path| path.starts_with('/'));
    let directory = data.map_or_else(|| main.directory.clone(), Observed::Known);
    build_instance(scene, &mut FactReader::new(&files), &Process { directory, ..main.clone() }, &[])
}

fn find_decisive_words(words: &[String]) -> Vec<(String, String)> {
    let counts = |(name, _): &(String, String)| KIND.capture.settings.contains(&name.as_str());
    settings::command_line(words).into_iter().filter(counts).collect()
}

/// What the server, `pg_ctl` or `pg_ctlcluster` make of a command; for a Debian cluster without a
/// command, what its file of options says.
fn resolve_start_command(
    scene: &EngineContext<'_>,
    main: &Process,
    command: Option<&StartCommand>,
    _: &ServiceStart,
) -> Option<NextCommandLine> {
    let own = main.command.as_known()?;
    let program =
        command.and_then(|command| command.words.first()).map(|first| options::file_name(first));
    let is = |name: &str| program == Some(name);
    match command {
        Some(command) if is("pg_ctl") => {
            let is_action = |word: &&String| matches!(word.as_str(), "start" | "restart");
            let words: Vec<String> =
                command.words.iter().skip(1).filter(|word| !is_action(word)).cloned().collect();
            let (given, data) = pg_ctl(&words)?;
            let data = data.or_else(|| super::option_directory(main));
            let data = data.into_iter().flat_map(|data| ["-D".to_owned(), data]);
            Some(NextCommandLine::Words(
                own.iter().take(1).cloned().chain(data).chain(given).collect(),
                command.place.clone(),
            ))
        }
        Some(_) if !is(PG_CTLCLUSTER) => None,
        _ => {
            let (folder, at) = parse_cluster_command(own)?;
            Some(by_cluster(scene, main, &folder, own, at, command))
        }
    }
}

/// The folder of a Debian cluster, and where the option of its configuration begins.
fn parse_cluster_command(words: &[String]) -> Option<(String, usize)> {
    let (at, folder) = words.iter().enumerate().find_map(|(at, word)| {
        let path =
            word.strip_prefix("-c").unwrap_or(word).trim_start().strip_prefix("config_file=")?;
        Some((at, path.strip_suffix("/postgresql.conf")?.to_owned()))
    })?;
    let whole = is_cluster_folder(&folder);
    let glued = words.get(at).is_some_and(|word| word.starts_with("-c"));
    whole.then_some((folder, if glued { at } else { at.saturating_sub(1) }))
}

/// `postgres -D DATA`, the file's options, the configuration and the rest, the unit's options.
fn by_cluster(
    scene: &EngineContext<'_>,
    main: &Process,
    folder: &str,
    own: &[String],
    at: usize,
    command: Option<&StartCommand>,
) -> NextCommandLine {
    let files = scene.files_of(main);
    let mut facts = FactReader::new(&files);
    let (mut before, mut place) = match options_of(scene.host, &mut facts, main, folder) {
        Ok(Some(found)) => found,
        Ok(None) => (Vec::new(), FileLocation { file: format!("{folder}/pg_ctl.conf"), line: 0 }),
        Err(next) => return next,
    };
    let mut behind: Vec<String> = own.get(at..).unwrap_or_default().to_vec();
    if let Some(command) = command {
        // What it adds itself stays the same; what it was told stands in the unit.
        let ours = find_decisive_words(&[&["".to_owned()], behind.as_slice()].concat());
        let (added, handed_on) = pg_ctlcluster(&command.words);
        let of_unit = find_decisive_words(&[&["".to_owned()], added.as_slice()].concat());
        let kept: Vec<String> = behind.iter().take(2).cloned().collect();
        let identity = ours.iter().filter(|(name, _)| crate::shared::unit_start::is_identity(name));
        behind = identity.fold(kept, |mut words, (name, value)| {
            words.extend(["-c".to_owned(), format!("{name}={value}")]);
            words
        });
        behind.extend(added);
        let Some((given, _)) = pg_ctl(&handed_on) else {
            let why = format!("pg_ctl does not accept its options ({})", command.place);
            return NextCommandLine::Refused(why);
        };
        before.splice(..0, given);
        if !of_unit.is_empty() || !handed_on.is_empty() {
            place = command.place.clone();
        }
    }
    let first = own.iter().take(1).cloned();
    let data = super::option_directory(main).into_iter().flat_map(|data| ["-D".to_owned(), data]);
    NextCommandLine::Words(first.chain(data).chain(before).chain(behind).collect(), place)
}

/// The options of `postgres` in a cluster's file, and their line. The error is what a start comes
/// to: `pg_ctlcluster` refuses unknown lines, and `pg_ctl` words that are no options.
pub(super) fn options_of(
    host: &Host,
    facts: &mut FactReader<'_>,
    main: &Process,
    folder: &str,
) -> Result<Option<(Vec<String>, FileLocation)>, NextCommandLine> {
    for file in [format!("{folder}/pg_ctl.conf"), FOR_ALL.to_owned()] {
        let path = options::as_reader_opens(host, main, &file);
        let place = |line: u64| FileLocation { file: path.clone(), line };
        let bytes = match facts.source.read(&path) {
            Observed::Known(bytes) => bytes,
            Observed::Absent => continue,
            Observed::Denied | Observed::Malformed(_) => {
                return Err(NextCommandLine::Unclear(place(0)));
            }
        };
        let refused =
            |what: &str, line: u64| NextCommandLine::Refused(format!("{what} ({})", place(line)));
        let found = parse(&bytes)
            .map_err(|line| refused("pg_ctlcluster does not accept the line", line))?;
        let Some((value, line)) = found else { return Ok(None) };
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        let (given, _) =
            pg_ctl(&words).ok_or_else(|| refused("pg_ctl does not accept pg_ctl_options", line))?;
        return Ok(Some((given, place(line))));
    }
    Ok(None)
}

/// The last `pg_ctl_options` of a file and its line; or the line that PgCommon.pm refuses.
fn parse(bytes: &[u8]) -> Result<Option<(String, u64)>, u64> {
    let mut found = None;
    for (number, line) in numbered_lines(bytes) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let name = |sign: char| sign.is_ascii_alphanumeric() || "_.-".contains(sign);
        let end = line.find(|sign: char| !name(sign)).unwrap_or(line.len());
        let (key, rest) = line.split_at_checked(end).ok_or(number)?;
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        let value = match rest.strip_prefix('\'') {
            Some(inside) => parse_quoted(inside).ok_or(number)?,
            None => parse_unquoted(rest).ok_or(number)?,
        };
        if key.is_empty() {
            return Err(number);
        }
        if key.eq_ignore_ascii_case("pg_ctl_options") {
            found = Some((value, number)).filter(|(value, _)| !value.is_empty());
        }
    }
    Ok(found)
}

/// The text up to the closing quote, where only a comment follows: `''` and `\'` are quotes.
fn parse_quoted(text: &str) -> Option<String> {
    let (mut value, mut signs) = (String::new(), text.chars().peekable());
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => value.extend(signs.next()),
            '\'' if signs.next_if_eq(&'\'').is_some() => value.push('\''),
            '\'' => {
                let behind: String = signs.collect();
                let behind = behind.trim_start();
                return (behind.is_empty() || behind.starts_with('#')).then_some(value);
            }
            _ => value.push(sign),
        }
    }
    None
}

fn parse_unquoted(text: &str) -> Option<String> {
    let value = text.split('#').next().unwrap_or_default().trim_end();
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "._:/+-".contains(sign);
    let begins = value
        .strip_prefix('-')
        .unwrap_or(value)
        .starts_with(|sign: char| sign.is_ascii_alphanumeric());
    (begins && value.chars().all(plain)).then(|| value.to_owned())
}

/// Letters of `pg_ctl` with a value (9.6 to 18); `-o` is passed to `postgres`.
const TAKES_VALUE: &str = "DlmNpPStUoe";
const OTHERS: &str = "csVwW";

/// What `pg_ctl` passes to `postgres`, and the data directory; none where it refuses a word.
fn pg_ctl(words: &[String]) -> Option<(Vec<String>, Option<String>)> {
    let (mut given, mut data) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
            let value = |words: &mut std::slice::Iter<'_, String>| {
                value.clone().or_else(|| words.next().cloned())
            };
            match name {
                "options" => given.extend(shell_words(&value(&mut words)?)),
                "pgdata" => data = value(&mut words),
                "log" | "mode" | "timeout" => drop(value(&mut words)),
                _ => {}
            }
            continue;
        }
        let mut letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        while let Some(letter) = letters.chars().next() {
            letters = letters.get(letter.len_utf8()..).unwrap_or_default();
            if !TAKES_VALUE.contains(letter) {
                if !OTHERS.contains(letter) {
                    return None;
                }
                continue;
            }
            let value =
                if letters.is_empty() { words.next().cloned() } else { Some(letters.to_owned()) };
            match letter {
                'o' => given.extend(shell_words(&value?)),
                'D' => data = Some(value?),
                _ => drop(value?),
            }
            break;
        }
    }
    Some((given, data))
}

/// What `pg_ctlcluster` adds for `postgres` behind its configuration, and for `pg_ctl`.
fn pg_ctlcluster(words: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut added, mut handed_on) = (Vec::new(), Vec::new());
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let value = |name: &str| word.strip_prefix(name).filter(|rest| !rest.is_empty());
        match word.as_str() {
            "--" => handed_on.extend(words.by_ref().cloned()),
            "-o" | "--options" | "--option" => {
                added.extend(words.next().into_iter().flat_map(|text| shell_words(text)))
            }
            "-m" | "--mode" | "--bindir" => drop(words.next()),
            _ => {
                let glued =
                    value("--options=").or_else(|| value("-o").filter(|_| !word.starts_with("--")));
                added.extend(glued.into_iter().flat_map(shell_words));
            }
        }
    }
    (added, handed_on)
}

pub(super) fn redact_option_file(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with("/etc/postgresql") || !path.ends_with("/pg_ctl.conf") {
        return None;
    }
    let mut kept = vec![String::new(); numbered_lines(bytes).count()];
    let mut put = |number: u64, text: String| {
        let at = usize::try_from(number.saturating_sub(1)).unwrap_or_default();
        kept.get_mut(at).into_iter().for_each(|line| line.clone_from(&text));
    };
    match parse(bytes) {
        Err(number) => put(number, NO_VALUE.to_owned()),
        Ok(None) => {}
        Ok(Some((value, number))) => {
            let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
            // As unacceptable as what stood there.
            let text = pg_ctl(&words)
                .map_or_else(|| "refused".to_owned(), |(given, _)| redact_given_options(given));
            put(number, format!("pg_ctl_options = '{text}'"));
        }
    }
    Some(kept.join("\n").trim_end().as_bytes().to_vec())
}

fn redact_given_options(given: Vec<String>) -> String {
    let words: Vec<String> = std::iter::once(String::new()).chain(given).collect();
    let unsafe_sign = |sign: char| sign.is_whitespace() || "'\"\\".contains(sign);
    let word = |(name, value): &(String, String)| {
        let value = Some(redact_value(name, value)).filter(|value| !value.contains(unsafe_sign));
        format!("-o --{name}={}", value.unwrap_or(NO_VALUE))
    };
    find_decisive_words(&words).iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
