use hugewise_model::{
    Bytes, HugePageMode, HugePageUse, Instance, Level, PageCount, PageSize, Pool, Remedy,
};

use crate::cause::{find_named_size, find_remedies, is_asm_with_amm, is_big};
use crate::chain::is_amm;
use crate::demand::{PoolCounts, predict_next_start};
use crate::idle::{is_idle, unread_next_demand};
use crate::target::is_kept_off;
use crate::wording::{pool_fact, render_percent};
use crate::{
    CaseRole, Docs, HostResult, InstanceResult, Missing, Rule, RuleFacts, boot, chain, demand,
    later_users,
};

/// From this much idle memory on it is a warning.
pub(crate) const WARN_BYTES: Bytes = Bytes::from_gib(1);
/// Or from this part of memory on.
pub(crate) const WARN_PART: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW202"),
    name: "idle-pool",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A pool of which half or more is idle, that is, neither used nor promised (free - \
               reserved). {LEAST_IDLE} or more is a note; {IDLE_WARN} or {IDLE_WARN_PART} of memory is a warning. It stays a \
               note where a program of root's takes pages later (DPDK, SPDK) or hands them to \
               others (kubelet, OpenStack). These \
               pages don't count as idle:\n\n- free pages that are reserved, because a server was \
               promised them\n- pages that a server will ask for at its restart or at the next \
               boot\n- pages that a heap on huge pages has yet to grow into\n\nIf it isn't known \
               what a server will ask for, no page is called idle. Half separates a pool that no \
               server took from one with a few spare pages.",
        why: "Memory in a pool is lost to everything else: neither programs on base pages nor the \
              page cache can have it. Often the server that it was meant for started without huge \
              pages.",
        cost: "memory that neither programs nor the page cache can use",
        fix: "If a server was meant to use the pool, restart that server. If it still doesn't, \
              `hugewise verify` shows which link is broken. Otherwise shrink the pool: unused \
              pages go back at once, without a restart.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: HugePages_Free includes reserved \
             pages",
        ],
    },
    check: |facts| RULE.of_host(facts, check_idle_pool),
};

fn check_idle_pool(facts: &RuleFacts<'_>) -> HostResult {
    let pools = crate::require_known(&facts.host.pools, "/sys/kernel/mm/hugepages")?;
    let mut findings = Vec::new();
    let mut untold = None;
    for pool in pools {
        match check_pool_idle(facts, pool) {
            Ok(finding) => findings.extend(finding),
            Err(missing) => untold = untold.or(Some(missing)),
        }
    }
    match untold {
        Some(missing) if findings.is_empty() => Err(missing),
        _ => Ok(findings),
    }
}

/// The counts of a pool that has so many pages available that it is worth a word.
fn read_idle_counts(pool: &Pool) -> Result<Option<PoolCounts>, Missing> {
    let counts = demand::read_pool_counts(pool)?;
    Ok(counts.filter(|counts| is_idle(counts.available(), counts.total, pool.page_size)))
}

/// Servers among these that a pool may have been meant for: they want huge pages of its size and
/// lack them.
fn servers_lacking_pages<'a>(
    facts: &RuleFacts<'a>,
    instances: &'a [Instance],
    page: PageSize,
) -> Vec<&'a Instance> {
    let could = instances.iter().filter(|instance| {
        let wants = demand::asks_now(instance) || instance.asked == HugePageMode::Unknown;
        let lacks = matches!(instance.huge_pages, HugePageUse::None | HugePageUse::Partly);
        let takes = || {
            let start = predict_next_start(facts.host, instance);
            demand::page_size(facts.host, instance) == Some(page)
                || find_named_size(facts, instance).is_some_and(|other| other.page_size == page)
                || (start.asks_for_huge_pages()
                    && start.demands.iter().any(|demand| demand.page_size == page))
        };
        // Small ones are left as they are: what they ask for at their next start is kept for them.
        let is_big = || is_big(facts, instance).unwrap_or(true) && !is_asm_with_amm(instance);
        (wants || is_amm(instance) || is_kept_off(facts, instance))
            && lacks
            && is_big()
            && takes()
            && facts.chain(instance).is_some()
    });
    could.collect()
}

