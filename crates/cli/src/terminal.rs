//! What is known of the terminals. Only this file reads the environment.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use hugewise_investigate::InvestigationProgress;
use hugewise_report::{Palette, TextLayout};

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

const USUAL_WIDTH: usize = 80;

pub(crate) fn text_layout(color: ColorChoice, verbose: bool) -> TextLayout {
    let colourful = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => io::stdout().is_terminal() && wants_colour(),
    };
    TextLayout {
        width: output_width(),
        palette: if colourful { Palette::Colour } else { Palette::Plain },
        verbose,
    }
}

fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

pub(crate) fn output_width() -> usize {
    let told = || std::env::var_os("COLUMNS")?.to_str()?.parse().ok();
    terminal_columns(io::stdout())
        .filter(|columns| *columns > 0)
        .or_else(told)
        .filter(|columns| *columns > 0)
        .unwrap_or(USUAL_WIDTH)
}

/// `None` if errors go to a file, where each is to be one line.
pub(crate) fn width_of_errors() -> Option<usize> {
    let columns = terminal_columns(io::stderr())?;
    Some(if columns > 0 { columns } else { USUAL_WIDTH })
}

fn terminal_columns(terminal: impl AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col))
}

pub(crate) fn show_reading(InvestigationProgress { read, found }: InvestigationProgress) {
    show_progress(&format!("\r{read} of {found} files read \x1b[K"));
}

/// Shows every second how long work of unknown length has taken.
pub(crate) fn show_waiting<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            let mut shown = false;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                show_progress(&format!("\r{what}: {} s \x1b[K", begun.elapsed().as_secs()));
                shown = true;
            }
            if shown {
                clear_progress();
            }
        });
        let made = work();
        drop(working);
        made
    })
}

pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

pub(crate) fn read_yes() -> io::Result<bool> {
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

pub(crate) fn clear_progress() {
    show_progress("\r\x1b[K");
}

pub(crate) fn show_note(text: &str) {
    show_progress(&format!("{}\n", hugewise_report::plain::escape_line(text)));
}

/// Nothing is shown unless standard error is a terminal.
pub(crate) fn show_progress(text: &str) {
    if io::stderr().is_terminal() {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}
