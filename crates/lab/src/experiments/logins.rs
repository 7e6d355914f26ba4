//! Logins: the time from connecting to the first answer, for all sessions at once and one by one.
//!
//! The story: a tool starts 25 web servers with 25 connections each at the same moment, against a
//! database with a 5 GiB segment and `pre_page_sga`. On base pages a login took 2.5 s, on huge
//! pages 0.15 s.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

use super::server;
use crate::cpu_load::LoadWatcher;
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs};
use crate::fake_server::{FakeServer, FakeServerSettings, LoginPace, PreTouch};
use crate::results::{MetricReading, ON_HUGE_PAGES, percentile_value};
use crate::variant::Variant;

/// The experiment's settings.
#[derive(Clone, Debug)]
pub struct Logins {
    /// The pages to compare.
    pub variants: Vec<Variant>,
    /// The server; the variant sets its pages, transparency and, unless it is `True` or `Only`, its
    /// policy.
    pub server: FakeServerSettings,
    /// Sessions that log in at once.
    pub sessions: u32,
    /// Sessions that log in one by one; 0 for none.
    pub paced: u32,
    /// The least time between two of these.
    pub interval: Duration,
    /// The server's program.
    pub program: PathBuf,
}

impl Logins {
    /// The story: 625 sessions at once on 5 GiB, each touching all of it; and 40 one by one.
    pub fn for_story(variants: Vec<Variant>) -> Self {
        Self {
            variants,
            server: FakeServerSettings {
                pre_touch: PreTouch::Sessions,
                ..FakeServerSettings::new(Bytes::from_gib(5))
            },
            sessions: 625,
            paced: 40,
            interval: Duration::ZERO,
            program: FakeServer::this_program(),
        }
    }

    fn measure_login_storm(
        &self,
        settings: &FakeServerSettings,
        count: u32,
        pace: LoginPace,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let mut server = FakeServer::start_program(&self.program, settings, context.cancel)?;
        let watcher = LoadWatcher::start_watching()?;
        let begun = Instant::now();
        let times = server.log_in(count, pace, context.cancel)?;
        let wall = begun.elapsed();
        let load = watcher.finish()?;
        let times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let at = |percent| percentile_value(&times, percent).unwrap_or(f64::NAN);
        let case = if pace == LoginPace::AtOnce { "at once" } else { "one by one" };
        let queue = f64::from(u32::try_from(load.longest_queue).unwrap_or(u32::MAX));
        let readings = [
            MetricReading::higher_is_better(ON_HUGE_PAGES, "B", server.huge_bytes().as_f64()),
            MetricReading::lower_is_better("login_p50", "s", at(50)),
            MetricReading::lower_is_better("login_p95", "s", at(95)),
            MetricReading::lower_is_better("login_p99", "s", at(99)),
            MetricReading::lower_is_better("login_max", "s", at(100)),
            MetricReading::lower_is_better("wall", "s", wall.as_secs_f64()),
            MetricReading::lower_is_better("run_queue", "1", queue),
            MetricReading::lower_is_better("system_cpu", "1", load.system),
            MetricReading::lower_is_better("login", "s", 0.0).with_values(times),
        ];
        let size = settings.size.get();
        Ok(readings
            .into_iter()
            .map(|reading| reading.with_case(case).with_sessions(count).with_segment(size))
            .collect())
    }
}

impl Experiment for Logins {
    fn name(&self) -> &'static str {
        "logins"
    }
    fn engine(&self) -> &'static str {
        "standin"
    }
    fn variants(&self) -> Vec<Variant> {
        self.variants.clone()
    }

    fn resource_needs(&self, variant: Variant) -> Needs {
        let needs = server::fake_server_needs(&self.server, variant, self.sessions.max(self.paced));
        let login = server::login_time(&self.server, variant);
        let at_once = login * self.sessions / server::processor_count();
        Needs { time: needs.time + at_once + self.interval.max(login) * self.paced, ..needs }
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let settings = server::settings_for_variant(&self.server, variant);
        let mut readings = Vec::new();
        if self.sessions > 0 {
            readings.extend(self.measure_login_storm(
                &settings,
                self.sessions,
                LoginPace::AtOnce,
                context,
            )?);
        }
        if self.paced > 0 {
            readings.extend(self.measure_login_storm(
                &settings,
                self.paced,
                LoginPace::OneByOne(self.interval),
                context,
            )?);
        }
        Ok(readings)
    }
}