fn without_a_size<'a>(facts: &RuleFacts<'a>) -> Option<&'a Instance> {
    let is_there = |page: PageSize| facts.host.find_pool(page).is_some();
    facts.instances.iter().find(|instance| {
        let start = predict_next_start(facts.host, instance);
        start.asks_for_huge_pages()
            && demand::page_size(facts.host, instance).is_some_and(|page| !is_there(page))
    })
}

/// Pages that no server has or asks for, now or later, so many that they are to be given back.
pub(super) fn find_spare_pages(
    facts: &RuleFacts<'_>,
    pool: &Pool,
) -> Result<Option<PageCount>, Missing> {
    let total = read_idle_counts(pool)?.map(|counts| counts.total).unwrap_or_default();
    let is_much = |idle: &PageCount| is_idle(*idle, total, pool.page_size);
    let Some(idle) = find_unclaimed_pages(facts, pool)?.filter(is_much) else { return Ok(None) };
    let claim = facts.situation.claim(pool.page_size);
    match claim.and_then(|claim| claim.unknown.first()) {
        Some(id) => Err(unread_next_demand(id)),
        None => Ok(Some(idle)),
    }
}

/// Pages that no server is known to have or to ask for, however few. What a stranger lacks counts
/// for nothing: his word keeps no pool at a boot.
fn find_unclaimed_pages(facts: &RuleFacts<'_>, pool: &Pool) -> Result<Option<PageCount>, Missing> {
    let page = pool.page_size;
    let Some(counts) = demand::read_pool_counts(pool)? else { return Ok(None) };
    let claim = facts.situation.claim(page);
    let claim = claim.filter(|_| servers_lacking_pages(facts, facts.instances, page).is_empty());
    let unclaimed = claim.map(|claim| counts.total.saturating_sub(claim.pages));
    Ok(unclaimed.map(|unclaimed| unclaimed.min(counts.available())))
}

/// Whether a boot that leaves so many of the pages of now leaves out only what nobody asks for.
pub(super) fn covers_all_claims(
    facts: &RuleFacts<'_>,
    pool: &Pool,
    now: PageCount,
    next: PageCount,
) -> bool {
    let claim = facts.situation.claim(pool.page_size);
    let Some(claim) = claim.filter(|claim| claim.unknown.is_empty()) else { return false };
    let unclaimed = find_unclaimed_pages(facts, pool).ok().flatten().unwrap_or_default();
    let unclaimed = unclaimed.saturating_sub(claim.perhaps);
    unclaimed > PageCount::ZERO && now.saturating_sub(unclaimed) <= next
}

fn check_pool_idle(facts: &RuleFacts<'_>, pool: &Pool) -> InstanceResult {
    let page = pool.page_size;
    let Some(counts) = read_idle_counts(pool)? else { return Ok(None) };
    let PoolCounts { total, free, reserved } = counts;
    // Servers that are down are looked for beside those that run: who would ask for the pages.
    crate::require_known(&facts.host.processes, "processes")?;
    let could = servers_lacking_pages(facts, facts.everybody, page);
    let pages = if could.is_empty() {
        find_spare_pages(facts, pool)?
    } else {
        let idle = counts.available().saturating_sub(facts.situation.kept_for_asleep(page));
        Some(idle).filter(|idle| is_idle(*idle, total, page))
    };
    let Some(pages) = pages else { return Ok(None) };
    let idle = pages.to_bytes(page);
    let share = facts.host.memory.total.get().and_then(|memory| idle.part_of(memory));
    let warn = idle >= WARN_BYTES || share.is_some_and(|share| share >= WARN_PART);
    let some = if pages == total { "any".to_owned() } else { pages.to_string() };
    let mut summary = format!("nobody uses {some} of the {}: {idle}", total.in_pages_of(page));
    let short = summary.clone();
    if let Some(share) = share {
        summary.push_str(&format!(", {} of memory", render_percent(share)));
    }
    let mut evidence = vec![
        format!("{}: {total}", pool_fact(facts.host, page, "nr_hugepages")),
        format!(
            "{}: {free}, {}: {reserved}",
            pool_fact(facts.host, page, "free_hugepages"),
            pool_fact(facts.host, page, "resv_hugepages")
        ),
    ];
    let remedies = if could.is_empty() {
        let asked = counts.available().saturating_sub(pages);
        evidence.extend(describe_claims(facts, page, asked));
        vec![remedy_unclaimed_pages(facts, page)]
    } else {
        evidence.push(format!("on base pages: {}", chain::join_titles(could.iter().copied())));
        find_remedies_for_users(facts, &could)
    };
    let later = later_users::find_later_user(facts.host);
    evidence.extend(later.clone());
    let level = if warn && later.is_none() { Level::Warn } else { Level::Info };
    Ok(Some(RULE.new_finding(level, None, summary, short, evidence, remedies)))
}

