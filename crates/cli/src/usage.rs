//! What is said of a command line that makes no sense, and what was meant.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use hugewise_model::escape::shell;

use crate::given::Given;
use crate::outcome::{self, Failure, Outcome};
use crate::{CommandLine, described};

/// Help and version go to standard output; everything else that clap says is a usage error.
pub(crate) fn explain(wrong: &clap::Error, arguments: &[OsString]) -> Result<Outcome, Failure> {
    if wrong.use_stderr() {
        let mut text = wrong.render().to_string().replace("\n\n\n", "\n\n");
        // Without these words the help would read as if it were what went wrong.
        if wrong.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            text = format!("a command is missing\n\n{text}");
        }
        if let Some(tip) = Asked::new(wrong, arguments).and_then(|asked| asked.tip()) {
            text = with_tip(&text, &tip);
        }
        return Err(Failure::of_lines(text.strip_prefix("error: ").unwrap_or(&text).trim_end()));
    }
    outcome::print(wrong.render().to_string().as_bytes())?;
    Ok(Outcome::Fine)
}

/// One tip in the place of clap's, which knows how words are written and not what they are for; and of the usage, which
/// would follow an option that clap took the word for.
fn with_tip(text: &str, tip: &str) -> String {
    let what = text.split("\n\n").next().unwrap_or(text);
    let more = text.rfind("\n\nFor more").and_then(|at| text.get(at..)).unwrap_or_default();
    format!("{what}\n\n  tip: {tip}{more}")
}

/// A word that no command takes as it stands, and the line around it.
struct Asked<'a> {
    /// The word, as clap names it: an option without its value.
    word: &'a str,
    words: Vec<&'a str>,
    all: Command,
    /// The command's name, where the line has one.
    name: Option<String>,
}

impl<'a> Asked<'a> {
    fn new(wrong: &'a clap::Error, arguments: &'a [OsString]) -> Option<Self> {
        let word = wrong.get(ContextKind::InvalidArg).or_else(|| wrong.get(ContextKind::InvalidSubcommand))?;
        let ContextValue::String(word) = word else { return None };
        let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
        if !unknown.contains(&wrong.kind()) {
            return None;
        }
        let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let all = CommandLine::command();
        let name = words.iter().find_map(|word| all.find_subcommand(word)).map(|found| found.get_name().to_owned());
        Some(Self { word, words, all, name })
    }

    fn command(&self) -> &Command {
        self.name.as_ref().and_then(|name| self.all.find_subcommand(name)).unwrap_or(&self.all)
    }

    /// The command that the line is for; `check` where it names none.
    fn of(&self) -> &str {
        self.name.as_deref().unwrap_or("check")
    }

    fn tip(&self) -> Option<String> {
        if self.word.starts_with('-') {
            self.format().or_else(|| self.positional()).or_else(|| self.sibling())
        } else if is_path(self.word) {
            self.path()
        } else {
            self.instance()
        }
    }

    /// An option `--json` that nothing here has.
    fn format(&self) -> Option<String> {
        let formats = ["json", "html", "text", "shell", "ansible", "cloud-init", "nagios"];
        let format = formats.into_iter().find(|format| self.word.strip_prefix("--") == Some(format))?;
        Some(format!("write '--format {format}'"))
    }

    /// `--root PATH` for a command that takes the path alone.
    fn positional(&self) -> Option<String> {
        let takes = self.command().get_positionals().any(|one| one.get_value_names().is_some_and(|it| it == ["PATH"]));
        (self.word == "--root" && takes).then(|| {
            let path = self.value().unwrap_or_else(|| "PATH".to_owned());
            format!("{of} takes the path alone: 'hugewise {of} {path}'", of = self.of())
        })
    }

    /// An option that another command has.
    fn sibling(&self) -> Option<String> {
        let long = self.word.strip_prefix("--")?;
        let has = |command: &&Command| command.get_arguments().any(|one| one.get_long() == Some(long));
        let those: Vec<&str> = self.all.get_subcommands().filter(has).map(Command::get_name).collect();
        let first = those.first()?;
        let option = self.all.find_subcommand(first)?.get_arguments().find(|one| one.get_long() == Some(long))?;
        let mut line = format!("hugewise {first}");
        if let Some(engine) = described::engine_of(long) {
            line.push_str(&format!(" --engine {engine}"));
        }
        line.push_str(&format!(" --{long}"));
        if option.get_action().takes_values() {
            let name = option.get_value_names().and_then(|names| names.first());
            let value = self.value().map(|value| described::with_unit(name.map(|name| name.as_str()), value));
            line.push_str(&format!(" {}", value.unwrap_or_else(|| name.map_or("VALUE".into(), ToString::to_string))));
        }
        let belongs = match those.as_slice() {
            [one] => format!("an option of {one}"),
            [some @ .., last] => format!("an option of {} and {last}", some.join(", ")),
            [] => return None,
        };
        Some(format!("--{long} is {belongs}: '{line}'"))
    }

    /// What follows the option on the line, as a word to be pasted.
    fn value(&self) -> Option<String> {
        let mut behind = self.words.iter().filter_map(|word| word.strip_prefix(self.word)?.strip_prefix('='));
        if let Some(value) = behind.next() {
            return Some(shell::word(value));
        }
        let at = self.words.iter().position(|word| *word == self.word)?;
        self.words.get(at + 1).filter(|next| !next.starts_with('-')).map(|next| shell::word(next))
    }

    /// How a captured host is named, where somebody wrote its path alone; or the command that takes what is there.
    fn path(&self) -> Option<String> {
        let of = self.of();
        let given = Given::at(Path::new(self.word));
        if let Some(instead) = given.instead_of(of, Path::new(self.word)) {
            return Some(instead);
        }
        let takes_one = self.command().get_arguments().any(|option| option.get_long() == Some("root"));
        let has_one = self.words.iter().any(|word| *word == "--root" || word.starts_with("--root="));
        (takes_one && !has_one)
            .then(|| format!("to read a captured host, write 'hugewise {of} --root {}'", shell::word(self.word)))
    }

    /// An instance, where the command takes one behind an option.
    fn instance(&self) -> Option<String> {
        let takes = self.command().get_arguments().any(|option| option.get_long() == Some("instance"));
        let name = self.name.as_ref()?;
        takes.then(|| format!("to name an instance, write 'hugewise {name} --instance {}'", shell::word(self.word)))
    }
}

/// Whether a word is a path of something that is there, or looks like no other word.
pub(crate) fn is_path(word: &str) -> bool {
    !word.starts_with('-') && (word.starts_with(['/', '.', '~']) || rustix::fs::stat(word).is_ok())
}
