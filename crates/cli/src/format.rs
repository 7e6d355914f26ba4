//! Formats of output that several commands share.

use hugewise_report::{PageReport, Report};

use crate::outcome::{self, CommandFailure};
use crate::terminal::{self, ColorChoice};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// How results are printed where a page helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PageFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// A single HTML page.
    Html,
}

impl OutputFormat {
    pub(crate) fn render(
        self,
        report: &impl Report,
        color: ColorChoice,
    ) -> Result<Vec<u8>, CommandFailure> {
        outcome::render_report(|out| match self {
            Self::Text => report.write_text(out, terminal::text_layout(color, false)),
            Self::Json => report.write_json(out),
        })
    }
}

impl PageFormat {
    pub(crate) fn render(
        self,
        report: &impl PageReport,
        color: ColorChoice,
        verbose: bool,
    ) -> Result<Vec<u8>, CommandFailure> {
        outcome::render_report(|out| match self {
            Self::Text => report.write_text(out, terminal::text_layout(color, verbose)),
            Self::Json => report.write_json(out),
            Self::Html => report.write_html(out),
        })
    }
}
