//! Investigations made by hand for the tests of their reports.

use std::time::Duration;

use hugewise_investigate::series::Offset;
use hugewise_investigate::{
    Clock, Confidence, EvidenceBasis, Incident, IncidentHistory, IncidentVerdict,
    InvestigatedSource, Investigation, Mark, MarkKind, Metric, Moment, Series, Signature,
    SignatureEvidence, SignatureKind, SignatureStrength,
};

/// 2026-03-02 00:00:00 UTC.
pub(crate) const MIDNIGHT: i64 = 1_772_409_600;
const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

/// Numbers between 0 and 1 that look like noise and are the same each time.
fn pseudo_noise(seconds: i64, salt: i64) -> f64 {
    let mixed = seconds
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(salt.wrapping_mul(1_442_695_040_888_963_407));
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(-4_658_895_280_553_007_687);
    f64::from(u32::try_from((mixed >> 32) & 0xffff).unwrap()) / 65_536.0
}

/// How far into a working day a moment is: 0 in the night, 1 at noon.
fn workday_load(second: i64) -> f64 {
    let hour = f64::from(u32::try_from(second.rem_euclid(86_400)).unwrap()) / 3600.0;
    let day = (second.div_euclid(86_400) + 3).rem_euclid(7);
    let bell = (-((hour - 12.5) / 4.0).powi(2)).exp();
    if day > 4 { bell * 0.25 } else { bell }
}

/// What the host shows in row `row`, at a second of its day.
fn sample_values(row: i64, second: i64, storm: i64, in_storm: bool) -> [(Metric, f64); 25] {
    let (busy, wobble) = (workday_load(second), |salt| pseudo_noise(row, salt));
    let sessions = (80.0 + 320.0 * busy + 12.0 * wobble(1)).round();
    let system = if in_storm { 69.2 - 8.0 * wobble(2) } else { 1.5 + 2.5 * busy + wobble(2) };
    let user = if in_storm { 12.0 + 3.0 * wobble(3) } else { 4.0 + 38.0 * busy + 5.0 * wobble(3) };
    let iowait = 0.5 + 4.0 * busy * wobble(4);
    let free = match storm - second {
        _ if in_storm => 0.9,
        0..=3600 => 0.08 + 0.01 * wobble(5),
        _ => 0.5 + 0.8 * (1.0 - busy) + 0.15 * wobble(5),
    };
    let scans = if in_storm { 1.0 } else { 0.0 };
    [
        (Metric::CpuUser, user),
        (Metric::CpuNice, 0.0),
        (Metric::CpuSystem, system),
        (Metric::CpuIowait, iowait),
        (Metric::CpuSteal, 0.0),
        (Metric::CpuIdle, 100.0 - user - system - iowait),
        (Metric::MemTotal, 20.0 * GIB),
        (Metric::MemFree, free * GIB),
        (Metric::MemAvailable, (free + 2.0) * GIB),
        (Metric::PageTables, sessions * 12.5 * MIB),
        (Metric::HugeTotal, 0.0),
        (Metric::HugeFree, 0.0),
        (Metric::SwapUsed, if second > storm { 1.4 * GIB } else { 0.2 * GIB }),
        (Metric::SwapTotal, 8.0 * GIB),
        (Metric::SwapIn, scans * 900.0 * wobble(6) + if wobble(7) > 0.97 { 12.0 } else { 0.0 }),
        (Metric::SwapOut, scans * (2800.0 + 900.0 * wobble(8))),
        (Metric::ScanKswapd, scans * (41_000.0 + 9000.0 * wobble(9)) + 300.0 * busy * wobble(10)),
        (Metric::ScanDirect, scans * (88_000.0 + 30_000.0 * wobble(11))),
        (Metric::Forks, 2.0 + 9.0 * busy + 3.0 * wobble(12)),
        (Metric::TcpPassive, 0.5 + 3.0 * busy * wobble(13)),
        (Metric::Sessions, sessions),
        (Metric::Processes, sessions + 190.0),
        (Metric::RunQueue, if in_storm { 60.0 } else { (1.0 + 6.0 * busy * wobble(14)).round() }),
        (Metric::Load1, if in_storm { 70.0 } else { 1.0 + 6.0 * busy }),
        (Metric::Blocked, if in_storm { 22.0 } else { 0.0 }),
    ]
}

