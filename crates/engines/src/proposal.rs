//! Settings that put a server's memory where huge pages can hold it, with no less of it than now.

use hugewise_model::{Demand, Instance};

/// A server as it would be with other settings.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What is to be changed.
    pub change: Change,
    /// The server as that makes it at its next start.
    pub then: Box<Instance>,
    /// What it asks for then, with as much more as the estimate may be off.
    pub demand: Demand,
}

/// A change of settings that only people make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What keeps its memory off huge pages now: `automatic memory management`.
    pub instead_of: &'static str,
    /// Each setting that is to stand in its files.
    pub settings: Vec<Proposed>,
    /// Names of settings that are to go.
    pub gone: Vec<String>,
    /// What is written where, a line each, as a plan says it: `#` and what a person does.
    pub lines: Vec<String>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Its name.
    pub name: &'static str,
    /// Its value, as its file takes it: `6144M`.
    pub value: String,
    /// Where the value comes from.
    pub because: String,
}
