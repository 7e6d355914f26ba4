//! Counters count base pages: what they say in bytes is of the host's page, not of this machine's.

use std::time::Duration;

use hugewise_investigate::{
    HostSetupFacts, IncidentHistory, Metric, Moment, Series, Signature, SignatureKind,
    SignatureStrength, signatures,
};
use hugewise_model::{Bytes, PageSize};

/// 40 minutes of a host of 64 GiB, in five of which each of these counters ran at that rate.
fn storm(counters: &[Metric], rate: f64) -> Series {
    let mut series = Series::new("sa21", hugewise_investigate::SourceFormat::SYSSTAT);
    for row in 0..40_u32 {
        let stormy = (20..25).contains(&row);
        series.push(
            Moment::from_seconds(1_795_219_200 + i64::from(row) * 60),
            Some(Duration::from_secs(60)),
        );
        series.set_value(Metric::MemTotal, Bytes::from_gib(64).as_f64());
        counters
            .iter()
            .for_each(|counter| series.set_value(*counter, if stormy { rate } else { 0.0 }));
    }
    series
}

fn found(series: Series, facts: Option<HostSetupFacts>, kind: SignatureKind) -> Option<Signature> {
    let history = IncidentHistory { series: vec![series], facts, ..IncidentHistory::default() };
    signatures::find_signatures(&history).into_iter().find(|signature| signature.kind == kind)
}

fn of(mut series: Series, architecture: Option<&str>, kernel: Option<&str>) -> Series {
    series.architecture = architecture.map(str::to_owned);
    series.kernel = kernel.map(str::to_owned);
    series
}

const RHEL_64K: Option<&str> = Some("5.14.0-427.13.1.el9_4.aarch64+64k");

#[test]
fn swap_is_judged_by_the_bytes_that_moved() {
    // 1000 pages a second each way: 3.9 MiB with 4 KiB pages, 62.5 with 64 KiB pages.
    let swap = || storm(&[Metric::SwapOut, Metric::SwapIn], 1000.0);
    let small = found(of(swap(), Some("x86_64"), None), None, SignatureKind::Swap).unwrap();
    assert_eq!(
        (small.strength, &*small.evidence[0].what),
        (SignatureStrength::Clear, "swap: 3.9 MiB/s out, 3.9 MiB/s back")
    );
    let large = found(of(swap(), Some("aarch64"), RHEL_64K), None, SignatureKind::Swap).unwrap();
    assert_eq!(
        (large.strength, &*large.evidence[0].what),
        (SignatureStrength::Strong, "swap: 62.5 MiB/s out, 62.5 MiB/s back")
    );
    assert_eq!(small.caveats, large.caveats);

    let unknown = found(of(swap(), Some("ppc64le"), None), None, SignatureKind::Swap).unwrap();
    assert_eq!(
        (unknown.strength, &*unknown.evidence[0].what),
        (SignatureStrength::Clear, "swap: 1000 pages/s out, 1000 pages/s back")
    );
    assert!(
        unknown.caveats.iter().any(|caveat| caveat.contains("no source says how large")),
        "{:?}",
        unknown.caveats
    );
    // A capture of the host knows.
    let captured =
        HostSetupFacts { base_page: PageSize::from_kib(64), ..HostSetupFacts::default() };
    let told =
        found(of(swap(), Some("ppc64le"), None), Some(captured), SignatureKind::Swap).unwrap();
    assert_eq!((told.strength, told.evidence), (large.strength, large.evidence));
}

#[test]
fn scans_are_judged_by_the_part_of_memory_that_they_went_through() {
    // 64 GiB are 16,777,216 pages of 4 KiB or 1,048,576 of 64 KiB; once through in an hour are 4660
    // or 291 a second.
    let scans = |rate| storm(&[Metric::ScanDirect], rate);
    assert_eq!(found(of(scans(1000.0), Some("x86_64"), None), None, SignatureKind::Reclaim), None);
    let large = found(of(scans(1000.0), None, RHEL_64K), None, SignatureKind::Reclaim).unwrap();
    assert_eq!(large.strength, SignatureStrength::Clear);
    assert!(
        large.evidence[0].what.ends_with("1000 pages a second (62.5 MiB/s)"),
        "{:?}",
        large.evidence
    );
    assert_eq!(found(of(scans(280.0), None, RHEL_64K), None, SignatureKind::Reclaim), None);
    // Where nobody knows, the least is taken, so that nothing is made of what may be little; and it
    // is said.
    assert_eq!(found(of(scans(1000.0), Some("aarch64"), None), None, SignatureKind::Reclaim), None);
    let unknown =
        found(of(scans(5000.0), Some("aarch64"), None), None, SignatureKind::Reclaim).unwrap();
    assert!(unknown.evidence[0].what.ends_with("5000 pages a second"), "{:?}", unknown.evidence);
    assert!(
        unknown.caveats.iter().any(|caveat| caveat.contains("no source says how large")),
        "{:?}",
        unknown.caveats
    );
}

#[test]
fn vmstat_prints_bytes_and_needs_no_page() {
    let text = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- \
         -----timestamp-----\n \
        r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa \
         st                 UTC\n";
    let line = |minute: u32, swap: u32| {
        format!(
            " 1  0  0 1000000  1000 100000 {swap} {swap} 1 1 1 1  1  1 98  0  0 2026-11-22 \
                 01:{minute:02}:00\n"
        )
    };
    let lines: String = (0..40)
        .map(|minute| line(minute, if (20..25).contains(&minute) { 64_000 } else { 0 }))
        .collect();
    let mut series =
        hugewise_investigate::readers::read(format!("{text}{lines}").as_bytes(), "vmstat.log")
            .unwrap()
            .remove(0);
    series.architecture = Some("aarch64".into());
    series.kernel = RHEL_64K.map(str::to_owned);
    let found = found(series, None, SignatureKind::Swap).unwrap();
    assert_eq!(found.evidence[0].what, "swap: 62.5 MiB/s out, 62.5 MiB/s back");
}
