//! Manifests of people who wish us ill: each gives an answer or an error with its line, soon and
//! within bounds.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// A hundred kinds of harm.
fn hostile_manifests() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let bomb = |levels: usize, width: usize| {
        let mut text = "a0: &a0 [x, x]\n".to_owned();
        for level in 1..levels {
            let items = vec![format!("*a{}", level - 1); width].join(", ");
            text += &format!("a{level}: &a{level} [{items}]\n");
        }
        text
    };
    all.extend([bomb(9, 10), bomb(30, 2), bomb(3, 3000)]);
    for (begin, count) in [("[", 100_000), ("{a: ", 100_000), ("- ", 100_000), ("? ", 100_000)] {
        all.push(begin.repeat(count));
    }
    for open in
        ["a: [", "a: {", "a: \"", "a: '", "a: |", "a: &", "a: *", "a: !", "a: %", "? ", "- - -"]
    {
        all.push(open.to_owned());
        all.push(format!("kind: Pod\nspec:\n  containers:\n  - {open}"));
    }
    let long = "x".repeat(1 << 20);
    all.push(format!("{long}: {long}"));
    all.push(format!("kind: Pod\nspec: {{containers: [{{image: '{long}'}}]}}"));
    all.push("---\n".repeat(200_000));
    all.push("{{ ".repeat(100_000));
    all.push("{{}}".repeat(100_000));
    all.push("{{}}\n".repeat(100_000));
    all.push("a: 1\n".repeat(1000));
    let container = |fields: &str| pod_of(&format!("image: postgres:16\n{fields}"));
    for amount in [
        "-1",
        "1e99",
        "99999999999999999999999999999999999999999Gi",
        "0",
        "NaN",
        "1Mi1",
        "''",
        "[]",
        "{}",
        "~",
        "0.0000000000000000000000001",
        "18446744073709551615",
        "0x10",
        "1_000",
        "*x",
        "!!int 3",
    ] {
        all.push(container(&format!("resources: {{limits: {{cpu: 1, hugepages-2Mi: {amount}}}}}")));
        all.push(container(&format!("resources: {{limits: {{memory: {amount}, cpu: {amount}}}}}")));
    }
    for args in [
        "[-c]",
        "[-c, '=']",
        "[-c, shared_buffers=-1]",
        "[-c, shared_buffers=99999999TB]",
        "[-D, relative]",
        "[-c, config_file=../../etc/passwd]",
        "[\"\\0\\0\"]",
        "['-c', 'include=x']",
        "{a: b}",
        "postgres",
        "[[[]]]",
        "[~]",
        "[-c, huge_page_size=3kB]",
        "[-c, max_connections=999999999]",
    ] {
        all.push(container(&format!("args: {args}")));
    }
    let doubling: String =
        (1..40).map(|at| format!("- {{name: V{at}, value: '$(V{0})$(V{0})'}}\n", at - 1)).collect();
    all.push(container(&format!("env:\n{doubling}args: [-c, 'x=$(V39)']")));
    let circle = "env:\n- {name: A, value: $(B)}\n- {name: B, value: $(A)}\nargs: ['$(A)']";
    all.push(container(circle));
    for resources in ["resources: &r {limits: {hugepages-2Mi: 1}}", "resources: []", "resources: x"]
    {
        all.push(container(resources));
    }
    let many = vec!["{name: a, image: 'postgres:16'}"; 3000].join(", ");
    all.push(format!("kind: Pod\nspec: {{containers: [{many}]}}"));
    let maps = "kind: ConfigMap\nmetadata: {name: a}\ndata:\n".to_owned();
    all.push(maps + &(0..100_000).map(|at| format!("  k{at}: v\n")).collect::<String>());
    all.push("kind: Pod\r\nspec:\r\n\tcontainers:\r\n".to_owned());
    all.push("\u{feff}kind: Pod\nspec: {containers: [{image: \u{202e}postgres}]}".to_owned());
    all.push("kind: List\nitems: &l\n- *l\n".to_owned());
    all.push("<<: {<<: {kind: Pod}}\n".to_owned());
    for kind in ["Cluster", "PostgresCluster", "PerconaXtraDBCluster", "MariaDB", "InnoDBCluster"] {
        let group = match kind {
            "Cluster" => "postgresql.cnpg.io/v1",
            "PostgresCluster" => "postgres-operator.crunchydata.com/v1",
            "PerconaXtraDBCluster" => "pxc.percona.com/v1",
            "MariaDB" => "k8s.mariadb.com/v1",
            _ => "mysql.oracle.com/v2",
        };
        for spec in
            ["x", "[]", "{instances: -1}", "{instances: [x], pxc: 1, mycnf: [], myCnf: \"[\"}"]
        {
            all.push(format!("apiVersion: {group}\nkind: {kind}\nspec: {spec}\n"));
        }
    }
    all
}

#[test]
fn a_hundred_hostile_manifests_end_soon_in_an_answer_or_a_line() {
    let all = hostile_manifests();
    assert!(all.len() >= 100, "{}", all.len());
    for text in all {
        let begun = Instant::now();
        let head: String = text.chars().take(200).collect();
        if let Err(error) = judge_manifest("x", &text, None) {
            assert!(error.line > 0 && error.to_string().len() < 500, "{head}: {error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{head}: {:?}", begun.elapsed());
    }
    let large = "#".repeat(LARGEST_MANIFEST + 1);
    assert!(judge_manifest("x", &large, None).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lines of a manifest that are cut, doubled or swapped: a correction never makes it worse.
    #[test]
    fn a_mangled_manifest_is_corrected_or_left(
        cuts in prop::collection::vec((0_usize..22, 0_usize..3, 0_usize..22), 0..4),
    ) {
        let mut lines: Vec<&str> = SHORT.lines().collect();
        for (at, how, other) in cuts {
            let at = at % lines.len();
            match how {
                0 if lines.len() > 2 => { lines.remove(at); }
                1 => lines.insert(at, lines[other % lines.len()]),
                _ => {
                    let count = lines.len();
                    lines.swap(at, other % count);
                }
            }
        }
        let text = lines.join("\n") + "\n";
        if let Ok(report) = judge_manifest("x", &text, None)
            && report.diff.is_some()
        {
            let after = judge(&corrected(&text));
            prop_assert!(after.diff.is_none(), "{text}");
            prop_assert!(after.all_findings().count() < report.all_findings().count(), "{text}");
        }
    }
}
