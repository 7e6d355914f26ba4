use schemars::JsonSchema;
use serde::Serialize;

/// One rule's verdict.
#[derive(Serialize, JsonSchema)]
pub struct FindingJson {
    /// `HW201`.
    #[schemars(extend("pattern" = "^HW[0-9]{3}$"))]
    pub code: &'static str,
    /// `no-pool`.
    pub name: &'static str,
    /// How bad it is.
    #[schemars(extend("enum" = ["error", "warn", "info"]))]
    pub level: &'static str,
    /// `oracle PROD`; null for the host as a whole.
    pub instance: Option<String>,
    /// One sentence.
    pub summary: String,
    /// The fact that matters, in a few words for readers who know which instance is meant.
    pub short: String,
    /// The facts that it is based on.
    pub evidence: Vec<String>,
    /// What it costs; null where no number is known.
    pub cost: Option<String>,
    /// What ends it, in words, one line each; for commands, see `hugewise plan`.
    pub fix: Vec<String>,
    /// What ends it, for programs.
    pub remedies: Vec<RemedyJson>,
}

/// What ends a finding.
#[derive(Serialize, JsonSchema)]
pub struct RemedyJson {
    /// What it does.
    #[schemars(extend("enum" = [
        "set_pool", "give_back", "keep_at_boot", "set_shm_limits", "set_group", "raise_memlock", "set_thp",
        "keep_thp_at_boot", "set_setting", "restart", "by_hand", "consider"
    ]))]
    pub kind: &'static str,
    /// The page size of the pool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u64>,
    /// The instance that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What a person has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

impl From<&hugewise_model::Remedy> for RemedyJson {
    fn from(remedy: &hugewise_model::Remedy) -> Self {
        use hugewise_model::Remedy as R;
        let (kind, page, what) = match remedy {
            R::SetPool(page) => ("set_pool", Some(*page), None),
            R::GiveBack(page) => ("give_back", Some(*page), None),
            R::KeepAtBoot(page) => ("keep_at_boot", Some(*page), None),
            R::SetShmLimits => ("set_shm_limits", None, None),
            R::SetGroup(_) => ("set_group", None, None),
            R::RaiseMemlock(_) => ("raise_memlock", None, None),
            R::SetThp => ("set_thp", None, None),
            R::KeepThpAtBoot => ("keep_thp_at_boot", None, None),
            R::SetSetting(_) => ("set_setting", None, None),
            R::Restart(_) => ("restart", None, None),
            R::ByHand(by_hand) => ("by_hand", None, Some(by_hand.what.clone())),
            R::Consider(what) => ("consider", None, Some(what.clone())),
        };
        Self {
            kind,
            page_bytes: page.map(u64::from),
            instance: remedy.instance().map(ToString::to_string),
            what,
        }
    }
}

/// A rule that could not decide.
#[derive(Serialize, JsonSchema)]
pub struct UnknownVerdictJson {
    /// `HW201`.
    #[schemars(extend("pattern" = "^HW[0-9]{3}$"))]
    pub code: &'static str,
    /// `no-pool`.
    pub name: &'static str,
    /// `oracle PROD`; null for the host as a whole.
    pub instance: Option<String>,
    /// The fact, and why it is missing.
    pub missing: String,
}

/// One link between an instance and its huge pages.
#[derive(Serialize, JsonSchema)]
pub struct ChainLink {
    /// Which one, in the order in which they can break.
    #[schemars(extend("enum" = ["asked", "pool", "room", "permission", "cgroup", "mapped"]))]
    pub link: &'static str,
    /// Whether it holds.
    #[schemars(extend("enum" = ["ok", "broken", "unknown"]))]
    pub state: &'static str,
    /// The evidence for that.
    pub evidence: String,
}

impl From<&hugewise_model::Finding> for FindingJson {
    fn from(finding: &hugewise_model::Finding) -> Self {
        Self {
            code: finding.code.as_str(),
            name: finding.name,
            level: finding.level.as_str(),
            instance: finding.instance.as_ref().map(ToString::to_string),
            summary: finding.summary.clone(),
            short: finding.short.clone(),
            evidence: finding.evidence.clone(),
            cost: finding.cost.clone(),
            fix: finding.fix.clone(),
            remedies: finding.remedies.iter().map(RemedyJson::from).collect(),
        }
    }
}

impl From<&hugewise_model::UnknownVerdict> for UnknownVerdictJson {
    fn from(verdict: &hugewise_model::UnknownVerdict) -> Self {
        Self {
            code: verdict.code.as_str(),
            name: verdict.name,
            instance: verdict.instance.as_ref().map(ToString::to_string),
            missing: verdict.missing.clone(),
        }
    }
}

impl From<&hugewise_model::Link> for ChainLink {
    fn from(link: &hugewise_model::Link) -> Self {
        Self {
            link: link.name.as_str(),
            state: link.state.as_str(),
            evidence: link.evidence.clone(),
        }
    }
}
