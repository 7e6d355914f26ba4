//! A Java virtual machine with another command line.

use std::collections::BTreeMap;

use hugewise_host::FactReader;
use hugewise_model::configuration::{ServiceStart, StartCommand};
use hugewise_model::{HugePageMode, Instance, Process};

use super::flags::{self, Flags};
use super::{
    HeapCounters, JvmParameters, KIND, build_instance, command_words, compute_demand, container,
    described, large_pages_off,
};
use crate::EngineContext;
use crate::shared::options;
use crate::shared::starting::{NextCommandLine, Starting};

pub(super) static STARTING: Starting =
    Starting { would_be, decisive: find_decisive_words, made: resolve_start_command };

fn would_be(scene: &EngineContext<'_>, main: &Process, _: &Instance) -> Instance {
    let files = scene.files_of(main);
    build_would_be_instance(scene, &mut FactReader::new(&files), main)
}

pub(super) fn build_would_be_instance(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    main: &Process,
) -> Instance {
    let (words, _) = command_words(scene, facts, main);
    let flags = Flags::read(words.iter().map(String::as_str));
    let mut machine = build_instance(scene, facts, main, None);
    let program =
        main.command.as_known().and_then(|words| words.first()).map_or("", String::as_str);
    machine.version = described::read_java_version(facts, program);
    let version = machine.version.as_known().map(String::as_str);
    let memory = container::detect_visible_memory(scene, main, &flags, version);
    let unknown = HeapCounters::default();
    let parameters = JvmParameters {
        processors: container::detect_processors(scene, main, &flags, version),
        ..JvmParameters::new(scene.host, &flags, version, memory.as_ref(), unknown)
    };
    (machine.demand, machine.other_demands) = compute_demand(&machine, &parameters, None);
    if machine.asked == HugePageMode::Unknown {
        machine.asked = HugePageMode::No;
        machine.setting = machine.setting.take().or_else(|| Some(large_pages_off()));
    }
    machine
}

fn find_decisive_words(words: &[String]) -> Vec<(String, String)> {
    let flag = |word: &String| Some((flags::parse_flag(word)?.0.to_owned(), word.clone()));
    words.iter().filter_map(flag).collect()
}

/// Its program with its service's variables: JAVA_TOOL_OPTIONS counts least, then JDK_JAVA_OPTIONS,
/// which the launcher reads, then the command line, then _JAVA_OPTIONS.
fn resolve_start_command(
    _: &EngineContext<'_>,
    _: &Process,
    command: Option<&StartCommand>,
    start: &ServiceStart,
) -> Option<NextCommandLine> {
    let command = command?;
    Some(NextCommandLine::Words(
        with_variables(&command.words, &start.environment)?,
        command.place.clone(),
    ))
}

/// A machine's command with these variables' words.
pub fn with_variables(
    words: &[String],
    environment: &BTreeMap<String, String>,
) -> Option<Vec<String>> {
    let program =
        words.first().filter(|first| KIND.is_server_program(options::file_name(first)))?;
    let own = flags::own_words(words);
    let texts_of =
        |name: &str| flags::argument_file(environment.get(name).map_or(b"", String::as_bytes));
    let rest = words.get(own.len()..).unwrap_or_default();
    let all = std::iter::once(program.clone())
        .chain(texts_of("JAVA_TOOL_OPTIONS"))
        .chain(texts_of("JDK_JAVA_OPTIONS"))
        .chain(own.iter().skip(1).cloned())
        .chain(texts_of("_JAVA_OPTIONS"));
    Some(all.chain(rest.iter().cloned()).collect())
}
