//! Manifests of people who wish us ill: each gives an answer or an error with its line, soon and
//! within bounds.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// Text that no parser should take long over.
fn hostile_yaml() -> Vec<String> {
    let bomb = |levels: usize, width: usize| {
        let mut text = "a0: &a0 [x, x]\n".to_owned();
        for level in 1..levels {
            let items = vec![format!("*a{}", level - 1); width].join(", ");
            text += &format!("a{level}: &a{level} [{items}]\n");
        }
        text
    };
    let mut all = vec![bomb(9, 10), bomb(30, 2), bomb(3, 3000)];
    let repeated = [
        ("[", 100_000),
        ("{a: ", 100_000),
        ("- ", 100_000),
        ("? ", 100_000),
        ("---\n", 200_000),
        ("{{ ", 100_000),
        ("{{}}", 100_000),
        ("{{}}\n", 100_000),
        ("a: 1\n", 1000),
    ];
    all.extend(repeated.map(|(text, count)| text.repeat(count)));
    let open = ["[", "{", "\"", "'", "|", "&", "*", "!", "%", "?", "- -"];
    for open in open {
        all.push(format!("a: {open}"));
        all.push(format!("kind: Pod\nspec:\n  containers:\n  - a: {open}"));
    }
    let long = "x".repeat(1 << 20);
    all.push(format!("{long}: {long}"));
    all.push(format!("kind: Pod\nspec: {{containers: [{{image: '{long}'}}]}}"));
    all.push("kind: Pod\r\nspec:\r\n\tcontainers:\r\n".to_owned());
    all.push("\u{feff}kind: Pod\nspec: {containers: [{image: \u{202e}postgres}]}".to_owned());
    all.push("kind: List\nitems: &l\n- *l\n".to_owned());
    all.push("<<: {<<: {kind: Pod}}\n".to_owned());
    all
}

/// Containers whose fields are not what Kubernetes takes, or too much of it.
fn hostile_containers() -> Vec<String> {
    let amounts = [
        "-1",
        "1e99",
        "9999999999999999999999999999999999999999Gi",
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
    ];
    let limits = amounts.iter().flat_map(|amount| {
        ["hugepages-2Mi: @, cpu: 1", "memory: @, cpu: @"]
            .map(|limits| format!("resources: {{limits: {{{}}}}}", limits.replace('@', amount)))
    });
    let mut fields: Vec<String> = limits.collect();
    let args = [
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
    ];
    fields.extend(args.map(|args| format!("args: {args}")));
    let doubling =
        (1..40).map(|at| format!("- {{name: V{at}, value: '$(V{0})$(V{0})'}}\n", at - 1));
    let doubling: String = doubling.collect();
    fields.push(format!("env:\n{doubling}args: [-c, 'x=$(V39)']"));
    let circle = "env:\n- {name: A, value: $(B)}\n- {name: B, value: $(A)}\nargs: ['$(A)']";
    fields.push(circle.to_owned());
    let resources = ["&r {limits: {hugepages-2Mi: 1}}", "[]", "x"];
    fields.extend(resources.map(|resources| format!("resources: {resources}")));
    fields.iter().map(|fields| pod_of(&format!("image: postgres:16\n{fields}"))).collect()
}

/// Objects of the wrong shape, or too many.
fn hostile_objects() -> Vec<String> {
    let many = vec!["{name: a, image: 'postgres:16'}"; 3000].join(", ");
    let keys = (0..100_000).map(|at| format!("  k{at}: v\n")).collect::<String>();
    let mut all = vec![
        format!("kind: Pod\nspec: {{containers: [{many}]}}"),
        format!("kind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{keys}"),
    ];
    let operators = [
        "Cluster postgresql.cnpg.io/v1",
        "PostgresCluster postgres-operator.crunchydata.com/v1",
        "PerconaXtraDBCluster pxc.percona.com/v1",
        "MariaDB k8s.mariadb.com/v1",
        "InnoDBCluster mysql.oracle.com/v2",
    ];
    for (kind, group) in operators.iter().filter_map(|named| named.split_once(' ')) {
        for spec in ["x", "[]", "{instances: [x], pxc: 1, mycnf: [], myCnf: \"[\"}"] {
            all.push(format!("apiVersion: {group}\nkind: {kind}\nspec: {spec}\n"));
        }
    }
    all
}

#[test]
fn a_hundred_hostile_manifests_end_soon_in_an_answer_or_a_line() {
    let all = [hostile_yaml(), hostile_containers(), hostile_objects()].concat();
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
