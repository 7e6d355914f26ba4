//! The Helm chart is the plain DaemonSet with values.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn chart() -> PathBuf {
    root().join("packaging/helm/hugewise")
}

/// Exit code 0 and what was printed, or what was wrong.
fn output_text(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(if output.status.success() {
        &output.stdout
    } else {
        &output.stderr
    });
    if output.status.success() { Ok(text.into_owned()) } else { Err(text.into_owned()) }
}

/// Whether this machine can render charts; says so when it cannot.
fn helm() -> bool {
    let missing = [("helm", vec!["version"]), ("python3", vec!["-c", "import yaml"])]
        .into_iter()
        .find_map(|tool| {
            let (program, arguments) = tool;
            output_text(Command::new(program).args(&arguments))
                .err()
                .map(|error| format!("{program} {arguments:?}: {error}"))
        });
    if let Some(missing) = &missing {
        eprintln!("SKIP: {}", missing.trim_end());
    }
    missing.is_none()
}

/// The chart's objects, as `helm template` makes them of a file of values.
fn rendered(values: &str) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, values).unwrap();
    let manifest = folder.path().join("manifest.yaml");
    let mut helm = Command::new("helm");
    helm.args(["template", "hugewise"]).arg(chart()).args([
        "--namespace",
        "hugewise",
        "--kube-version",
        "1.31.0",
    ]);
    fs::write(&manifest, output_text(helm.arg("--values").arg(&file))?).unwrap();
    Ok(objects(&manifest))
}

/// The objects of a YAML file, by kind and name.
fn objects(file: &Path) -> Vec<Value> {
    let program = "import json, sys, yaml; json.dump([d for d in \
         yaml.safe_load_all(open(sys.argv[1])) if d], sys.stdout)";
    let json = output_text(Command::new("python3").args(["-c", program]).arg(file)).unwrap();
    let mut objects: Vec<Value> = serde_json::from_str(&json).unwrap();
    objects
        .sort_by_key(|object| (object["kind"].to_string(), object["metadata"]["name"].to_string()));
    objects
}

#[test]
fn with_its_own_values_it_is_the_plain_file_without_the_namespace() {
    if !helm() {
        return;
    }
    let mut plain = objects(&root().join("packaging/kubernetes/daemonset.yaml"));
    plain.retain(|object| object["kind"] != "Namespace");
    assert_eq!(rendered("{}").unwrap(), plain);
    output_text(Command::new("helm").args(["lint", "--strict"]).arg(chart())).unwrap();
}

#[test]
fn values_reach_what_they_are_for() {
    if !helm() {
        return;
    }
    let values = r#"{"image": {"tag": "9"}, "tolerations": [], "resources": {"limits": {"memory": "1Gi"}},
        "serve": {"port": 9999, "arguments": ["--interval", "30", "'; reboot; '\""]}, "proxy": {"port": 9443, "tls": {"secretName": "123"}},
        "prometheus": {"serviceAccount": "prom", "namespace": "monitoring"}, "serviceMonitor": {"enabled": true}}"#;
    let objects = rendered(values).unwrap();
    let jsons_of =
        |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    let pod = &jsons_of("DaemonSet")[0]["spec"]["template"]["spec"];
    let [hugewise, proxy] = [&pod["containers"][0], &pod["containers"][1]];
    assert_eq!(hugewise["image"], "hugewise:9");
    assert_eq!(hugewise["resources"]["limits"]["memory"], "1Gi");
    // No shell reads them: each stays one argument, whatever it says.
    let arguments = ["--listen", "127.0.0.1:9999", "--interval", "30", "'; reboot; '\""];
    assert_eq!(hugewise["command"].as_array().unwrap()[3..], arguments);
    assert_eq!(proxy["args"][1], "--upstream=http://127.0.0.1:9999/");
    assert_eq!(proxy["ports"][0]["containerPort"], 9443);
    assert_eq!(proxy["args"][3], "--tls-cert-file=/etc/hugewise-tls/tls.crt");
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "123");
    assert_eq!(pod["tolerations"], Value::Null);
    assert!(
        jsons_of("ClusterRoleBinding").iter().any(|object| object["subjects"][0]["name"] == "prom")
    );
    assert_eq!(
        jsons_of("ServiceMonitor")[0]["spec"]["endpoints"][0]["port"],
        jsons_of("Service")[0]["spec"]["ports"][0]["name"]
    );
}

#[test]
fn values_that_mean_nothing_are_refused() {
    if !helm() {
        return;
    }
    for (values, word) in [
        (r#"{"serve": {"port": "http"}}"#, "port"),
        (r#"{"serve": {"arguments": "--interval 30"}}"#, "arguments"),
        (r#"{"imge": {}}"#, "imge"),
        (r#"{"prometheus": {"serviceAccount": "prom"}}"#, "prometheus.namespace"),
    ] {
        let refused = rendered(values).unwrap_err();
        assert!(refused.contains(word), "{values}: {refused}");
    }
}

/// Needs no helm: a release that forgets the chart would install the program before it.
#[test]
fn it_is_of_the_same_version_as_the_program() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .unwrap();
    let about = fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    assert!(
        about.contains(&format!("\nversion: {version}\nappVersion: \"{version}\"\n")),
        "{about}"
    );
}