fn describe_claims(facts: &RuleFacts<'_>, page: PageSize, asked: PageCount) -> Vec<String> {
    let mut evidence = Vec::new();
    if asked > PageCount::ZERO {
        evidence.push(format!(
            "{asked} of the free pages are for servers that ask for them at their next start"
        ));
    }
    if let Ok(steps) = boot::predict_pool_steps(facts.host, page) {
        let brings = steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value));
        evidence.push(format!("the next boot brings {brings}"));
    }
    evidence
}

fn remedy_unclaimed_pages(facts: &RuleFacts<'_>, page: PageSize) -> Remedy {
    // Whoever is told to ask for another size may come to ask for these.
    match without_a_size(facts) {
        Some(instance) => Remedy::Consider(format!(
            "keep the {page} pages until {} asks for a size that this kernel has: it may take them",
            instance.title()
        )),
        None => facts.give_back(page),
    }
}

fn find_remedies_for_users(facts: &RuleFacts<'_>, users: &[&Instance]) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    for instance in users.iter().filter(|instance| instance.is_trusted()) {
        remedies.extend(find_remedies(facts, instance));
    }
    if remedies.is_empty() {
        remedies.push(Remedy::Consider(
            "see whether the servers that nothing vouches for are yours, and name them".into(),
        ));
    }
    remedies
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 4096);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 4096);
        // Promised to a server that has not touched them yet: free, but not idle.
        case.pools()[0].reserved = hugewise_model::Observed::Known(hugewise_model::PageCount(4000));
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 4096);
        case.pools()[0].reserved = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::instance::NextStart;
    use hugewise_model::{
        Bytes, Demand, DemandSource, Engine, HugePageMode, HugePageUse, Observed, PageCount,
        PageSize, Remedy,
    };

    use crate::testing::{Case, all_huge, gib, hidden, pool, quiet};

    fn gives_back(case: &Case) -> bool {
        let findings = case.assess().findings;
        findings
            .iter()
            .flat_map(|finding| &finding.remedies)
            .any(|remedy| matches!(remedy, Remedy::GiveBack(_)))
    }

    fn next(asked: HugePageMode, demands: &[(PageSize, u64)]) -> Observed<NextStart> {
        let demand = |&(page_size, pages): &(PageSize, u64)| Demand {
            page_size,
            pages: PageCount(pages),
            source: DemandSource::Engine,
        };
        Observed::Known(NextStart {
            asked,
            setting: None,
            demands: demands.iter().map(demand).collect(),
        })
    }

    /// 537 pages are held of 3,000, and its configuration includes a file that is not there.
    fn unread() -> Case {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1))).next = next(HugePageMode::Unknown, &[]);
        case.pool(3000, 2488);
        case
    }

    #[test]
    fn what_a_server_may_ask_for_is_not_called_idle() {
        let case = unread();
        assert!(!gives_back(&case));
        let unknown = case.assess().unknown;
        assert!(
            unknown.iter().any(|unknown_verdict| unknown_verdict.code.as_str() == "HW202"),
            "{unknown:?}"
        );
        // The same where its settings say that it asks for no more.
        let mut case = unread();
        case.instances[0].next = next(HugePageMode::Must, &[(PageSize::MIB_2, 512)]);
        assert!(gives_back(&case));
    }

    #[test]
    fn pages_that_a_server_asks_for_at_its_restart_are_not_idle() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1))).next =
            next(HugePageMode::Must, &[(PageSize::GIB_1, 2)]);
        case.pool(512, 0);
        case.pools()[1] = pool(PageSize::GIB_1, 2, 2);
        assert!(
            !gives_back(&case),
            "huge_page_size=1GB was set since the start, and its pages were planned"
        );
        case.instances[0].next = next(HugePageMode::Must, &[(PageSize::MIB_2, 600)]);
        assert!(gives_back(&case), "nobody asks for pages of 1 GiB");
    }

    /// 512 pages are mapped, 100 touched: of 600 the other 412 lie free until they are.
    #[test]
    fn pages_that_are_mapped_without_a_promise_are_not_idle() {
        let mut case = quiet();
        let machine = all_huge(case.postgresql("15/main", gib(1)));
        machine.engine = Engine::Other;
        machine.touched_bytes = Observed::Known(Bytes::from_mib(200));
        case.pool(600, 500);
        assert!(!gives_back(&case), "{:?}", case.assess().findings);
        case.pool(1100, 1000);
        assert!(gives_back(&case), "500 more are nobody's");
    }

    #[test]
    fn pages_of_a_server_whose_mappings_are_hidden_are_not_idle() {
        let mut case = quiet();
        case.postgresql("15/main", gib(2));
        hidden(&mut case);
        case.pool(1100, 1100);
        assert!(!gives_back(&case), "{:?}", case.assess().findings);
        // One that would not start again is told of all the same.
        case.instances[0].asked = HugePageMode::Must;
        case.pool(1000, 1000);
        assert!(!gives_back(&case) && case.codes().contains(&"HW210"), "{:?}", case.codes());
    }

    #[test]
    fn a_heap_on_pages_of_two_sizes_asks_for_both() {
        let mut case = quiet();
        let java = case.postgresql("15/main", gib(1));
        java.asked_page_size = Observed::Known(PageSize::GIB_1);
        java.demand = Some(Demand {
            page_size: PageSize::GIB_1,
            pages: PageCount(1),
            source: DemandSource::Engine,
        });
        java.other_demands = vec![Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(600),
            source: DemandSource::Engine,
        }];
        java.huge_pages = HugePageUse::None;
        case.pool(700, 700);
        assert!(!gives_back(&case), "{:?}", case.assess().findings);
    }

    #[test]
    fn of_a_pool_that_is_too_large_what_will_be_asked_for_is_left() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1))).next =
            next(HugePageMode::Must, &[(PageSize::MIB_2, 1000)]);
        case.pool(5000, 4488);
        let findings = case.assess().findings;
        let idle = findings.iter().find(|finding| finding.code.as_str() == "HW202").unwrap();
        assert!(idle.short.starts_with("nobody uses 4,000 of the 5,000 pages"), "{}", idle.short);
    }

    /// Whoever gave these pages back would have the machine die of it as its heap grows.
    #[test]
    fn pages_that_a_heap_has_yet_to_grow_into_are_not_idle() {
        let found = |engine: Engine| {
            let mut case = quiet();
            let instance = case.postgresql("Grow", gib(2));
            all_huge(instance);
            instance.engine = engine;
            let zgc = hugewise_model::instance::ServerSetting {
                name: "UseZGC".into(),
                value: "true".into(),
                place: None,
            };
            instance.settings.insert("usezgc".into(), zgc);
            let source = DemandSource::Engine;
            instance.demand =
                Some(Demand { page_size: PageSize::MIB_2, pages: PageCount(2048), source });
            case.pool(2048, 1024);
            case.assess().findings.iter().any(|finding| finding.code.as_str() == "HW202")
        };
        assert!(!found(Engine::Jvm));
        assert!(found(Engine::PostgreSql));
    }

    /// Eight servers of 240 MiB that ask, and pages for four: what each is worth is no restart, and
    /// what is there is theirs.
    #[test]
    fn small_servers_are_left_as_they_are_and_keep_what_they_will_ask_for() {
        let mut case = quiet();
        for number in 0..8 {
            case.postgresql(&format!("15/c{number}"), hugewise_model::Bytes::from_mib(240));
        }
        case.pool(512, 512);
        let assessment = case.assess();
        let restarts = |remedy: &Remedy| matches!(remedy, Remedy::Restart(_));
        let remedies: Vec<_> =
            assessment.findings.iter().flat_map(|finding| &finding.remedies).collect();
        assert!(!remedies.iter().any(|remedy| restarts(remedy)), "{remedies:?}");
        assert!(!gives_back(&case));
        let shrunk = crate::target::TargetRequest { shrink: true, ..Default::default() };
        let request = crate::sizing::Request::default();
        let target =
            crate::target::find_target(&case.host, &case.instances, &assessment, shrunk, &request)
                .unwrap();
        assert_eq!(
            target.pool(PageSize::MIB_2).unwrap().goal,
            PageCount(512),
            "to give back is not to take more"
        );
    }

    /// What is kept for the boot and what is to be given back are not the same pages.
    #[test]
    fn a_boot_keeps_what_somebody_asks_for_and_not_what_is_idle() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1))).next =
            next(HugePageMode::Must, &[(PageSize::MIB_2, 538)]);
        case.pool(3000, 2488);
        case.host.configuration.sysctl = Observed::Known(Vec::new());
        let assessment = case.assess();
        let remedies: Vec<_> =
            assessment.findings.iter().flat_map(|finding| &finding.remedies).collect();
        assert!(
            remedies.contains(&&Remedy::KeepAtBoot(PageSize::MIB_2)) && gives_back(&case),
            "{remedies:?}"
        );
        let pool = assessment.target.pool(PageSize::MIB_2).unwrap();
        assert_eq!(
            (pool.goal, pool.pages_at_boot(&case.host, &case.instances)),
            (PageCount(3000), PageCount(538))
        );
        // What the files bring already is not taken from them.
        case.host.configuration.sysctl =
            Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "2000")]);
        let pool = case.assess().target.pool(PageSize::MIB_2).unwrap().clone();
        assert_eq!(pool.pages_at_boot(&case.host, &case.instances), PageCount(2000));
    }

    /// Of a sosreport without ps nobody knows who runs, and who is down is not looked for.
    #[test]
    fn nothing_is_given_back_where_the_processes_are_not_known() {
        let mut case = quiet();
        case.pool(2000, 2000);
        assert!(case.codes().contains(&"HW202"));
        case.host.processes = Observed::Absent;
        assert!(!case.codes().contains(&"HW202"));
        let unknown = case.assess().unknown;
        assert!(
            unknown.iter().any(|unknown_verdict| format!("{unknown_verdict:?}").contains("HW202")),
            "{unknown:?}"
        );
    }

    /// An ASM instance with MEMORY_TARGET takes no large pages, whatever its parameters ask for.
    #[test]
    fn asm_under_automatic_memory_management_is_not_what_a_pool_waits_for() {
        let mut case = quiet();
        let asm = case.oracle("+ASM", gib(1), 2);
        asm.traits.push(hugewise_model::instance::Trait::Asm);
        asm.traits.push(hugewise_model::instance::Trait::Amm);
        asm.asked = HugePageMode::Cannot;
        asm.mechanism = hugewise_model::instance::Mechanism::None;
        let setting = hugewise_model::instance::ServerSetting {
            name: "memory_target".into(),
            value: "1536M".into(),
            place: None,
        };
        asm.settings.insert("memory_target".into(), setting);
        case.pool(2000, 2000);
        let findings = case.assess().findings;
        let remedies: Vec<_> = findings.iter().flat_map(|finding| &finding.remedies).collect();
        let of_asm = |remedy: &&&Remedy| remedy.instance().is_some();
        assert_eq!(remedies.iter().filter(of_asm).count(), 0, "{remedies:?}");
    }
}
