//! What a service starts, by systemd's rules: systemd.service(5), "Command lines"; systemd.exec(5), "Environment";
//! systemd.unit(5), "Specifiers".

mod specifiers;
mod variables;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::Observed;
use hugewise_model::configuration::{Place, ServiceStart, StartCommand};

use super::filling::{Room, TooLong, bounded};
use super::unit::Assignment;
use crate::Door;

pub(super) use specifiers::filled;
pub(crate) use variables::parse as variables_of;
pub(crate) use words::words;

/// Signs before the path of a program.
const PREFIXES: [char; 6] = ['@', '-', '+', '!', ':', '|'];

/// Programs that become the one that their arguments name.
pub(crate) const WRAPPERS: [&str; 8] = ["env", "numactl", "taskset", "nice", "ionice", "chrt", "prlimit", "setarch"];

/// The settings of a service that decide on what it starts.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// `ExecStart=`, in order.
    commands: Vec<(String, Place)>,
    /// `Environment=`.
    environment: BTreeMap<String, String>,
    /// `EnvironmentFile=`, in order.
    files: Vec<(String, Place)>,
    /// `UnsetEnvironment=`.
    unset: BTreeSet<String>,
}

impl Lines {
    fn of<'a>(name: &str, assignments: impl Iterator<Item = (&'a str, &'a Assignment)>) -> Result<Self, TooLong> {
        let mut lines = Self::default();
        let mut room = Room::default();
        for (file, one) in assignments.filter(|(_, one)| one.section == "Service") {
            let place = || Place { file: file.to_owned(), line: one.line };
            let values = || -> Result<Vec<String>, TooLong> {
                words(bounded(&one.value)?).iter().map(|word| filled(name, word)).collect()
            };
            match one.key.as_str() {
                "ExecStart" if one.value.is_empty() => lines.commands.clear(),
                "ExecStart" => lines.commands.push((one.value.clone(), place())),
                "Environment" if one.value.is_empty() => lines.environment.clear(),
                "Environment" => {
                    let values = values()?;
                    room.take_all(&values)?;
                    let pairs = values.iter().filter_map(|word| word.split_once('='));
                    lines.environment.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
                }
                "EnvironmentFile" if one.value.is_empty() => lines.files.clear(),
                "EnvironmentFile" => lines.files.push((filled(name, bounded(&one.value)?)?, place())),
                "UnsetEnvironment" if one.value.is_empty() => lines.unset.clear(),
                "UnsetEnvironment" => lines.unset.extend(values()?),
                _ => {}
            }
        }
        Ok(lines)
    }
}

/// What the assignments of a service, each with its file, have it start; its files of variables are read.
///
/// # Errors
/// What it stands for is longer than any server's.
pub(super) fn read(
    door: &mut Door<'_>,
    name: &str,
    assignments: &[(String, Assignment)],
) -> Result<ServiceStart, TooLong> {
    let mut room = Room::default();
    let lines = Lines::of(name, assignments.iter().map(|(file, one)| (file.as_str(), one)))?;
    let mut start = ServiceStart::default();
    let mut environment = lines.environment.clone();
    for (value, place) in &lines.files {
        let (path, may_lack) = value.strip_prefix('-').map_or((value.as_str(), false), |path| (path, true));
        if !path.starts_with('/') {
            continue;
        }
        // What one pattern stands for is read in the order of names.
        let paths = if path.contains(['*', '?', '[']) { matching(door, path) } else { vec![path.to_owned()] };
        let mut found = false;
        for path in paths {
            match door.source.read(&path) {
                Observed::Known(bytes) => {
                    found = true;
                    for (key, value) in variables_of(&bytes) {
                        room.take(key.len().saturating_add(value.len()))?;
                        environment.insert(key, value);
                    }
                    start.variable_files.push(path);
                }
                // It may have been there.
                Observed::Absent => start.variable_files.push(path),
                Observed::Denied | Observed::Malformed(_) => {
                    found = true;
                    start.unread = start.unread.or(Some(Place { file: path, line: 0 }));
                }
            }
        }
        if !found && !may_lack {
            start.lacks = start.lacks.or_else(|| Some((path.to_owned(), place.clone())));
        }
    }
    let gone =
        |key: &str, value: &str| lines.unset.iter().any(|it| it == key || it.split_once('=') == Some((key, value)));
    environment.retain(|key, value| !gone(key, value));
    for (line, place) in &lines.commands {
        let all = commands(name, line, &environment)?.into_iter().filter(|words| !words.is_empty());
        start.commands.extend(all.map(|words| StartCommand { words, place: place.clone() }));
    }
    start.environment = environment.into_iter().filter(|(key, _)| READ.contains(&key.as_str())).collect();
    Ok(start)
}

/// Variables that are kept: of all others nothing is read.
const READ: [&str; 4] = ["PGDATA", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"];

/// The files that a pattern in the last part of a path stands for.
fn matching(door: &Door<'_>, path: &str) -> Vec<String> {
    let Some((folder, _)) = path.rsplit_once('/') else { return Vec::new() };
    let names = door.source.list(folder).into_known().unwrap_or_default();
    let mut paths: Vec<String> = names.into_iter().map(|name| format!("{folder}/{name}")).collect();
    paths.retain(|one| super::pattern::covers(path, one));
    paths.sort();
    paths
}

/// The words of the first program that the text of one unit file has a service start, where its files of variables say nothing.
///
/// # Errors
/// What it stands for is longer than any server's.
pub(super) fn first_program(name: &str, assignments: &[Assignment]) -> Result<Vec<String>, TooLong> {
    let lines = Lines::of(name, assignments.iter().map(|one| ("", one)))?;
    let Some((line, _)) = lines.commands.first() else { return Ok(Vec::new()) };
    Ok(commands(name, line, &lines.environment)?.into_iter().next().unwrap_or_default())
}

/// The programs of one line, variables filled in, without what only wraps them.
fn commands(name: &str, line: &str, environment: &BTreeMap<String, String>) -> Result<Vec<Vec<String>>, TooLong> {
    let (mut all, mut room) = (Vec::new(), Room::default());
    for words in words(bounded(line)?).split(|word| word == ";") {
        let Some((first, arguments)) = words.split_first() else { continue };
        let program = first.trim_start_matches(PREFIXES);
        let has = |sign: char| first.chars().take_while(|it| PREFIXES.contains(it)).any(|it| it == sign);
        let mut command = vec![filled(name, program)?];
        // The word behind it is what the program is told to be called.
        for word in arguments.iter().skip(usize::from(has('@'))) {
            let word = if word == "\\;" { ";".to_owned() } else { filled(name, word)? };
            let words = if has(':') { vec![word] } else { variables::fill_in(&word, environment)? };
            room.take_all(&words)?;
            command.extend(words);
        }
        all.push(unwrapped(command));
    }
    Ok(all)
}

/// The command line behind wrappers: the first word that is a whole path, or that stands behind their own options.
fn unwrapped(mut words: Vec<String>) -> Vec<String> {
    let file_name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    while let Some(wrapper) = words.first().map(file_name).filter(|first| WRAPPERS.contains(&first.as_str())) {
        // env looks for the program itself, and has words like A=b before it.
        let is_program = |word: &String| match wrapper.as_str() {
            "env" => !word.starts_with('-') && !word.contains('='),
            _ => word.starts_with('/'),
        };
        match words.iter().skip(1).position(is_program) {
            Some(at) => words.drain(..=at),
            None => return words,
        };
    }
    words
}

#[cfg(test)]
mod tests;
