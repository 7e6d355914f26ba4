//! Explains a wrong command line: clap's own error, with one tip that says what was meant.

mod path_kind;
pub(crate) mod remote_url;

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use hugewise_model::escape::shell;

pub(crate) use self::path_kind::PathKind;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::{CommandLine, described_servers};

/// Help and version go to standard output.
pub(crate) fn explain_usage_error(
    wrong: clap::Error,
    arguments: &[OsString],
) -> Result<CommandOutcome, CommandFailure> {
    if !wrong.use_stderr() {
        outcome::print_output(wrong.render().to_string().as_bytes())?;
        return Ok(CommandOutcome::Fine);
    }
    let line = TypedLine::new(arguments);
    let help = line.name.as_ref().map_or("--help".into(), |name| format!("hugewise {name} --help"));
    let text = match wrong.kind() {
        // Without these words the help would look like the error.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("a command is missing\n\n{}", wrong.render())
        }
        _ => {
            let text = explain(with_hint(wrong, &line));
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            format!("{text}\n\nFor more information, try '{help}'.")
        }
    };
    Err(CommandFailure::of_lines(&text))
}

/// Without clap's pointer to the help of the whole program.
fn explain(wrong: clap::Error) -> String {
    let of_number = wrong.source().and_then(|source| source.downcast_ref::<ParseIntError>());
    if let Some(error) = of_number
        && let (Some(value), Some(option)) =
            (wrong.get(ContextKind::InvalidValue), wrong.get(ContextKind::InvalidArg))
    {
        let instead = match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            _ => "write a whole number",
        };
        return format!("invalid value '{value}' for '{option}': {instead}");
    }
    let helpless = Command::new("hugewise").disable_help_flag(true);
    wrong.with_cmd(&helpless).render().to_string()
}