/// A database host of 20 GiB from a midnight on, with a reclaim storm after second `storm` for as
/// many as `lasts`.
pub(crate) fn storm_series(
    midnight: i64,
    (rows, step): (i64, i64),
    storm: i64,
    lasts: i64,
) -> Series {
    let mut series = Series::new("/var/log/sa/sa02", hugewise_investigate::SourceFormat::SYSSTAT);
    series.host = Some("db7".into());
    series.version = Some("12.5.4".into());
    series.architecture = Some("x86_64".into());
    for row in 1..=rows {
        let second = row * step;
        let in_storm = second > storm && second <= storm + lasts;
        let late = if in_storm { 170 } else { 0 };
        let interval = (row > 1).then(|| Duration::from_secs(u64::try_from(step).unwrap()));
        series.push(Moment::from_seconds(midnight + second + late.min(step / 2)), interval);
        for (metric, value) in sample_values(row, second, storm, in_storm) {
            series.set_value(metric, value);
        }
    }
    series
        .marks
        .push(Mark { at: Moment::from_seconds(midnight + 3 * 3600), kind: MarkKind::Restart });
    series.finish()
}

fn sample_evidence(at: i64, what: &str) -> SignatureEvidence {
    SignatureEvidence {
        source: "/var/log/sa/sa02".into(),
        at: Moment::from_seconds(at),
        what: what.into(),
        basis: EvidenceBasis::Figures,
    }
}

fn sample_signature(
    kind: SignatureKind,
    from: i64,
    to: i64,
    evidence: Vec<SignatureEvidence>,
) -> Signature {
    Signature {
        kind,
        from: Moment::from_seconds(from),
        to: Moment::from_seconds(to),
        strength: SignatureStrength::Strong,
        evidence,
        caveats: vec!["an interval of 10 minutes hides what is shorter than a minute".into()],
    }
}

/// The incident of [`series`], where its moments begin at `midnight`.
pub(crate) fn storm_incident(midnight: i64) -> Incident {
    let (from, late) = (midnight + 30_000, midnight + 30_770);
    let to = late;
    Incident {
        from: Moment::from_seconds(from),
        to: Moment::from_seconds(to),
        verdict: IncidentVerdict::ReclaimByPageTables,
        summary: "reclaim storm driven by page tables: 24 % of memory was page tables; huge pages \
             were not configured"
            .into(),
        confidence: Confidence::Medium,
        raised_by: vec!["logs of /proc/vmstat, which count direct reclaim stalls".into()],
        against: vec!["no process list of that time: what ran is not known".into()],
        next: vec!["hugewise size --engine oracle --memory 8000M --sessions 500".into()],
        who: Vec::new(),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures: vec![
            sample_signature(
                SignatureKind::KernelCpu,
                from,
                to,
                vec![sample_evidence(late, "%system 69.2; median of the file 2.1")],
            ),
            sample_signature(
                SignatureKind::FreeMemory,
                from,
                to,
                vec![
                    sample_evidence(
                        midnight + 30_000,
                        "free memory 86.0 MiB, the lowest \
                         twentieth of the file",
                    ),
                    sample_evidence(
                        late,
                        "free memory 922 MiB: up 836 MiB in one interval while \
                         user time fell",
                    ),
                ],
            ),
            sample_signature(
                SignatureKind::PageTables,
                from - 600,
                to,
                vec![sample_evidence(late, "page tables 4.8 GiB of 20 GiB")],
            ),
            sample_signature(
                SignatureKind::Starved,
                from,
                to,
                vec![sample_evidence(late, "written 170 s late; the next one on time")],
            ),
        ],
    }
}

