//! `hugewise run`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use hugewise_engines::describe;
use hugewise_host::source::RawSource as _;
use hugewise_host::{FactReader, Source, kernel};
use hugewise_lab::run::compare::{self, ComparedRuns, Comparison, Inherited};
use hugewise_lab::run::instructions::{
    self, Instructions, ProgramPageRequest, RequestedPages, Surroundings,
};
use hugewise_lab::run::launch::{self, Launch, MemlockLimits, WatchOptions};
use hugewise_lab::run::program::{self, ExaminedProgram};
use hugewise_lab::run::refusal::LaunchRefusal;
use hugewise_model::{Bytes, Host, PageSize};
use hugewise_report::text::run::fell_back;
use hugewise_report::{RunPreamble, RunReport};

use crate::argument::Wrong;
use crate::described_servers::parse_size;
use crate::format::OutputFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "  hugewise run -- sort -S 4G big.txt -o sorted.txt
  hugewise run --pages 2M --need 6G --report -- ./analysis
  hugewise run --compare -- python3 model.py

Exit codes: the program's own; if a signal kills the program, it kills hugewise too. 125 the \
     program was not started: \
the host has no such pages, or its allocator cannot be reached; 126 it cannot be executed; 127 it \
     was not found.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Transparent huge pages (thp), or the pool of 2M or 1G pages.
    #[arg(long, value_name = "PAGES", default_value = "thp", value_parser = parse_pages)]
    pages: RequestedPages,
    /// Don't start the program unless this much fits in the pool.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    need: Option<Bytes>,
    /// Also put its code (text) on huge pages, as far as kernel and program allow.
    #[arg(long)]
    hugetext: bool,
    /// At the end, report on standard error what it used: time, memory, how much of it on huge
    /// pages, page faults.
    #[arg(long)]
    report: bool,
    /// Run it alternately without and with huge pages, discard its output, and report the gain.
    #[arg(long, conflicts_with = "hugetext")]
    compare: bool,
    /// With --compare: runs of each kind, after a warm-up run.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "compare", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Format of --report and --compare: text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
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
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

fn parse_pages(text: &str) -> Result<RequestedPages, Wrong> {
    match text.to_ascii_lowercase().as_str() {
        "thp" => Ok(RequestedPages::Thp),
        "2m" => Ok(RequestedPages::Huge(PageSize::MIB_2)),
        "1g" => Ok(RequestedPages::Huge(PageSize::GIB_1)),
        _ => Err(Wrong::Pages(text.to_owned())),
    }
}

/// hugewise did not start it.
const REFUSED: u8 = 125;
/// It cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// It was not found.
const NOT_FOUND: u8 = 127;

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    if arguments.need.is_some() && arguments.pages == RequestedPages::Thp {
        return Err(CommandFailure::new(
            "--need applies to a pool: choose it with --pages 2M or --pages 1G",
        ));
    }
    if arguments.out.is_some() && !(arguments.report || arguments.compare || arguments.hugetext) {
        return Err(CommandFailure::new("--out needs a report: add --report or --compare"));
    }
    let Some((name, rest)) = arguments.command.split_first() else {
        return Err(CommandFailure::new("no program to run: hugewise run -- PROGRAM"));
    };
    let program = match examine_program(name) {
        Ok(program) => program,
        Err(error) => return complain_of_program(name, &error),
    };
    let wish = ProgramPageRequest {
        pages: arguments.pages,
        text: arguments.hugetext,
        need: arguments.need,
    };
    let mut instructions = match plan_run(&program, wish, rest) {
        Ok(instructions) => instructions,
        Err(LaunchRefusal(why)) => {
            return outcome::print_complaint(&why, CommandOutcome::Ended(REFUSED));
        }
    };
    if let Some(path) = &arguments.out {
        // Before the program runs, not after.
        outcome::check_writable(path)?;
    }
    let inherited = prepare_inherited(&mut instructions);
    let launch = Launch {
        program: program.path,
        name: name.clone(),
        settings: instructions.arguments.clone(),
        arguments: rest.to_vec(),
        variables: instructions.variables.clone(),
    };
    if !arguments.quiet {
        print_instructions(&instructions);
    }
    if arguments.compare {
        return run_compared(arguments, &instructions, &launch, inherited);
    }
    if arguments.report || instructions.text_from_outside {
        return run_watched(arguments, &instructions, &launch);
    }
    let error = launch.become_it();
    let message = format!("{}: {error}", launch.program.display());
    outcome::print_complaint(&message, CommandOutcome::Ended(NOT_EXECUTABLE))
}

