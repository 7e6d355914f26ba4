//! What is known of whoever looks at the output. The only place that reads the environment.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use hugewise_incident::Progress;
use hugewise_report::{Layout, Palette};

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

/// Columns where nobody says.
const USUAL_WIDTH: usize = 80;

/// How to lay out text on standard output.
pub(crate) fn layout(color: ColorChoice, verbose: bool) -> Layout {
    let colourful = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => io::stdout().is_terminal() && wants_colour(),
    };
    Layout { width: width(), palette: if colourful { Palette::Colour } else { Palette::Plain }, verbose }
}

fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of standard output.
pub(crate) fn width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let told = || std::env::var_os("COLUMNS")?.to_str()?.parse().ok();
    terminal.filter(|columns| *columns > 0).or_else(told).filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// Columns of the terminal that errors are written to; none where they go elsewhere, as a line each, to be searched.
pub(crate) fn width_of_errors() -> Option<usize> {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col))?;
    Some(if columns > 0 { columns } else { USUAL_WIDTH })
}

/// Says how far the reading of archives is.
pub(crate) fn reading(Progress { read, found }: Progress) {
    progress(&format!("\r{read} of {found} files read \x1b[K"));
}

/// Does work whose end nobody can tell, and says every second for how long it has gone on.
pub(crate) fn waiting<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            let mut shown = false;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                progress(&format!("\r{what}: {} s \x1b[K", begun.elapsed().as_secs()));
                shown = true;
            }
            if shown {
                done();
            }
        });
        let made = work();
        drop(working);
        made
    })
}

/// Clears what was said of progress.
pub(crate) fn done() {
    progress("\r\x1b[K");
}

/// Says in a line what was done, where somebody looks.
pub(crate) fn note(text: &str) {
    progress(&format!("{}\n", hugewise_report::plain::clean(text)));
}

/// Says something where somebody looks; progress that nobody can see is none.
pub(crate) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}
