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
        let line = Line::new(arguments);
        let word = Asked::new(wrong, &line);
        if let Some(tip) = word.as_ref().and_then(Asked::tip) {
            text = with_tip(&text, &tip);
        } else if word.is_some() && line.of() != "run" {
            text = without_escape(&text);
        }
        // clap would show how the whole program is used where a value is refused after it was parsed.
        if wrong.kind() == ErrorKind::ValueValidation {
            text = without(&text, |part| part.starts_with("Usage:"));
        }
        for (std, plain) in NUMBERS {
            text = text.replace(std, plain);
        }
        if let Some(name) = &line.name {
            text = text.replace("try '--help'", &format!("try 'hugewise {name} --help'"));
        }
        return Err(Failure::of_lines(text.strip_prefix("error: ").unwrap_or(&text).trim_end()));
    }
    outcome::print(wrong.render().to_string().as_bytes())?;
    Ok(Outcome::Fine)
}

/// What the standard library says of a number that it cannot parse, and what a user can do about it.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "write a whole number"),
    ("cannot parse integer from empty string", "write a whole number"),
    ("number too large to fit in target type", "the number is too large"),
];

/// The text without some of its paragraphs.
fn without(text: &str, is_needless: impl Fn(&str) -> bool) -> String {
    text.split("\n\n").filter(|part| !is_needless(part)).collect::<Vec<_>>().join("\n\n")
}

/// The text without clap's advice to write an unknown option as a value: only `run` takes words that look like options.
fn without_escape(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("  tip: to pass '"));
    lines.collect::<Vec<_>>().join("\n").replace("\n\n\n", "\n\n")
}

/// One tip in the place of clap's, which knows how words are written and not what they are for; and of the usage, which
/// would follow an option that clap took the word for.
fn with_tip(text: &str, tip: &str) -> String {
    let what = text.split("\n\n").next().unwrap_or(text);
    let more = text.rfind("\n\nFor more").and_then(|at| text.get(at..)).unwrap_or_default();
    format!("{what}\n\n  tip: {tip}{more}")
}

/// A command line that somebody wrote.
struct Line<'a> {
    words: Vec<&'a str>,
    all: Command,
    /// The command's name, where the line has one.
    name: Option<String>,
}

impl<'a> Line<'a> {
    fn new(arguments: &'a [OsString]) -> Self {
        let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let all = CommandLine::command();
        let name = words.iter().find_map(|word| all.find_subcommand(word)).map(|found| found.get_name().to_owned());
        Self { words, all, name }
    }

    fn command(&self) -> &Command {
        self.name.as_ref().and_then(|name| self.all.find_subcommand(name)).unwrap_or(&self.all)
    }

    /// The command that the line is for; `check` where it names none.
    fn of(&self) -> &str {
        self.name.as_deref().unwrap_or("check")
    }
}

/// A word that no command takes as it stands, and the line around it.
struct Asked<'a> {
    /// The word, as clap names it: an option without its value.
    word: &'a str,
    line: &'a Line<'a>,
    /// Whether clap knows a command that is written much like it.
    is_like_another: bool,
}

impl<'a> std::ops::Deref for Asked<'a> {
    type Target = Line<'a>;

    fn deref(&self) -> &Line<'a> {
        self.line
    }
}

impl<'a> Asked<'a> {
    fn new(wrong: &'a clap::Error, line: &'a Line<'a>) -> Option<Self> {
        let word = wrong.get(ContextKind::InvalidArg).or_else(|| wrong.get(ContextKind::InvalidSubcommand))?;
        let ContextValue::String(word) = word else { return None };
        let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
        let is_like_another = wrong.get(ContextKind::SuggestedSubcommand).is_some();
        unknown.contains(&wrong.kind()).then_some(Self { word, line, is_like_another })
    }

    fn tip(&self) -> Option<String> {
        if self.word.starts_with('-') {
            self.negative()
                .or_else(|| self.rehearsal())
                .or_else(|| self.format())
                .or_else(|| self.positional())
                .or_else(|| self.sibling())
        } else if is_path(self.word) {
            self.path()
        } else {
            self.help().or_else(|| self.unit()).or_else(|| self.instance()).or_else(|| self.commands())
        }
    }

    /// The word before it.
    fn before(&self) -> Option<&str> {
        let at = self.words.iter().position(|word| *word == self.word)?;
        self.words.get(at.checked_sub(1)?).copied()
    }

    /// A negative number behind an option.
    fn negative(&self) -> Option<String> {
        self.word.parse::<i64>().ok()?;
        let option = self.before().filter(|word| word.starts_with("--"))?;
        Some(format!("{option} takes no negative number"))
    }

    /// How an apply is tried, where somebody asks for that with another tool's option.
    fn rehearsal(&self) -> Option<String> {
        let is_one = ["--dry-run", "--dryrun", "--noop", "--check", "--diff", "-n"].contains(&self.word);
        (is_one && self.name.as_deref() == Some("apply"))
            .then(|| "'hugewise plan' shows what apply would do, and changes nothing".to_owned())
    }

    /// `check help`.
    fn help(&self) -> Option<String> {
        let name = self.name.as_ref()?;
        (self.word == "help").then(|| format!("'hugewise help {name}' explains {name}"))
    }

    /// The unit of a size, written as a word of its own.
    fn unit(&self) -> Option<String> {
        let number = self.before().filter(|word| word.parse::<f64>().is_ok())?;
        let size = format!("{number}{}", self.word);
        described::size(&size).is_ok().then(|| format!("write the size as one word: {size}"))
    }

    /// The commands there are, where none is written like it.
    fn commands(&self) -> Option<String> {
        if self.is_like_another || !self.command().has_subcommands() {
            return None;
        }
        let Some(name) = &self.name else { return Some("'hugewise help' lists the commands".to_owned()) };
        let those = self.command().get_subcommands().filter(|command| !command.is_hide_set());
        let those: Vec<&str> = those.map(Command::get_name).collect();
        Some(format!("{name} takes {}", those.join(", ")))
    }

    /// An option `--json`, where the command writes that as a format.
    fn format(&self) -> Option<String> {
        let formats = ["json", "html", "text", "shell", "ansible", "cloud-init", "nagios"];
        let format = formats.into_iter().find(|format| self.word.strip_prefix("--") == Some(format))?;
        let option = self.command().get_arguments().find(|option| option.get_long() == Some("format"))?;
        let takes = option.get_possible_values().iter().any(|value| value.get_name() == format);
        takes.then(|| format!("write '--format {format}'"))
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
        // What is captured is written there.
        if of == "capture" && given == Given::Nothing {
            return Some(format!("to write the capture there, write 'hugewise capture -o {}'", shell::word(self.word)));
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
