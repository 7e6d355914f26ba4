//! Servers that are described on the command line.
//!
//! Each `--engine` starts a server; the options behind it, up to the next `--engine`, are its own.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use hugewise_engines::describe::Description;
use hugewise_engines::{DescribedBy, SizeOption, SizeOptions};
use hugewise_model::{Bytes, Engine, Trait};

use crate::argument::Wrong;

#[derive(Clone, Copy, Debug)]
struct DescribedEngine {
    engine: Engine,
    by: DescribedBy,
}

impl DescribedEngine {
    fn all() -> impl Iterator<Item = Self> {
        let described =
            hugewise_engines::all_kinds().iter().filter_map(|kind| Some((kind, kind.describe?.0)));
        let described = described.filter(|(_, by)| *by != DescribedBy::Segment);
        described.flat_map(|(kind, by)| {
            kind.names.iter().map(move |(engine, _)| Self { engine: *engine, by })
        })
    }

    fn accepted_options(self) -> Vec<&'static str> {
        match self.by {
            DescribedBy::Files => vec!["data_dir", "config", "server_binary"],
            DescribedBy::Sizes(sizes) => {
                std::iter::once("config").chain(sizes.option_names()).collect()
            }
            DescribedBy::Config => vec!["config"],
            DescribedBy::Command(_) => vec!["command", "words"],
            DescribedBy::Segment => Vec::new(),
        }
    }

    const fn size_options(self) -> Option<&'static SizeOptions> {
        match self.by {
            DescribedBy::Sizes(sizes) => Some(sizes),
            _ => None,
        }
    }

    fn required_options(self) -> String {
        match self.by {
            DescribedBy::Files => "--data-dir DIR or --config FILE".into(),
            DescribedBy::Sizes(sizes) => {
                format!("--{} SIZE, or --config FILE with its parameters", sizes.size.option)
            }
            DescribedBy::Config => "--config FILE".into(),
            DescribedBy::Command(example) => format!("its command after --: -- {example}"),
            DescribedBy::Segment => "--segment SIZE".into(),
        }
    }

    fn help_text(self) -> String {
        match self.by {
            DescribedBy::Files => "Described by --data-dir, --config or both".into(),
            DescribedBy::Sizes(sizes) => {
                format!(
                    "Described by --{}, or by --config with a parameter file",
                    sizes.size.option
                )
            }
            DescribedBy::Config => "Described by --config".into(),
            DescribedBy::Command(_) => "Described by its command after --, or by --command".into(),
            DescribedBy::Segment => "Described by --segment".into(),
        }
    }
}

fn engine_parser() -> impl TypedValueParser<Value = DescribedEngine> {
    let values = DescribedEngine::all()
        .map(|kind| PossibleValue::new(kind.engine.as_str()).help(kind.help_text()));
    PossibleValuesParser::new(values).try_map(|name| {
        DescribedEngine::all()
            .find(|kind| kind.engine.as_str() == name)
            .ok_or("not an engine that can be described")
    })
}

#[derive(clap::Args)]
#[command(next_help_heading = "Described servers")]
struct Raw {
    /// Describe a server. The options below belong to the --engine before them; may be repeated.
    #[arg(long, value_parser = engine_parser(), value_name = "ENGINE")]
    engine: Vec<DescribedEngine>,
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
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    segment: Vec<Bytes>,
    /// The command of the last described JVM or QEMU.
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// A number alone is refused: whoever writes `34` means 34 GiB, not 34 bytes.
pub(crate) fn parse_size(text: &str) -> Result<Bytes, Wrong> {
    let bytes = Bytes::parse(text)?;
    let number = text.trim();
    if !number.ends_with(|character: char| character.is_ascii_digit()) {
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

/// The engine whose servers this option describes.
pub(crate) fn engine_of(option: &str) -> Option<&'static str> {
    let takes = |kind: &DescribedEngine| {
        kind.size_options().is_some_and(|sizes| sizes.option_names().any(|own| own == option))
    };
    DescribedEngine::all().find(takes).map(|kind| kind.engine.as_str())
}

/// Adds the missing unit to a size.
pub(crate) fn with_unit(value_name: Option<&str>, value: String) -> String {
    match (value_name, parse_size(&value)) {
        (Some("SIZE"), Err(Wrong::Bare { .. })) => format!("{value}G"),
        _ => value,
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Why a description is refused; options and engines are as written.
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
    #[error(
        "--config already has the sizes of the {engine} instance: leave out --{option} and the like"
    )]
    ConfigAndSizes { engine: &'static str, option: &'static str },
    #[error("--{} {most} is below --{} {size}: {engine} would raise it to that, so leave it out", .sizes.most.option, .sizes.size.option)]
    MostBelow { sizes: &'static SizeOptions, engine: &'static str, most: Bytes, size: Bytes },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescribedServer {
    pub(crate) description: Description,
    /// `+ASM`, `-MGMTDB` with the trait that marks it.
    pub(crate) known_as: Option<(&'static str, Trait)>,
}

/// In the order of the command line, segments last.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescribedServers(pub(crate) Vec<DescribedServer>);

impl Args for DescribedServers {
    fn augment_args(command: clap::Command) -> clap::Command {
        with_sizes(Raw::augment_args(command))
    }
    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        with_sizes(Raw::augment_args_for_update(command))
    }
}

impl FromArgMatches for DescribedServers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let raw = Raw::from_arg_matches(matches)?;
        parse_servers(&raw, matches).map(Self).map_err(|message| {
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{message}\n"))
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds the options of engines that are described by sizes.
fn with_sizes(command: clap::Command) -> clap::Command {
    let repeated = |size_option: &'static SizeOption| {
        Arg::new(size_option.option)
            .long(size_option.option)
            .help(size_option.help)
            .action(ArgAction::Append)
    };
    let mut all = Vec::new();
    for sizes in DescribedEngine::all().filter_map(DescribedEngine::size_options) {
        let size = |size_option| {
            repeated(size_option)
                .value_name("SIZE")
                .value_parser(parse_size)
                .allow_hyphen_values(true)
        };
        all.extend([&sizes.size, &sizes.most].map(size));
        let count = clap::value_parser!(u64).range(1..);
        all.push(repeated(&sizes.sessions).value_name("N").value_parser(count));
        all.extend(sizes.beside.iter().map(|beside| {
            let argument = repeated(&beside.size).value_name("SIZE").value_parser(self::parse_size);
            argument.num_args(0..=1).require_equals(true).default_missing_value(beside.usual)
        }));
    }
    command.args(all)
}

/// One `--engine` with the options behind it.
struct EngineOptionGroup<'a> {
    kind: DescribedEngine,
    from: usize,
    to: usize,
    matches: &'a ArgMatches,
}

impl EngineOptionGroup<'_> {
    fn own_value<T: Clone + Send + Sync + 'static>(
        &self,
        id: &'static str,
    ) -> Result<Option<T>, Misdescribed> {
        let all: Vec<T> = self.matches.get_many(id).into_iter().flatten().cloned().collect();
        self.option_value(id, &all)
    }

