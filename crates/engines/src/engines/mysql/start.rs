//! A MySQL or MariaDB server with another command line.

use hugewise_host::FactReader;
use hugewise_model::configuration::{ServiceStart, StartCommand};
use hugewise_model::{Instance, Process};

use super::{KIND, build_instance};
use crate::EngineContext;
use crate::shared::options;
use crate::shared::starting::{NextCommandLine, Starting};

pub(super) static STARTING: Starting =
    Starting { would_be, decisive: find_decisive_words, made: resolve_start_command };

/// Prefixes of settings that decide on memory, not on the server's place.
const OF_MEMORY: [&str; 5] = ["large_pages", "innodb_", "key_", "aria_", "max_connections"];

fn would_be(scene: &EngineContext<'_>, main: &Process, _: &Instance) -> Instance {
    let (files, shared) = (scene.files_of(main), scene.host_files_for(main));
    build_instance(scene, &mut FactReader::new(&files), &shared, main)
}

fn find_decisive_words(words: &[String]) -> Vec<(String, String)> {
    let setting = |word: &String| {
        let option = word.strip_prefix("--")?;
        let name =
            option.split('=').next().unwrap_or(option).replace('-', "_").to_ascii_lowercase();
        let plain = ["skip_", "loose_", "disable_", "enable_", "maximum_"].into_iter();
        let plain =
            plain.fold(name.as_str(), |name, start| name.strip_prefix(start).unwrap_or(name));
        let ours = OF_MEMORY.iter().any(|start| plain.starts_with(start))
            || plain.starts_with("defaults_");
        ours.then(|| (plain.to_owned(), word.clone()))
    };
    words.iter().filter_map(setting).collect()
}

/// `mysqld_safe` passes its options on, and finds out itself where its server is.
fn resolve_start_command(
    _: &EngineContext<'_>,
    main: &Process,
    command: Option<&StartCommand>,
    _: &ServiceStart,
) -> Option<NextCommandLine> {
    let command = command?;
    let first = command.words.first().map(|first| options::file_name(first))?;
    if !KIND.recognition.companions.contains(&first) {
        return None;
    }
    let given = find_decisive_words(&command.words);
    let own = main.command.as_known()?.clone();
    let decides: Vec<String> =
        find_decisive_words(&own).into_iter().map(|(_, word)| word).collect();
    let mut words: Vec<String> = own.into_iter().filter(|word| !decides.contains(word)).collect();
    // Options that choose the files stand first.
    let (files, others): (Vec<_>, Vec<_>) =
        given.into_iter().partition(|(name, _)| name.starts_with("defaults_"));
    let at = words.len().min(1);
    words.splice(at..at, files.into_iter().map(|(_, word)| word));
    words.extend(others.into_iter().map(|(_, word)| word));
    Some(NextCommandLine::Words(words, command.place.clone()))
}
