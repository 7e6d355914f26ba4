//! What experiments with sessions share.

use std::time::Duration;

use hugewise_model::{Bytes, PageSize};

use crate::experiment::{Context, ExperimentFailure, Needs};
use crate::fake_server::{FakeServerSettings, LargePagePolicy};
use crate::results::MetricReading;
use crate::segment::SegmentSource;
use crate::thp_switches;
use crate::variant::{Variant, base_page};

/// Private and kernel memory of one session, with its page tables for everything but the segment:
/// 0.3 MiB measured on Linux 6.18, x86-64.
const SESSION: Bytes = Bytes::from_kib(512);
/// Fork, attach, answer, without touching.
const LOGIN: Duration = Duration::from_millis(1);
/// Time to touch a page that is in memory but not in the session's page tables; the kernel maps
/// several base pages at one read fault.
const FAULT: Duration = Duration::from_nanos(300);
const FILL: Duration = Duration::from_millis(400);

/// The server for a variant. On pages of a pool the policies `True` and `Only` stay, with the pool
/// as it is; otherwise the pool is grown before and all of the segment has to be on huge pages.
pub(super) fn settings_for_variant(
    server: &FakeServerSettings,
    variant: Variant,
) -> FakeServerSettings {
    let server = FakeServerSettings { transparent: variant.is_transparent(), ..server.clone() };
    match (variant.pool_page_size(), server.policy) {
        (None, _) => FakeServerSettings { policy: LargePagePolicy::False, ..server },
        (Some(page), LargePagePolicy::True) => FakeServerSettings { page, ..server },
        (Some(page), _) => FakeServerSettings { policy: LargePagePolicy::Only, page, ..server },
    }
}

pub(super) fn fake_server_needs(
    server: &FakeServerSettings,
    variant: Variant,
    sessions: u32,
) -> Needs {
    let sessions_all = u64::from(sessions);
    let size = server.size;
    let (segment, huge, tables) = match (variant.pool_page_size(), server.policy) {
        (None, _) => (size, Bytes::ZERO, page_tables_per_session(server, variant)),
        // The pool stays as it is; the rest is on base pages, and may be all.
        (Some(_), LargePagePolicy::True) => {
            (size, Bytes::ZERO, page_tables_per_session(server, Variant::Base))
        }
        (Some(_), LargePagePolicy::Only) => {
            (Bytes::ZERO, Bytes::ZERO, page_tables_per_session(server, variant))
        }
        (Some(page), LargePagePolicy::False | LargePagePolicy::Auto) => (
            Bytes::ZERO,
            page.pages_for(size).to_bytes(page),
            page_tables_per_session(server, variant),
        ),
    };
    Needs {
        memory: segment
            + tables.saturating_mul(sessions_all)
            + SESSION.saturating_mul(sessions_all + 1),
        huge,
        processes: sessions.saturating_add(1),
        obeys: match server.kind {
            SegmentSource::SystemV => thp_switches::ThpMemoryKind::SystemV,
            SegmentSource::AnonymousShared | SegmentSource::Memfd => {
                thp_switches::ThpMemoryKind::Shared
            }
            SegmentSource::Private => thp_switches::ThpMemoryKind::Private,
        },
        time: FILL.mul_f64(
            size.part_of(Bytes::from_gib(1)).unwrap_or(0.0) / f64::from(processor_count()),
        ) + LOGIN,
    }
}

/// Upper bound of one session's page tables: one base page of entries for each entry of the level
/// above. THP counts as base pages, as it may give those.
fn page_tables_per_session(server: &FakeServerSettings, variant: Variant) -> Bytes {
    let page = variant.pool_page_size().unwrap_or_else(base_page);
    let entries = base_page().bytes().get() / 8;
    let one_table = PageSize::new(page.bytes().get().saturating_mul(entries));
    let tables = one_table.map_or(1, |spans| spans.pages_for(server.size).get() + 1);
    // One level above, and some for the edges.
    base_page().bytes().saturating_mul(tables + tables / entries + 2)
}

pub(super) fn login_time(server: &FakeServerSettings, variant: Variant) -> Duration {
    let page = variant.pool_page_size().unwrap_or_else(base_page);
    let pages = page.pages_for(server.size).get() * u64::from(server.touched_percent()) / 100;
    LOGIN + FAULT * u32::try_from(pages).unwrap_or(u32::MAX)
}

/// The growth of the host's page tables, and those of each session; below zero where other
/// processes have given more back.
pub(super) fn page_table_readings(
    context: &Context<'_>,
    before: Bytes,
    pids: impl Iterator<Item = u32>,
    (sessions, segment): (u32, Bytes),
) -> Result<[MetricReading; 2], ExperimentFailure> {
    let all = context.gauge.page_tables()?.as_f64() - before.as_f64();
    let each: Vec<f64> = pids
        .map(|pid| context.gauge.process_page_tables(pid).map(Bytes::as_f64))
        .collect::<Result<_, _>>()?;
    let readings = [
        MetricReading::lower_is_better("page_tables", "B", all),
        MetricReading::lower_is_better("session_page_tables", "B", 0.0).with_values(each),
    ];
    Ok(readings.map(|reading| reading.with_sessions(sessions).with_segment(segment.get())))
}

pub(super) fn processor_count() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needs_of_the_story_by_hand() {
        let story = FakeServerSettings::new(Bytes::from_gib(5));
        let base = fake_server_needs(&story, Variant::Base, 625);
        // 5 GiB, and for each session 10 MiB of tables: 6.1 GiB; the rest is what the processes
        // themselves take.
        assert!(
            base.memory > Bytes::from_mib(5120 + 6250)
                && base.memory < Bytes::from_mib(5120 + 6250 + 400),
            "{base:?}"
        );
        assert_eq!((base.huge, base.processes), (Bytes::ZERO, 626));
        let huge = fake_server_needs(&story, Variant::MIB_2, 625);
        assert!(huge.memory < Bytes::from_mib(400) && huge.huge == Bytes::from_gib(5), "{huge:?}");
        // 5.5 GiB in pages of 1 GiB.
        let uneven = FakeServerSettings::new(Bytes::from_mib(5632));
        assert_eq!(fake_server_needs(&uneven, Variant::GIB_1, 1).huge, Bytes::from_gib(6));
    }

    #[test]
    fn a_policy_of_ones_own_leaves_the_pool_as_it_is() {
        let server =
            |policy| FakeServerSettings { policy, ..FakeServerSettings::new(Bytes::from_gib(1)) };
        for (policy, becomes, grown) in [
            (LargePagePolicy::False, LargePagePolicy::Only, Bytes::from_gib(1)),
            (LargePagePolicy::Auto, LargePagePolicy::Only, Bytes::from_gib(1)),
            (LargePagePolicy::Only, LargePagePolicy::Only, Bytes::ZERO),
            (LargePagePolicy::True, LargePagePolicy::True, Bytes::ZERO),
        ] {
            assert_eq!(settings_for_variant(&server(policy), Variant::MIB_2).policy, becomes);
            assert_eq!(
                fake_server_needs(&server(policy), Variant::MIB_2, 1).huge,
                grown,
                "{policy:?}"
            );
            assert_eq!(
                settings_for_variant(&server(policy), Variant::Thp).policy,
                LargePagePolicy::False
            );
        }
        // What is not on huge pages then is on base pages.
        assert!(
            fake_server_needs(&server(LargePagePolicy::True), Variant::MIB_2, 1).memory
                > Bytes::from_gib(1)
        );
    }
}
