//! How a PostgreSQL server is started anew: by itself, by `pg_ctl`, or by Debian's `pg_ctlcluster`, which has options of a file
//! (postgresql-common 248).

use hugewise_host::Door;
use hugewise_host::capture::shape::NO_VALUE;
use hugewise_host::config::files::lines;
use hugewise_model::configuration::{Place, ServiceStart, StartCommand};
use hugewise_model::{Host, Instance, Observed, Process};

use super::{KIND, describe, settings};
use crate::settings::shown;
use crate::starting::{Next, Starting};
use crate::unit_start::shell_words;
use crate::{Scene, options};

pub(super) static STARTING: Starting = Starting { would_be, decisive, made };

const PG_CTLCLUSTER: &str = "pg_ctlcluster";

/// Where the file of all clusters lies that have none of their own.
const FOR_ALL: &str = "/etc/postgresql-common/pg_ctl.conf";

fn would_be(scene: &Scene<'_>, main: &Process, _: &Instance) -> Instance {
    let files = scene.files_of(main);
    let data = super::option_directory(main).filter(|path| path.starts_with('/'));
    let directory = data.map_or_else(|| main.directory.clone(), Observed::Known);
    describe(scene, &mut Door::new(&files), &Process { directory, ..main.clone() }, &[])
}

fn decisive(words: &[String]) -> Vec<(String, String)> {
    let counts = |(name, _): &(String, String)| KIND.settings.contains(&name.as_str());
    settings::command_line(words).into_iter().filter(counts).collect()
}

/// What its own program, `pg_ctl` or `pg_ctlcluster` make of a command; of a cluster of Debian's that nothing is known of but that
/// it runs, what its file of options says.
fn made(scene: &Scene<'_>, main: &Process, command: Option<&StartCommand>, _: &ServiceStart) -> Option<Next> {
    let own = main.command.known()?;
    let program = command.and_then(|command| command.words.first()).map(|first| options::file_name(first));
    let is = |name: &str| program == Some(name);
    match command {
        Some(command) if is("pg_ctl") => {
            let is_action = |word: &&String| matches!(word.as_str(), "start" | "restart");
            let words: Vec<String> = command.words.iter().skip(1).filter(|word| !is_action(word)).cloned().collect();
            let (given, data) = pg_ctl(&words).ok()?;
            let data = data.or_else(|| super::option_directory(main));
            let data = data.into_iter().flat_map(|data| ["-D".to_owned(), data]);
            Some(Next::Words(own.iter().take(1).cloned().chain(data).chain(given).collect(), command.place.clone()))
        }
        Some(_) if !is(PG_CTLCLUSTER) => None,
        _ => {
            let (folder, at) = cluster(own)?;
            Some(by_cluster(scene, main, &folder, own, at, command))
        }
    }
}

/// The folder of a cluster of Debian's, and where in its command line the option that names its configuration begins.
fn cluster(words: &[String]) -> Option<(String, usize)> {
    let (at, folder) = words.iter().enumerate().find_map(|(at, word)| {
        let path = word.strip_prefix("-c").unwrap_or(word).trim_start().strip_prefix("config_file=")?;
        Some((at, path.strip_suffix("/postgresql.conf")?.to_owned()))
    })?;
    let name = folder.strip_prefix("/etc/postgresql/")?;
    let whole = name.split('/').count() == 2 && name.split('/').all(|part| !part.is_empty() && part != "..");
    let glued = words.get(at).is_some_and(|word| word.starts_with("-c"));
    whole.then_some((folder, if glued { at } else { at.saturating_sub(1) }))
}

