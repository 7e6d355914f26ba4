//! What experiments with the stand-in server have in common.

use std::time::Duration;

use hugewise_model::{Bytes, PageSize};

use crate::experiment::Needs;
use crate::segment::Kind;
use crate::standin::{Policy, Settings};
use crate::thp;
use crate::variant::{Variant, base_page};

/// Private memory and kernel memory of one session, its tables for everything but the segment among them: 0.3 MiB
/// measured on Linux 6.18, x86-64.
const SESSION: Bytes = Bytes::from_kib(512);
/// Time of one log-in without touching: fork, attach, answer.
const LOGIN: Duration = Duration::from_millis(1);
/// Time to touch one page that is in memory but not in the session's tables. The kernel maps several base pages at
/// one fault where they are read.
const FAULT: Duration = Duration::from_nanos(300);
/// Time to fill one gibibyte with zeros, on one processor.
const FILL: Duration = Duration::from_millis(400);

/// The server as a variant has it.
pub(super) fn settings(server: &Settings, variant: Variant) -> Settings {
    let server = Settings { transparent: variant.is_transparent(), ..server.clone() };
    match variant.pool() {
        // The pool holds what is needed: less than all of it on huge pages would measure something else.
        Some(page) => Settings { policy: Policy::Only, page, ..server },
        None => Settings { policy: Policy::False, ..server },
    }
}

/// What a server with its sessions takes.
pub(super) fn needs(server: &Settings, variant: Variant, sessions: u32) -> Needs {
    let sessions_all = u64::from(sessions);
    let size = server.size;
    let (segment, huge) = match variant.pool() {
        Some(page) => (Bytes::ZERO, page.pages_for(size).of(page)),
        None => (size, Bytes::ZERO),
    };
    let tables = tables(server, variant).times(sessions_all);
    Needs {
        memory: segment + tables + SESSION.times(sessions_all + 1),
        huge,
        processes: sessions.saturating_add(1),
        obeys: match server.kind {
            Kind::SystemV => thp::Memory::SystemV,
            Kind::AnonymousShared | Kind::Memfd => thp::Memory::Shared,
            Kind::Private => thp::Memory::Private,
        },
        time: FILL.mul_f64(size.part_of(Bytes::from_gib(1)).unwrap_or(0.0) / f64::from(processors())) + LOGIN,
    }
}

/// Page tables of one session at most: one base page of entries for what one entry of the level above spans. THP may
/// give base pages, so it is counted as those.
fn tables(server: &Settings, variant: Variant) -> Bytes {
    let page = variant.pool().unwrap_or_else(base_page);
    let entries = base_page().bytes().get() / 8;
    let one_table = PageSize::new(page.bytes().get().saturating_mul(entries));
    let tables = one_table.map_or(1, |spans| spans.pages_for(server.size).get() + 1);
    // One level above, and some for the edges.
    base_page().bytes().times(tables + tables / entries + 2)
}

/// Time of one log-in on a processor for itself, estimated.
pub(super) fn login_time(server: &Settings, variant: Variant) -> Duration {
    let page = variant.pool().unwrap_or_else(base_page);
    let pages = page.pages_for(server.size).get() * u64::from(server.touched()) / 100;
    LOGIN + FAULT * u32::try_from(pages).unwrap_or(u32::MAX)
}

/// How many there are.
pub(super) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}
