//! The plan: every change with what is there before and what will be there after, as `hugewise plan
//! --out` keeps it.
//!
//! Builders make steps without knowing the machine; [`crate::prepare_plan`] fills in what is there
//! now, leaves out what is already so, and seals the plan with its checksum.

mod build;

#[cfg(test)]
mod tests;

use hugewise_model::{PageSize, escape, named_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use hugewise_system::{Base64, ExtendedAttribute, FileContent, FileMode, FileState};

/// Name and version of the format.
pub const PLAN_SCHEMA: &str = "hugewise.plan/1";

/// The changes that take a host from its current state to its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hugewise.plan/1")]
pub struct Plan {
    /// Name and version of this format.
    #[schemars(extend("const" = PLAN_SCHEMA))]
    pub schema: String,
    /// Version of hugewise that made it.
    pub hugewise: String,
    /// When it was made, RFC 3339.
    pub made_at: String,
    /// The host that it was made for.
    pub host: HostIdentity,
    /// Options of `hugewise plan` that it was made with: apply asks the same of the host again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// Pools that the next boot should bring, whatever sets them: apply checks for these when it is
    /// done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_boot: Vec<PlannedBootPool>,
    /// What somebody has to do by hand.
    pub instructions: Vec<Instruction>,
    /// What copies these settings or works against them.
    pub warnings: Vec<String>,
    /// A rule could not decide for want of facts, and what depends on it is left out; absent where
    /// all could.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
    /// The host's memory with the planned pools.
    pub budget: PlanBudget,
    /// Why it should not be applied; null if nothing speaks against it.
    pub refusal: Option<PlanRefusal>,
    /// SHA-256 of everything else here: a plan that was changed by hand is refused.
    pub checksum: String,
}

/// Which host a plan is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostIdentity {
    /// Its name.
    pub name: String,
    /// /etc/machine-id.
    pub machine_id: Option<String>,
    /// /proc/sys/kernel/random/boot_id: it changes with each boot.
    pub boot_id: Option<String>,
    /// `uname -r`.
    pub kernel: String,
}

/// Changes that belong together: they are made, or reversed, as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `pool-2M-now`: unique in a plan.
    pub id: String,
    /// One line: what is done.
    pub title: String,
    /// What has to happen before it takes effect.
    pub risk: Risk,
    /// Why.
    pub why: String,
    /// Title of the instance it is for; null for the host.
    pub instance: Option<String>,
    /// IDs of steps that must be complete before it: the pool of a server that does not start
    /// without it. A step that is not in the plan was not needed.
    pub relies_on: Vec<String>,
    /// Findings that it should end.
    pub expects: Vec<ExpectedResolution>,
    /// What is changed, in this order.
    pub changes: Vec<Change>,
}

named_enum! {
    /// What has to happen on the host before a step takes effect.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum Risk as_str {
        /// Takes effect at once and interrupts nobody.
        Safe = "safe",
        /// Takes effect when the server is restarted.
        Restart = "restart",
        /// Takes effect when the host is rebooted.
        Reboot = "reboot",
        /// Cannot be undone: what it removes is gone. Only a manual step can be.
        Destructive = "destructive",
    }
}

/// A finding that a step should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedResolution {
    /// `HW201`.
    pub code: String,
    /// `no-pool`.
    pub name: String,
    /// Title of the instance; null for the host.
    pub instance: Option<String>,
    /// When it should be gone.
    pub when: EffectTime,
}

named_enum! {
    /// When a step takes effect.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum EffectTime as_str {
        /// As soon as it is applied.
        Now = "now",
        /// When the server has been restarted.
        Restart = "restart",
        /// When the host has been rebooted.
        Reboot = "reboot",
    }
}

/// One thing that is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Change {
    /// A value of the kernel.
    Value(ValueChange),
    /// A configuration file.
    File(FileChange),
    /// A command that is run.
    Command(CommandChange),
}

impl Change {
    /// Of the value or file that it changes.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Value(change) => Some(&change.path),
            Self::File(change) => Some(&change.path),
            Self::Command(_) => None,
        }
    }

    /// Whether an undo finds something to put back: of a restart it does not.
    pub fn can_be_undone(&self) -> bool {
        !matches!(self, Self::Command(change) if change.undo.is_none() && change.files.is_empty())
    }
}

