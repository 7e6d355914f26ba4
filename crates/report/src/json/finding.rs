use super::json_view::json_view;

json_view! {
    /// One rule's verdict.
    pub struct FindingJson from(finding: &hugewise_model::Finding) => {
        /// `HW201`.
        #[schemars(extend("pattern" = "^HW[0-9]{3}$"))]
        code: &'static str = finding.code.as_str(),
        /// `no-pool`.
        name: &'static str = finding.name,
        /// How bad it is.
        #[schemars(extend("enum" = ["error", "warn", "info"]))]
        level: &'static str = finding.level.as_str(),
        /// `oracle PROD`; null for the host as a whole.
        instance: Option<String> = finding.instance.as_ref().map(ToString::to_string),
        /// One sentence.
        summary: String = finding.summary.clone(),
        /// The fact that matters, in a few words for readers who know which instance is meant.
        short: String = finding.short.clone(),
        /// The facts that it is based on.
        evidence: Vec<String> = finding.evidence.clone(),
        /// What it costs; null where no number is known.
        cost: Option<String> = finding.cost.clone(),
        /// What ends it, in words, one line each; for commands, see `hugewise plan`.
        fix: Vec<String> = finding.fix.clone(),
        /// What ends it, for programs.
        remedies: Vec<RemedyJson> = finding.remedies.iter().map(RemedyJson::from).collect(),
    }
}

json_view! {
    /// What ends a finding.
    pub struct RemedyJson from(remedy: &hugewise_model::Remedy) {
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
    } => {
        /// What it does.
        #[schemars(extend("enum" = [
            "set_pool", "give_back", "keep_at_boot", "set_shm_limits", "set_group", "raise_memlock", "set_thp",
            "keep_thp_at_boot", "set_setting", "restart", "by_hand", "consider"
        ]))]
        kind: &'static str = kind,
        /// The page size of the pool that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        page_bytes: Option<u64> = page.map(u64::from),
        /// The instance that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        instance: Option<String> = remedy.instance().map(ToString::to_string),
        /// What a person has to do.
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<String> = what,
    }
}

json_view! {
    /// A rule that could not decide.
    pub struct UnknownVerdictJson from(verdict: &hugewise_model::UnknownVerdict) => {
        /// `HW201`.
        #[schemars(extend("pattern" = "^HW[0-9]{3}$"))]
        code: &'static str = verdict.code.as_str(),
        /// `no-pool`.
        name: &'static str = verdict.name,
        /// `oracle PROD`; null for the host as a whole.
        instance: Option<String> = verdict.instance.as_ref().map(ToString::to_string),
        /// The fact, and why it is missing.
        missing: String = verdict.missing.clone(),
    }
}

json_view! {
    /// One link between an instance and its huge pages.
    pub struct ChainLink from(link: &hugewise_model::Link) => {
        /// Which one, in the order in which they can break.
        #[schemars(extend("enum" = ["asked", "pool", "room", "permission", "cgroup", "mapped"]))]
        link: &'static str = link.name.as_str(),
        /// Whether it holds.
        #[schemars(extend("enum" = ["ok", "broken", "unknown"]))]
        state: &'static str = link.state.as_str(),
        /// The evidence for that.
        evidence: String = link.evidence.clone(),
    }
}
