//! Remedies in words, with the target's numbers: the same wherever they are shown.

use hugewise_model::{Asked, Engine, Host, Instance, Level, Remedy};

use crate::target::Target;
use crate::{Assessment, thp};

/// What a remedy does on a host; none where that is done already.
pub fn say(host: &Host, instances: &[Instance], target: &Target, remedy: &Remedy) -> Option<String> {
    let goal = |page| target.pool(page);
    let text = match remedy {
        Remedy::SetPool(page) => {
            let Some(goal) = goal(*page) else {
                return Some(format!("give the pool of {page} pages what its servers need"));
            };
            if !goal.grows() {
                return None;
            }
            if target.sizing.as_ref().is_some_and(|sizing| sizing.refusal.is_some()) {
                let asked = goal.goal.of(*page);
                return Some(format!(
                    "make the servers smaller: {asked} of {page} pages are more than this host can give"
                ));
            }
            let (pages, size) = (goal.goal, goal.goal.of(*page));
            match &goal.not_now {
                None => format!("set the pool of {page} pages to {pages} ({size}), now and at each boot"),
                Some(_) => format!("have each boot bring {pages} pages of {page} ({size}); no room for them now"),
            }
        }
        Remedy::GiveBack(page) => match goal(*page).filter(|goal| goal.goal < goal.now) {
            Some(goal) => format!("give {} of {} pages of {page} back", goal.now.saturating_sub(goal.goal), goal.now),
            None => format!("give back the pages of {page} that no server will ask for: hugewise plan --shrink"),
        },
        Remedy::KeepAtBoot(page) => match goal(*page) {
            Some(goal) => format!("have each boot bring {} pages of {page} ({})", goal.goal, goal.goal.of(*page)),
            None => format!("have each boot bring the pool of {page} pages"),
        },
        Remedy::SetShmLimits => "raise kernel.shmmax and kernel.shmall".into(),
        Remedy::SetGroup(id) => match instances.iter().find(|instance| instance.id() == *id) {
            Some(instance) => {
                format!("let {} have System V huge pages: vm.hugetlb_shm_group", instance.owner_in_words())
            }
            None => format!("let the owner of {id} have System V huge pages: vm.hugetlb_shm_group"),
        },
        Remedy::RaiseMemlock(id) => format!("raise the memlock limit of {id}, for its service and for log-ins"),
        Remedy::SetThp => format!("set transparent huge pages to {}", thp::meeting_point(host, instances)),
        Remedy::KeepThpAtBoot => "have each boot set transparent huge pages as they are to be".into(),
        Remedy::SetSetting(id) => {
            let asked = instances.iter().find(|instance| instance.id() == *id).map(|instance| instance.asked);
            match asked {
                Some(Asked::Try) => format!("have {id} refuse a start without huge pages: {}", insisting(id.engine)),
                Some(Asked::Cannot) if id.engine == Engine::PostgreSql => {
                    format!("have {id} keep its memory where huge pages can be: shared_memory_type=mmap")
                }
                _ => format!("have {id} ask for huge pages: {}", setting(id.engine)),
            }
        }
        Remedy::Restart(id) => format!("restart {id}"),
        Remedy::ByHand(by_hand) => by_hand.what.clone(),
        Remedy::Consider(what) => what.clone(),
    };
    Some(crate::words::one_line(&text))
}

const fn insisting(engine: Engine) -> &'static str {
    match engine {
        Engine::Oracle => "use_large_pages=ONLY",
        Engine::PostgreSql => "huge_pages=on",
        _ => "in its own settings",
    }
}

const fn setting(engine: Engine) -> &'static str {
    match engine {
        Engine::Oracle => "use_large_pages=TRUE",
        Engine::PostgreSql => "huge_pages=try",
        Engine::MySql | Engine::MariaDb => "large-pages=ON",
        Engine::Jvm => "-XX:+UseLargePages",
        Engine::Qemu => "a hugetlb memory backend",
        Engine::Redis | Engine::Valkey | Engine::MongoDb | Engine::Other => "in its own settings",
    }
}

/// What is to be done on a host, each thing once, in the order in which it is done: what ends its findings of a level or
/// worse.
pub fn to_do(host: &Host, instances: &[Instance], assessment: &Assessment, least: Level) -> Vec<(Remedy, String)> {
    let findings = assessment.findings.iter().filter(|finding| finding.level >= least);
    let mut all: Vec<&Remedy> = findings.flat_map(|finding| &finding.remedies).collect();
    all.sort();
    all.dedup();
    // A pool that is set is kept as well.
    let set = |remedy: &Remedy| match remedy {
        Remedy::KeepAtBoot(page) => {
            all.contains(&&Remedy::SetPool(*page))
                && say(host, instances, &assessment.target, &Remedy::SetPool(*page)).is_some()
        }
        _ => false,
    };
    let said = |remedy: &&Remedy| Some(((*remedy).clone(), say(host, instances, &assessment.target, remedy)?));
    all.iter().filter(|remedy| !set(remedy)).filter_map(said).collect()
}