fn complain_of_program(name: &OsStr, error: &io::Error) -> Result<CommandOutcome, CommandFailure> {
    let name = name.to_string_lossy();
    let (code, message) = match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, format!("{name}: no such program")),
        io::ErrorKind::PermissionDenied => {
            (NOT_EXECUTABLE, format!("{name}: no permission to execute it, or to read it"))
        }
        _ => (NOT_EXECUTABLE, format!("{name}: {error}")),
    };
    outcome::print_complaint(&message, CommandOutcome::Ended(code))
}

fn examine_program(name: &OsStr) -> io::Result<ExaminedProgram> {
    let variable = |name| std::env::var_os(name);
    let path = variable("PATH");
    let file = program::find_program(name, path.as_deref())?;
    program::examine_program(&file, path.as_deref(), variable("LD_PRELOAD").as_deref())
}

fn plan_run(
    program: &ExaminedProgram,
    mut wish: ProgramPageRequest,
    arguments: &[OsString],
) -> Result<Instructions, LaunchRefusal> {
    let source = hugewise_host::source::LiveSource::new();
    let mut host =
        Host { live: true, base_page: source.machine_facts().base_page, ..Host::default() };
    kernel::read(&mut FactReader::new(&source), &mut host);
    if wish.need.is_none() && wish.pages != RequestedPages::Thp {
        wish.need = pool_bytes_needed(&host, &source, program, wish.pages, arguments);
    }
    let there = Surroundings { thp: &host.thp, pools: host.pools.as_known().map(Vec::as_slice) };
    instructions::plan_instructions(program, wish, there, &|name| {
        std::env::var_os(name)?.into_string().ok()
    })
}

/// With less in the pool at its start, a program with flags of its own silently goes without.
fn pool_bytes_needed(
    host: &Host,
    source: &dyn Source,
    program: &ExaminedProgram,
    pages: RequestedPages,
    arguments: &[OsString],
) -> Option<Bytes> {
    let flags = instructions::own_flags(program, pages);
    if flags.is_empty() {
        return None;
    }
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let name = program.path.file_name()?.to_string_lossy().into_owned();
    let words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let described = describe::describe_command_line(
        host,
        source,
        std::iter::once(name).chain(flags).chain(words).collect(),
    )?;
    let demand = described.instance.demand?;
    Some(demand.pages.to_bytes(demand.page_size))
}

/// Changes what the program inherits from this process, and notes it.
fn prepare_inherited(instructions: &mut Instructions) -> Inherited {
    let memlock = launch::raise_memlock();
    let (before, after) = memlock;
    if before.0 != after.0 {
        instructions.done.push(format!(
            "memlock raised from {} to {}",
            render_memlock(before),
            render_memlock(after)
        ));
    }
    let thp_kept_away = launch::thp_is_kept_away().unwrap_or(false);
    if thp_kept_away {
        match launch::keep_thp_away(false) {
            Ok(()) => instructions.done.push(
                "THP was disabled for this process (PR_SET_THP_DISABLE); hugewise enabled it again"
                    .into(),
            ),
            Err(error) => instructions
                .caveats
                .push(format!("THP is disabled for this process and stays disabled: {error}")),
        }
    }
    Inherited { memlock, thp_kept_away }
}

fn render_memlock(memlock: MemlockLimits) -> String {
    memlock.0.map_or_else(|| "unlimited".into(), |bytes| Bytes(bytes).to_string())
}

/// If standard error is closed, nobody is left to tell.
fn print_instructions(instructions: &Instructions) {
    let mut text = Vec::new();
    let started = RunPreamble { done: &instructions.done, caveats: &instructions.caveats };
    if started.write_text(&mut text, terminal::text_layout(ColorChoice::Never, false)).is_ok() {
        let _ = io::stderr().lock().write_all(&text);
    }
}

