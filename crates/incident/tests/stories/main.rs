//! Stories from the field, and hosts at peace, made from their figures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod field;
mod growth;
mod harm;
mod kinds;
mod lost;
mod made;
mod property;
mod silence;
mod verdicts;