    fn option_values<T: Clone>(&self, id: &str, all: &[T]) -> Vec<T> {
        let places = self.matches.indices_of(id).into_iter().flatten();
        places
            .zip(all)
            .filter(|(at, _)| (self.from..self.to).contains(at))
            .map(|(_, value)| value.clone())
            .collect()
    }

    fn option_value<T: Clone>(&self, id: &str, all: &[T]) -> Result<Option<T>, Misdescribed> {
        let mut values = self.option_values(id, all);
        let value = values.pop();
        if values.is_empty() {
            Ok(value)
        } else {
            Err(Misdescribed::Twice { option: render_flag(id), engine: self.engine_name() })
        }
    }

    fn engine_name(&self) -> &'static str {
        self.kind.engine.as_str()
    }

    fn missing_option(&self) -> Misdescribed {
        Misdescribed::Missing { engine: self.engine_name(), least: self.kind.required_options() }
    }
}

fn render_flag(id: &str) -> String {
    if id == "words" { "a command after --".into() } else { format!("--{}", id.replace('_', "-")) }
}

fn parse_servers(raw: &Raw, matches: &ArgMatches) -> Result<Vec<DescribedServer>, Misdescribed> {
    let starts: Vec<usize> = matches.indices_of("engine").into_iter().flatten().collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let groups: Vec<EngineOptionGroup<'_>> = raw
        .engine
        .iter()
        .zip(starts.iter().zip(ends))
        .map(|(kind, (from, to))| EngineOptionGroup { kind: *kind, from: *from, to, matches })
        .collect();
    let own = DescribedEngine::all()
        .filter_map(DescribedEngine::size_options)
        .flat_map(SizeOptions::option_names);
    for id in ["data_dir", "config", "server_binary", "command", "words"].into_iter().chain(own) {
        for at in matches.indices_of(id).into_iter().flatten() {
            let group = groups.iter().find(|group| (group.from..group.to).contains(&at));
            let Some(group) = group else {
                let engine = engine_of(id).unwrap_or("ENGINE");
                return Err(Misdescribed::NoEngine { option: render_flag(id), engine });
            };
            if !group.kind.accepted_options().contains(&id) {
                let (option, engine, least) =
                    (render_flag(id), group.engine_name(), group.kind.required_options());
                return Err(Misdescribed::NotOfEngine { option, engine, least });
            }
        }
    }
    let mut servers = Vec::new();
    for group in &groups {
        servers.extend(describe_server(raw, group)?);
    }
    let segment = |bytes: &Bytes| DescribedServer {
        description: Description::Segment { bytes: *bytes },
        known_as: None,
    };
    servers.extend(raw.segment.iter().map(segment));
    Ok(servers)
}