/// `postgres -D DATA`, the options of the file, its configuration and what stands there, and at last those of a unit's command.
fn by_cluster(
    scene: &Scene<'_>,
    main: &Process,
    folder: &str,
    own: &[String],
    at: usize,
    command: Option<&StartCommand>,
) -> Next {
    let files = scene.files_of(main);
    let mut door = Door::new(&files);
    let (mut before, place) = match options_of(scene.host, &mut door, main, folder) {
        Ok(Some(found)) => found,
        Ok(None) => (Vec::new(), Place { file: format!("{folder}/pg_ctl.conf"), line: 0 }),
        Err(next) => return next,
    };
    let mut behind: Vec<String> = own.get(at..).unwrap_or_default().to_vec();
    let mut place = place;
    if let Some(command) = command {
        // What it adds itself is the same each time; what it was told is known of a unit.
        let ours = decisive(&[&["".to_owned()], behind.as_slice()].concat());
        let (added, handed_on) = pg_ctlcluster(&command.words);
        let of_unit = decisive(&[&["".to_owned()], added.as_slice()].concat());
        let kept: Vec<String> = behind.iter().take(2).cloned().collect();
        let identity = ours.iter().filter(|(name, _)| crate::unit_start::is_identity(name));
        behind = identity.fold(kept, |mut words, (name, value)| {
            words.extend(["-c".to_owned(), format!("{name}={value}")]);
            words
        });
        behind.extend(added);
        match pg_ctl(&handed_on) {
            Ok((given, _)) => before.splice(..0, given).for_each(drop),
            Err(_) => return Next::Refused(format!("pg_ctl does not accept its options ({})", command.place)),
        }
        if !of_unit.is_empty() || !handed_on.is_empty() {
            place = command.place.clone();
        }
    }
    let first = own.iter().take(1).cloned();
    let data = super::option_directory(main).into_iter().flat_map(|data| ["-D".to_owned(), data]);
    Next::Words(first.chain(data).chain(before).chain(behind).collect(), place)
}

/// What the file of options of a cluster has `postgres` started with, and the line that says it; none where there is none.
///
/// # Errors
/// What a start comes to then: `pg_ctlcluster` takes no line that it does not know, and `pg_ctl` no word that is no option.
fn options_of(
    host: &Host,
    door: &mut Door<'_>,
    main: &Process,
    folder: &str,
) -> Result<Option<(Vec<String>, Place)>, Next> {
    for file in [format!("{folder}/pg_ctl.conf"), FOR_ALL.to_owned()] {
        let path = options::as_reader_opens(host, main, &file);
        let place = |line: u64| Place { file: path.clone(), line };
        let bytes = match door.source.read(&path) {
            Observed::Known(bytes) => bytes,
            Observed::Absent => continue,
            Observed::Denied | Observed::Malformed(_) => return Err(Next::Unclear(place(0))),
        };
        let found = match parse(&bytes) {
            Ok(found) => found,
            Err(line) => {
                return Err(Next::Refused(format!("pg_ctlcluster does not accept the line ({})", place(line))));
            }
        };
        let Some((value, line)) = found else { return Ok(None) };
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        return match pg_ctl(&words) {
            Ok((given, _)) => Ok(Some((given, place(line)))),
            Err(NotTaken) => Err(Next::Refused(format!("pg_ctl does not accept pg_ctl_options ({})", place(line)))),
        };
    }
    Ok(None)
}

