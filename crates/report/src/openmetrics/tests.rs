use std::collections::BTreeSet;

use hugewise_model::{Bytes, Observed};
use proptest::prelude::*;

use super::instances::MOST_INSTANCES;
use super::*;
use crate::plain;
use crate::samples::{self, Sample};

fn text(sample: &Sample, format: ExpositionFormat) -> String {
    let collectors = [CollectorRun { name: "host", took: Duration::from_millis(12), errors: 3 }];
    let cpu = Some(CpuSeconds { kernel: 1.5, idle: 10.0, user: 2.0 });
    write(
        &Metered {
            checked: sample.checked(),
            collectors: &collectors,
            readings: 7,
            cpu,
            recorder: None,
            version: "0.1.0",
        },
        format,
    )
}

/// Samples of the text: name with labels, value.
fn samples_of(text: &str) -> Vec<(&str, f64)> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

#[track_caller]
fn assert_sample(text: &str, name: &str, value: f64) {
    let found: Vec<f64> = samples_of(text)
        .into_iter()
        .filter(|(text, _)| *text == name)
        .map(|(_, value)| value)
        .collect();
    assert_eq!(found, [value], "{name}");
}

#[test]
fn the_recorders_minute_is_told_where_there_is_one() {
    let latest = hugewise_record::Latest {
        is_alive: true,
        newest: Some(1_795_306_507_250),
        samples: 60,
        gap: Some(2000),
        kernel: Some(0.25),
        memory_stall: None,
        direct_scan: Some(5000.0),
        free: Some(5),
        page_tables: Some(u64::MAX),
    };
    let sample = samples::prod();
    let text_of = |recorder| {
        let metered = Metered {
            checked: sample.checked(),
            collectors: &[],
            readings: 1,
            cpu: None,
            recorder,
            version: "0.1.0",
        };
        write(&metered, ExpositionFormat::OpenMetrics)
    };
    assert!(!text_of(None).contains("recorder"));
    let text = text_of(Some(&latest));
    for (name, value) in [
        ("up", 1.0),
        ("sample_timestamp_seconds", 1_795_306_507.25),
        ("samples", 60.0),
        ("gap_seconds", 2.0),
        ("kernel_cpu_peak_ratio", 0.25),
        ("direct_scan_peak_pages", 5000.0),
        ("memory_free_least_bytes", 5120.0),
    ] {
        assert_sample(&text, &format!("hugewise_recorder_{name}"), value);
    }
    // The kernel does not tell it.
    assert!(!text.contains("memory_stall"));
}

#[test]
fn the_figures_are_the_hosts() {
    let text = text(&samples::prod(), ExpositionFormat::Prometheus);
    assert_sample(&text, "hugewise_build_info{version=\"0.1.0\"}", 1.0);
    assert_sample(&text, "hugewise_memory_bytes", 137_438_953_472.0);
    // 3200 pages, 12 free of which 3 are reserved: 3191 spoken for, 9 to be had.
    assert_sample(&text, "hugewise_pool_committed_pages{page_bytes=\"2097152\"}", 3191.0);
    assert_sample(&text, "hugewise_pool_available_pages{page_bytes=\"2097152\"}", 9.0);
    let text_of = |metric: &str, more: &str| {
        format!("{metric}{{engine=\"oracle\",instance_name=\"PROD\"{more}}}")
    };
    let pages = ",page_bytes=\"2097152\"";
    assert_sample(&text, &text_of("hugewise_instance_demand_pages", pages), 17_411.0);
    assert_sample(&text, &text_of("hugewise_instance_mapped_pages", pages), 0.0);
    assert_sample(&text, &text_of("hugewise_instance_shortfall_pages", pages), 17_402.0);
    assert_sample(&text, "hugewise_pool_shortfall_pages{page_bytes=\"2097152\"}", 17_402.0);
    assert_sample(&text, &text_of("hugewise_instance_huge_page_state", ",state=\"none\""), 1.0);
    assert_sample(&text, &text_of("hugewise_instance_huge_page_state", ",state=\"all\""), 0.0);
    assert_sample(&text, &text_of("hugewise_instance_broken_link", ",link=\"room\""), 1.0);
    assert_sample(&text, "hugewise_collector_errors{collector=\"host\"}", 3.0);
    assert_sample(&text, "hugewise_collector_duration_seconds{collector=\"host\"}", 0.012);
    assert_sample(&text, "hugewise_cpu_seconds_total{mode=\"kernel\"}", 1.5);
    let findings =
        samples_of(&text).into_iter().filter(|(name, _)| name.starts_with("hugewise_findings{"));
    assert_eq!(findings.map(|(_, count)| count).sum::<f64>(), 3.0);
}

/// Older kernels do not say it themselves.
#[test]
fn the_pools_memory_is_added_up_where_the_kernel_does_not() {
    let mut sample = samples::prod();
    sample.host.memory.hugetlb = Observed::Absent;
    // 3200 pages of 2 MiB.
    assert_sample(
        &text(&sample, ExpositionFormat::Prometheus),
        "hugewise_pools_bytes",
        6_710_886_400.0,
    );
    sample.host.memory.hugetlb = Observed::Known(Bytes::from_mib(3));
    assert_sample(
        &text(&sample, ExpositionFormat::Prometheus),
        "hugewise_pools_bytes",
        3_145_728.0,
    );
    sample.host.memory.hugetlb = Observed::Absent;
    sample.host.pools = Observed::Absent;
    assert!(!text(&sample, ExpositionFormat::Prometheus).contains("hugewise_pools_bytes"));
}

