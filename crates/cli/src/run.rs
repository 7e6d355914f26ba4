//! `hugewise run`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use hugewise_engines::describe;
use hugewise_host::{Door, Source, kernel};
use hugewise_lab::run::compare::{self, Comparison, Inherited, Runs};
use hugewise_lab::run::instructions::{self, Instructions, Pages, Surroundings, Wish};
use hugewise_lab::run::launch::{self, Launch, Memlock, Watch};
use hugewise_lab::run::program::{self, Program};
use hugewise_lab::run::refusal::Refusal;
use hugewise_model::{Bytes, Host, PageSize};
use hugewise_report::text::run::fell_back;
use hugewise_report::{Layout, Palette, RunReport, Started};

use crate::argument::Wrong;
use crate::described::size;
use crate::format::Format;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "  hugewise run -- sort -S 4G big.txt -o sorted.txt
  hugewise run --pages 2M --need 6G --report -- ./analysis
  hugewise run --compare -- python3 model.py

Exit codes: the program's own; if a signal kills the program, it kills hugewise too. 125 the program was not started: \
the host has no such pages, or its allocator cannot be reached; 126 it cannot be executed; 127 it was not found.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Transparent huge pages (thp), or the pool of 2M or 1G pages.
    #[arg(long, value_name = "PAGES", default_value = "thp", value_parser = pages)]
    pages: Pages,
    /// Don't start the program unless this much fits in the pool.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    need: Option<Bytes>,
    /// Also put its code (text) on huge pages, as far as kernel and program allow.
    #[arg(long)]
    hugetext: bool,
    /// At the end, report on standard error what it used: time, memory, how much of it on huge pages, page faults.
    #[arg(long)]
    report: bool,
    /// Run it alternately without and with huge pages, discard its output, and report the gain.
    #[arg(long, conflicts_with = "hugetext")]
    compare: bool,
    /// With --compare: runs of each kind, after a warm-up run.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "compare", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Format of --report and --compare: text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the report to this file instead.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Don't print how the program gets its huge pages.
    #[arg(short, long)]
    quiet: bool,
    /// When to colour the report of --compare.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    /// The program and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

fn pages(text: &str) -> Result<Pages, Wrong> {
    match text.to_ascii_lowercase().as_str() {
        "thp" => Ok(Pages::Thp),
        "2m" => Ok(Pages::Huge(PageSize::MIB_2)),
        "1g" => Ok(Pages::Huge(PageSize::GIB_1)),
        _ => Err(Wrong::Pages(text.to_owned())),
    }
}

/// Not started, for what the host or the program are.
const REFUSED: u8 = 125;
/// There, and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// Not there.
const NOT_FOUND: u8 = 127;

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if arguments.need.is_some() && arguments.pages == Pages::Thp {
        return Err(Failure::new("--need applies to a pool: choose it with --pages 2M or --pages 1G"));
    }
    if arguments.out.is_some() && !(arguments.report || arguments.compare || arguments.hugetext) {
        return Err(Failure::new("--out needs a report: add --report or --compare"));
    }
    let Some((name, rest)) = arguments.command.split_first() else {
        return Err(Failure::new("no program to run: hugewise run -- PROGRAM"));
    };
    let program = match look(name) {
        Ok(program) => program,
        Err(error) => {
            let name = name.to_string_lossy();
            let (code, message) = match error.kind() {
                io::ErrorKind::NotFound => (NOT_FOUND, format!("{name}: no such program")),
                io::ErrorKind::PermissionDenied => {
                    (NOT_EXECUTABLE, format!("{name}: no permission to execute it, or to read it"))
                }
                _ => (NOT_EXECUTABLE, format!("{name}: {error}")),
            };
            return outcome::complain(&message, Outcome::Ended(code));
        }
    };
    let wish = Wish { pages: arguments.pages, text: arguments.hugetext, need: arguments.need };
    let mut instructions = match planned(&program, wish, rest) {
        Ok(instructions) => instructions,
        Err(Refusal(why)) => return outcome::complain(&why, Outcome::Ended(REFUSED)),
    };
    if let Some(path) = &arguments.out {
        // Before the program runs, not after.
        outcome::check_writable(path)?;
    }
    let inherited = prepare(&mut instructions);
    let launch = Launch {
        program: program.path,
        name: name.clone(),
        settings: instructions.arguments.clone(),
        arguments: rest.to_vec(),
        variables: instructions.variables.clone(),
    };
    if !arguments.quiet {
        say(&instructions);
    }
    if arguments.compare {
        return compared(arguments, &instructions, &launch, inherited);
    }
    if arguments.report || instructions.text_from_outside {
        return watched(arguments, &instructions, &launch);
    }
    let error = launch.become_it();
    let message = format!("{}: {error}", launch.program.display());
    outcome::complain(&message, Outcome::Ended(NOT_EXECUTABLE))
}

