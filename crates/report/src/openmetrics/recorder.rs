//! Metrics of the flight recorder's last minute: what happens between two scrapes.

use hugewise_record::Latest;

use super::families::{Families, Kind, Labels};

pub(super) fn write(out: &mut Families, latest: &Latest) {
    let none = Labels::none();
    out.family(
        "hugewise_recorder_up",
        Kind::Gauge,
        "1 while the flight recorder's samples come, 0 once it has stopped.",
    );
    out.sample(&none, latest.is_alive);
    out.family("hugewise_recorder_sample_timestamp_seconds", Kind::Gauge, "When the recorder took its last sample.");
    out.known(&none, latest.newest.map(seconds));
    out.family("hugewise_recorder_samples", Kind::Gauge, "Samples of the recorder's last minute.");
    out.sample(&none, latest.samples);
    out.family(
        "hugewise_recorder_gap_seconds",
        Kind::Gauge,
        "The longest time between two samples of the recorder's last minute.",
    );
    out.known(&none, latest.gap.and_then(|gap| i64::try_from(gap).ok()).map(seconds));
    let peaks = [
        (
            "hugewise_recorder_kernel_cpu_peak_ratio",
            "The most time that the processors spent in the kernel in a second of the last minute; 1 is all of it.",
            latest.kernel,
        ),
        (
            "hugewise_recorder_memory_stall_peak_ratio",
            "The most time that all tasks waited for memory in a second of the last minute; 1 is all of it.",
            latest.memory_stall,
        ),
        (
            "hugewise_recorder_direct_scan_peak_pages",
            "The most base pages that processes scanned in a second of the last minute to reclaim memory.",
            latest.direct_scan,
        ),
    ];
    for (name, help, value) in peaks {
        out.family(name, Kind::Gauge, help);
        out.known(&none, value);
    }
    for (name, help, kib) in [
        ("hugewise_recorder_memory_free_least_bytes", "The least free memory of the last minute.", latest.free),
        ("hugewise_recorder_page_tables_peak_bytes", "The largest page tables of the last minute.", latest.page_tables),
    ] {
        out.family(name, Kind::Gauge, help);
        out.known(&none, kib.map(|kib| kib.saturating_mul(1024)));
    }
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^52")]
fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}
