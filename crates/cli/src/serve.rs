//! `hugewise serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_serve::http::{self, Options, ServerNotice};
use hugewise_serve::{HistorySpan, HostCollector, textfile};

use crate::argument::Wrong;
use crate::host_namespaces;
use crate::outcome::{self, CommandFailure, CommandOutcome};

pub(crate) const AFTER_HELP: &str = "\
Metrics are at /metrics, the dashboard at /, the JSON API below /api/v1/ (described at \
     /api/v1/openapi.json).
Any address other than loopback needs --web-config with TLS and a credential, or --insecure-bind.

  hugewise serve
  hugewise serve --listen 0.0.0.0:9752 --web-config /etc/hugewise/web.yml
  hugewise serve --textfile /var/lib/node_exporter/hugewise.prom --once

Exit codes: 0 stopped by SIGTERM or SIGINT, or the file was written; 2 it could not do its work.";

const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9752);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address and port to listen on; port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS", default_value_t = USUAL, value_parser = parse_listen_address)]
    listen: SocketAddr,
    /// TLS and passwords, in the exporter-toolkit's format (web.yml).
    #[arg(long, value_name = "FILE")]
    web_config: Option<PathBuf>,
    /// Listen to other hosts without TLS or a credential: anyone who can reach the port can read
    /// everything.
    #[arg(long)]
    insecure_bind: bool,
    /// Seconds between readings when no client asks.
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    /// The flight recorder's folder. If the recorder runs, its last minute is exported.
    #[arg(long, value_name = "FOLDER", default_value = hugewise_record::record::USUAL_FOLDER)]
    recorder: PathBuf,
    /// In a container with the host's pid namespace: enter the host's other namespaces, except its
    /// network, first.
    #[arg(long)]
    host_namespaces: bool,
    /// Don't listen; write the metrics to this file at each interval, for node_exporter's textfile
    /// collector.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "web_config", "insecure_bind"])]
    textfile: Option<PathBuf>,
    /// Write the file once and exit.
    #[arg(long, requires = "textfile", conflicts_with = "interval")]
    once: bool,
}

/// Names the likely address if only a port, or a name, was given.
fn parse_listen_address(text: &str) -> Result<SocketAddr, Wrong> {
    let port = text.trim_start_matches("localhost").trim_start_matches(':').parse::<u16>();
    text.parse().map_err(|_| {
        let likely = port.map_or(USUAL, |port| SocketAddr::new(USUAL.ip(), port));
        Wrong::Listen(likely.to_string())
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    host_namespaces::enter_host_namespaces(arguments.host_namespaces)?;
    if let Some(path) = &arguments.textfile {
        return write(
            path,
            &arguments.recorder,
            if arguments.once { None } else { Some(Duration::from_secs(arguments.interval)) },
        );
    }
    let options = Options {
        listen: arguments.listen,
        interval: Duration::from_secs(arguments.interval),
        recorder: arguments.recorder.clone(),
        web_config: arguments.web_config.clone(),
        insecure_bind: arguments.insecure_bind,
    };
    if options.insecure_bind && !options.listen.ip().is_loopback() {
        let what =
            "--insecure-bind: anybody who can reach this address can read everything, or listen in";
        outcome::print_complaint(what, CommandOutcome::Fine)?;
    }
    http::run(&options, report_server_news).map_err(CommandFailure::new)?;
    Ok(CommandOutcome::Fine)
}

/// Success goes to standard output, trouble to standard error.
fn report_server_news(news: ServerNotice) {
    match news {
        ServerNotice::Listening(address, tls) => {
            let scheme = if tls { "https" } else { "http" };
            // Serving goes on if standard output is closed.
            let _ =
                outcome::print_output(format!("listening at {scheme}://{address}\n").as_bytes());
        }
        ServerNotice::KeptConfig(what) => {
            let _ = outcome::print_complaint(
                &format!("the previous web configuration stays in force: {what}"),
                CommandOutcome::Fine,
            );
        }
    }
}

/// Once without an interval. Only the first write must succeed: a full disk may be emptied later.
fn write(
    path: &Path,
    recorder: &Path,
    interval: Option<Duration>,
) -> Result<CommandOutcome, CommandFailure> {
    let collector =
        HostCollector::for_live_host(HistorySpan { points: 1, ..HistorySpan::default() })
            .with_recorder(recorder);
    let wrong = |error: std::io::Error| {
        CommandFailure::new(format!("cannot write {}: {error}", path.display()))
    };
    let put = |age: Duration| textfile::write(&collector.no_older_than(age), path);
    put(Duration::ZERO).map_err(wrong)?;
    let Some(interval) = interval else { return Ok(CommandOutcome::Fine) };
    loop {
        // No file is ever half written: SIGTERM may end it here.
        std::thread::sleep(interval);
        if let Err(error) = put(interval / 2) {
            outcome::print_complaint(wrong(error).message(), CommandOutcome::Fine)?;
        }
    }
}
