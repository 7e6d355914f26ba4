//! What an engine tells of how its servers are started anew.

use hugewise_model::configuration::{Place, ServiceStart, StartCommand};
use hugewise_model::{Instance, Process};

use crate::Scene;

/// How an engine's servers are started anew.
pub(crate) struct Starting {
    /// The server that a process would be by which nothing is mapped yet; the instance is the one that runs.
    pub(crate) would_be: fn(&Scene<'_>, &Process, &Instance) -> Instance,
    /// The settings among words of a command line that decide on its memory: the name of each, and the word or words of it.
    pub(crate) decisive: fn(&[String]) -> Vec<(String, String)>,
    /// What a command comes to that is the server's own with variables of its service, or of a tool of the engine's; none of
    /// one that it does not know. Without a command: what is known of a server's start by itself.
    pub(crate) made: fn(&Scene<'_>, &Process, Option<&StartCommand>, &ServiceStart) -> Option<Next>,
}

/// The command line of a next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// For all that can be told, that of the process.
    Same,
    /// These words, by what stands there.
    Words(Vec<String>, Place),
    /// Another one than that of the process, and what decides on it stands there.
    Unclear(Place),
    /// There is none, for this reason.
    Refused(String),
}
