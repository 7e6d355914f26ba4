//! Servers that are only described on the command line.
//!
//! Each `--engine` starts a server; the options behind it, up to the next `--engine`, are its own.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use hugewise_engines::describe::Description;
use hugewise_engines::{By, SizeOption, Sizes};
use hugewise_model::{Bytes, Engine, Trait};

use crate::argument::Wrong;

/// An engine of which a server can be described, and what by.
#[derive(Clone, Copy, Debug)]
struct Kind {
    engine: Engine,
    by: By,
}

impl Kind {
    fn all() -> impl Iterator<Item = Self> {
        let described = hugewise_engines::kinds().iter().filter_map(|kind| Some((kind, kind.describe?.0)));
        let described = described.filter(|(_, by)| *by != By::Segment);
        described.flat_map(|(kind, by)| kind.names.iter().map(move |(engine, _)| Self { engine: *engine, by }))
    }

    /// The options that describe it.
    fn takes(self) -> Vec<&'static str> {
        match self.by {
            By::Files => vec!["data_dir", "config", "server_binary"],
            By::Sizes(sizes) => std::iter::once("config").chain(sizes.options()).collect(),
            By::Config => vec!["config"],
            By::Command(_) => vec!["command", "words"],
            By::Segment => Vec::new(),
        }
    }

    const fn sizes(self) -> Option<&'static Sizes> {
        match self.by {
            By::Sizes(sizes) => Some(sizes),
            _ => None,
        }
    }

    /// What it cannot be without.
    fn least(self) -> String {
        match self.by {
            By::Files => "--data-dir DIR or --config FILE".into(),
            By::Sizes(sizes) => format!("--{} SIZE, or --config FILE with its parameters", sizes.size.option),
            By::Config => "--config FILE".into(),
            By::Command(example) => format!("its command after --: -- {example}"),
            By::Segment => "--segment SIZE".into(),
        }
    }

    /// The same for the list of engines.
    fn help(self) -> String {
        match self.by {
            By::Files => "Described by --data-dir, --config or both".into(),
            By::Sizes(sizes) => format!("Described by --{}, or by --config with a parameter file", sizes.size.option),
            By::Config => "Described by --config".into(),
            By::Command(_) => "Described by its command after --, or by --command".into(),
            By::Segment => "Described by --segment".into(),
        }
    }
}

/// One of the engines that can be described, by name.
fn kind() -> impl TypedValueParser<Value = Kind> {
    let values = Kind::all().map(|kind| PossibleValue::new(kind.engine.as_str()).help(kind.help()));
    PossibleValuesParser::new(values).try_map(|name| {
        Kind::all().find(|kind| kind.engine.as_str() == name).ok_or("not an engine that can be described")
    })
}

#[derive(clap::Args)]
#[command(next_help_heading = "Described servers")]
struct Raw {
    /// Describe a server. The options below belong to the --engine before them; may be repeated.
    #[arg(long, value_parser = kind(), value_name = "ENGINE")]
    engine: Vec<Kind>,
    /// PostgreSQL's data directory.
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<String>,
    /// The server's configuration: postgresql.conf, init.ora, my.cnf.
    #[arg(long, value_name = "FILE")]
    config: Vec<String>,
    /// PostgreSQL's `postgres` program, if it is not in a usual place.
    #[arg(long, value_name = "PATH")]
    server_binary: Vec<String>,
    /// A JVM's or QEMU's command as one argument, to describe several: 'java -Xmx8g -jar a.jar'.
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    command: Vec<String>,
    /// A System V segment of this size; needs no --engine, may be repeated.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    segment: Vec<Bytes>,
    /// The command of the last described JVM or QEMU.
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// A size as people write it. Whoever writes `34` means 34 GiB, not 34 bytes: a number alone is refused.
pub(crate) fn size(text: &str) -> Result<Bytes, Wrong> {
    let bytes = Bytes::parse(text)?;
    let number = text.trim();
    if !number.ends_with(|c: char| c.is_ascii_digit()) {
        return Ok(bytes);
    }
    let bytes = bytes.get();
    let instead = match bytes {
        ..KIB => format!("{number}G"),
        KIB..MIB => format!("{number}M, or {bytes}B where you mean bytes"),
        _ => format!("{bytes}B, or a size with a unit, such as 34G"),
    };
    Err(Wrong::Bare { bytes, instead })
}

/// An engine that an option describes a server of, where the option is one of an engine's own.
pub(crate) fn engine_of(option: &str) -> Option<&'static str> {
    let takes = |kind: &Kind| kind.sizes().is_some_and(|sizes| sizes.options().any(|own| own == option));
    Kind::all().find(takes).map(|kind| kind.engine.as_str())
}

