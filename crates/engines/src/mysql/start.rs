//! A MySQL or MariaDB server as another command line than its own would make it.

use hugewise_host::Door;
use hugewise_model::configuration::{ServiceStart, StartCommand};
use hugewise_model::{Instance, Process};

use super::{KIND, instance};
use crate::starting::{Next, Starting};
use crate::{Scene, options};

pub(super) static STARTING: Starting = Starting { would_be, decisive, made };

/// Its memory by its settings alone: what decides that of a server, and not where it is.
const OF_MEMORY: [&str; 5] = ["large_pages", "innodb_", "key_", "aria_", "max_connections"];

fn would_be(scene: &Scene<'_>, main: &Process, _: &Instance) -> Instance {
    let (files, shared) = (scene.files_of(main), scene.host_files_for(main));
    instance(scene, &mut Door::new(&files), &shared, main)
}

fn decisive(words: &[String]) -> Vec<(String, String)> {
    let setting = |word: &String| {
        let option = word.strip_prefix("--")?;
        let name = option.split('=').next().unwrap_or(option).replace('-', "_").to_ascii_lowercase();
        let plain = ["skip_", "loose_", "disable_", "enable_", "maximum_"].into_iter();
        let plain = plain.fold(name.as_str(), |name, start| name.strip_prefix(start).unwrap_or(name));
        let ours = OF_MEMORY.iter().any(|start| plain.starts_with(start)) || plain.starts_with("defaults_");
        ours.then(|| (plain.to_owned(), word.clone()))
    };
    words.iter().filter_map(setting).collect()
}

/// `mysqld_safe` hands on what it is told; where its server is it finds out itself.
fn made(_: &Scene<'_>, main: &Process, command: Option<&StartCommand>, _: &ServiceStart) -> Option<Next> {
    let command = command?;
    let first = command.words.first().map(|first| options::file_name(first))?;
    if !KIND.companions.contains(&first) {
        return None;
    }
    let given = decisive(&command.words);
    let own = main.command.known()?.clone();
    let decides: Vec<String> = decisive(&own).into_iter().map(|(_, word)| word).collect();
    let mut words: Vec<String> = own.into_iter().filter(|word| !decides.contains(word)).collect();
    // Which files are read stands first.
    let (files, others): (Vec<_>, Vec<_>) = given.into_iter().partition(|(name, _)| name.starts_with("defaults_"));
    let at = words.len().min(1);
    words.splice(at..at, files.into_iter().map(|(_, word)| word));
    words.extend(others.into_iter().map(|(_, word)| word));
    Some(Next::Words(words, command.place.clone()))
}
