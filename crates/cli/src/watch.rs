//! `hugewise watch`.

mod replay;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use hugewise_host::source::LiveSource;
use hugewise_investigate::Options;
use hugewise_serve::watch::{self, FrameTimeline, View};

use crate::outcome::{CommandFailure, CommandOutcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
? shows the keys, q quits. The space bar pauses and resumes; the left and right keys step through \
     the past.

  hugewise watch
  hugewise watch --replay db7.tar.gz
  hugewise watch --replay /var/log/sa --from 08:00 --to 11:00

Exit codes: 0 you quit; 2 it could not do its work.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Replay a recording instead of watching this host: captures, or any archive that investigate
    /// reads.
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "interval")]
    replay: Vec<PathBuf>,
    /// The host to show, if the recording has several.
    #[arg(long, value_name = "NAME", requires = "replay")]
    host: Option<String>,
    /// Start the replay here: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 on the last
    /// day.
    #[arg(long, value_name = "TIME", requires = "replay")]
    from: Option<String>,
    /// End the replay here; same formats as --from.
    #[arg(long, value_name = "TIME", requires = "replay")]
    to: Option<String>,
    /// Time zone of recorded times that have none: Europe/Berlin, or +02:00.
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true, requires = "replay")]
    timezone: Option<String>,
    /// Frames to replay per second.
    #[arg(long, value_name = "FRAMES", default_value = "4", requires = "replay",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    speed: u32,
    /// Show only rows that contain this text, such as an instance or a finding; Esc clears it.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// When to use colour.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let instead = match arguments.replay.is_empty() {
            true => {
                "'hugewise check' prints the same once, and 'hugewise serve' gives it to other \
                     programs"
            }
            false => {
                "'hugewise investigate' prints what an archive tells, and 'hugewise check --root' \
                     what a capture does"
            }
        };
        return Err(CommandFailure::new(format!("watch needs a terminal; {instead}")));
    }
    let palette = terminal::text_layout(arguments.color, false).palette;
    let view = |timeline| {
        View::new(timeline, palette).with_filter(&arguments.filter).at_speed(arguments.speed)
    };
    let watched = if arguments.replay.is_empty() {
        watch::watch_live(
            view(FrameTimeline::for_live_host()),
            || Box::new(LiveSource::new()),
            Duration::from_secs(arguments.interval),
        )
    } else {
        let options = Options {
            zone: arguments.timezone.clone(),
            from: arguments.from.clone(),
            to: arguments.to.clone(),
            hosts: arguments.host.iter().cloned().collect(),
            ..Options::default()
        };
        let frames = replay::read_frames(&arguments.replay, arguments.host.as_deref(), &options)?;
        watch::watch_recording(view(FrameTimeline::from_recording(frames)))
    };
    watched.map_err(|error| CommandFailure::new(format!("the terminal: {error}")))?;
    Ok(CommandOutcome::Fine)
}
