//! How things look: text for a terminal, JSON for programs.
//!
//! Nothing here decides anything: [`Checked`] comes in, characters go out. Everything that a
//! host can name (processes, files, instances) passes [`plain::clean`] before it reaches a terminal.

use std::io;
use std::path::Path;

use hugewise_advice::Assessment;
use hugewise_advice::sizing::{Request, Sizing};
use hugewise_advice::target::Goal;
use hugewise_model::{Host, Instance, Unread};

mod answer;
mod changed;
pub mod chart;
pub mod date;
pub mod formats;
mod forms;
mod full;
mod glossary;
pub mod html;
pub mod json;
pub mod lab;
pub mod nagios;
pub mod openmetrics;
pub mod palette;
pub mod parquet;
pub mod recorded;
pub mod rules;
pub mod run;
pub mod screen;
pub mod series;
pub mod spark;
mod started;
pub mod table;
pub mod text;
mod verified;
pub mod view;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod stories;

pub use hugewise_model::escape::plain;

pub use answer::Answer;
pub use changed::{AppliedReport, Expectation, Kept, Planned, Proof, Restarted, UndoneReport};
pub use full::{HostReport, Stop, VERSION};
pub use lab::LabReport;
pub use palette::Palette;
pub use run::{RunReport, Started};
pub use verified::{Disagreement, Verified};

/// A host that has been checked: what the renderers show.
pub struct Checked<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its instances, sorted by engine and name.
    pub instances: &'a [Instance],
    /// What is said of them.
    pub assessment: &'a Assessment,
    /// Everything that is there and could not be read, by the host's readers and the engines', sorted.
    pub unread: &'a [Unread],
    /// Where it was captured, as the user named it; none for the running host.
    pub root: Option<&'a Path>,
}

/// How text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Columns of the terminal.
    pub width: usize,
    /// With colour or without.
    pub palette: Palette,
    /// All evidence of every finding, instead of the first fact.
    pub verbose: bool,
}

impl Layout {
    /// No colour, this many columns.
    pub const fn plain(width: usize) -> Self {
        Self { width, palette: Palette::Plain, verbose: false }
    }
}

impl Checked<'_> {
    /// Moments of servers that cannot be told, with the reason, where no rule has said so.
    pub fn open_moments(&self) -> Vec<String> {
        view::closing::open_moments(self)
    }

    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::write(self, out, layout)
    }

    /// Writes the report that programs read, schema `hugewise.check/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::write(self, out)
    }

    /// Writes the report as a page.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(html::check::page(self).as_bytes())
    }
}

/// Servers that have been sized: what the renderers show.
pub struct SizeReport<'a> {
    /// The host.
    pub host: &'a Host,
    /// The servers, running and described.
    pub instances: &'a [Instance],
    /// What was asked.
    pub request: &'a Request,
    /// The answer.
    pub sizing: &'a Sizing,
    /// What a plan makes of the pools; empty where none is made.
    pub planned: &'a [Goal],
    /// What one that gives back what nobody needs would make of them.
    pub shrunk: &'a [Goal],
    /// Everything that is there and could not be read, sorted.
    pub unread: &'a [Unread],
}

impl SizeReport<'_> {
    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::size::write(self, out, layout)
    }

    /// Writes the report that programs read, schema `hugewise.size/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::size::write(self, out)
    }

    /// Writes the report as a page.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(html::size::page(self).as_bytes())
    }
}
