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
/// Time of one login without touching: fork, attach, answer.
const LOGIN: Duration = Duration::from_millis(1);
/// Time to touch one page that is in memory but not in the session's tables. The kernel maps several base pages at
/// one fault where they are read.
const FAULT: Duration = Duration::from_nanos(300);
/// Time to fill one gibibyte with zeros, on one processor.
const FILL: Duration = Duration::from_millis(400);

/// The server as a variant has it. On pages of a pool the policy stays `True` or `Only` where the server has one of
/// these, with the pool as it is; otherwise it is `Auto`: the pool is grown before and put back after, and less than all
/// on huge pages would measure something else.
pub(super) fn settings(server: &Settings, variant: Variant) -> Settings {
    let server = Settings { transparent: variant.is_transparent(), ..server.clone() };
    match (variant.pool(), server.policy) {
        (None, _) => Settings { policy: Policy::False, ..server },
        (Some(page), Policy::True) => Settings { page, ..server },
        (Some(page), _) => Settings { policy: Policy::Only, page, ..server },
    }
}

/// What a server with its sessions takes.
pub(super) fn needs(server: &Settings, variant: Variant, sessions: u32) -> Needs {
    let sessions_all = u64::from(sessions);
    let size = server.size;
    let (segment, huge, tables) = match (variant.pool(), server.policy) {
        (None, _) => (size, Bytes::ZERO, tables(server, variant)),
        // The pool stays as it is; what it lacks is on base pages, and nobody knows before how much that is.
        (Some(_), Policy::True) => (size, Bytes::ZERO, tables(server, Variant::Base)),
        (Some(_), Policy::Only) => (Bytes::ZERO, Bytes::ZERO, tables(server, variant)),
        (Some(page), Policy::False | Policy::Auto) => {
            (Bytes::ZERO, page.pages_for(size).of(page), tables(server, variant))
        }
    };
    Needs {
        memory: segment + tables.times(sessions_all) + SESSION.times(sessions_all + 1),
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

/// Time of one login on a processor for itself, estimated.
pub(super) fn login_time(server: &Settings, variant: Variant) -> Duration {
    let page = variant.pool().unwrap_or_else(base_page);
    let pages = page.pages_for(server.size).get() * u64::from(server.touched()) / 100;
    LOGIN + FAULT * u32::try_from(pages).unwrap_or(u32::MAX)
}

/// How many there are.
pub(super) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needs_of_the_story_by_hand() {
        let story = Settings::new(Bytes::from_gib(5));
        let base = needs(&story, Variant::Base, 625);
        // 5 GiB, and for each session 10 MiB of tables: 6.1 GiB; the rest is what the processes themselves take.
        assert!(
            base.memory > Bytes::from_mib(5120 + 6250) && base.memory < Bytes::from_mib(5120 + 6250 + 400),
            "{base:?}"
        );
        assert_eq!((base.huge, base.processes), (Bytes::ZERO, 626));
        let huge = needs(&story, Variant::MIB_2, 625);
        assert!(huge.memory < Bytes::from_mib(400) && huge.huge == Bytes::from_gib(5), "{huge:?}");
        // 5.5 GiB in pages of 1 GiB.
        let uneven = Settings::new(Bytes::from_mib(5632));
        assert_eq!(needs(&uneven, Variant::GIB_1, 1).huge, Bytes::from_gib(6));
    }

    #[test]
    fn a_policy_of_ones_own_leaves_the_pool_as_it_is() {
        let server = |policy| Settings { policy, ..Settings::new(Bytes::from_gib(1)) };
        for (policy, becomes, grown) in [
            (Policy::False, Policy::Only, Bytes::from_gib(1)),
            (Policy::Auto, Policy::Only, Bytes::from_gib(1)),
            (Policy::Only, Policy::Only, Bytes::ZERO),
            (Policy::True, Policy::True, Bytes::ZERO),
        ] {
            assert_eq!(settings(&server(policy), Variant::MIB_2).policy, becomes);
            assert_eq!(needs(&server(policy), Variant::MIB_2, 1).huge, grown, "{policy:?}");
            assert_eq!(settings(&server(policy), Variant::Thp).policy, Policy::False);
        }
        // What is not on huge pages then is on base pages.
        assert!(needs(&server(Policy::True), Variant::MIB_2, 1).memory > Bytes::from_gib(1));
    }
}
