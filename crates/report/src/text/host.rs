//! The host in three lines.

use std::io;

use hugewise_model::{Bytes, Host, Observed, PageCount, Pool};

use super::shown;
use crate::palette::Role;
use crate::screen::{Screen, Spans};

pub(super) fn write(screen: &mut Screen<'_>, host: &Host) -> io::Result<()> {
    for fields in [machine(host), memory(host), pages(host)] {
        screen.fields(2, &fields)?;
    }
    Ok(())
}

fn machine(host: &Host) -> Vec<Spans> {
    let mut fields = vec![Spans::new().add(Role::Strong, host.name.known().map_or("this host", String::as_str))];
    if let Some(os) = host.os.known() {
        fields.push(Spans::from(os.as_str()));
    }
    let kernel = shown(&host.kernel.as_ref().map(|kernel| kernel.text.as_str()));
    let mut kind = vec![format!("Linux {kernel}")];
    if let Some(architecture) = host.architecture.known().filter(|name| !kernel.contains(name.as_str())) {
        kind.push(architecture.clone());
    }
    if let Some(processors) = host.processors.online.get() {
        kind.push(format!("{processors} {}", if processors == 1 { "core" } else { "cores" }));
    }
    if let Some(nodes) = host.nodes.known().filter(|nodes| nodes.len() > 1) {
        kind.push(format!("{} nodes", nodes.len()));
    }
    fields.push(Spans::from(kind.join(", ").as_str()));
    fields
}

fn memory(host: &Host) -> Vec<Spans> {
    let memory = &host.memory;
    let left = match (memory.available.get(), memory.free.get()) {
        (Some(available), _) => format!(", {available} available"),
        (None, Some(free)) => format!(", {free} free"),
        (None, None) => String::new(),
    };
    let swap = match (memory.swap_total.get(), memory.swap_used()) {
        (Some(Bytes::ZERO), _) => "none".into(),
        (Some(total), Some(used)) => format!("{used} of {total}"),
        _ => shown(&memory.swap_total),
    };
    vec![
        field("memory", &format!("{}{left}", shown(&memory.total))),
        field("swap", &swap),
        field("base page", &shown(&host.base_page)),
    ]
}

fn pages(host: &Host) -> Vec<Spans> {
    let memory = &host.memory;
    let part = memory.page_tables.get().zip(memory.total.get()).and_then(|(tables, total)| tables.part_of(total));
    let part = part.map(|part| format!(", {:.1} %", part * 100.0)).unwrap_or_default();
    vec![
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
    let used: Vec<String> =
        known.iter().filter(|pool| pool.total != Observed::Known(PageCount::ZERO)).map(pool).collect();
    if used.is_empty() { "none".into() } else { used.join("; ") }
}

fn pool(pool: &Pool) -> String {
    let (size, total) = (pool.page_size, shown(&pool.total));
    match pool.available() {
        Some(available) => format!("{total} of {size}, {available} available"),
        None => format!("{total} of {size}"),
    }
}
