//! Page tables as sessions grow: the kernel's total and each session's, by page size.

use std::path::PathBuf;

use super::server;
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs};
use crate::fake_server::{FakeServer, FakeServerSettings, LoginPace};
use crate::results::{MetricReading, ON_HUGE_PAGES};
use crate::variant::Variant;

/// The experiment's settings.
#[derive(Clone, Debug)]
pub struct PageTables {
    /// The pages to compare.
    pub variants: Vec<Variant>,
    /// The server; the variant sets its pages, transparency and, unless it is `True` or `Only`, its
    /// policy.
    pub server: FakeServerSettings,
    /// Numbers of sessions at which it is measured, growing.
    pub sessions: Vec<u32>,
    /// The server's program.
    pub program: PathBuf,
}

impl PageTables {
    /// From one session to `sessions` in about eight steps.
    pub fn new(variants: Vec<Variant>, server: FakeServerSettings, sessions: u32) -> Self {
        const STEPS: u32 = 8;
        let mut steps: Vec<u32> = (0..=STEPS)
            .map(|step| (sessions / STEPS * step + sessions % STEPS * step / STEPS).max(1))
            .collect();
        steps.dedup();
        Self { variants, server, sessions: steps, program: FakeServer::this_program() }
    }

    fn most_sessions(&self) -> u32 {
        self.sessions.iter().copied().max().unwrap_or(0)
    }
}

impl Experiment for PageTables {
    fn name(&self) -> &'static str {
        "page-tables"
    }
    fn engine(&self) -> &'static str {
        "standin"
    }
    fn variants(&self) -> Vec<Variant> {
        self.variants.clone()
    }

    fn resource_needs(&self, variant: Variant) -> Needs {
        let needs = server::fake_server_needs(&self.server, variant, self.most_sessions());
        let logins = server::login_time(&self.server, variant) * self.most_sessions()
            / server::processor_count();
        Needs { time: needs.time + logins, ..needs }
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let settings = server::settings_for_variant(&self.server, variant);
        let mut server = FakeServer::start_program(&self.program, &settings, context.cancel)?;
        // After the server has touched the segment: what follows is the sessions'.
        let before = context.gauge.page_tables()?;
        let on_huge =
            MetricReading::higher_is_better(ON_HUGE_PAGES, "B", server.huge_bytes().as_f64());
        let mut readings = vec![on_huge.with_segment(settings.size.get())];
        let mut present = 0;
        for &sessions in &self.sessions {
            server.log_in(sessions.saturating_sub(present), LoginPace::AtOnce, context.cancel)?;
            present = sessions;
            readings.extend(server::page_table_readings(
                context,
                before,
                server.session_pids().iter().copied(),
                (sessions, settings.size),
            )?);
        }
        Ok(readings)
    }

    fn result_notes(&self) -> Vec<String> {
        vec![
            "page_tables is the growth of PageTables in /proc/meminfo, which includes what other \
             processes did meanwhile"
                .into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;

    use super::*;

    #[test]
    fn sessions_grow_from_one_to_all() {
        let steps = |sessions| {
            PageTables::new(Vec::new(), FakeServerSettings::new(Bytes::from_gib(1)), sessions)
                .sessions
        };
        assert_eq!(steps(500), [1, 62, 125, 187, 250, 312, 375, 437, 500]);
        assert_eq!(steps(3), [1, 2, 3]);
        assert_eq!(steps(1), [1]);
    }
}