/// A value as it has to be written: with a unit where it is a size, and a number alone was written.
pub(crate) fn with_unit(value_name: Option<&str>, value: String) -> String {
    match (value_name, size(&value)) {
        (Some("SIZE"), Err(Wrong::Bare { .. })) => format!("{value}G"),
        _ => value,
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Why servers are not described as the command line does it. The fields are options and engines as they are written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Misdescribed {
    #[error("{option} describes a server: put --engine {engine} before it")]
    NoEngine { option: String, engine: &'static str },
    #[error("{option} does not describe {engine}; it needs {least}")]
    NotOfEngine { option: String, engine: &'static str, least: String },
    #[error("--engine {engine} needs {least}")]
    Missing { engine: &'static str, least: String },
    #[error("{option} is given twice for one {engine}")]
    Twice { option: String, engine: &'static str },
    #[error("--engine {0} has two commands: one in --command, one after --")]
    TwoCommands(&'static str),
    #[error("--config already has the sizes of the {engine} instance: leave out --{option} and the like")]
    ConfigAndSizes { engine: &'static str, option: &'static str },
    #[error("--{} {most} is below --{} {size}: {engine} would raise it to that, so leave it out", .sizes.most.option, .sizes.size.option)]
    MostBelow { sizes: &'static Sizes, engine: &'static str, most: Bytes, size: Bytes },
}

/// A server to describe, and the name that it is to get where the description has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) description: Description,
    /// `+ASM`, `-MGMTDB` with the trait that marks it.
    pub(crate) known_as: Option<(&'static str, Trait)>,
}

/// All of them, in the order of the command line, segments last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers(pub(crate) Vec<Server>);

impl Args for Servers {
    fn augment_args(command: clap::Command) -> clap::Command {
        with_sizes(Raw::augment_args(command))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        with_sizes(Raw::augment_args_for_update(command))
    }
}

impl FromArgMatches for Servers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let raw = Raw::from_arg_matches(matches)?;
        servers(&raw, matches)
            .map(Self)
            .map_err(|message| clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{message}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The options of engines that are described by sizes.
fn with_sizes(command: clap::Command) -> clap::Command {
    let repeated =
        |of: &'static SizeOption| Arg::new(of.option).long(of.option).help(of.help).action(ArgAction::Append);
    let mut all = Vec::new();
    for sizes in Kind::all().filter_map(Kind::sizes) {
        let size = |of| repeated(of).value_name("SIZE").value_parser(size).allow_hyphen_values(true);
        all.extend([&sizes.size, &sizes.most].map(size));
        let count = clap::value_parser!(u64).range(1..);
        all.push(repeated(&sizes.sessions).value_name("N").value_parser(count));
        all.extend(sizes.beside.iter().map(|beside| {
            let argument = repeated(&beside.size).value_name("SIZE").value_parser(self::size);
            argument.num_args(0..=1).require_equals(true).default_missing_value(beside.usual)
        }));
    }
    command.args(all)
}

/// One `--engine` with what stands behind it.
struct Group<'a> {
    kind: Kind,
    from: usize,
    to: usize,
    matches: &'a ArgMatches,
}

impl Group<'_> {
    /// The one value of an option that an engine has of its own.
    fn own<T: Clone + Send + Sync + 'static>(&self, id: &'static str) -> Result<Option<T>, Misdescribed> {
        let all: Vec<T> = self.matches.get_many(id).into_iter().flatten().cloned().collect();
        self.value(id, &all)
    }

    /// The values of an option that stand in this group.
    fn values<T: Clone>(&self, id: &str, all: &[T]) -> Vec<T> {
        let places = self.matches.indices_of(id).into_iter().flatten();
        places.zip(all).filter(|(at, _)| (self.from..self.to).contains(at)).map(|(_, value)| value.clone()).collect()
    }

    /// The one value of an option.
    fn value<T: Clone>(&self, id: &str, all: &[T]) -> Result<Option<T>, Misdescribed> {
        let mut values = self.values(id, all);
        let value = values.pop();
        if values.is_empty() { Ok(value) } else { Err(Misdescribed::Twice { option: flag(id), engine: self.name() }) }
    }

    fn name(&self) -> &'static str {
        self.kind.engine.as_str()
    }

    fn missing(&self) -> Misdescribed {
        Misdescribed::Missing { engine: self.name(), least: self.kind.least() }
    }
}

fn flag(id: &str) -> String {
    if id == "words" { "a command after --".into() } else { format!("--{}", id.replace('_', "-")) }
}

fn servers(raw: &Raw, matches: &ArgMatches) -> Result<Vec<Server>, Misdescribed> {
    let starts: Vec<usize> = matches.indices_of("engine").into_iter().flatten().collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let groups: Vec<Group<'_>> = raw
        .engine
        .iter()
        .zip(starts.iter().zip(ends))
        .map(|(kind, (from, to))| Group { kind: *kind, from: *from, to, matches })
        .collect();
    let own = Kind::all().filter_map(Kind::sizes).flat_map(Sizes::options);
    for id in ["data_dir", "config", "server_binary", "command", "words"].into_iter().chain(own) {
        for at in matches.indices_of(id).into_iter().flatten() {
            let group = groups.iter().find(|group| (group.from..group.to).contains(&at));
            let Some(group) = group else {
                let engine = engine_of(id).unwrap_or("ENGINE");
                return Err(Misdescribed::NoEngine { option: flag(id), engine });
            };
            if !group.kind.takes().contains(&id) {
                let (option, engine, least) = (flag(id), group.name(), group.kind.least());
                return Err(Misdescribed::NotOfEngine { option, engine, least });
            }
        }
    }
    let mut servers = Vec::new();
    for group in &groups {
        servers.extend(described(raw, group)?);
    }
    let segment = |bytes: &Bytes| Server { description: Description::Segment { bytes: *bytes }, known_as: None };
    servers.extend(raw.segment.iter().map(segment));
    Ok(servers)
}

fn described(raw: &Raw, group: &Group<'_>) -> Result<Vec<Server>, Misdescribed> {
    let config = group.value("config", &raw.config)?;
    let engine = group.kind.engine;
    let description = match group.kind.by {
        By::Files => {
            let data_dir = group.value("data_dir", &raw.data_dir)?;
            let server_binary = group.value("server_binary", &raw.server_binary)?;
            if data_dir.is_none() && config.is_none() {
                return Err(group.missing());
            }
            Description::Files { engine, data_dir, config, server_binary }
        }
        By::Sizes(sizes) => return by_sizes(sizes, group, config),
        By::Config => Description::Config { engine, path: config.ok_or_else(|| group.missing())? },
        By::Command(_) => Description::Command { engine, command: command(raw, group)? },
        By::Segment => return Err(group.missing()),
    };
    Ok(vec![Server { description, known_as: None }])
}

fn by_sizes(sizes: &'static Sizes, group: &Group<'_>, config: Option<String>) -> Result<Vec<Server>, Misdescribed> {
    let engine = group.kind.engine;
    let size: Option<Bytes> = group.own(sizes.size.option)?;
    let most: Option<Bytes> = group.own(sizes.most.option)?;
    let processes: Option<u64> = group.own(sizes.sessions.option)?;
    let description = |size, most, processes| Description::Sizes { engine, sga: size, sga_max: most, processes };
    let main = match (config, size) {
        (None, Some(size)) => match most.filter(|most| *most < size) {
            Some(most) => return Err(Misdescribed::MostBelow { sizes, engine: group.name(), most, size }),
            None => description(size, most, processes),
        },
        (Some(path), None) if most.is_none() && processes.is_none() => Description::Config { engine, path },
        (Some(_), _) => {
            return Err(Misdescribed::ConfigAndSizes { engine: group.name(), option: sizes.size.option });
        }
        (None, None) => return Err(group.missing()),
    };
    let mut servers = vec![Server { description: main, known_as: None }];
    for beside in sizes.beside {
        if let Some(size) = group.own(beside.size.option)? {
            let known_as = Some((beside.name, beside.marked));
            servers.push(Server { description: description(size, None, None), known_as });
        }
    }
    Ok(servers)
}

fn command(raw: &Raw, group: &Group<'_>) -> Result<Vec<String>, Misdescribed> {
    let words = group.values("words", &raw.words);
    let command = match group.value("command", &raw.command)? {
        Some(_) if !words.is_empty() => {
            return Err(Misdescribed::TwoCommands(group.name()));
        }
        Some(text) => hugewise_host::config::grub::split(&text),
        None => words,
    };
    if command.is_empty() { Err(group.missing()) } else { Ok(command) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        servers: Servers,
        #[arg(long)]
        sessions: Option<u64>,
    }

    fn parse(line: &[&str]) -> Result<Vec<Server>, String> {
        let line = std::iter::once("size").chain(line.iter().copied());
        Line::try_parse_from(line).map(|line| line.servers.0).map_err(|error| error.to_string())
    }

    fn descriptions(line: &[&str]) -> Vec<Description> {
        parse(line).unwrap().into_iter().map(|server| server.description).collect()
    }

    #[test]
    fn options_belong_to_the_engine_before_them() {
        let line = "--segment 1G --engine postgresql --data-dir /a --sessions 5 --engine mariadb --config /etc/my.cnf \
                    --engine postgresql --config /b/postgresql.conf --data-dir /b --segment 5GiB \
                    --engine qemu --command";
        let line: Vec<&str> = line.split_whitespace().chain(["qemu-system-x86_64 -m '8G'"]).collect();
        let line: Vec<&str> = line.into_iter().chain(["--engine", "jvm", "--", "java", "-Xmx8g"]).collect();
        let some = |text: &str| Some(text.to_owned());
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            descriptions(&line),
            [
                Description::Files {
                    engine: Engine::PostgreSql,
                    data_dir: some("/a"),
                    config: None,
                    server_binary: None
                },
                Description::Config { engine: Engine::MariaDb, path: "/etc/my.cnf".into() },
                Description::Files {
                    engine: Engine::PostgreSql,
                    data_dir: some("/b"),
                    config: some("/b/postgresql.conf"),
                    server_binary: None
                },
                Description::Command { engine: Engine::Qemu, command: words("qemu-system-x86_64 -m 8G") },
                Description::Command { engine: Engine::Jvm, command: words("java -Xmx8g") },
                Description::Segment { bytes: Bytes::from_gib(1) },
                Description::Segment { bytes: Bytes::from_gib(5) },
            ]
        );
    }

    #[test]
    fn oracle_brings_its_companions() {
        let line = ["--engine", "oracle", "--sga", "34G", "--asm", "--management-database=2G"];
        let servers = parse(&line).unwrap();
        let oracle = |gib| Description::Sizes {
            engine: Engine::Oracle,
            sga: Bytes::from_gib(gib),
            sga_max: None,
            processes: None,
        };
        let seen: Vec<_> = servers.into_iter().map(|server| (server.description, server.known_as)).collect();
        let expected =
            [(oracle(34), None), (oracle(1), Some(("+ASM", Trait::Asm))), (oracle(2), Some(("-MGMTDB", Trait::Gimr)))];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_makes_no_sense_is_explained() {
        for (line, why) in [
            ("--data-dir /a", "--data-dir describes a server: put --engine ENGINE before it"),
            ("--data-dir /a --engine postgresql", "put --engine ENGINE before it"),
            ("--engine postgresql", "needs --data-dir DIR or --config FILE"),
            ("--engine postgresql --sga 1G", "--sga does not describe postgresql"),
            ("--engine postgresql --data-dir /a --data-dir /b", "--data-dir is given twice for one postgresql"),
            ("--engine oracle", "needs --sga SIZE"),
            ("--engine oracle --sga 2G --sga-max 1G", "--sga-max 1.0 GiB is below --sga 2.0 GiB"),
            ("--engine oracle --sga 2G --config /a", "leave out --sga"),
            ("--engine oracle --sga 0", "is zero"),
            ("--engine oracle --sga -5G", "is negative"),
            ("--engine oracle --sga 5X", "is not a size"),
            ("--segment 8192P", "is too large"),
            ("--segment -1", "is negative"),
            ("--engine mariadb", "needs --config FILE"),
            ("--engine jvm", "needs its command after --"),
            ("--engine jvm --command java -- java", "has two commands"),
            ("--engine jvm -- java --engine", ""),
            ("-- java", "a command after -- describes a server"),
            ("--engine redis", "invalid value"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            match parse(&words) {
                Ok(_) => assert_eq!(why, "", "{line}"),
                Err(message) => assert!(!why.is_empty() && message.contains(why), "{line}: {message}"),
            }
        }
    }
}