#[test]
fn forecasts_are_those_that_check_prints() {
    let sample = samples::prod();
    let (text, check) = (text(&sample, ExpositionFormat::Prometheus), sample.json());
    let mut compared = 0;
    for instance in check["instances"].as_array().unwrap() {
        for forecast in instance["page_tables_at_max"].as_array().into_iter().flatten() {
            let name = format!(
                "hugewise_instance_page_tables_at_max_bytes{{engine={},instance_name={},page_bytes=\"{}\"}}",
                instance["engine"], instance["name"], forecast["page_bytes"]
            );
            assert_sample(&text, &name, forecast["expected_bytes"].as_f64().unwrap());
            compared += 1;
        }
    }
    assert!(compared >= 2, "{check:#}");
}

#[test]
fn hidden_servers_are_told() {
    let mut sample = samples::prod();
    assert_sample(
        &text(&sample, ExpositionFormat::Prometheus),
        "hugewise_servers_may_be_hidden",
        0.0,
    );
    sample.host.hidden = Some("hidepid=2".into());
    assert_sample(
        &text(&sample, ExpositionFormat::Prometheus),
        "hugewise_servers_may_be_hidden",
        1.0,
    );
}

#[test]
fn a_fact_that_is_not_known_has_no_sample() {
    let text = text(&samples::unprivileged(), ExpositionFormat::Prometheus);
    assert!(!text.contains("hugewise_instance_page_tables_bytes"), "{text}");
    assert!(!text.contains("hugewise_instance_huge_bytes"), "{text}");
    assert_sample(&text, "hugewise_unread_facts", 403.0);
}

#[test]
fn open_metrics_names_families_without_total_and_ends() {
    let text = text(&samples::prod(), ExpositionFormat::OpenMetrics);
    assert!(text.ends_with("# EOF\n"));
    assert!(
        text.contains("# TYPE hugewise_readings counter\nhugewise_readings_total 7\n"),
        "{text}"
    );
    assert!(text.contains("# TYPE hugewise_build info\nhugewise_build_info{"), "{text}");
    assert!(text.contains("# UNIT hugewise_page_tables_bytes bytes\n"));
    assert!(text.contains("# UNIT hugewise_cpu_seconds seconds\n"));
    assert!(!text.contains("\n\n"));
}

#[test]
fn no_family_and_no_series_is_there_twice() {
    for sample in [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()] {
        for format in [ExpositionFormat::Prometheus, ExpositionFormat::OpenMetrics] {
            let text = text(&sample, format);
            let mut seen = BTreeSet::new();
            for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
                assert!(seen.insert(line.to_owned()), "{line}");
            }
            for (name, _) in samples_of(&text) {
                assert!(seen.insert(name.to_owned()), "{name}");
            }
        }
    }
}

#[test]
fn a_host_of_thousands_of_servers_has_a_bounded_number_of_series() {
    let mut sample = samples::prod();
    let one = sample.instances[0].clone();
    sample.instances = (0..5000)
        .map(|number| {
            let mut instance = one.clone();
            // Cut, all of them would bear the same name.
            instance.name = format!("{}{number}", "x".repeat(4096));
            instance
        })
        .collect();
    let text = text(&sample, ExpositionFormat::Prometheus);
    let names: BTreeSet<&str> = samples_of(&text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), samples_of(&text).len());
    assert_eq!(
        names.iter().filter(|name| name.starts_with("hugewise_instance_info")).count(),
        MOST_INSTANCES
    );
    assert_sample(&text, "hugewise_instances", 5000.0);
    assert!(names.len() < 6000, "{}", names.len());
    assert!(text.len() < 2 << 20, "{}", text.len());
}

/// Two servers whose names differ in what no label can hold are two series.
#[test]
fn names_that_a_label_cannot_hold_stay_apart() {
    let mut sample = samples::prod();
    for (instance, name) in sample.instances.iter_mut().zip(["a\u{1}", "a\u{2}"]) {
        (instance.engine, instance.name) = (hugewise_model::Engine::PostgreSql, name.into());
    }
    let text = text(&sample, ExpositionFormat::OpenMetrics);
    let names: Vec<&str> = samples_of(&text).into_iter().map(|(name, _)| name).collect();
    let apart: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(apart.len(), names.len(), "{text}");
}

proptest! {
    /// A label's value can always be read back, and never ends its line.
    #[test]
    fn labels_hold_any_text(value in any::<String>()) {
        let mut out = Families::new(ExpositionFormat::Prometheus);
        out.begin_family("hugewise_x", MetricKind::Gauge, "X.");
        out.add_sample(&Labels::from_pairs([("a", &*value)]), 1_u64);
        let text = out.finish();
        prop_assert_eq!(text.matches('\n').count(), 3);
        let line = text.lines().last().unwrap();
        let inside = line.strip_prefix("hugewise_x{a=\"").unwrap().strip_suffix("\"} 1").unwrap();
        let mut read = String::new();
        let mut letters = inside.chars();
        while let Some(letter) = letters.next() {
            prop_assert!(letter != '"');
            read.push(if letter == '\\' {
                match letters.next() { Some('n') => '\n', Some(other) => other, None => return Err(TestCaseError::fail("torn")) }
            } else { letter });
        }
        let expected: String = value.chars().take(120).map(|letter| if letter != '\n' && !plain::is_clean(&letter.to_string()) { '\u{fffd}' } else { letter }).collect();
        prop_assert_eq!(read, expected);
    }
}
