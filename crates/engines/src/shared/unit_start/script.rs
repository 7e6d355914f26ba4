//! Scripts and other programs that start a server: can the running command line come from them?

use std::collections::BTreeSet;

use hugewise_host::FactReader;
use hugewise_model::configuration::{FileLocation, StartCommand};
use hugewise_model::{Observed, Process};

use super::is_changed;
use crate::EngineContext;
use crate::shared::options;
use crate::shared::starting::{NextCommandLine, Starting};

const LONGEST: usize = 1 << 20;
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

/// The words of `sh -c 'exec PROGRAM ...'`, if that is one program that needs no shell.
pub(super) fn unwrap_shell_command(words: &[String]) -> Option<Vec<String>> {
    let text = shell_text(words)?;
    if text.contains([';', '|', '&', '<', '>', '(', ')', '$', '`', '\n', '*', '?']) {
        return None;
    }
    let mut words = split_words(text);
    if words.first().is_some_and(|first| first == "exec") {
        words.remove(0);
    }
    let is_program = words.first().is_some_and(|first| !first.contains('='));
    is_program.then_some(words)
}

fn shell_text(words: &[String]) -> Option<&str> {
    let [program, option, text, ..] = words else { return None };
    let is_shell = SHELLS.contains(&options::file_name(program));
    (is_shell && option.starts_with('-') && option.ends_with('c')).then_some(text.as_str())
}

/// Splits words as a shell does, where no expansion is needed.
pub(crate) fn split_words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match (sign, quote) {
            ('\\', None) => word.get_or_insert_default().extend(signs.next()),
            ('\\', Some('"')) => {
                let special = signs.next_if(|next| matches!(next, '"' | '\\' | '$' | '`'));
                word.get_or_insert_default().push(special.unwrap_or('\\'));
            }
            (_, Some(open)) if sign == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(sign),
            ('"' | '\'', None) => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (_, None) if sign.is_whitespace() => all.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(sign),
        }
    }
    all.extend(word);
    all
}

/// Whether what a unit starts can have made a process's command line: not with other values for the
/// same settings, nor if it was changed since and lacks the values that the process has.
pub(super) fn match_unit_command(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    starting: &Starting,
    main: &Process,
    command: &StartCommand,
) -> NextCommandLine {
    let now: BTreeSet<(String, String)> = main
        .command
        .as_known()
        .map(|words| (starting.decisive)(words))
        .unwrap_or_default()
        .into_iter()
        .collect();
    let mut text = command.words.iter().skip(1).cloned().collect::<Vec<_>>().join(" ");
    let mut place = command.place.clone();
    let mut is_text = shell_text(&command.words).is_some();
    let mut changed = is_changed(facts, main, &place.file) == Observed::Known(true);
    for path in command.words.iter().take(2).filter(|path| path.starts_with('/')) {
        let Some(script) = read_script(scene, facts, main, path) else { continue };
        is_text = true;
        text = format!("{text}\n{script}");
        place = FileLocation { file: path.clone(), line: 0 };
        changed |= is_changed(facts, main, path) == Observed::Known(true);
    }
    let there = (starting.decisive)(&split_tokens(&text));
    let settled = |word: &str| !word.contains(['$', '`', '%', '*']);
    let texts_of = |name: &String| -> Vec<&String> {
        there.iter().filter(|(other, _)| other == name).map(|(_, word)| word).collect()
    };
    let contradicts = there.iter().any(|(name, _)| {
        let own = now.iter().find(|(other, _)| other == name).map(|(_, word)| word);
        // One of several values, or one that is computed, may be it.
        texts_of(name).into_iter().all(|word| settled(word) && Some(word) != own)
    });
    let lost = || {
        let is_held = |(name, word): &(String, String)| {
            text.contains(word.as_str()) || texts_of(name).into_iter().any(|word| !settled(word))
        };
        is_text && changed && !now.iter().all(is_held)
    };
    if contradicts || lost() { NextCommandLine::Unclear(place) } else { NextCommandLine::Same }
}

/// A script without its comments, if it has an interpreter.
fn read_script(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    main: &Process,
    path: &str,
) -> Option<String> {
    let bytes =
        facts.source.read(&options::as_reader_opens(scene.host, main, path)).into_known()?;
    if !bytes.starts_with(b"#!") || bytes.len() > LONGEST {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

fn split_tokens(text: &str) -> Vec<String> {
    let parts = text.split(|sign: char| sign.is_whitespace() || "\"';|&()`\\".contains(sign));
    // A variable's value is a word of its own: JAVA_OPTS=-Xmx3g.
    let words = parts.map(|part| {
        part.split_once("=-").map_or_else(
            || part.to_owned(),
            |(name, value)| {
                if name.starts_with('-') { part.to_owned() } else { format!("-{value}") }
            },
        )
    });
    std::iter::once(String::new()).chain(words.filter(|word| !word.is_empty())).collect()
}
