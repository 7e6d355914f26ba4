//! Stories from the field, and hosts at peace, made from their figures.

mod field;
mod growth;
mod harm;
mod kinds;
mod levels;
mod lost;
mod made;
mod property;
mod silence;
mod verdicts;