fn look(name: &OsStr) -> io::Result<Program> {
    let variable = |name| std::env::var_os(name);
    let path = variable("PATH");
    let file = program::find(name, path.as_deref())?;
    program::examine(&file, path.as_deref(), variable("LD_PRELOAD").as_deref())
}

fn planned(program: &Program, mut wish: Wish, arguments: &[OsString]) -> Result<Instructions, Refusal> {
    let source = hugewise_host::source::Live::new();
    let mut host = Host { live: true, base_page: source.machine().base_page, ..Host::default() };
    kernel::read(&mut Door::new(&source), &mut host);
    if wish.need.is_none() && wish.pages != Pages::Thp {
        wish.need = needs(&host, &source, program, wish.pages, arguments);
    }
    let there = Surroundings { thp: &host.thp, pools: host.pools.known().map(Vec::as_slice) };
    instructions::instructions(program, wish, there, &|name| std::env::var_os(name)?.into_string().ok())
}

/// What a program with flags for huge pages of its own takes of the pool at its start: with less it goes on without.
fn needs(host: &Host, source: &dyn Source, program: &Program, pages: Pages, arguments: &[OsString]) -> Option<Bytes> {
    let flags = instructions::own_flags(program, pages);
    if flags.is_empty() {
        return None;
    }
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let name = program.path.file_name()?.to_string_lossy().into_owned();
    let words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let described = describe::command(host, source, std::iter::once(name).chain(flags).chain(words).collect())?;
    let demand = described.instance.demand?;
    Some(demand.pages.of(demand.page_size))
}

/// What the program inherits from this process: it is set here, and said.
fn prepare(instructions: &mut Instructions) -> Inherited {
    let memlock = launch::raise_memlock();
    let (before, after) = memlock;
    if before.0 != after.0 {
        instructions.done.push(format!("memlock raised from {} to {}", limit(before), limit(after)));
    }
    let thp_kept_away = launch::thp_is_kept_away().unwrap_or(false);
    if thp_kept_away {
        match launch::keep_thp_away(false) {
            Ok(()) => instructions
                .done
                .push("THP was disabled for this process (PR_SET_THP_DISABLE); hugewise enabled it again".into()),
            Err(error) => {
                instructions.caveats.push(format!("THP is disabled for this process and stays disabled: {error}"))
            }
        }
    }
    Inherited { memlock, thp_kept_away }
}

fn limit(memlock: Memlock) -> String {
    memlock.0.map_or_else(|| "unlimited".into(), |bytes| Bytes(bytes).to_string())
}

/// Says on standard error how it is done. Nobody is left to tell where that is closed.
fn say(instructions: &Instructions) {
    let mut text = Vec::new();
    let started = Started { done: &instructions.done, caveats: &instructions.caveats };
    if started
        .write_text(&mut text, Layout { palette: Palette::Plain, ..terminal::layout(ColorChoice::Never, false) })
        .is_ok()
    {
        let _ = io::stderr().lock().write_all(&text);
    }
}

