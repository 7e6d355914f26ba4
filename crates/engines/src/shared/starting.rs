//! What an engine tells of how its servers are started anew.

use hugewise_model::configuration::{FileLocation, ServiceStart, StartCommand};
use hugewise_model::{Instance, Process};

use crate::EngineContext;

pub(crate) struct Starting {
    /// The server that a process would be with nothing mapped; the instance is the one that runs.
    pub(crate) would_be: fn(&EngineContext<'_>, &Process, &Instance) -> Instance,
    /// The settings in a command line that decide on memory: each with its name and its words.
    pub(crate) decisive: fn(&[String]) -> Vec<(String, String)>,
    /// The next command line where the command is a server's own, with its service's variables, or
    /// a tool of the engine. Without a command: what is known of a start by the server itself.
    pub(crate) made: fn(
        &EngineContext<'_>,
        &Process,
        Option<&StartCommand>,
        &ServiceStart,
    ) -> Option<NextCommandLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextCommandLine {
    Same,
    Words(Vec<String>, FileLocation),
    /// Another one than that of the process; what decides on it stands there.
    Unclear(FileLocation),
    /// The server will not start, for this reason.
    Refused(String),
}