/// Its file, as it was read.
fn sample_source(series: &Series) -> InvestigatedSource {
    InvestigatedSource {
        path: series.source.clone(),
        format: Some(series.format),
        version: series.version.clone(),
        host: series.host.clone(),
        clock: series.clock.clone(),
        from: series.samples().first().map(|sample| sample.at),
        to: series.samples().last().map(|sample| sample.at),
        samples: series.samples().len(),
        ..InvestigatedSource::default()
    }
}

/// A day of ten-minute samples with a storm in it, five hours west of Greenwich; a second source
/// that was refused.
pub(crate) fn storm_investigation() -> Investigation {
    let midnight = MIDNIGHT + 5 * 3600;
    let mut series = storm_series(midnight, (143, 600), 30_000, 600);
    series.clock = Clock::Utc { offsets: vec![Offset { from: Moment(0), seconds: -5 * 3600 }] };
    let refused = InvestigatedSource {
        path: "/var/log/sa/sa01".into(),
        problems: vec!["written by a big-endian host: not read".into()],
        ..InvestigatedSource::default()
    };
    let sources = vec![sample_source(&series), refused];
    let history = IncidentHistory {
        host: Some("db7".into()),
        clock: series.clock.clone(),
        ahead: None,
        facts: None,
        series: vec![series],
        incidents: vec![storm_incident(midnight)],
        signatures: vec![sample_signature(
            SignatureKind::Logins,
            midnight + 28_800,
            midnight + 29_400,
            vec![sample_evidence(
                midnight + 29_400,
                "14.2 processes a second; median of the file 6.0",
            )],
        )],
        unknown: vec!["compaction: sysstat does not record compact_stall".into()],
        looked: vec![
            "kernel time, free memory, reclaim, page tables, swap: 143 samples of 10 minutes"
                .into(),
        ],
    };
    Investigation { sources, hosts: vec![history], ..Investigation::default() }
}

/// A quiet day by the host's wall clock.
pub(crate) fn quiet_investigation() -> Investigation {
    let mut series = storm_series(MIDNIGHT, (143, 600), 1_000_000, 0);
    series.host = Some("web3".into());
    let sources = vec![sample_source(&series)];
    let looked = vec![
        "kernel time, free memory, reclaim, page tables, swap: 143 samples of 10 minutes".into(),
    ];
    let history = IncidentHistory {
        host: Some("web3".into()),
        series: vec![series],
        looked,
        ..IncidentHistory::default()
    };
    Investigation {
        sources,
        hosts: vec![history],
        passed_over: vec!["3 files in no known format".into()],
        unknown: vec!["sessions: no source counts them".into()],
    }
}

/// What a terminal and a browser would act on, wherever others choose the words.
pub(crate) const HOSTILE: &str =
    "\u{1b}[2J</script></style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&\u{202e}";

/// A storm on a host that wants to be more than read.
pub(crate) fn hostile_investigation() -> Investigation {
    let mut found = storm_investigation();
    let bad = || HOSTILE.to_owned();
    for source in &mut found.sources {
        (source.path, source.host, source.version) = (bad(), Some(bad()), Some(bad()));
        source.problems.push(bad());
    }
    for history in &mut found.hosts {
        history.host = Some(bad());
        for series in &mut history.series {
            (series.source, series.host) = (bad(), Some(bad()));
            series.marks.push(Mark {
                at: Moment::from_seconds(MIDNIGHT + 40_000),
                kind: MarkKind::Comment(bad()),
            });
        }
        for incident in &mut history.incidents {
            incident.summary = bad();
            (incident.raised_by, incident.against, incident.next) =
                (vec![bad()], vec![bad()], vec![bad()]);
            (incident.who, incident.elsewhere, incident.other_days) =
                (vec![bad()], vec![bad()], vec![bad()]);
            for signature in &mut incident.signatures {
                signature.caveats = vec![bad()];
                for evidence in &mut signature.evidence {
                    (evidence.source, evidence.what) = (bad(), bad());
                }
            }
        }
        (history.unknown, history.looked) = (vec![bad()], vec![bad()]);
    }
    (found.unknown, found.passed_over) = (vec![bad()], vec![bad()]);
    found
}