fn watched(arguments: &Arguments, instructions: &Instructions, launch: &Launch) -> Result<Outcome, Failure> {
    let how = Watch { detached: false, text: instructions.text_from_outside };
    let watched = match launch::watch(launch, how) {
        Ok(watched) => watched,
        Err(error) => {
            let message = format!("{}: {error}", launch.program.display());
            return outcome::complain(&message, Outcome::Ended(NOT_EXECUTABLE));
        }
    };
    if arguments.report || arguments.hugetext {
        let reported = report(arguments, instructions, &Runs { with: vec![watched.clone()], ..Runs::default() });
        if let Err(failure) = reported {
            // Its own exit code is what its caller goes by.
            let _ = outcome::complain(failure.message(), Outcome::Fine);
        }
    }
    if matches!(arguments.pages, Pages::Huge(_))
        && let Some(line) = fell_back(&watched)
    {
        let _ = outcome::complain(&line, Outcome::Fine);
    }
    Ok(Outcome::Ended(launch::end_like(watched.status)))
}

fn compared(
    arguments: &Arguments,
    instructions: &Instructions,
    launch: &Launch,
    inherited: Inherited,
) -> Result<Outcome, Failure> {
    let facts = rustix::fs::fstat(io::stdin()).map_err(|error| Failure::new(format!("standard input: {error}")));
    let kind = rustix::fs::FileType::from_raw_mode(facts?.st_mode);
    if kind == rustix::fs::FileType::Fifo && !io::stdin().is_terminal() {
        return Err(Failure::new(
            "standard input is a pipe, which can be read only once, but --compare runs the program several times: let it read a file",
        ));
    }
    let of = arguments.runs.saturating_add(1).saturating_mul(2);
    let mut progress = |done: u32| terminal::progress(&format!("\rrun {} of {of} \x1b[K", done.saturating_add(1)));
    let runs = compare::compare(
        launch,
        inherited,
        Comparison { rounds: arguments.runs, by_chance: instructions.by_chance },
        &mut progress,
    );
    terminal::done();
    match runs.map_err(|error| Failure::new(format!("{}: {error}", launch.program.display())))? {
        Ok(runs) => {
            report(arguments, instructions, &runs)?;
            Ok(Outcome::Fine)
        }
        Err(failed) => {
            let message = format!("{} ended with {}; nothing is compared", launch.program.display(), failed.status);
            let _ = outcome::complain(&message, Outcome::Fine);
            Ok(Outcome::Ended(launch::end_like(failed.status)))
        }
    }
}

fn report(arguments: &Arguments, instructions: &Instructions, runs: &Runs) -> Result<(), Failure> {
    let command: Vec<String> = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let pages = match arguments.pages {
        Pages::Thp => "thp".to_owned(),
        Pages::Huge(PageSize::GIB_1) => "1G".to_owned(),
        Pages::Huge(_) => "2M".to_owned(),
    };
    let noticed = if instructions.by_chance { compare::noticed(&runs.with, &runs.set_aside) } else { Vec::new() };
    let report = RunReport {
        command: &command,
        pages: &pages,
        done: &instructions.done,
        caveats: &instructions.caveats,
        noticed: &noticed,
        set_aside: &runs.set_aside,
        with: &runs.with,
        without: &runs.without,
    };
    let (mut text, standard) = (Vec::new(), arguments.compare && arguments.out.is_none());
    let color = if standard { arguments.color } else { ColorChoice::Never };
    let written = match arguments.format {
        Format::Text => report.write_text(&mut text, terminal::layout(color, false)),
        Format::Json => report.write_json(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    match &arguments.out {
        Some(path) => outcome::write_file(path, &text),
        // With --compare the program's own output is thrown away: standard output is free.
        None if standard => outcome::print(&text),
        None => {
            let _ = io::stderr().lock().write_all(&text);
            Ok(())
        }
    }
}