fn run_watched(
    arguments: &Arguments,
    instructions: &Instructions,
    launch: &Launch,
) -> Result<CommandOutcome, CommandFailure> {
    let how = WatchOptions { detached: false, text: instructions.text_from_outside };
    let watched = match launch::watch_program(launch, how) {
        Ok(watched) => watched,
        Err(error) => {
            let message = format!("{}: {error}", launch.program.display());
            return outcome::print_complaint(&message, CommandOutcome::Ended(NOT_EXECUTABLE));
        }
    };
    if arguments.report || arguments.hugetext {
        let reported = write_run_report(
            arguments,
            instructions,
            &ComparedRuns { with: vec![watched.clone()], ..ComparedRuns::default() },
        );
        if let Err(failure) = reported {
            // Callers rely on the program's own exit code.
            let _ = outcome::print_complaint(failure.message(), CommandOutcome::Fine);
        }
    }
    if matches!(arguments.pages, RequestedPages::Huge(_))
        && let Some(line) = fell_back(&watched)
    {
        let _ = outcome::print_complaint(&line, CommandOutcome::Fine);
    }
    Ok(CommandOutcome::Ended(launch::end_like(watched.status)))
}

fn run_compared(
    arguments: &Arguments,
    instructions: &Instructions,
    launch: &Launch,
    inherited: Inherited,
) -> Result<CommandOutcome, CommandFailure> {
    let facts = rustix::fs::fstat(io::stdin())
        .map_err(|error| CommandFailure::new(format!("standard input: {error}")));
    let kind = rustix::fs::FileType::from_raw_mode(facts?.st_mode);
    if kind == rustix::fs::FileType::Fifo && !io::stdin().is_terminal() {
        return Err(CommandFailure::new(
            "standard input is a pipe, which can be read only once, but --compare runs the \
                 program several times: let it read a file",
        ));
    }
    let number = arguments.runs.saturating_add(1).saturating_mul(2);
    let mut progress = |done: u32| {
        terminal::show_progress(&format!("\rrun {} of {number} \x1b[K", done.saturating_add(1)))
    };
    let runs = compare::compare_runs(
        launch,
        inherited,
        Comparison { rounds: arguments.runs, by_chance: instructions.by_chance },
        &mut progress,
    );
    terminal::clear_progress();
    match runs.map_err(|error| CommandFailure::for_path(&launch.program, error))? {
        Ok(runs) => {
            write_run_report(arguments, instructions, &runs)?;
            Ok(CommandOutcome::Fine)
        }
        Err(failed) => {
            let message = format!(
                "{} ended with {}; nothing is compared",
                launch.program.display(),
                failed.status
            );
            let _ = outcome::print_complaint(&message, CommandOutcome::Fine);
            Ok(CommandOutcome::Ended(launch::end_like(failed.status)))
        }
    }
}

fn write_run_report(
    arguments: &Arguments,
    instructions: &Instructions,
    runs: &ComparedRuns,
) -> Result<(), CommandFailure> {
    let command: Vec<String> =
        arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let pages = match arguments.pages {
        RequestedPages::Thp => "thp".to_owned(),
        RequestedPages::Huge(PageSize::GIB_1) => "1G".to_owned(),
        RequestedPages::Huge(_) => "2M".to_owned(),
    };
    let noticed = if instructions.by_chance {
        compare::describe_ignored_settings(&runs.with, &runs.set_aside)
    } else {
        Vec::new()
    };
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
    let standard = arguments.compare && arguments.out.is_none();
    let color = if standard { arguments.color } else { ColorChoice::Never };
    let text = arguments.format.render(&report, color)?;
    match &arguments.out {
        Some(path) => outcome::write_file(path, &text),
        // With --compare, the program's own output is discarded: standard output is free.
        None if standard => outcome::print_output(&text),
        None => {
            let _ = io::stderr().lock().write_all(&text);
            Ok(())
        }
    }
}
