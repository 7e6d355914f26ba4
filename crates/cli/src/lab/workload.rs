//! `hugewise lab workload`.

use std::time::Duration;

use hugewise_lab::experiments::workload::{Workload, WorkloadSettings};
use hugewise_model::Bytes;

use super::{Common, run_measurement};
use crate::described_servers::parse_size;
use crate::outcome::{CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Concurrent sessions.
    #[arg(long, value_name = "N", default_value_t = WorkloadSettings::default().sessions, value_parser = clap::value_parser!(u32).range(1..=2000))]
    sessions: u32,
    /// Size of shared_buffers; the tables fill three quarters of it.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2G")]
    segment: Bytes,
    /// Seconds for each measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let usual = WorkloadSettings::default();
    let mut workload = Workload::new(WorkloadSettings {
        sessions: arguments.sessions,
        buffers: arguments.segment,
        time: Duration::from_secs(arguments.seconds),
        variants: arguments.common.pages_or(usual.variants),
    });
    run_measurement(&arguments.common, &mut workload, &|_, _| Vec::new())
}
