//! Stories from the field, and hosts at peace, made from their figures.

mod field;
mod kinds;
mod made;
mod property;
mod samples;
