//! An investigation as a page: what happened in words, beside charts of one time axis.

use std::io;

use hugewise_incident::Investigation;
use maud::html;

/// Writes the report as a page with charts.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(investigation: &Investigation, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(page(investigation).as_bytes())
}

fn page(investigation: &Investigation) -> String {
    let _ = investigation;
    super::page("hugewise investigate", &html! {})
}
