use super::*;

fn judge(text: &str) -> PodReport {
    judge_manifest("pod.yaml", text, None).unwrap()
}

/// The manifest after the diff that the report has, as `patch` would write it.
fn corrected(text: &str) -> String {
    let judged = judge::judge_text(text, None).unwrap();
    let corrected = correct::correct_manifest(text, judged, None);
    corrected.unwrap_or_else(|| panic!("nothing to correct in\n{text}"))
}

/// A public report: `shared_memory_size_in_huge_pages` is 556, the limit 1Gi, and 2,048 pages
/// stayed idle on each of three nodes.
const SHORT: &str = "\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: postgres
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: postgres # the database
          image: postgres:17
          args: [-c, shared_buffers=1GB, -c, max_connections=150,
                 -c, shared_preload_libraries=pg_stat_statements]
          resources:
            requests:
              cpu: 500m
              memory: 2Gi
              hugepages-2Mi: 1Gi
            limits:
              memory: 2Gi
              hugepages-2Mi: 1Gi
";

fn first_container(report: &PodReport) -> &ContainerReport {
    report.workloads[0].containers.last().unwrap()
}

#[test]
fn a_limit_below_the_demand_is_a_silent_fallback() {
    let report = judge(SHORT);
    let container = first_container(&report);
    let server = container.server.as_ref().unwrap();
    assert_eq!((server.engine, server.version.as_deref()), ("PostgreSQL", Some("17")));
    assert_eq!(server.setting.as_deref(), Some("huge_pages=try (default)"));
    let demand = server.demands[0];
    assert!(demand.least > 512 && (demand.least..=demand.most).contains(&556), "{demand:?}");
    assert_eq!(container.fate, Fate::FallsBack);
    assert_eq!(container.fate_without_reservations, Some(Fate::Dies));
    assert!(report.has_findings() && !report.has_questions(), "{report:#?}");
    let diff = report.diff.unwrap();
    assert!(diff.starts_with("--- pod.yaml\n+++ pod.yaml\n@@ "), "{diff}");
    assert_eq!((diff.matches("\n-  ").count(), diff.matches("\n+  ").count()), (2, 2), "{diff}");
    let after = judge(&corrected(SHORT));
    assert_eq!(first_container(&after).fate, Fate::Maps, "{after:#?}");
    assert!(!after.has_findings() && after.diff.is_none(), "{after:#?}");
}

/// With huge_pages=on the same server says so, and does not start.
#[test]
fn a_server_that_insists_refuses_the_start() {
    let text = SHORT.replace("-c, max", "-c, huge_pages=on, -c, max");
    assert_eq!(first_container(&judge(&text)).fate, Fate::RefusesStart);
    let off = SHORT.replace("-c, max", "-c, huge_pages=off, -c, max");
    let report = judge(&off);
    assert_eq!(first_container(&report).fate, Fate::AsksForNone);
    assert!(report.has_findings(), "512 pages are set aside in vain");
}

fn pod_of(container: &str) -> String {
    let lines: String = container.lines().map(|line| format!("      {line}\n")).collect();
    format!("kind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n    - name: a\n{lines}")
}

/// OpenJDK 17 with -Xmx1g and G1 committed 651 pages (measured).
#[test]
fn a_java_machine_is_judged_by_its_words_and_its_environment() {
    let pod = |resources: &str| {
        pod_of(&format!(
            "image: eclipse-temurin:17-jre\ncommand: [java, -Xmx1g, -jar, /app.jar]\nenv:\n\
             - {{name: JAVA_TOOL_OPTIONS, value: '-XX:+UseLargePages -XX:+UseG1GC'}}\n{resources}"
        ))
    };
    let none = judge(&pod("resources: {limits: {memory: 3Gi, cpu: 2}}"));
    let container = first_container(&none);
    assert_eq!(container.server.as_ref().unwrap().demands[0].most, 651);
    assert_eq!(container.fate, Fate::FallsBack);
    let diff = none.diff.unwrap();
    assert!(
        diff.contains(
            "+      resources: {requests: {hugepages-2Mi: 1302Mi}, limits: \
        {hugepages-2Mi: 1302Mi, memory: 3Gi, cpu: 2}}"
        ),
        "{diff}"
    );
    let enough = "resources:\n  limits:\n    memory: 3Gi\n    hugepages-2Mi: 1302Mi";
    assert_eq!(first_container(&judge(&pod(enough))).fate, Fate::Maps);
    let plain = pod_of("image: eclipse-temurin:17-jre\ncommand: [java, -Xmx1g, -jar, /app.jar]");
    let plain = judge(&plain);
    assert_eq!(first_container(&plain).fate, Fate::AsksForNone);
    assert!(!plain.has_findings() && !plain.has_questions());
}

/// Without -Xmx a machine takes a quarter of the memory that it sees: its limit.
#[test]
fn a_heap_follows_the_memory_limit_and_is_asked_for_without_one() {
    let pod = |resources: &str| {
        pod_of(&format!(
            "image: eclipse-temurin:21\ncommand: [java, -XX:+UseLargePages, -XX:+UseG1GC, -jar, \
             /app.jar]\n{resources}"
        ))
    };
    let limited = judge(&pod("resources: {limits: {memory: 8Gi, cpu: 4}}"));
    let demand = first_container(&limited).server.as_ref().unwrap().demands[0];
    assert!((1024..1500).contains(&demand.least), "{demand:?}");
    let open = judge(&pod(""));
    assert_eq!(first_container(&open).fate, Fate::Unknown);
    assert!(open.has_questions() && !open.has_findings(), "{open:#?}");
}

