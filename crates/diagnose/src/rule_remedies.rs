//! Remedies that depend on the host that they are for.

use hugewise_engines::EngineKind;
use hugewise_model::instance::Startup;
use hugewise_model::{HugePageMode, Instance, InstanceId, PageSize, Remedy};

use crate::{RuleFacts, demand, later_users, wording};

impl RuleFacts<'_> {
    /// Where the kernel has no such pool, whoever asks for it, or `instance`, is to ask for
    /// another.
    pub(crate) fn set_pool(&self, page: PageSize, instance: Option<&Instance>) -> Remedy {
        self.remedy_missing_pool(page, instance).unwrap_or(Remedy::SetPool(page))
    }

    pub(crate) fn keep_at_boot(&self, page: PageSize, instance: Option<&Instance>) -> Remedy {
        self.remedy_missing_pool(page, instance).unwrap_or(Remedy::KeepAtBoot(page))
    }

    /// Gives no pages back while servers may be there that nobody has seen, and none that somebody
    /// is to hand out.
    pub(crate) fn give_back(&self, page: PageSize) -> Remedy {
        if let Some(why) = self.host.unseen_reason() {
            return Remedy::Consider(format!(
                "look where every server is seen before pages are given back: {why}"
            ));
        }
        match later_users::find_later_user(self.host) {
            None => Remedy::GiveBack(page),
            Some(who) => Remedy::Consider(format!("see who is to have the free pages: {who}")),
        }
    }

    /// Not before files that keep it from starting are put right, or where these are unclear.
    pub(crate) fn restart(&self, instance: &Instance) -> Option<Remedy> {
        if matches!(instance.startup, Some(Startup::Refuses(_))) {
            return None;
        }
        let id = instance.id();
        let next = instance.next.as_known().filter(|next| {
            next.asked == HugePageMode::Unknown && instance.asked != HugePageMode::Unknown
        });
        Some(match next.and_then(|next| next.setting.as_ref()) {
            None => Remedy::Restart(id),
            Some(setting) => Remedy::by_hand(format!(
                "see what {setting} comes to before {id} is restarted: it may stay down"
            )),
        })
    }

    fn remedy_missing_pool(&self, page: PageSize, instance: Option<&Instance>) -> Option<Remedy> {
        let pools = self.host.pools.as_known().filter(|pools| !pools.is_empty())?;
        if pools.iter().any(|pool| pool.page_size == page) {
            return None;
        }
        let mut asking: Vec<InstanceId> = match instance {
            Some(instance) => vec![instance.id()],
            None => {
                let all = self.instances.iter().chain(self.asleep);
                let asks = |instance: &&Instance| {
                    instance.is_trusted() && demand::page_size(self.host, instance) == Some(page)
                };
                all.filter(asks).map(Instance::id).collect()
            }
        };
        asking.sort();
        let (who, how) = match asking.as_slice() {
            [id] => (id.to_string(), EngineKind::for_engine(id.engine).page_size.setting),
            [] => ("its server".into(), None),
            several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                (wording::join_names(&names), None)
            }
        };
        let how = how.map(|name| format!(" ({name})")).unwrap_or_default();
        let sizes: Vec<String> = pools.iter().map(|pool| pool.page_size.to_string()).collect();
        Some(Remedy::by_hand(format!(
            "have {who} ask for pages of a size that this kernel has{how}: {}, and not {page}",
            wording::join_names(&sizes)
        )))
    }
}
