//! What check foretells.

use std::fmt;

use serde_json::Value;

use crate::real::harness::Check;

/// The moments that are foretold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Now,
    Restart,
    Reboot,
}

impl Moment {
    /// As check has it in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Restart => "restart",
            Self::Reboot => "reboot",
        }
    }
}

/// What it says of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    pub(super) title: String,
    states: [(String, String); 3],
}

impl Forecast {
    /// Of the server with that main process.
    pub(super) fn of(check: &Check, engine: &str, pid: u32) -> Self {
        let instance = check.instance(engine, pid);
        let at = |moment: Moment| {
            let said = &instance["moments"][moment.as_str()];
            let word = |value: &Value| value.as_str().map(str::to_owned);
            (
                word(&said["state"]).unwrap_or_else(|| "missing".into()),
                word(&said["why"]).unwrap_or_default(),
            )
        };
        Self {
            title: format!("{engine} {}", instance["name"].as_str().unwrap_or_default()),
            states: [Moment::Now, Moment::Restart, Moment::Reboot].map(at),
        }
    }

    /// The state at a moment, as it stands in JSON, or `missing`.
    pub(super) fn state(&self, moment: Moment) -> &str {
        &self.states[moment as usize].0
    }

    /// Why, as it says.
    pub(super) fn why(&self, moment: Moment) -> &str {
        &self.states[moment as usize].1
    }

    /// The states alone: the reasons may name pids.
    pub(super) fn states(&self) -> [&str; 3] {
        [Moment::Now, Moment::Restart, Moment::Reboot].map(|moment| self.state(moment))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
