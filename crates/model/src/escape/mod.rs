//! Texts of the host in other languages, one file a language: whoever writes a name, path or value into one calls it here.
//!
//! A text of the host is whatever somebody on it could choose: names of processes, servers, units, accounts and hosts,
//! paths, arguments, settings, lines of logs and files. HTML is written by maud, which escapes by itself; `report` tests that
//! it does.

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