/// A value under /proc/sys or /sys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueChange {
    /// Its file.
    pub path: String,
    /// Its value before; for `always [madvise] never` the chosen word, for a pool its pages without
    /// surplus ones. Null if the file does not exist, or the plan was not prepared.
    pub before: Option<String>,
    /// Its value after.
    pub after: String,
    /// Set if the value is a pool's number of pages: the kernel may give fewer.
    pub pool: Option<PoolRef>,
}

/// A pool, or one node's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolRef {
    /// Page size in bytes.
    #[serde(rename = "page_bytes")]
    #[schemars(with = "u64")]
    pub page_size: PageSize,
    /// NUMA node; null for the whole host.
    pub node: Option<u32>,
}

impl PoolRef {
    /// The folder of the pool's files in sysfs.
    pub fn sysfs_folder(self) -> String {
        let kib = self.page_size.bytes().get() >> 10;
        match self.node {
            Some(node) => {
                format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB")
            }
            None => format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB"),
        }
    }
}

/// A pool as the next boot should bring it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedBootPool {
    /// Page size in bytes.
    #[serde(rename = "page_bytes")]
    #[schemars(with = "u64")]
    pub page_size: PageSize,
    /// Its pages.
    pub pages: u64,
}

/// A file that is made, replaced or removed. Extended attributes (labels) of a file that is there
/// are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// Absolute path.
    pub path: String,
    /// The file before; null if there is none, or the plan was not prepared.
    pub before: Option<FileState>,
    /// The file after; null if it is removed.
    pub after: Option<NewFile>,
}

/// A file as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFile {
    /// Its bytes.
    pub content: FileContent,
    /// Its permissions.
    pub mode: FileMode,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A command that is run. Nothing of it goes through a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandChange {
    /// Program and arguments; the program by its absolute path.
    pub command: Vec<String>,
    /// The command that reverses it, while everything before it in the plan is still in place; null
    /// if restoring `files`, or the next restart, is enough.
    pub undo: Option<Vec<String>>,
    /// Run `undo` only after the files and values of the same step are as before (update-grub,
    /// daemon-reload), not before them (ALTER SYSTEM, grubby).
    pub undo_last: bool,
    /// Account that it runs as; null for root.
    pub user: Option<String>,
    /// Why it is run.
    pub why: String,
    /// Files that it rewrites: their contents are saved before it runs.
    pub files: Vec<String>,
    /// It need not run if this holds.
    pub unless: Option<FileHolds>,
}

/// A file has a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileHolds {
    /// Absolute path.
    pub path: String,
    /// The line, without leading or trailing blanks.
    pub line: String,
}

/// A step that a person has to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// One line.
    pub title: String,
    /// Commands or statements, and `#` lines between them.
    pub text: String,
    /// What has to happen before it takes effect.
    pub risk: Risk,
    /// Title of the instance; null for the host, and for several instances, which the title names.
    pub instance: Option<String>,
}

/// The host's memory with the planned pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBudget {
    /// The total; null if it is not known.
    pub total_bytes: Option<u64>,
    /// The pools as planned.
    pub pools_bytes: u64,
    /// What everything else needs, as measured: sessions, page tables, other processes, kernel,
    /// watermarks.
    pub needs_bytes: u64,
    /// What must stay for page cache and whatever is not counted.
    pub floor_bytes: u64,
    /// What is left beyond all of these; null without a total.
    pub left_bytes: Option<u64>,
    /// What is missing; 0 if it fits.
    pub short_bytes: u64,
    /// Facts that were not known and count as nothing.
    pub unknown: Vec<String>,
}

impl From<&hugewise_diagnose::sizing::MemoryBudget> for PlanBudget {
    fn from(budget: &hugewise_diagnose::sizing::MemoryBudget) -> Self {
        Self {
            total_bytes: budget.total.map(hugewise_model::Bytes::get),
            pools_bytes: budget.pools.get(),
            needs_bytes: budget.memory_beside_pools().saturating_sub(budget.floor).get(),
            floor_bytes: budget.floor.get(),
            left_bytes: budget.left.map(hugewise_model::Bytes::get),
            short_bytes: budget.short.get(),
            unknown: budget.unknown.clone(),
        }
    }
}