#[test]
fn what_the_api_server_refuses_is_said_and_corrected() {
    let postgres =
        |resources: &str| pod_of(&format!("image: postgres:16\nresources:\n{resources}"));
    for resources in [
        "  limits: {hugepages-2Mi: 1Gi}",
        "  limits:\n    cpu: 1\n    hugepages-2Mi: 1025Mi",
        "  requests: {cpu: 1, hugepages-2Mi: 1Gi}",
        "  requests:\n    cpu: 1\n    hugepages-2Mi: 1Gi\n  limits:\n    hugepages-2Mi: 2Gi",
        "  requests:\n    hugepages-2Mi: 100Mi\n  limits:",
        "  requests: {}\n  limits: {cpu: 1, \"hugepages-2Mi\": \"3Mi\"} # why",
    ] {
        let text = postgres(resources);
        let report = judge(&text);
        assert_eq!(first_container(&report).fate, Fate::NotStarted, "{resources}");
        let after = corrected(&text);
        let judged = judge(&after);
        assert_eq!(first_container(&judged).fate, Fate::Maps, "{after}");
        assert!(!judged.has_findings() && judged.diff.is_none(), "{after}");
    }
    let nameless = judge(&postgres("  limits: {cpu: 1, hugepages-2MB: 1Gi}"));
    assert!(nameless.all_findings().any(|one| one.what.contains("names no page size")));
}

#[test]
fn resources_are_added_where_there_are_none() {
    for resources in ["", "resources:", "resources: {}", "resources:\n  requests:\n    cpu: 1"] {
        for end in ["\n", "\r\n"] {
            let text = pod_of(&format!("image: postgres:16\n{resources}")).replace('\n', end);
            let after = corrected(&text);
            let judged = judge(&after);
            assert_eq!(first_container(&judged).fate, Fate::Maps, "{after}");
            assert!(!judged.has_findings() && judged.diff.is_none(), "{after}");
            assert_eq!(after.matches('\n').count(), after.matches(end).count());
        }
    }
}

/// The report that named this case has CloudNativePG: 556 pages, a limit of 512, never a word.
#[test]
fn operators_resources_are_judged_and_corrected_where_they_are() {
    let cluster = "\
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata:
  name: postgres
spec:
  instances: 3
  imageName: ghcr.io/cloudnative-pg/postgresql:17.5
  postgresql:
    parameters:
      shared_buffers: 1GB
      max_connections: \"150\"
      pg_stat_statements.max: \"10000\"
  resources:
    requests: {memory: 2Gi, hugepages-2Mi: 1Gi}
    limits: {memory: 2Gi, hugepages-2Mi: 1Gi}
";
    let report = judge(cluster);
    let workload = &report.workloads[0];
    assert_eq!((workload.kind.as_str(), workload.pods_per_node), ("Cluster", 3));
    let container = first_container(&report);
    assert_eq!(container.fate, Fate::FallsBack);
    let demand = container.server.as_ref().unwrap().demands[0];
    assert!(demand.least > 512 && (demand.least..=demand.most).contains(&556), "{demand:?}");
    let after = judge(&corrected(cluster));
    assert_eq!(first_container(&after).fate, Fate::Maps, "{after:#?}");
    assert!(!after.has_findings());
}

/// Each by its own definition; the limit is what its server needs, and more.
#[test]
fn each_operator_has_its_own_form() {
    let report = judge(include_str!("tests/operators.yaml"));
    assert_eq!(report.workloads.len(), 7);
    for workload in &report.workloads {
        let container = workload.containers.last().unwrap();
        assert_eq!(container.fate, Fate::Maps, "{workload:#?}");
        assert!(container.questions.is_empty(), "{workload:#?}");
    }
    // Without anti-affinity that is required, pods may share a node.
    let shared: Vec<u64> = report.workloads.iter().map(|workload| workload.pods_per_node).collect();
    assert_eq!(shared, [2, 1, 2, 1, 1, 3, 3]);
}

/// Three pods may share a node; with required anti-affinity, one runs there.
#[test]
fn a_node_needs_what_its_pods_may_need_at_once() {
    let pages = |text: &str, platform| {
        let text = render_node_pool(&judge(text), platform).unwrap();
        let number = |line: &str| {
            let digits: String = line.chars().filter(char::is_ascii_digit).collect();
            digits.parse::<u64>().unwrap()
        };
        let line = text.lines().rfind(|line| line.contains("nr_hugepages"));
        number(line.unwrap())
    };
    let three = pages(SHORT, NodePlatform::Kubespray);
    let alone = SHORT.replace(
        "    spec:\n",
        "    spec:\n      affinity:\n        \
        podAntiAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n          - \
        {topologyKey: kubernetes.io/hostname}\n",
    );
    assert_eq!(three, 3 * pages(&alone, NodePlatform::Kubespray));
    assert_eq!(three, pages(SHORT, NodePlatform::Talos));
    let gke = render_node_pool(&judge(SHORT), NodePlatform::Gke).unwrap();
    assert!(gke.contains(&format!("  hugepageConfig:\n    hugepage_size2m: {three}\n")), "{gke}");
    for platform in NodePlatform::ALL {
        let text = render_node_pool(&judge(SHORT), platform).unwrap();
        assert!(text.contains(&three.to_string()), "{text}");
        let is_yaml = !matches!(platform, NodePlatform::Eks | NodePlatform::Bottlerocket);
        if is_yaml {
            let mask = template::TemplateMask::new(&text);
            assert!(yaml::read_documents(&mask).is_ok(), "{text}");
        }
    }
}

mod engines;
mod hostile;
mod nodes;