fn describe_server(
    raw: &Raw,
    group: &EngineOptionGroup<'_>,
) -> Result<Vec<DescribedServer>, Misdescribed> {
    let config = group.option_value("config", &raw.config)?;
    let engine = group.kind.engine;
    let description = match group.kind.by {
        DescribedBy::Files => {
            let data_dir = group.option_value("data_dir", &raw.data_dir)?;
            let server_binary = group.option_value("server_binary", &raw.server_binary)?;
            if data_dir.is_none() && config.is_none() {
                return Err(group.missing_option());
            }
            Description::Files { engine, data_dir, config, server_binary }
        }
        DescribedBy::Sizes(sizes) => return by_sizes(sizes, group, config),
        DescribedBy::Config => {
            Description::Config { engine, path: config.ok_or_else(|| group.missing_option())? }
        }
        DescribedBy::Command(_) => {
            Description::Command { engine, command: server_command(raw, group)? }
        }
        DescribedBy::Segment => return Err(group.missing_option()),
    };
    Ok(vec![DescribedServer { description, known_as: None }])
}

fn by_sizes(
    sizes: &'static SizeOptions,
    group: &EngineOptionGroup<'_>,
    config: Option<String>,
) -> Result<Vec<DescribedServer>, Misdescribed> {
    let engine = group.kind.engine;
    let size: Option<Bytes> = group.own_value(sizes.size.option)?;
    let most: Option<Bytes> = group.own_value(sizes.most.option)?;
    let processes: Option<u64> = group.own_value(sizes.sessions.option)?;
    let description =
        |size, most, processes| Description::Sizes { engine, sga: size, sga_max: most, processes };
    let main = match (config, size) {
        (None, Some(size)) => match most.filter(|most| *most < size) {
            Some(most) => {
                return Err(Misdescribed::MostBelow {
                    sizes,
                    engine: group.engine_name(),
                    most,
                    size,
                });
            }
            None => description(size, most, processes),
        },
        (Some(path), None) if most.is_none() && processes.is_none() => {
            Description::Config { engine, path }
        }
        (Some(_), _) => {
            return Err(Misdescribed::ConfigAndSizes {
                engine: group.engine_name(),
                option: sizes.size.option,
            });
        }
        (None, None) => return Err(group.missing_option()),
    };
    let mut servers = vec![DescribedServer { description: main, known_as: None }];
    for beside in sizes.beside {
        if let Some(size) = group.own_value(beside.size.option)? {
            let known_as = Some((beside.name, beside.marked));
            servers.push(DescribedServer { description: description(size, None, None), known_as });
        }
    }
    Ok(servers)
}

fn server_command(raw: &Raw, group: &EngineOptionGroup<'_>) -> Result<Vec<String>, Misdescribed> {
    let words = group.option_values("words", &raw.words);
    let command = match group.option_value("command", &raw.command)? {
        Some(_) if !words.is_empty() => {
            return Err(Misdescribed::TwoCommands(group.engine_name()));
        }
        Some(text) => hugewise_host::config::grub::split_grub_words(&text),
        None => words,
    };
    if command.is_empty() { Err(group.missing_option()) } else { Ok(command) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        servers: DescribedServers,
        #[arg(long)]
        sessions: Option<u64>,
    }

    fn parse(line: &[&str]) -> Result<Vec<DescribedServer>, String> {
        let line = std::iter::once("size").chain(line.iter().copied());
        Line::try_parse_from(line).map(|line| line.servers.0).map_err(|error| error.to_string())
    }

    fn descriptions(line: &[&str]) -> Vec<Description> {
        parse(line).unwrap().into_iter().map(|server| server.description).collect()
    }

    #[test]
    fn options_belong_to_the_engine_before_them() {
        let line = "--segment 1G --engine postgresql --data-dir /a --sessions 5 --engine mariadb \
             --config /etc/my.cnf \
                    --engine postgresql --config /b/postgresql.conf --data-dir /b --segment 5GiB \
                    --engine qemu --command";
        let line: Vec<&str> =
            line.split_whitespace().chain(["qemu-system-x86_64 -m '8G'"]).collect();
        let line: Vec<&str> =
            line.into_iter().chain(["--engine", "jvm", "--", "java", "-Xmx8g"]).collect();
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
                Description::Command {
                    engine: Engine::Qemu,
                    command: words("qemu-system-x86_64 -m 8G")
                },
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
        let seen: Vec<_> =
            servers.into_iter().map(|server| (server.description, server.known_as)).collect();
        let expected = [
            (oracle(34), None),
            (oracle(1), Some(("+ASM", Trait::Asm))),
            (oracle(2), Some(("-MGMTDB", Trait::Gimr))),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_makes_no_sense_is_explained() {
        for (line, why) in [
            ("--data-dir /a", "--data-dir describes a server: put --engine ENGINE before it"),
            ("--data-dir /a --engine postgresql", "put --engine ENGINE before it"),
            ("--engine postgresql", "needs --data-dir DIR or --config FILE"),
            ("--engine postgresql --sga 1G", "--sga does not describe postgresql"),
            (
                "--engine postgresql --data-dir /a --data-dir /b",
                "--data-dir is given twice for one postgresql",
            ),
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
                Err(message) => {
                    assert!(!why.is_empty() && message.contains(why), "{line}: {message}")
                }
            }
        }
    }
}
