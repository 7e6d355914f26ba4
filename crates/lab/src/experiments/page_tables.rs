//! Page tables as sessions grow: what the kernel spends in total and for each session, by page size.

use std::path::PathBuf;

use hugewise_model::Bytes;

use super::server;
use crate::experiment::{Context, Experiment, Failure, Needs};
use crate::results::{ON_HUGE_PAGES, Reading};
use crate::standin::{Pace, Server, Settings};
use crate::variant::Variant;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct PageTables {
    /// The pages to compare.
    pub variants: Vec<Variant>,
    /// The server. Its pages and transparency follow from the variant, and its policy too unless it is `True` or `Only`:
    /// these take the pool as it is.
    pub server: Settings,
    /// Numbers of sessions at which it is measured, growing.
    pub sessions: Vec<u32>,
    /// The program that is the server.
    pub program: PathBuf,
}

impl PageTables {
    /// From one session to `sessions` in about eight steps.
    pub fn new(variants: Vec<Variant>, server: Settings, sessions: u32) -> Self {
        const STEPS: u32 = 8;
        let mut steps: Vec<u32> =
            (0..=STEPS).map(|step| (sessions / STEPS * step + sessions % STEPS * step / STEPS).max(1)).collect();
        steps.dedup();
        Self { variants, server, sessions: steps, program: Server::this_program() }
    }

    fn most(&self) -> u32 {
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

    fn needs(&self, variant: Variant) -> Needs {
        let needs = server::needs(&self.server, variant, self.most());
        let logins = server::login_time(&self.server, variant) * self.most() / server::processors();
        Needs { time: needs.time + logins, ..needs }
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let settings = server::settings(&self.server, variant);
        let mut server = Server::start(&self.program, &settings, context.cancel)?;
        // With the server, which has tables of its own when it has touched the segment: what follows is the sessions'.
        let before = context.gauge.page_tables()?;
        let on_huge = Reading::higher(ON_HUGE_PAGES, "B", server.huge().as_f64());
        let mut readings = vec![on_huge.segment(settings.size.get())];
        let mut present = 0;
        for &sessions in &self.sessions {
            server.log_in(sessions.saturating_sub(present), Pace::AtOnce, context.cancel)?;
            present = sessions;
            // Below zero where other processes of the host have given more back meanwhile.
            let all = context.gauge.page_tables()?.as_f64() - before.as_f64();
            let each = server.sessions().iter().map(|pid| context.gauge.process_page_tables(*pid));
            let each: Vec<f64> = each.map(|bytes| bytes.map(Bytes::as_f64)).collect::<Result<_, _>>()?;
            let of = |reading: Reading| reading.sessions(sessions).segment(settings.size.get());
            readings.push(of(Reading::lower("page_tables", "B", all)));
            readings.push(of(Reading::lower("session_page_tables", "B", 0.0).values(each)));
        }
        Ok(readings)
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "page_tables is the growth of PageTables in /proc/meminfo, which includes what other processes did \
             meanwhile"
                .into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_grow_from_one_to_all() {
        let steps = |sessions| PageTables::new(Vec::new(), Settings::new(Bytes::from_gib(1)), sessions).sessions;
        assert_eq!(steps(500), [1, 62, 125, 187, 250, 312, 375, 437, 500]);
        assert_eq!(steps(3), [1, 2, 3]);
        assert_eq!(steps(1), [1]);
    }
}
