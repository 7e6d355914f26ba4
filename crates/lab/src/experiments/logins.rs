//! Logins: how long a session takes from connecting to its first answer, when all come at once and when one waits
//! for the other.
//!
//! The story behind it: 25 web servers with 25 connections each, started by a tool at the same moment, against a
//! database with a 5 GiB segment and `pre_page_sga`. On base pages a login took 2.5 s, on huge pages 0.15 s.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

use super::server;
use crate::experiment::{Context, Experiment, Failure, Needs};
use crate::load::Watcher;
use crate::results::{ON_HUGE_PAGES, Reading, percentile};
use crate::standin::{Pace, PreTouch, Server, Settings};
use crate::variant::Variant;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Logins {
    /// The pages to compare.
    pub variants: Vec<Variant>,
    /// The server. Its pages and transparency follow from the variant, and its policy too unless it is `True` or `Only`:
    /// these take the pool as it is.
    pub server: Settings,
    /// Sessions that log in at once.
    pub sessions: u32,
    /// Sessions that log in one by one; none where it is 0.
    pub paced: u32,
    /// The least time between two of these.
    pub interval: Duration,
    /// The program that is the server.
    pub program: PathBuf,
}

impl Logins {
    /// The story: 625 sessions at once on 5 GiB, each touching all of it; and 40 one by one.
    pub fn story(variants: Vec<Variant>) -> Self {
        Self {
            variants,
            server: Settings { pre_touch: PreTouch::Sessions, ..Settings::new(Bytes::from_gib(5)) },
            sessions: 625,
            paced: 40,
            interval: Duration::ZERO,
            program: Server::this_program(),
        }
    }

    fn storm(
        &self,
        settings: &Settings,
        count: u32,
        pace: Pace,
        context: &Context<'_>,
    ) -> Result<Vec<Reading>, Failure> {
        let mut server = Server::start(&self.program, settings, context.cancel)?;
        let watcher = Watcher::start()?;
        let begun = Instant::now();
        let times = server.log_in(count, pace, context.cancel)?;
        let wall = begun.elapsed();
        let load = watcher.end()?;
        let times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let at = |percent| percentile(&times, percent).unwrap_or(f64::NAN);
        let case = if pace == Pace::AtOnce { "at once" } else { "one by one" };
        let queue = f64::from(u32::try_from(load.longest_queue).unwrap_or(u32::MAX));
        let readings = [
            Reading::higher(ON_HUGE_PAGES, "B", server.huge().as_f64()),
            Reading::lower("login_p50", "s", at(50)),
            Reading::lower("login_p95", "s", at(95)),
            Reading::lower("login_p99", "s", at(99)),
            Reading::lower("login_max", "s", at(100)),
            Reading::lower("wall", "s", wall.as_secs_f64()),
            Reading::lower("run_queue", "1", queue),
            Reading::lower("system_cpu", "1", load.system),
            Reading::lower("login", "s", 0.0).values(times),
        ];
        let size = settings.size.get();
        Ok(readings.into_iter().map(|reading| reading.case(case).sessions(count).segment(size)).collect())
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

    fn needs(&self, variant: Variant) -> Needs {
        let needs = server::needs(&self.server, variant, self.sessions.max(self.paced));
        let login = server::login_time(&self.server, variant);
        let at_once = login * self.sessions / server::processors();
        Needs { time: needs.time + at_once + self.interval.max(login) * self.paced, ..needs }
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let settings = server::settings(&self.server, variant);
        let mut readings = Vec::new();
        if self.sessions > 0 {
            readings.extend(self.storm(&settings, self.sessions, Pace::AtOnce, context)?);
        }
        if self.paced > 0 {
            readings.extend(self.storm(&settings, self.paced, Pace::OneByOne(self.interval), context)?);
        }
        Ok(readings)
    }
}
