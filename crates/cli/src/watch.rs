//! `hugewise watch`.

mod replay;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use hugewise_host::source::Live;
use hugewise_incident::Options;
use hugewise_serve::watch::{self, Timeline, View};

use crate::outcome::{Failure, Outcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
? shows the keys, q quits. The space bar stops and goes on; left and right step through what was shown.

  hugewise watch
  hugewise watch --replay db7.tar.gz
  hugewise watch --replay /var/log/sa --from 08:00 --to 11:00

Exit codes: 0 ended by whoever watched; 2 it could not do its work.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Show what was recorded instead of this host: captures of it, or what collectors left behind, as investigate
    /// reads it.
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "interval")]
    replay: Vec<PathBuf>,
    /// The host to show, of a recording of several.
    #[arg(long, value_name = "NAME", requires = "replay")]
    host: Option<String>,
    /// Show nothing recorded before this: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 of the last day.
    #[arg(long, value_name = "TIME", requires = "replay")]
    from: Option<String>,
    /// Show nothing recorded after this; as --from.
    #[arg(long, value_name = "TIME", requires = "replay")]
    to: Option<String>,
    /// The zone of recorded times that come without one: Europe/Berlin, or +02:00.
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true, requires = "replay")]
    timezone: Option<String>,
    /// Frames of a recording to play per second.
    #[arg(long, value_name = "FRAMES", default_value = "4", requires = "replay",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    speed: u32,
    /// Show only what has this in it, until Esc is pressed: the name of an instance, the code of a finding.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Colour.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let instead = "check prints once what it shows, serve is for other programs";
        return Err(Failure::new(format!("watch needs a terminal to draw on and keys to listen to; {instead}")));
    }
    let palette = terminal::layout(arguments.color, false).palette;
    let view = |timeline| View::new(timeline, palette).filtered(&arguments.filter).at_speed(arguments.speed);
    let watched = if arguments.replay.is_empty() {
        watch::live(view(Timeline::live()), || Box::new(Live::new()), Duration::from_secs(arguments.interval))
    } else {
        let options = Options {
            zone: arguments.timezone.clone(),
            from: arguments.from.clone(),
            to: arguments.to.clone(),
            ..Options::default()
        };
        let frames = replay::frames(&arguments.replay, arguments.host.as_deref(), &options)?;
        watch::recorded(view(Timeline::recorded(frames)))
    };
    watched.map_err(|error| Failure::new(format!("the terminal: {error}")))?;
    Ok(Outcome::Fine)
}
