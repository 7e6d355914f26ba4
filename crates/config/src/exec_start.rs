//! What a service starts, by systemd's rules: systemd.service(5), "Command lines"; systemd.exec(5),
//! "Environment"; systemd.unit(5), "Specifiers".

mod specifiers;
mod variables;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::Observed;
use hugewise_model::configuration::{FileLocation, ServiceStart, StartCommand};

use super::expansion_budget::{ExpansionBudget, ExpansionTooLong, check_text_length};
use super::launchers::strip_launchers;
use super::unit::UnitAssignment;
use hugewise_source::FactReader;

pub(super) use specifiers::expand_specifiers;
pub(crate) use variables::parse as variables_of;
pub use words::split_command_words;

const PREFIXES: [char; 6] = ['@', '-', '+', '!', ':', '|'];

#[derive(Clone, Debug, Default)]
struct ExecStartSettings {
    commands: Vec<(String, FileLocation)>,
    environment: BTreeMap<String, String>,
    files: Vec<(String, FileLocation)>,
    unset: BTreeSet<String>,
    directory: Option<String>,
}

impl ExecStartSettings {
    fn from_assignments<'a>(
        name: &str,
        assignments: impl Iterator<Item = (&'a str, &'a UnitAssignment)>,
    ) -> Result<Self, ExpansionTooLong> {
        let mut lines = Self::default();
        let mut room = ExpansionBudget::default();
        for (file, one) in assignments.filter(|(_, one)| one.section == "Service") {
            let place = || FileLocation { file: file.to_owned(), line: one.line };
            let values = || -> Result<Vec<String>, ExpansionTooLong> {
                split_command_words(check_text_length(&one.value)?)
                    .iter()
                    .map(|word| expand_specifiers(name, word))
                    .collect()
            };
            match one.key.as_str() {
                "ExecStart" if one.value.is_empty() => lines.commands.clear(),
                "ExecStart" => lines.commands.push((one.value.clone(), place())),
                "Environment" if one.value.is_empty() => lines.environment.clear(),
                "Environment" => {
                    let values = values()?;
                    room.count_words(&values)?;
                    let pairs = values.iter().filter_map(|word| word.split_once('='));
                    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
                    lines.environment.extend(pairs);
                }
                "EnvironmentFile" if one.value.is_empty() => lines.files.clear(),
                "EnvironmentFile" => {
                    let file = expand_specifiers(name, check_text_length(&one.value)?)?;
                    lines.files.push((file, place()));
                }
                "WorkingDirectory" => {
                    let folder = expand_specifiers(name, check_text_length(&one.value)?)?;
                    let folder = folder.trim_start_matches('-').to_owned();
                    lines.directory = Some(folder).filter(|folder| folder.starts_with('/'));
                }
                "UnsetEnvironment" if one.value.is_empty() => lines.unset.clear(),
                "UnsetEnvironment" => lines.unset.extend(values()?),
                _ => {}
            }
        }
        Ok(lines)
    }
}

/// Reads its files of variables too. An error where it becomes longer than any server's.
pub(super) fn read(
    door: &mut FactReader<'_>,
    name: &str,
    assignments: &[(String, UnitAssignment)],
) -> Result<ServiceStart, ExpansionTooLong> {
    let mut room = ExpansionBudget::default();
    let all = assignments.iter().map(|(file, one)| (file.as_str(), one));
    let lines = ExecStartSettings::from_assignments(name, all)?;
    let mut start = ServiceStart::default();
    let mut environment = lines.environment.clone();
    for (value, place) in &lines.files {
        let (path, may_lack) =
            value.strip_prefix('-').map_or((value.as_str(), false), |path| (path, true));
        if !path.starts_with('/') {
            continue;
        }
        let paths = locate_variable_files(door, path, &mut start.variable_places);
        let mut found = false;
        for path in paths {
            match door.source.read(&path) {
                Observed::Known(bytes) => {
                    found = true;
                    for (key, value) in variables_of(&bytes) {
                        room.count_word(key.len().saturating_add(value.len()))?;
                        environment.insert(key, value);
                    }
                    start.variable_files.push(path);
                }
                // It may have been there.
                Observed::Absent => start.variable_files.push(path),
                Observed::Denied | Observed::Malformed(_) => {
                    found = true;
                    start.unread = start.unread.or(Some(FileLocation { file: path, line: 0 }));
                }
            }
        }
        if !found && !may_lack {
            start.lacks = start.lacks.or_else(|| Some((path.to_owned(), place.clone())));
        }
    }
    let gone = |key: &str, value: &str| {
        lines.unset.iter().any(|text| text == key || text.split_once('=') == Some((key, value)))
    };
    environment.retain(|key, value| !gone(key, value));
    for (line, place) in &lines.commands {
        let bare = parse_commands(name, line, &BTreeMap::new())?;
        let all = parse_commands(name, line, &environment)?.into_iter().zip(bare);
        let all = all.filter(|(words, _)| !words.is_empty());
        start.commands.extend(all.map(|(words, bare_words)| StartCommand {
            words,
            bare_words,
            place: place.clone(),
        }));
    }
    let is_read = |key: &str| READ.contains(&key) || LOADING_VARIABLES.contains(&key);
    start.environment = environment.into_iter().filter(|(key, _)| is_read(key)).collect();
    start.directory = lines.directory;
    Ok(start)
}

