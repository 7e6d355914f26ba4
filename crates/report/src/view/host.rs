//! The host in three lines, or in two for those who know it.

use hugewise_model::obtainable::ObtainableBy;
use hugewise_model::{Bytes, Host, Observed, PageCount, PageSize, Pool};

use super::shown;
use crate::palette::Role;
use crate::screen::Spans;

/// The machine, its memory, its pages: the fields of each line.
pub(crate) fn lines(host: &Host) -> [Vec<Spans>; 3] {
    [machine(host), memory(host), pages(host).into()]
}

/// What changes from hour to hour, for those who know the machine: its name, its memory, its pages.
pub(crate) fn brief(host: &Host) -> [Vec<Spans>; 2] {
    let mut machine = vec![Spans::new().add(Role::Strong, name(host))];
    // The name of a release in parentheses tells nothing that its number does not.
    let os = host.os.known().map(|os| os.split(" (").next().unwrap_or_default());
    machine.extend(os.map(Spans::from));
    let mut size = processors(host);
    size.push(format!("{} of memory{}", shown(&host.memory.total), left(host)));
    machine.push(Spans::from(size.join(", ").as_str()));

    let [tables, pools, thp] = pages(host);
    let mut pages = vec![tables, thp];
    if host.base_page.get() != Some(PageSize::KIB_4) {
        pages.push(field("base page", &shown(&host.base_page)));
    }
    let used = host.memory.swap_used().filter(|used| *used > Bytes::ZERO);
    pages.extend(used.map(|used| field("swap", &format!("{used} used"))));
    pages.push(pools);
    [machine, pages]
}

fn name(host: &Host) -> &str {
    host.name.known().map_or("this host", String::as_str)
}

/// `4 cores`, `2 nodes`.
fn processors(host: &Host) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(processors) = host.processors.online.get() {
        all.push(format!("{processors} {}", if processors == 1 { "core" } else { "cores" }));
    }
    if let Some(nodes) = host.nodes.known().filter(|nodes| nodes.len() > 1) {
        all.push(format!("{} nodes", nodes.len()));
    }
    all
}

/// `, 3.0 GiB available`; `about` where it is an estimate, as old kernels do not say it.
fn left(host: &Host) -> String {
    let Some(memory) = host.obtainable_memory() else { return String::new() };
    match memory.by {
        ObtainableBy::Kernel => format!(", {} available", memory.bytes),
        ObtainableBy::Estimate => format!(", about {} available", memory.bytes),
        ObtainableBy::Free => format!(", {} free", memory.bytes),
    }
}

fn machine(host: &Host) -> Vec<Spans> {
    let mut fields = vec![Spans::new().add(Role::Strong, name(host))];
    if let Some(os) = host.os.known() {
        fields.push(Spans::from(os.as_str()));
    }
    let kernel = shown(&host.kernel.as_ref().map(|kernel| kernel.text.as_str()));
    let mut kind = vec![format!("Linux {kernel}")];
    if let Some(architecture) = host.architecture.known().filter(|name| !kernel.contains(name.as_str())) {
        kind.push(architecture.clone());
    }
    kind.extend(processors(host));
    fields.push(Spans::from(kind.join(", ").as_str()));
    fields
}

fn memory(host: &Host) -> Vec<Spans> {
    let memory = &host.memory;
    let swap = match (memory.swap_total.get(), memory.swap_used()) {
        (Some(Bytes::ZERO), _) => "none".into(),
        (Some(total), Some(used)) => format!("{used} of {total}"),
        _ => shown(&memory.swap_total),
    };
    vec![
        field("memory", &format!("{}{}", shown(&memory.total), left(host))),
        field("swap", &swap),
        field("base page", &shown(&host.base_page)),
    ]
}

fn pages(host: &Host) -> [Spans; 3] {
    let memory = &host.memory;
    let part = memory.page_tables.get().zip(memory.total.get()).and_then(|(tables, total)| tables.part_of(total));
    let part = part.map(|part| part * 100.0).filter(|percent| *percent >= 0.05);
    let part = part.map(|percent| format!(", {percent:.1} %")).unwrap_or_default();
    [
        field("page tables", &format!("{}{part}", shown(&memory.page_tables))),
        field("huge pages", &pools(&host.pools)),
        field("THP", &shown(&host.thp.enabled)),
    ]
}

fn field(label: &str, value: &str) -> Spans {
    Spans::new().add(Role::Quiet, label).add(Role::Text, &format!(" {value}"))
}

fn pools(pools: &Observed<Vec<Pool>>) -> String {
    let Some(known) = pools.known() else {
        return shown(&pools.as_ref().map(|_| ""));
    };
    let counts = |it: &&Pool| it.total != Observed::Known(PageCount::ZERO) || on_demand(it).is_some();
    let used: Vec<String> = known.iter().filter(counts).map(pool).collect();
    if used.is_empty() { "none".into() } else { used.join("; ") }
}

/// Pages that the kernel may add when a server asks for more than the pool has.
fn on_demand(pool: &Pool) -> Option<PageCount> {
    pool.overcommit.get().filter(|pages| *pages > PageCount::ZERO)
}

fn pool(pool: &Pool) -> String {
    let (size, total) = (pool.page_size, shown(&pool.total));
    if let (Some(PageCount::ZERO), Some(most)) = (pool.total.get(), on_demand(pool)) {
        return format!("none of {size} set aside, up to {most} on demand");
    }
    match pool.available() {
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
        let said = |all: Vec<Pool>| pools(&Observed::Known(all));
        assert_eq!(said(vec![with(PageSize::MIB_2, 0, 0), with(PageSize::GIB_1, 0, 0)]), "none");
        assert_eq!(
            said(vec![with(PageSize::MIB_2, 512, 9), with(PageSize::GIB_1, 2, 0)]),
            "512 of 2 MiB, 512 available; 2 of 1 GiB, 2 available"
        );
        assert_eq!(said(vec![with(PageSize::MIB_2, 0, 600)]), "none of 2 MiB set aside, up to 600 on demand");
    }
}