/// The last `pg_ctl_options` of a file, without its quotes, and its line.
///
/// # Errors
/// The line that PgCommon.pm takes for none.
fn parse(bytes: &[u8]) -> Result<Option<(String, u64)>, u64> {
    let mut found = None;
    for (number, line) in lines(bytes) {
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
            Some(inside) => quoted(inside).ok_or(number)?,
            None => simple(rest).ok_or(number)?,
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

/// What stands up to the closing quote, with nothing but a comment behind it: `''` and `\'` are quotes.
fn quoted(text: &str) -> Option<String> {
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

fn simple(text: &str) -> Option<String> {
    let value = text.split('#').next().unwrap_or_default().trim_end();
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "._:/+-".contains(sign);
    let begins = value.strip_prefix('-').unwrap_or(value).starts_with(|sign: char| sign.is_ascii_alphanumeric());
    (begins && value.chars().all(plain)).then(|| value.to_owned())
}

/// Words that `pg_ctl` does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NotTaken;

/// Letters of `pg_ctl` that take a value (9.6 to 18), of which `-o` is what `postgres` is given, and the others.
const TAKES_VALUE: &str = "DlmNpPStUoe";
const OTHERS: &str = "csVwW";

/// What `pg_ctl` hands on to `postgres` of these words, which a shell parts, and the data directory that they name.
///
/// # Errors
/// There is a word among them that is none of its options, or one without its value.
fn pg_ctl(words: &[String]) -> Result<(Vec<String>, Option<String>), NotTaken> {
    let (mut given, mut data) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
            let value = |words: &mut std::slice::Iter<'_, String>| value.clone().or_else(|| words.next().cloned());
            match name {
                "options" => given.extend(shell_words(&value(&mut words).ok_or(NotTaken)?)),
                "pgdata" => data = value(&mut words),
                "log" | "mode" | "timeout" => drop(value(&mut words)),
                _ => {}
            }
            continue;
        }
        let mut letters = word.strip_prefix('-').filter(|letters| !letters.is_empty()).ok_or(NotTaken)?;
        while let Some(letter) = letters.chars().next() {
            letters = letters.get(letter.len_utf8()..).unwrap_or_default();
            if !TAKES_VALUE.contains(letter) {
                if !OTHERS.contains(letter) {
                    return Err(NotTaken);
                }
                continue;
            }
            let value = if letters.is_empty() { words.next().cloned() } else { Some(letters.to_owned()) };
            let value = value.ok_or(NotTaken)?;
            match letter {
                'o' => given.extend(shell_words(&value)),
                'D' => data = Some(value),
                _ => {}
            }
            break;
        }
    }
    Ok((given, data))
}

/// What `pg_ctlcluster` of these words adds for `postgres` behind its configuration, and what it hands on to `pg_ctl`.
fn pg_ctlcluster(words: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut added, mut handed_on) = (Vec::new(), Vec::new());
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let value = |name: &str| word.strip_prefix(name).filter(|rest| !rest.is_empty());
        match word.as_str() {
            "--" => handed_on.extend(words.by_ref().cloned()),
            "-o" | "--options" | "--option" => added.extend(words.next().into_iter().flat_map(|it| shell_words(it))),
            "-m" | "--mode" | "--bindir" => drop(words.next()),
            _ => {
                let glued = value("--options=").or_else(|| value("-o").filter(|_| !word.starts_with("--")));
                added.extend(glued.into_iter().flat_map(shell_words));
            }
        }
    }
    (added, handed_on)
}

/// What a capture keeps of a file of options: the settings that are read, each with a value of its kind.
pub(super) fn kept(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with("/etc/postgresql") || !path.ends_with("/pg_ctl.conf") {
        return None;
    }
    let count = lines(bytes).count();
    let mut kept = vec![String::new(); count];
    let mut put = |number: u64, text: String| {
        let at = usize::try_from(number.saturating_sub(1)).unwrap_or_default();
        kept.get_mut(at).into_iter().for_each(|line| line.clone_from(&text));
    };
    match parse(bytes) {
        Err(number) => put(number, NO_VALUE.to_owned()),
        Ok(None) => {}
        Ok(Some((value, number))) => {
            let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
            let text = match pg_ctl(&words) {
                Ok((given, _)) => {
                    let given: Vec<String> = std::iter::once(String::new()).chain(given).collect();
                    let plain =
                        |value: &str| !value.contains(|sign: char| sign.is_whitespace() || "'\"\\".contains(sign));
                    let word = |(name, value): &(String, String)| {
                        let value = Some(shown(name, value)).filter(|value| plain(value)).unwrap_or(NO_VALUE);
                        format!("-o --{name}={value}")
                    };
                    decisive(&given).iter().map(word).collect::<Vec<_>>().join(" ")
                }
                // As little to be taken as what stood there.
                Err(_) => "refused".to_owned(),
            };
            put(number, format!("pg_ctl_options = '{text}'"));
        }
    }
    Some(kept.join("\n").trim_end().as_bytes().to_vec())
}

/// The words that Debian's cluster of a folder is started with beside its configuration, for one that does not run.
pub(super) fn of_cluster(host: &Host, door: &mut Door<'_>, main: &Process, folder: &str) -> Result<Vec<String>, Next> {
    options_of(host, door, main, folder).map(|found| found.map(|(words, _)| words).unwrap_or_default())
}

#[cfg(test)]
mod tests;
