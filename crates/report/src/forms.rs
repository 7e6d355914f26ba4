//! Each report in every form that it has.

use std::io;

use crate::{AppliedReport, HostReport, Kept, Layout, Planned, UndoneReport, Verified, html, json, nagios, text};

impl Planned<'_> {
    /// Writes the plan that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::plan::write(self, out, layout)
    }
}

impl AppliedReport<'_> {
    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::applied::write(self, out, layout)
    }

    /// Writes the report that programs read, schema `hugewise.applied/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::applied::write(self, out)
    }
}

impl UndoneReport<'_> {
    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::applied::write_undone(self.0, out, layout)
    }

    /// Writes the report that programs read, schema `hugewise.undone/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::applied::write_undone(self.0, out)
    }
}

impl Kept<'_> {
    /// Writes the list that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::applied::write_kept(self, out, layout)
    }

    /// Writes the list that programs read, schema `hugewise.journals/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::applied::write_kept(self, out)
    }
}

impl Verified<'_> {
    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::verify::write(self, out, layout)
    }

    /// Writes the report that programs read, schema `hugewise.verify/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::verify::write(self, out)
    }

    /// Writes the report as a page.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(html::verify::page(self).as_bytes())
    }

    /// Writes the line that a monitoring system reads.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_nagios(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(nagios::line(self).as_bytes())
    }
}

impl HostReport<'_> {
    /// Writes the report that people read in a terminal.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        text::full::write(self, out, layout)
    }

    /// Writes the report that programs read, schema `hugewise.report/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        json::full::write(self, out)
    }

    /// Writes the report as a page.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(html::full::page(self).as_bytes())
    }
}