/// Variables that are kept, beside those that load code: of all others nothing is read.
const READ: [&str; 4] = ["PGDATA", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"];

/// Variables that name files or folders of code, which a program loads before its own or finds its
/// modules in: ld.so(8), iconv(1), and those of the interpreters that keep servers up.
pub const LOADING_VARIABLES: [&str; 9] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "GCONV_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PERL5LIB",
    "BASH_ENV",
    "ENV",
];

/// The files that a path or a pattern stands for. Notes these, and the folder of a pattern, where
/// others may yet be put.
fn locate_variable_files(
    door: &FactReader<'_>,
    path: &str,
    places: &mut Vec<String>,
) -> Vec<String> {
    let paths = if path.contains(['*', '?', '[']) {
        places.extend(path.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
        expand_file_pattern(door, path)
    } else {
        vec![path.to_owned()]
    };
    places.extend(paths.iter().cloned());
    paths
}

fn expand_file_pattern(door: &FactReader<'_>, path: &str) -> Vec<String> {
    let Some((folder, _)) = path.rsplit_once('/') else { return Vec::new() };
    let names = door.source.list_folder(folder).into_known().unwrap_or_default();
    let mut paths: Vec<String> = names.into_iter().map(|name| format!("{folder}/{name}")).collect();
    paths.retain(|one| super::pattern::covers_path(path, one));
    paths.sort();
    paths
}

/// By the text of one unit file, where its files of variables say nothing.
pub(super) fn first_program(
    name: &str,
    assignments: &[UnitAssignment],
) -> Result<Vec<String>, ExpansionTooLong> {
    let lines = ExecStartSettings::from_assignments(name, assignments.iter().map(|one| ("", one)))?;
    let Some((line, _)) = lines.commands.first() else { return Ok(Vec::new()) };
    Ok(parse_commands(name, line, &lines.environment)?.into_iter().next().unwrap_or_default())
}

fn parse_commands(
    name: &str,
    line: &str,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Vec<String>>, ExpansionTooLong> {
    let (mut all, mut room) = (Vec::new(), ExpansionBudget::default());
    for words in split_command_words(check_text_length(line)?).split(|word| word == ";") {
        let Some((first, arguments)) = words.split_first() else { continue };
        let program = first.trim_start_matches(PREFIXES);
        let prefix = first.strip_suffix(program).unwrap_or_default();
        let has = |sign: char| prefix.contains(sign);
        let mut command = vec![expand_specifiers(name, program)?];
        // The word behind it is what the program is told to be called.
        for word in arguments.iter().skip(usize::from(has('@'))) {
            let word = if word == "\\;" { ";".to_owned() } else { expand_specifiers(name, word)? };
            let words = if has(':') { vec![word] } else { variables::fill_in(&word, environment)? };
            room.count_words(&words)?;
            command.extend(words);
        }
        all.push(strip_wrappers(command));
    }
    Ok(all)
}

/// The command line behind what becomes its program; the whole, where nothing is behind that.
fn strip_wrappers(words: Vec<String>) -> Vec<String> {
    match strip_launchers(&words) {
        [] => words,
        behind => behind.to_vec(),
    }
}

#[cfg(test)]
mod tests;