/// Why a plan should not be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRefusal {
    /// In words with numbers, one line each.
    pub reasons: Vec<String>,
    /// Memory that is missing.
    pub short_bytes: u64,
    /// The largest total of all pools that the host has room for.
    pub largest_pools_bytes: u64,
}

impl From<&hugewise_diagnose::sizing::SizingRefusal> for PlanRefusal {
    fn from(refusal: &hugewise_diagnose::sizing::SizingRefusal) -> Self {
        Self {
            reasons: refusal.reasons.clone(),
            short_bytes: refusal.short.get(),
            largest_pools_bytes: refusal.largest_pools.get(),
        }
    }
}

impl Plan {
    /// Whether it plans nothing, and facts are missing by which it might.
    pub fn is_undecided(&self) -> bool {
        self.undecided && self.steps.is_empty() && self.instructions.is_empty()
    }

    /// Whether an undo of this finds something to put back.
    pub fn can_be_undone(&self) -> bool {
        self.changes().any(|(_, change)| change.can_be_undone())
    }

    /// A plan without steps for this host.
    pub fn new(host: HostIdentity, made_at: impl Into<String>) -> Self {
        Self {
            schema: PLAN_SCHEMA.into(),
            hugewise: env!("CARGO_PKG_VERSION").into(),
            made_at: made_at.into(),
            host,
            options: Vec::new(),
            steps: Vec::new(),
            at_boot: Vec::new(),
            instructions: Vec::new(),
            warnings: Vec::new(),
            undecided: false,
            budget: PlanBudget::default(),
            refusal: None,
            checksum: String::new(),
        }
    }

    /// The plan as a file's bytes. [`Plan::seal`] it first.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        escape::json::escape_json(&text) + "\n"
    }

    /// A plan out of a file.
    ///
    /// # Errors
    /// What is wrong: no plan, another version, changed by hand.
    pub fn from_json(text: &[u8]) -> Result<Self, NotAPlan> {
        #[derive(Deserialize)]
        struct PlanSchemaVersion {
            schema: String,
        }
        let version: PlanSchemaVersion =
            serde_json::from_slice(text).map_err(NotAPlan::Senseless)?;
        if version.schema != PLAN_SCHEMA {
            return Err(NotAPlan::Schema(version.schema));
        }
        let plan: Self = serde_json::from_slice(text).map_err(NotAPlan::Changed)?;
        if plan.checksum != plan.calculate_checksum() {
            return Err(NotAPlan::Checksum);
        }
        Ok(plan)
    }

    /// Sets the checksum; any change afterwards is refused by [`Plan::from_json`].
    pub fn seal(&mut self) {
        self.checksum = self.calculate_checksum();
    }

    fn calculate_checksum(&self) -> String {
        let rest = Self { checksum: String::new(), ..self.clone() };
        let digest = Sha256::digest(serde_json::to_vec(&rest).unwrap_or_default());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Every change in order, with its step.
    pub fn changes(&self) -> impl Iterator<Item = (&Step, &Change)> {
        self.steps.iter().flat_map(|step| step.changes.iter().map(move |change| (step, change)))
    }
}

/// Why a file is not taken for a plan.
#[derive(Debug, thiserror::Error)]
pub enum NotAPlan {
    /// It is something else.
    #[error("not a hugewise plan: {0}")]
    Senseless(#[source] serde_json::Error),
    /// Another version made it; its schema.
    #[error(
        "its format is {0:?}, and this version reads {PLAN_SCHEMA}; make it again with 'hugewise \
             plan --out'"
    )]
    Schema(String),
    /// It has fields or values that no plan of this version has.
    #[error("edited by hand, or made by a newer version: {0}")]
    Changed(#[source] serde_json::Error),
    /// It is not what was sealed.
    #[error(
        "this plan was changed after it was made: its checksum does not match. Make a new one \
         (hugewise plan --out), or apply its changes your own way (hugewise plan --format shell)"
    )]
    Checksum,
}

/// The JSON Schema (2020-12) of a plan.
pub fn plan_schema() -> String {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<Plan>();
    format!("{:#}\n", schema.as_value())
}
