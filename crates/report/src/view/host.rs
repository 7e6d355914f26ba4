//! The host in three lines, or in two for those who know it.

use hugewise_model::obtainable::ObtainableBy;
use hugewise_model::{Bytes, Host, Observed, PageCount, PageSize, Pool};

use super::describe_fact;
use crate::palette::Role;
use crate::screen::Spans;

pub(crate) fn host_lines(host: &Host) -> [Vec<Spans>; 3] {
    [machine_fields(host), memory_fields(host), page_fields(host).into()]
}

/// What changes from hour to hour, for those who know the machine.
pub(crate) fn brief_host_lines(host: &Host) -> [Vec<Spans>; 2] {
    let mut machine = vec![Spans::new().add(Role::Strong, host_name(host))];
    // A release's name in parentheses adds nothing to its number.
    let os = host.os.as_known().map(|os| os.split(" (").next().unwrap_or_default());
    machine.extend(os.map(Spans::from));
    let mut size = describe_processors(host);
    size.push(format!(
        "{} of memory{}",
        describe_fact(&host.memory.total),
        describe_available(host)
    ));
    machine.push(Spans::from(size.join(", ").as_str()));

    let [tables, pools, thp] = page_fields(host);
    let mut pages = vec![tables, thp];
    if host.base_page.get() != Some(PageSize::KIB_4) {
        pages.push(labeled_field("base page", &describe_fact(&host.base_page)));
    }
    let used = host.memory.swap_used().filter(|used| *used > Bytes::ZERO);
    pages.extend(used.map(|used| labeled_field("swap", &format!("{used} used"))));
    pages.push(pools);
    [machine, pages]
}

fn host_name(host: &Host) -> &str {
    host.name.as_known().map_or("this host", String::as_str)
}

/// `4 cores`, `2 nodes`.
fn describe_processors(host: &Host) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(processors) = host.processors.online.get() {
        all.push(format!("{processors} {}", if processors == 1 { "core" } else { "cores" }));
    }
    if let Some(nodes) = host.nodes.as_known().filter(|nodes| nodes.len() > 1) {
        all.push(format!("{} nodes", nodes.len()));
    }
    all
}

/// `, 3.0 GiB available`; `about` where old kernels leave it to an estimate.
fn describe_available(host: &Host) -> String {
    let Some(memory) = host.obtainable_memory() else { return String::new() };
    match memory.by {
        ObtainableBy::Kernel => format!(", {} available", memory.bytes),
        ObtainableBy::Estimate => format!(", about {} available", memory.bytes),
        ObtainableBy::Free => format!(", {} free", memory.bytes),
    }
}

fn machine_fields(host: &Host) -> Vec<Spans> {
    let mut fields = vec![Spans::new().add(Role::Strong, host_name(host))];
    if let Some(os) = host.os.as_known() {
        fields.push(Spans::from(os.as_str()));
    }
    let kernel = describe_fact(&host.kernel.as_ref().map(|kernel| kernel.text.as_str()));
    let mut kind = vec![format!("Linux {kernel}")];
    if let Some(architecture) =
        host.architecture.as_known().filter(|name| !kernel.contains(name.as_str()))
    {
        kind.push(architecture.clone());
    }
    kind.extend(describe_processors(host));
    fields.push(Spans::from(kind.join(", ").as_str()));
    fields
}

fn memory_fields(host: &Host) -> Vec<Spans> {
    let memory = &host.memory;
    let swap = match (memory.swap_total.get(), memory.swap_used()) {
        (Some(Bytes::ZERO), _) => "none".into(),
        (Some(total), Some(used)) => format!("{used} of {total}"),
        _ => describe_fact(&memory.swap_total),
    };
    vec![
        labeled_field(
            "memory",
            &format!("{}{}", describe_fact(&memory.total), describe_available(host)),
        ),
        labeled_field("swap", &swap),
        labeled_field("base page", &describe_fact(&host.base_page)),
    ]
}

fn page_fields(host: &Host) -> [Spans; 3] {
    let memory = &host.memory;
    let part = memory
        .page_tables
        .get()
        .zip(memory.total.get())
        .and_then(|(tables, total)| tables.part_of(total));
    let part = part.map(|part| part * 100.0).filter(|percent| *percent >= 0.05);
    let part = part.map(|percent| format!(", {percent:.1} %")).unwrap_or_default();
    [
        labeled_field("page tables", &format!("{}{part}", describe_fact(&memory.page_tables))),
        labeled_field("huge pages", &describe_pools(&host.pools)),
        labeled_field("THP", &describe_fact(&host.thp.enabled)),
    ]
}

fn labeled_field(label: &str, value: &str) -> Spans {
    Spans::new().add(Role::Quiet, label).add(Role::Text, &format!(" {value}"))
}

fn describe_pools(pools: &Observed<Vec<Pool>>) -> String {
    let Some(known) = pools.as_known() else {
        return describe_fact(&pools.as_ref().map(|_| ""));
    };
    let counts =
        |pool: &&Pool| pool.total != Observed::Known(PageCount::ZERO) || on_demand(pool).is_some();
    let used: Vec<String> = known.iter().filter(counts).map(describe_pool).collect();
    if used.is_empty() { "none".into() } else { used.join("; ") }
}

/// Pages that the kernel may add when a server asks for more than the pool has.
fn on_demand(pool: &Pool) -> Option<PageCount> {
    pool.overcommit.get().filter(|pages| *pages > PageCount::ZERO)
}

fn describe_pool(pool: &Pool) -> String {
    let (size, total) = (pool.page_size, describe_fact(&pool.total));
    if let (Some(PageCount::ZERO), Some(most)) = (pool.total.get(), on_demand(pool)) {
        return format!("none of {size} set aside, up to {most} on demand");
    }
    match pool.available_pages() {
        Some(available) => format!("{total} of {size}, {available} available"),
        None => format!("{total} of {size}"),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::PageSize;

    use super::*;

    fn with(page_size: PageSize, total: u64, overcommit: u64) -> Pool {
        let known = |pages| Observed::Known(PageCount(pages));
        Pool {
            page_size,
            total: known(total),
            free: known(total),
            reserved: known(0),
            surplus: known(0),
            overcommit: known(overcommit),
            nodes: Vec::new(),
        }
    }

    #[test]
    fn pools_are_listed_by_size_and_empty_ones_only_where_they_can_grow() {
        let said = |all: Vec<Pool>| describe_pools(&Observed::Known(all));
        assert_eq!(said(vec![with(PageSize::MIB_2, 0, 0), with(PageSize::GIB_1, 0, 0)]), "none");
        assert_eq!(
            said(vec![with(PageSize::MIB_2, 512, 9), with(PageSize::GIB_1, 2, 0)]),
            "512 of 2 MiB, 512 available; 2 of 1 GiB, 2 available"
        );
        assert_eq!(
            said(vec![with(PageSize::MIB_2, 0, 600)]),
            "none of 2 MiB set aside, up to 600 on demand"
        );
    }
}
