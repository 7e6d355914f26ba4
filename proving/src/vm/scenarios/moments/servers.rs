//! The servers of the set-ups: what check says of each, how each is started again, and what the
//! kernel says of it.

use serde_json::Value;

use super::words::WORDS;
use crate::vm::machine::Machine;
use hugewise_testkit::tools::Failure;

/// A server that check foretells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// Debian's cluster of that name, under its own unit.
    PostgreSql(&'static str),
    /// The stand-in with Oracle's process names: its unit starts it at a boot, a person in a
    /// session of his own otherwise.
    Oracle,
}

/// As check has them in JSON.
#[derive(Clone, Copy)]
pub(super) enum Moment {
    Now,
    Restart,
    Reboot,
}

impl Moment {
    pub(super) const ALL: [Self; 3] = [Self::Now, Self::Restart, Self::Reboot];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Restart => "restart",
            Self::Reboot => "reboot",
        }
    }
}

/// What the mappings of process `$pid` that `wanted` names come to; base pages hold PostgreSQL's
/// System V interlock and no more where the rest is in the pool.
const LOOK: &str = r#"awk -v wanted="$wanted" '
    /^[0-9a-f]+-/ { counts = ($2 ~ /s$/ && $0 ~ wanted) }
    counts && /^Size:/ { size = $2 }
    counts && /^KernelPageSize:/ { if ($2 == 4) base += size; else huge += size }
    END { print huge == 0 ? "none" : base < 65536 ? "all" : "partly" }' /proc/$pid/smaps
"#;

impl Server {
    pub(super) fn title(self) -> String {
        let (engine, name) = self.id();
        format!("{engine} {name}")
    }

    fn id(self) -> (&'static str, String) {
        match self {
            Self::PostgreSql(cluster) => ("postgresql", format!("15/{cluster}")),
            Self::Oracle => ("oracle", "PROD".to_owned()),
        }
    }

    fn predicted_field(self, check: &Value, moment: Moment, what: &str) -> Option<String> {
        let (engine, name) = self.id();
        let mut instances = check["instances"].as_array()?.iter();
        let one = instances.find(|json| json["engine"] == engine && json["name"] == name)?;
        Some(one.pointer(&format!("/moments/{}/{what}", moment.as_str()))?.as_str()?.to_owned())
    }

    /// The state that check says it will have.
    pub(super) fn foretold(self, check: &Value, moment: Moment) -> String {
        self.predicted_field(check, moment, "state").unwrap_or_else(|| "missing".to_owned())
    }

    /// Why, as it says.
    pub(super) fn why(self, check: &Value, moment: Moment) -> String {
        self.predicted_field(check, moment, "why").unwrap_or_default()
    }

    /// What the kernel says of it.
    pub(super) fn seen(self, machine: &mut Machine) -> Result<&'static str, Failure> {
        let script = match self {
            Self::PostgreSql(cluster) => format!(
                "systemctl is-active --quiet postgresql@15-{cluster} || {{ echo not_running; \
                     exit; }}
pid=$(head -1 /var/lib/postgresql/15/{cluster}/postmaster.pid)
wanted=."
            ),
            Self::Oracle => "pid=$(pgrep -f '^ora_pmon_PROD') || { echo not_running; exit; }
wanted=SYSV"
                .to_owned(),
        };
        let said = machine.must(&format!("{script}\n{LOOK}"))?;
        let known = ["all", "partly", "none", "not_running"]
            .into_iter()
            .find(|state| *state == said.trim());
        known.ok_or_else(|| format!("{}: {said}", self.title()).into())
    }

    /// What comes of a restart, or of a start where it is down, by whoever starts it when a person
    /// wants it.
    pub(super) fn restarted(self, machine: &mut Machine) -> Result<&'static str, Failure> {
        let done = match self {
            Self::PostgreSql(cluster) => {
                // What may not be started may not be restarted either, and goes on running: a stop
                // is what tells.
                machine.run(&format!("systemctl stop postgresql@15-{cluster}"))?;
                machine.run(&format!("systemctl start postgresql@15-{cluster}"))?
            }
            Self::Oracle => machine.run(&format!("{WORDS}end_oracle; log_in"))?,
        };
        match self.seen(machine)? {
            "not_running" if done.code != 0 => Ok("does_not_start"),
            seen => Ok(seen),
        }
    }

    /// What came of the boot. Where check said that the boot leaves it to a person, and what comes
    /// then, he comes; and he finds out whether one that is down cannot be started.
    pub(super) fn booted(
        self,
        machine: &mut Machine,
        check: &Value,
    ) -> Result<&'static str, Failure> {
        if let Self::PostgreSql(cluster) = self
            && machine.run(&format!("systemctl is-failed --quiet postgresql@15-{cluster}"))?.code
                == 0
        {
            return Ok("does_not_start");
        }
        let seen = self.seen(machine)?;
        let foretold = self.foretold(check, Moment::Reboot);
        let left = self.why(check, Moment::Reboot).contains("the boot does not start it");
        if seen == "not_running"
            && (foretold == "does_not_start" || (left && foretold != "not_running"))
        {
            return self.restarted(machine);
        }
        Ok(seen)
    }
}
