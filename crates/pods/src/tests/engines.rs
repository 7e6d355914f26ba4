//! Engines other than PostgreSQL, and what feeds their settings.

use super::*;

fn fate_of(text: &str) -> Fate {
    first_container(&judge(text)).fate
}

#[test]
fn mysql_and_mariadb_are_judged_by_their_option_files_and_arguments() {
    for image in ["mysql:8.4", "mariadb:11.8", "percona/percona-server:8.0.36"] {
        let pod = |args: &str, resources: &str| {
            pod_of(&format!(
                "image: {image}\nargs: [{args}]\nresources: {{limits: {{{resources}}}}}"
            ))
        };
        let asks = "--large-pages, --innodb-buffer-pool-size=1G";
        assert_eq!(fate_of(&pod(asks, "memory: 4Gi")), Fate::FallsBack, "{image}");
        assert_eq!(fate_of(&pod(asks, "memory: 4Gi, hugepages-2Mi: 2Gi")), Fate::Maps, "{image}");
        assert_eq!(fate_of(&pod("", "memory: 4Gi")), Fate::AsksForNone, "{image}");
        let idle = judge(&pod("", "memory: 4Gi, hugepages-2Mi: 2Gi"));
        assert!(
            idle.all_findings().any(|one| one.what.contains("1,024 pages of 2 MiB are set aside"))
        );
    }
}

/// Up to 8.0.25 MySQL takes System V segments, which need a group or a capability.
#[test]
fn system_v_memory_needs_a_group() {
    let pod = |security: &str| {
        pod_of(
            "image: mysql:8.0.22\nargs: [--large-pages, --innodb-buffer-pool-size=1G]\nresources: \
             {limits: {memory: 4Gi, hugepages-2Mi: 2Gi}}",
        ) + security
    };
    assert_eq!(fate_of(&pod("")), Fate::FallsBack);
    assert_eq!(fate_of(&pod("  securityContext: {supplementalGroups: [1001]}\n")), Fate::Maps);
}

#[test]
fn config_maps_feed_arguments_environment_and_files() {
    let map = "kind: ConfigMap\nmetadata: {name: pg}\ndata:\n  buffers: 4GB\n  postgresql.conf: \
               |\n    shared_buffers = 4GB\n    huge_pages = on\n---\n";
    let by_env = pod_of(
        "image: postgres:16\nenv: [{name: B, valueFrom: {configMapKeyRef: {name: pg, key: \
         buffers}}}]\nargs: [-c, shared_buffers=$(B)]",
    );
    let pages = |text: &str| {
        let report = judge(text);
        let demands = &first_container(&report).server.as_ref().unwrap().demands;
        demands.first().map_or(0, |demand| demand.least)
    };
    assert!((2048..2300).contains(&pages(&format!("{map}{by_env}"))));
    let by_file = pod_of(
        "image: postgres:16\nargs: [-c, config_file=/conf/postgresql.conf]\n\
         volumeMounts: [{name: c, mountPath: /conf}]",
    ) + "  volumes: [{name: c, configMap: {name: pg}}]\n";
    let whole = format!("{map}{by_file}");
    assert!((2048..2300).contains(&pages(&whole)));
    assert_eq!(fate_of(&whole), Fate::RefusesStart);
    // Without the map, it is asked for by its name.
    let report = judge(&by_file);
    assert_eq!(first_container(&report).fate, Fate::Unknown);
    let questions = first_container(&report).questions.join(" ");
    assert!(questions.contains("ConfigMap pg"), "{questions}");
    assert!(report.has_questions() && !report.has_findings(), "{report:#?}");
}

#[test]
fn what_a_template_leaves_open_is_asked_for_by_name() {
    let pod = pod_of(
        "image: postgres:16\nargs: [-c, \"shared_buffers={{ .Values.buffers }}\"]\n\
         resources:\n  limits: {memory: 1Gi, hugepages-2Mi: {{ .Values.pages }}}",
    );
    let report = judge(&pod);
    let questions = first_container(&report).questions.join(" ");
    assert!(questions.contains("{{ .Values.buffers }}"), "{questions}");
    assert!(questions.contains("{{ .Values.pages }}"), "{questions}");
    assert_eq!(first_container(&report).fate, Fate::Unknown);
    assert!(!report.has_findings() && report.diff.is_none(), "{report:#?}");
    let replicas = SHORT.replace("replicas: 3", "replicas: {{ .Values.replicas }}");
    assert_eq!(judge(&replicas).questions[0].1, "how many pods: {{ .Values.replicas }}");
    let chart = judge("{{- if .Values.on }}\nkind: Pod\nmetadata: {name: a}\n{{- end }}\n");
    assert_eq!(chart.questions.len(), 2);
}

