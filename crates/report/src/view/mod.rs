//! The words, the rows of the tables and the cases in their order, for `text/` and `html/` alike.

use hugewise_investigate::Signature;
use hugewise_model::{DemandSource, Observed};

pub(crate) mod budget;
pub(crate) mod cases;
pub mod chain;
pub(crate) mod closing;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod instances;
pub(crate) mod namesakes;
pub(crate) mod no_instances;
pub(crate) mod plan;
pub(crate) mod size;
pub(crate) mod stages;
pub(crate) mod target;
pub(crate) mod verify;
pub(crate) mod what_if;

/// The value, `-` where there is none, `?` where it could not be read.
pub(crate) fn describe_fact<T: std::fmt::Display>(fact: &Observed<T>) -> String {
    match fact {
        Observed::Known(value) => value.to_string(),
        Observed::Absent => "-".into(),
        Observed::Denied | Observed::Malformed(_) => "?".into(),
    }
}

/// `1 warning`, `2 warnings`.
pub(crate) fn counted_noun(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// How the number of pages was found; `bound` follows the error of an estimate.
pub(crate) fn describe_demand_source(
    source: DemandSource,
    error_percent: Option<u8>,
    bound: &str,
) -> String {
    match (source, error_percent) {
        (DemandSource::Engine, _) => "the server's word".into(),
        (DemandSource::Measured, _) => "its mappings".into(),
        (_, None | Some(0)) => "calculated, exact".into(),
        (_, Some(percent)) => format!("estimate, {percent} %{bound}"),
    }
}

pub(crate) fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a source hides, it hides of each of its signatures: each caveat once.
pub(crate) fn distinct_caveats(signatures: &[Signature]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for caveat in signatures.iter().flat_map(|signature| &signature.caveats) {
        if !seen.contains(caveat) {
            seen.push(caveat.clone());
        }
    }
    seen
}
