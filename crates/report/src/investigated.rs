//! An investigation: what the renderers show.

use std::io;

use hugewise_incident::{Clock, History, Investigation, Moment, Source};

use crate::{html, json};

/// What an investigation found.
#[derive(Clone, Copy, Debug)]
pub struct Investigated<'a> {
    /// All of it.
    pub investigation: &'a Investigation,
}

impl Investigated<'_> {
    /// Writes the report that programs read, schema `hugewise.investigate/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::investigate::write(self.investigation, out)
    }

    /// Writes the report as a page with charts.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(html::investigate::page(self.investigation).as_bytes())
    }
}

/// The clock of a host's moments: all of its series are of one, and the one that knows the host's offset tells it best.
pub(crate) fn clock_of(history: &History) -> Clock {
    let clocks = || history.series.iter().map(|series| &series.clock);
    let telling = |clock: &&Clock| match clock {
        Clock::Utc { offsets } => !offsets.is_empty(),
        Clock::Wall { zone } => zone.is_some(),
    };
    clocks().find(telling).or_else(|| clocks().next()).cloned().unwrap_or_default()
}

/// The clock of a source's moments, which is that of its host.
pub(crate) fn clock_of_source(investigation: &Investigation, source: &Source) -> Clock {
    let hosts = &investigation.hosts;
    let made_of = |history: &&History| history.series.iter().any(|series| series.source == source.path);
    let named = |history: &&History| history.host.is_some() && history.host == source.host;
    let found = hosts.iter().find(made_of).or_else(|| hosts.iter().find(named));
    let found = found.or_else(|| hosts.first().filter(|_| hosts.len() == 1));
    let own = |history: &History| {
        let series = history.series.iter().find(|series| series.source == source.path);
        series.map_or_else(|| clock_of(history), |series| series.clock.clone())
    };
    found.map_or_else(Clock::default, own)
}

/// From the first sample of a host to the last.
pub(crate) fn span_of(history: &History) -> Option<(Moment, Moment)> {
    let ends = |series: &hugewise_incident::Series| {
        Some((series.samples().iter().map(|sample| sample.at).min()?, series.samples().iter().map(|s| s.at).max()?))
    };
    history.series.iter().filter_map(ends).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}
