use hugewise_engines::Kind;
use hugewise_model::{Finding, Instance, Level, Pool, Remedy};

use crate::cause::{Cause, cause, pain};
use crate::words::pool_fact;
use crate::{Docs, Facts, Missing, Rule, cause as causes, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW405"),
    name: "wrong-page-size",
    level: Level::Error,
    docs: Docs {
        what: "A server with 256 MiB or more on base pages that asks for pages of a size whose pool is empty, while a \
               pool of another size has pages. And an Oracle database on base pages where the default size is 1 GiB: a \
               warning.",
        why: "Pools of different sizes are separate: pages of one cannot serve a request for the other. A server that \
              names no size asks for the default one (default_hugepagesz). With a default of 1 GiB an Oracle database \
              asks for that: no source says that its SGA uses such pages, and Oracle recommends 2 MiB.",
        cost: "page tables in every process, beside a pool that cannot help",
        fix: "Set a pool of the right size aside, or have the server ask for the size that is there (PostgreSQL 14 and \
              later: huge_page_size), and give the other pool back.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: default_hugepagesz",
            "PostgreSQL 15 manual: huge_page_size",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let host = facts.host;
    match cause(facts, instance)? {
        Some(Cause::WrongSize) => {}
        Some(
            Cause::DoesNotFit
            | Cause::Partly
            | Cause::Memlock
            | Cause::Group
            | Cause::Cgroup
            | Cause::Restart
            | Cause::NoPool,
        ) if demand::cannot_do_with_default(host, instance) => {
            return Ok(Some(default_of_one_gib(instance)));
        }
        _ => return Ok(None),
    }
    let Some(page) = demand::page_size(host, instance) else { return Ok(None) };
    let others = chain::other_pools(host, page);
    let there = |pool: &&Pool| format!("{} of {}", pool.total.get().unwrap_or_default(), pool.page_size);
    let pools: Vec<String> = others.iter().map(there).collect();
    let held = chain::on_base(host, instance);
    let has = pools.join(", ");
    let (level, then) = causes::next_start(instance, pain(facts, instance));
    let summary = format!("{} asks for {page} pages, and there are none ({has}); {held}{then}", instance.title());
    let short = format!("it asks for {page} pages, and there are none");
    let mut evidence = vec![format!("{}: 0", pool_fact(facts.host, page, "nr_hugepages"))];
    for pool in &others {
        let total = pool.total.get().unwrap_or_default();
        let available = pool.available().map_or_else(String::new, |available| format!(", {available} available"));
        evidence.push(format!("{}: {total}{available}", pool_fact(facts.host, pool.page_size, "nr_hugepages")));
    }
    evidence.extend(instance.settings.get("huge_page_size").or(instance.setting.as_ref()).map(ToString::to_string));
    let remedies = causes::cure(facts, instance);
    let cost = causes::cost(facts, instance);
    Ok(Some(Finding { short, evidence, cost, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

fn default_of_one_gib(instance: &Instance) -> Finding {
    let against = Kind::of(instance.engine).against_gib_pages.unwrap_or("it needs 2 MiB pages");
    let summary = format!("{} asks for pages of the default size, which is 1 GiB here; {against}", instance.title());
    let evidence = vec!["/proc/meminfo Hugepagesize: 1 GiB".into()];
    let what = "boot with default_hugepagesz=2M and the pool in 2 MiB pages";
    let short = "it asks for pages of the default size, 1 GiB, and needs 2 MiB ones".to_owned();
    Finding {
        short,
        evidence,
        remedies: vec![Remedy::by_hand(what)],
        ..RULE.finding(Level::Warn, Some(instance), summary)
    }
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pools()[1] = crate::testing::pool(hugewise_model::PageSize::GIB_1, 8, 8);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.host.pools = hugewise_model::Observed::Denied;
        case
    },
};
