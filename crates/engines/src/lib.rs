//! Recognises the database servers of a host: one file an engine.

use hugewise_host::Source;
use hugewise_model::{Host, Instance, Unread};

/// What an engine's file registers.
pub struct Kind {
    /// Its kind, or its main one where two share a file.
    pub engine: hugewise_model::Engine,
    /// Finds its running instances.
    pub find: fn(&Scene<'_>, &mut Found),
    /// Options of its command lines that are read here: a capture keeps these and drops all others.
    /// An option named without its value keeps the value behind `=` or in the next word.
    pub options: &'static [&'static str],
    /// Settings of its configuration files that are read here: a capture keeps these lines and drops all others.
    pub settings: &'static [&'static str],
}

/// What an engine looks at.
pub struct Scene<'a> {
    /// The host.
    pub host: &'a Host,
    /// For the server's own files.
    pub source: &'a dyn Source,
}

/// What the engines found, in the order in which they are asked.
#[derive(Default)]
pub struct Found {
    /// Instances.
    pub instances: Vec<Instance>,
    /// Files of theirs that are there and could not be read.
    pub unread: Vec<Unread>,
}
