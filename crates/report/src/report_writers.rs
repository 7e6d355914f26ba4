//! Each report in every form that it has.

use std::io;

use hugewise_change::Undone;
use hugewise_investigate::Investigation;
use hugewise_pods::PodReport;

use crate::screen::Screen;
use crate::{
    AppliedReport, CheckReport, HostReport, JournalListing, LabReport, PlanReport, RunReport,
    SizeReport, TextLayout, Verified, html, json, nagios, text,
};

/// A report for people and for programs.
pub trait Report {
    /// Writes what people read in a terminal.
    fn write_text(&self, out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()>;

    /// Writes JSON; `docs/schema` has its schema.
    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// A report that is also a page, which can be mailed.
pub trait PageReport: Report {
    /// Writes the page.
    fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Report, writer of its text, document of its JSON, renderer of its page.
macro_rules! reports {
    ($($report:ty, $text:path, $document:ty $(, $page:path)?;)*) => {$(
        impl Report for $report {
            fn write_text(&self, out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()> {
                $text(&mut Screen::new(out, layout), self)
            }

            fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
                json::write_json_document(&<$document>::from(self), out)
            }
        }
        $(impl PageReport for $report {
            fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
                out.write_all($page(self).as_bytes())
            }
        })?
    )*};
}

reports! {
    CheckReport<'_>, text::write, json::Check, html::check::render_check_page;
    SizeReport<'_>, text::size::write, json::size::SizeDocument, html::size::render_size_page;
    AppliedReport<'_>, text::applied::write, json::applied::AppliedDocument;
    Undone, text::applied::write_undone, json::applied::UndoneDocument;
    JournalListing<'_>, text::applied::write_kept, json::applied::Journals;
    Verified<'_>, text::verify::write, json::verify::Verify, html::verify::render_verify_page;
    Investigation, text::investigate::write, json::investigate::Investigate,
        html::investigate::render_investigation_page;
    HostReport<'_>, text::host_report::write, json::host_report::HostReportDocument,
        html::host_report::render_host_report_page;
    LabReport<'_>, text::lab::write, json::lab::Lab<'_>, html::lab::render_lab_page;
    PodReport, text::pod::write, json::pod::PodDocument;
    RunReport<'_>, text::run::write, json::run::RunDocument<'_>;
}

impl PlanReport<'_> {
    /// Writes text; a plan writes its own JSON.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()> {
        text::plan::write(&mut Screen::new(out, layout), self)
    }
}

impl Verified<'_> {
    /// Writes the line for a monitoring system.
    pub fn write_nagios(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(nagios::render_status_line(self).as_bytes())
    }
}
