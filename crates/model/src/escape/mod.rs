//! Escapes for each language that a text of the host is written into, one file a language.
//!
//! Names of processes, servers, units and accounts, paths, arguments, settings and log lines are
//! whatever somebody on the host chose. HTML is escaped by maud; `report` tests that.

pub mod comment;
pub mod csv;
pub mod diff;
pub mod jinja;
pub mod json;
pub mod nagios;
pub mod openmetrics;
pub mod plain;
pub mod shell;
pub mod yaml;
