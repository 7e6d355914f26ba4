//! Settings that move a server's memory to where huge pages can hold it, without shrinking it.

use hugewise_model::{Demand, Instance};

/// A server as it would be with other settings.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What is to be changed.
    pub change: ProposedChange,
    /// The server as that makes it at its next start.
    pub then: Box<Instance>,
    /// What it asks for then, with the error of the estimate.
    pub demand: Demand,
}

/// A change of settings that only people make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedChange {
    /// What keeps its memory off huge pages now: `automatic memory management`.
    pub instead_of: &'static str,
    /// Each setting to be written.
    pub settings: Vec<ProposedSetting>,
    /// Names of settings to be removed.
    pub gone: Vec<String>,
    /// The lines of a plan: `#` and what a person does.
    pub lines: Vec<String>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedSetting {
    /// Its name.
    pub name: &'static str,
    /// Its value, as its file takes it: `6144M`.
    pub value: String,
    /// Where the value comes from.
    pub because: String,
}
