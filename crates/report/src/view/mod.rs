//! What the reports say, before anybody sees it as text or as a page: the words, the rows of the tables, the cases in
//! their order. `text/` and `html/` take it from here, and not from each other.

use hugewise_model::Observed;

pub(crate) mod apart;
pub(crate) mod budget;
pub(crate) mod cases;
pub mod chain;
pub(crate) mod closing;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod instances;
pub(crate) mod moments;
pub(crate) mod nothing;
pub(crate) mod plan;
pub(crate) mod size;
pub(crate) mod standing;
pub(crate) mod target;
pub(crate) mod verify;
pub(crate) mod what_if;

/// A fact for a table: its value, `-` where there is none, `?` where it could not be read.
pub(crate) fn shown<T: std::fmt::Display>(fact: &Observed<T>) -> String {
    match fact {
        Observed::Known(value) => value.to_string(),
        Observed::Absent => "-".into(),
        Observed::Denied | Observed::Malformed(_) => "?".into(),
    }
}

/// `1 warning`, `2 warnings`.
pub(crate) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
