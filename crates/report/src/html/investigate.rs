//! An investigation as a page: what happened in words, beside charts of one time axis.

use hugewise_incident::Investigation;
use maud::html;

/// The whole page.
pub(crate) fn page(investigation: &Investigation) -> String {
    let _ = investigation;
    super::page("hugewise investigate", &html! {})
}
