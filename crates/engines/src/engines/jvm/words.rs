//! The words that a Java machine was started with: by its counters, or by its command line and the
//! files that this names.

use std::collections::BTreeMap;

use hugewise_host::FactReader;
use hugewise_model::Process;
use hugewise_model::configuration::FileLocation;

use super::LONGEST_COUNTER;
use super::flags::{self, Flags};
use crate::EngineContext;
use crate::shared::options;

pub(super) struct JvmWords {
    pub(super) flags: Flags,
    pub(super) file: String,
    pub(super) all_words: bool,
}

impl JvmWords {
    /// By the machine's counters, which include what the environment added, or by its command line.
    pub(super) fn read(
        scene: &EngineContext<'_>,
        facts: &mut FactReader<'_>,
        process: &Process,
        counters: &BTreeMap<&'static str, String>,
        path: Option<String>,
    ) -> Self {
        match (counters.get("java.rt.vmArgs"), path) {
            (Some(arguments), Some(file)) if arguments.len() < LONGEST_COUNTER => {
                let by_file = counters.get("java.rt.vmFlags").map_or("", String::as_str);
                let by_file: Vec<String> =
                    by_file.split_whitespace().map(|word| format!("-XX:{word}")).collect();
                let words = by_file.iter().map(String::as_str).chain(arguments.split_whitespace());
                Self { flags: Flags::read(words), file, all_words: true }
            }
            // Cut off, perhaps within a word: the command line continues from there, and what it
            // repeats counts.
            (Some(arguments), Some(file)) => {
                let whole =
                    arguments.rsplit_once(char::is_whitespace).map_or("", |(whole, _)| whole);
                let (command, all_words) = command_words(scene, facts, process);
                let words = whole.split_whitespace().chain(command.iter().map(String::as_str));
                Self { flags: Flags::read(words), file, all_words }
            }
            _ => {
                let (command, all_words) = command_words(scene, facts, process);
                let file = FileLocation::command_line(process.pid).file;
                Self { flags: Flags::read(command.iter().map(String::as_str)), file, all_words }
            }
        }
    }
}

/// The virtual machine's own words, with those of argument files, and whether these are all.
pub(super) fn command_words(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    process: &Process,
) -> (Vec<String>, bool) {
    let Some(arguments) = process.command.as_known() else { return (Vec::new(), false) };
    let (mut words, mut whole) = (Vec::new(), true);
    let mut read = |file: &str| {
        let file = options::from_working_directory(process, file);
        let read = facts.read(&options::as_reader_opens(scene.host, process, &file)).into_known();
        whole &= read.is_some();
        flags::argument_file(&read.unwrap_or_default())
    };
    // An argument file may name the class too: what comes after is the program's.
    let mut launcher_words = Vec::new();
    for word in flags::own_words(arguments) {
        match word.strip_prefix('@') {
            Some(file) => launcher_words.extend(read(file)),
            None => launcher_words.push(word.clone()),
        }
    }
    for word in flags::own_words(&launcher_words).iter().skip(1) {
        if let Some(file) = word.strip_prefix("-XX:VMOptionsFile=") {
            words.extend(read(file));
        } else if let Some(file) = word.strip_prefix("-XX:Flags=") {
            let first: Vec<String> =
                read(file).into_iter().map(|word| format!("-XX:{word}")).collect();
            words.splice(..0, first);
        } else {
            words.push(word.clone());
        }
    }
    (words, whole)
}
