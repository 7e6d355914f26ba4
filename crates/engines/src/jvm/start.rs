//! A Java virtual machine as another command line than its own would make it.

use std::collections::BTreeMap;

use hugewise_host::Door;
use hugewise_model::configuration::{ServiceStart, StartCommand};
use hugewise_model::instance::Setting;
use hugewise_model::{Asked, Instance, Process};

use super::flags::{self, Flags};
use super::{KIND, command_words, container, demand, described, instance};
use crate::starting::{Next, Starting};
use crate::{Scene, options};

pub(super) static STARTING: Starting = Starting { would_be, decisive, made };

fn would_be(scene: &Scene<'_>, main: &Process, _: &Instance) -> Instance {
    let files = scene.files_of(main);
    machine(scene, &mut Door::new(&files), main)
}

/// The machine that a process would be which does not run.
pub(super) fn machine(scene: &Scene<'_>, door: &mut Door<'_>, main: &Process) -> Instance {
    let (words, _) = command_words(scene, door, main);
    let flags = Flags::read(words.iter().map(String::as_str));
    let mut machine = instance(scene, door, main, None);
    let program = main.command.known().and_then(|words| words.first()).map_or("", String::as_str);
    machine.version = described::version(door, program);
    let memory = container::memory(scene, main, &flags, machine.version.known().map(String::as_str));
    (machine.demand, machine.beside) = demand(scene.host, &machine, &flags, None, memory.as_ref());
    // What its environment may ask for beside that is not looked for.
    if machine.asked == Asked::Unknown {
        machine.asked = Asked::No;
        let by_default = || Setting { name: "UseLargePages".into(), value: "false".into(), place: None };
        machine.setting = machine.setting.take().or_else(|| Some(by_default()));
    }
    machine
}

fn decisive(words: &[String]) -> Vec<(String, String)> {
    let flag = |word: &String| Some((flags::flag(word)?.0.to_owned(), word.clone()));
    words.iter().filter_map(flag).collect()
}

/// Its own program, with what the variables of its service add: JAVA_TOOL_OPTIONS counts least, then JDK_JAVA_OPTIONS, which the
/// launcher reads, and _JAVA_OPTIONS over the command line.
fn made(_: &Scene<'_>, _: &Process, command: Option<&StartCommand>, start: &ServiceStart) -> Option<Next> {
    let command = command?;
    Some(Next::Words(with_variables(&command.words, &start.environment)?, command.place.clone()))
}

/// The words of a command with what these variables add to it; none where it is no machine's own.
pub fn with_variables(words: &[String], environment: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let program = words.first().filter(|first| KIND.runs(options::file_name(first)))?;
    let own = flags::own_words(words);
    let of = |name: &str| flags::argument_file(environment.get(name).map_or(b"", String::as_bytes));
    let rest = words.get(own.len()..).unwrap_or_default();
    let all = std::iter::once(program.clone())
        .chain(of("JAVA_TOOL_OPTIONS"))
        .chain(of("JDK_JAVA_OPTIONS"))
        .chain(own.iter().skip(1).cloned())
        .chain(of("_JAVA_OPTIONS"));
    Some(all.chain(rest.iter().cloned()).collect())
}