/// Replaces clap's tips, which go by spelling, and its usage, which would be of another option.
fn with_hint(mut wrong: clap::Error, line: &TypedLine<'_>) -> clap::Error {
    let Some(word) = MisplacedWord::new(&wrong, line) else { return wrong };
    if let Some(hint) = word.hint() {
        use ContextKind::{SuggestedArg, SuggestedSubcommand, SuggestedValue, Usage};
        for needless in [SuggestedArg, SuggestedSubcommand, SuggestedValue, Usage] {
            wrong.remove(needless);
        }
        wrong.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    } else if line.command_name() != "run"
        && let Some(ContextValue::StyledStrs(mut tips)) = wrong.remove(ContextKind::Suggested)
    {
        // Only `run` takes words that look like options as values.
        tips.retain(|tip| !tip.to_string().starts_with("to pass '"));
        if !tips.is_empty() {
            wrong.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    wrong
}

struct TypedLine<'a> {
    words: Vec<&'a str>,
    all: Command,
    name: Option<String>,
}

impl<'a> TypedLine<'a> {
    fn new(arguments: &'a [OsString]) -> Self {
        let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let all = CommandLine::command();
        let command = words.iter().find_map(|word| all.find_subcommand(word));
        let name = command.map(|command| command.get_name().to_owned());
        Self { words, all, name }
    }

    fn command(&self) -> &Command {
        self.name.as_ref().and_then(|name| self.all.find_subcommand(name)).unwrap_or(&self.all)
    }

    /// The line's command; `check` if it names none.
    fn command_name(&self) -> &str {
        self.name.as_deref().unwrap_or("check")
    }
}

/// The first hint with an answer is printed.
type Hint = fn(&MisplacedWord<'_>) -> Option<String>;

const OPTIONS: &[Hint] = &[negative_number, dry_run, format_option, root_of_path, other_command];
const PATHS: &[Hint] = &[other_kind_of_file, capture_target, captured_host];
const WORDS: &[Hint] = &[help_of_command, unit_of_size, instance_name, subcommands];

/// A word that the command does not take, and the line around it.
struct MisplacedWord<'a> {
    /// As clap names it: an option without its value.
    word: &'a str,
    line: &'a TypedLine<'a>,
    /// Whether clap knows a command of similar spelling.
    is_like_another: bool,
}

impl<'a> MisplacedWord<'a> {
    fn new(wrong: &'a clap::Error, line: &'a TypedLine<'a>) -> Option<Self> {
        let context = match wrong.kind() {
            ErrorKind::UnknownArgument => ContextKind::InvalidArg,
            ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
            _ => return None,
        };
        let ContextValue::String(word) = wrong.get(context)? else { return None };
        let is_like_another = wrong.get(ContextKind::SuggestedSubcommand).is_some();
        Some(Self { word, line, is_like_another })
    }

    fn hint(&self) -> Option<String> {
        let hints = match self.word {
            option if option.starts_with('-') => OPTIONS,
            path if is_path(path) => PATHS,
            _ => WORDS,
        };
        hints.iter().find_map(|hint| hint(self))
    }

    fn quoted(&self) -> String {
        shell::quote_word(self.word)
    }

    fn position(&self) -> Option<usize> {
        self.line.words.iter().position(|word| *word == self.word)
    }

    fn word_before(&self) -> Option<&str> {
        self.line.words.get(self.position()?.checked_sub(1)?).copied()
    }

    /// The word behind the option, or behind its `=`, quoted for a shell.
    fn option_value(&self) -> Option<String> {
        let words = &self.line.words;
        let value =
            words.iter().find_map(|word| word.strip_prefix(self.word)?.strip_prefix('=')).or_else(
                || words.get(self.position()? + 1).copied().filter(|next| !next.starts_with('-')),
            )?;
        Some(shell::quote_word(value))
    }

    fn command_takes(&self, option: &str) -> bool {
        self.line.command().get_arguments().any(|argument| argument.get_long() == Some(option))
    }
}

/// An existing path, or a word that looks like one.
pub(crate) fn is_path(word: &str) -> bool {
    !word.starts_with('-') && (word.starts_with(['/', '.', '~']) || rustix::fs::stat(word).is_ok())
}

/// `--sessions -1`.
fn negative_number(word: &MisplacedWord<'_>) -> Option<String> {
    word.word.parse::<i64>().ok()?;
    let option = word.word_before().filter(|before| before.starts_with("--"))?;
    Some(format!("{option} takes no negative number"))
}

/// Other tools' options for a trial run.
fn dry_run(word: &MisplacedWord<'_>) -> Option<String> {
    let is_one =
        ["--dry-run", "--dryrun", "--noop", "--check", "--diff", "-n"].contains(&word.word);
    (is_one && word.line.name.as_deref() == Some("apply"))
        .then(|| "'hugewise plan' shows what apply would do, and changes nothing".to_owned())
}

/// `--json` for `--format json`.
fn format_option(word: &MisplacedWord<'_>) -> Option<String> {
    let format = word.word.strip_prefix("--")?;
    let is_format = |argument: &&clap::Arg| argument.get_long() == Some("format");
    let formats = word.line.command().get_arguments().find(is_format)?.get_possible_values();
    let takes = formats.iter().any(|value| value.get_name() == format);
    takes.then(|| format!("write '--format {format}'"))
}

/// `--root PATH` for a command that takes the path alone.
fn root_of_path(word: &MisplacedWord<'_>) -> Option<String> {
    let mut arguments = word.line.command().get_positionals();
    let takes =
        arguments.any(|argument| argument.get_value_names().is_some_and(|names| names == ["PATH"]));
    (word.word == "--root" && takes).then(|| {
        let path = word.option_value().unwrap_or_else(|| "PATH".to_owned());
        let command = word.line.command_name();
        format!("{command} takes the path alone: 'hugewise {command} {path}'")
    })
}

/// An option that another command has.
fn other_command(word: &MisplacedWord<'_>) -> Option<String> {
    let long = word.word.strip_prefix("--")?;
    let option_of = |command: &Command| -> Option<clap::Arg> {
        command.get_arguments().find(|argument| argument.get_long() == Some(long)).cloned()
    };
    let commands = word.line.all.get_subcommands();
    let takers: Vec<(&str, clap::Arg)> =
        commands.filter_map(|command| Some((command.get_name(), option_of(command)?))).collect();
    let (first, option) = takers.first()?;
    let engine = described_servers::engine_of(long);
    let engine = engine.map_or(String::new(), |engine| format!(" --engine {engine}"));
    let mut line = format!("hugewise {first}{engine} --{long}");
    if option.get_action().takes_values() {
        let name = option.get_value_names().and_then(|names| names.first()).map(AsRef::as_ref);
        let value = word.option_value().map(|value| described_servers::with_unit(name, value));
        line.extend([" ", value.as_deref().or(name).unwrap_or("VALUE")]);
    }
    let names: Vec<&str> = takers.iter().map(|(name, _)| *name).collect();
    let belongs = match names.as_slice() {
        [some @ .., last] if !some.is_empty() => format!("{} and {last}", some.join(", ")),
        _ => (*first).to_owned(),
    };
    Some(format!("--{long} is an option of {belongs}: '{line}'"))
}

fn other_kind_of_file(word: &MisplacedWord<'_>) -> Option<String> {
    let path = Path::new(word.word);
    PathKind::from_path(path).instead_of(word.line.command_name(), path)
}

/// `capture db7.tar.gz`: an output without its option.
fn capture_target(word: &MisplacedWord<'_>) -> Option<String> {
    let is_new = PathKind::from_path(Path::new(word.word)) == PathKind::Nothing;
    (word.line.command_name() == "capture" && is_new).then(|| {
        format!("to write the capture there, write 'hugewise capture -o {}'", word.quoted())
    })
}

/// A captured host's path without `--root`.
fn captured_host(word: &MisplacedWord<'_>) -> Option<String> {
    let has_one =
        word.line.words.iter().any(|typed| *typed == "--root" || typed.starts_with("--root="));
    let command = word.line.command_name();
    (word.command_takes("root") && !has_one).then(|| {
        format!("to read a captured host, write 'hugewise {command} --root {}'", word.quoted())
    })
}

/// `check help`.
fn help_of_command(word: &MisplacedWord<'_>) -> Option<String> {
    let name = word.line.name.as_ref()?;
    (word.word == "help").then(|| format!("'hugewise help {name}' explains {name}"))
}

/// A size's unit as a word of its own.
fn unit_of_size(word: &MisplacedWord<'_>) -> Option<String> {
    let number = word.word_before().filter(|before| before.parse::<f64>().is_ok())?;
    let size = format!("{number}{}", word.word);
    described_servers::parse_size(&size).ok()?;
    Some(format!("write the size as one word: {size}"))
}

/// An instance without `--instance`.
fn instance_name(word: &MisplacedWord<'_>) -> Option<String> {
    let name = word.line.name.as_ref()?;
    word.command_takes("instance").then(|| {
        format!("to name an instance, write 'hugewise {name} --instance {}'", word.quoted())
    })
}

fn subcommands(word: &MisplacedWord<'_>) -> Option<String> {
    let command = word.line.command();
    if word.is_like_another || !command.has_subcommands() {
        return None;
    }
    let Some(name) = &word.line.name else {
        return Some("'hugewise help' lists the commands".to_owned());
    };
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let names: Vec<&str> = shown.map(Command::get_name).collect();
    Some(format!("{name} takes {}", names.join(", ")))
}