#[test]
fn redis_and_mongodb_never_use_a_pool() {
    for image in ["redis:7.4", "valkey/valkey:8", "mongo:8.0"] {
        assert_eq!(fate_of(&pod_of(&format!("image: {image}"))), Fate::CannotUse, "{image}");
        let limited = judge(&pod_of(&format!(
            "image: {image}\nresources: {{limits: {{cpu: 1, hugepages-2Mi: 1Gi}}}}"
        )));
        assert!(limited.has_findings(), "{image}");
    }
}

#[test]
fn a_script_that_ends_in_the_server_is_read_and_others_are_asked_for() {
    let of = |script: &str| {
        judge(&pod_of(&format!("image: postgres:16\ncommand: [sh, -c, '{script}']")))
    };
    let exec = of("mkdir -p /x && exec docker-entrypoint.sh postgres -c huge_pages=off");
    assert_eq!(first_container(&exec).fate, Fate::AsksForNone);
    let other = of("run-it | tee /log");
    assert_eq!(first_container(&other).fate, Fate::Unknown);
    assert!(other.has_questions());
    let sidecar = judge(&pod_of("image: nginx:1.27"));
    assert_eq!(first_container(&sidecar).fate, Fate::NoServer);
    assert!(!sidecar.has_questions() && !sidecar.has_findings());
}

/// Kubernetes: "medium: HugePages-<hugepagesize>" where a pod has several sizes.
#[test]
fn volumes_of_huge_pages_name_a_size_where_there_are_two() {
    let pod = |medium: &str, sizes: &str| {
        pod_of(&format!("image: dpdk/app:1\nresources: {{limits: {{cpu: 1, {sizes}}}}}"))
            + &format!("  volumes:\n  - name: h\n    emptyDir:\n      medium: {medium}\n")
    };
    let two = pod("HugePages", "hugepages-2Mi: 1Gi, hugepages-1Gi: 2Gi");
    assert!(judge(&two).has_findings());
    let after = corrected(&two);
    assert!(after.contains("medium: HugePages-2Mi\n"), "{after}");
    assert!(!judge(&after).has_findings());
    assert!(!judge(&pod("HugePages", "hugepages-2Mi: 1Gi")).has_findings());
    let java = |mounts: &str| {
        let pod = pod_of(&format!(
            "image: eclipse-temurin:21\n\
             command: [java, -Xmx1g, -XX:AllocateHeapAt=/dev/hugepages]\n{mounts}\n\
             resources: {{limits: {{cpu: 1, hugepages-2Mi: 2Gi}}}}"
        ));
        judge(&(pod + "  volumes: [{name: h, emptyDir: {medium: HugePages}}]\n"))
    };
    let lacks =
        |report: &PodReport| report.all_findings().any(|one| one.what.contains("no volume"));
    assert!(lacks(&java("")));
    assert!(!lacks(&java("volumeMounts: [{name: h, mountPath: /dev/hugepages}]")));
    assert!(judge(&pod("HugePages-1Gi", "hugepages-2Mi: 1Gi")).has_findings());
}

#[test]
fn lists_and_templates_of_jobs_make_pods() {
    let pod = "template: {spec: {containers: [{name: a, image: 'postgres:16'}]}}";
    let text = format!(
        "kind: List\nitems:\n- kind: CronJob\n  spec:\n    jobTemplate: {{spec: {{{pod}}}}}\n\
         - kind: DaemonSet\n  spec: {{{pod}}}\n---\nkind: Service\n"
    );
    let report = judge(&text);
    let kinds: Vec<&str> = report.workloads.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["CronJob", "DaemonSet"]);
}

#[test]
fn initdb_writes_what_its_arguments_say() {
    let pod = pod_of(
        "image: postgres:17\nenv: [{name: POSTGRES_INITDB_ARGS, value: '--data-checksums -c \
         shared_buffers=4GB --set=huge_pages=off'}]",
    );
    assert_eq!(fate_of(&pod), Fate::AsksForNone);
}
