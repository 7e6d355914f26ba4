//! The flight recorder's last minute: what happens between two scrapes.

use hugewise_record::Latest;

use super::families::Families;

pub(super) fn write(out: &mut Families, latest: &Latest) {
    out.add_gauge(
        "hugewise_recorder_up",
        "1 while the flight recorder's samples come, 0 once it has stopped.",
        Some(latest.is_alive),
    );
    out.add_gauge(
        "hugewise_recorder_sample_timestamp_seconds",
        "When the recorder took its last sample.",
        latest.newest.map(millis_to_seconds),
    );
    out.add_gauge(
        "hugewise_recorder_samples",
        "Samples of the recorder's last minute.",
        Some(latest.samples),
    );
    out.add_gauge(
        "hugewise_recorder_gap_seconds",
        "The longest time between two samples of the recorder's last minute.",
        latest.gap.and_then(|gap| i64::try_from(gap).ok()).map(millis_to_seconds),
    );
    out.add_gauge(
        "hugewise_recorder_kernel_cpu_peak_ratio",
        "The most time that the processors spent in the kernel in a second of the last minute; 1 \
             is all of it.",
        latest.kernel,
    );
    out.add_gauge(
        "hugewise_recorder_memory_stall_peak_ratio",
        "The most time that all tasks waited for memory in a second of the last minute; 1 is all \
             of it.",
        latest.memory_stall,
    );
    out.add_gauge(
        "hugewise_recorder_direct_scan_peak_pages",
        "The most base pages that processes scanned in a second of the last minute to reclaim \
             memory.",
        latest.direct_scan,
    );
    let bytes = |kib: Option<u64>| kib.map(|kib| kib.saturating_mul(1024));
    out.add_gauge(
        "hugewise_recorder_memory_free_least_bytes",
        "The least free memory of the last minute.",
        bytes(latest.free),
    );
    out.add_gauge(
        "hugewise_recorder_page_tables_peak_bytes",
        "The largest page tables of the last minute.",
        bytes(latest.page_tables),
    );
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^52")]
fn millis_to_seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}
