use std::sync::Arc;

use hugewise_host::source::MapSource;
use hugewise_model::process::CgroupMembership;
use hugewise_model::{Bytes, Host, PageSize};

use super::*;

const UNIT: &str = "/etc/systemd/system/app.service";
const RUNS: &str = "/usr/bin/java -Xms256m -Xmx1g -XX:+UseLargePages -jar app.jar";

/// A machine that runs in a service, whose file is this; `change` says what else there is.
fn jvm(
    unit: &str,
    loaded: Option<Loaded>,
    change: impl FnOnce(MapSource) -> MapSource,
) -> Instance {
    let source = change(MapSource::new().with_file(UNIT, unit));
    let path = "/system.slice/app.service".to_owned();
    let membership = CgroupMembership { hierarchy: 0, controllers: Default::default(), path };
    let main = Process {
        pid: 7,
        name: "java".into(),
        executable: Observed::Known("/usr/lib/jvm/java-17-openjdk-amd64/bin/java".into()),
        command: Observed::Known(RUNS.split(' ').map(str::to_owned).collect()),
        cgroups: Observed::Known(Arc::from([membership])),
        mappings: Observed::Known(Vec::new()),
        ..Process::default()
    };
    let mut units =
        hugewise_host::config::systemd::read_units(&mut FactReader::new(&source), [&main]);
    units.iter_mut().for_each(|unit| unit.start.loaded = loaded.clone().into());
    let mut host = Host {
        live: true,
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: Observed::Known(vec![Arc::new(main)]),
        ..Host::default()
    };
    host.configuration.units = units;
    let found = crate::find_running_instances(&EngineContext::new(&host, &source)).instances;
    found.into_iter().find(|instance| instance.pid == 7).expect("the machine")
}

fn unit(command: &str) -> String {
    format!("[Service]\nExecStart={command}\n")
}

fn said(next: &Observed<NextStart>) -> String {
    let Some(next) = next.as_known() else { return "same".into() };
    let bytes: Bytes =
        next.demands.iter().map(|demand| demand.pages.to_bytes(demand.page_size)).sum();
    let setting = next.setting.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{:?} {} {setting}", next.asked, bytes.get() >> 30)
}

fn restart(command: &str) -> String {
    said(&jvm(&unit(command), Some(Loaded::Anew), |source| source).next)
}

#[test]
fn what_a_unit_starts_is_what_a_restart_brings() {
    let at = |text: &str| format!("{text} ({UNIT}:2)");
    assert_eq!(restart(RUNS), "same");
    assert_eq!(
        restart(
            "/usr/bin/java -Xms256m -XX:+UseLargePages \"-Dx=a b\" -Xmx1g -jar app.jar --other"
        ),
        "same"
    );
    assert_eq!(restart(&RUNS.replace("1g", "3g")), at("Try 3 MaxHeapSize=3g"));
    assert_eq!(restart(&RUNS.replace("-XX:+UseLargePages ", "")), at("No 0 UseLargePages=false"));
    assert_eq!(restart(&RUNS.replace("-XX:+", "-XX:-")), at("No 0 UseLargePages=false"));
    let larger = RUNS.replace("1g", "2g");
    assert_eq!(restart(&format!("/bin/sh -c 'exec {larger}'")), at("Try 2 MaxHeapSize=2g"));
    assert_eq!(restart(&format!("-/usr/bin/numactl -i all {larger}")), at("Try 2 MaxHeapSize=2g"));
    // What nobody here can work out is not taken for unchanged where it says something else.
    assert_eq!(
        restart(&format!("/usr/bin/su app -c \"{larger}\"")),
        at("Unknown 0 its command line=?")
    );
    assert_eq!(restart(&format!("/bin/sh -c '{RUNS} $MORE'")), "same");
    assert_eq!(restart("/usr/bin/jsvc -home /opt app.Main"), "same");
}

#[test]
fn variables_decide_too() {
    let with = |lines: &str, file: &str| {
        let files = "EnvironmentFile=-/etc/default/app\n";
        let text =
            format!("[Service]\n{lines}\n{files}ExecStart=/usr/bin/java $O ${{L}} -jar app.jar\n");
        said(&jvm(&text, None, |source| source.with_file("/etc/default/app", file)).next)
    };
    let same = "O=-Xms256m -Xmx1g\nL=-XX:+UseLargePages\n";
    assert_eq!(with("", same), "same");
    assert!(
        with("", "O=-Xms256m -Xmx3g\nL=-XX:+UseLargePages\n").starts_with("Try 3 MaxHeapSize=3g")
    );
    assert!(
        with("Environment=L=-XX:-UseLargePages", "O=-Xms256m -Xmx1g\n")
            .starts_with("No 0 UseLargePages=false")
    );
    assert!(with("Environment=_JAVA_OPTIONS=-Xmx2g", same).starts_with("Try 2 MaxHeapSize=2g"));
    assert_eq!(
        with("Environment=JAVA_TOOL_OPTIONS=-Xmx2g", same),
        "same",
        "the command line counts more"
    );
}

/// What systemd holds is what a restart takes; a boot takes the files.
#[test]
fn what_systemd_has_loaded_decides_on_a_restart() {
    let changed = unit(&RUNS.replace("1g", "3g"));
    let at = |loaded: Loaded| {
        let instance = jvm(&changed, Some(loaded), |source| source);
        let asked = |next: &Observed<NextStart>| next.as_known().map(|next| next.asked);
        (asked(&instance.next), asked(&instance.at_boot))
    };
    assert_eq!(at(Loaded::Anew), (Some(HugePageMode::Try), None));
    assert_eq!(at(Loaded::Since), (Some(HugePageMode::Try), None));
    assert_eq!(at(Loaded::Unchanged), (None, None));
    assert_eq!(at(Loaded::NotYet(UNIT.into())), (None, Some(HugePageMode::Try)));
    assert_eq!(
        at(Loaded::Between(UNIT.into())),
        (Some(HugePageMode::Unknown), Some(HugePageMode::Try))
    );
}

#[test]
fn a_script_that_cannot_have_started_it_leaves_it_open() {
    const SCRIPT: &str = "/opt/app/start.sh";
    let text_of = |script: &str, changed: bool| {
        let add = |source: MapSource| {
            source.with_file(SCRIPT, script).changed_since_start(7, SCRIPT, changed)
        };
        said(&jvm(&unit(SCRIPT), Some(Loaded::Unchanged), add).next)
    };
    let open = format!("Unknown 0 its command line=? ({SCRIPT})");
    for changed in [false, true] {
        assert_eq!(text_of(&format!("#!/bin/sh\nexec {RUNS}\n"), changed), "same");
        assert_eq!(
            text_of(&format!("#!/bin/sh\nexec {}\n", RUNS.replace("1g", "3g")), changed),
            open
        );
    }
    assert_eq!(
        text_of("#!/bin/sh\n. /opt/app/env\nexec java $JAVA_OPTS -jar app.jar\n", false),
        "same"
    );
    assert_eq!(
        text_of(
            "#!/bin/sh\nJAVA_OPTS=\"-Xms256m -Xmx1g\"\nexec java $JAVA_OPTS -jar app.jar\n",
            true
        ),
        open
    );
    assert_eq!(
        text_of(
            "#!/bin/sh\n# -Xmx3g\nexec java -Xmx${HEAP:-1g} -Xms256m -XX:+UseLargePages\n",
            true
        ),
        "same"
    );
    assert_eq!(text_of("\x7fELF -Xmx3g", true), "same");
}

#[test]
fn a_file_of_variables_that_is_gone_keeps_it_down() {
    let instance =
        jvm(&format!("[Service]\nEnvironmentFile=/etc/none\nExecStart={RUNS}\n"), None, |source| {
            source
        });
    let said = format!("EnvironmentFile=/etc/none is not there ({UNIT}:2)");
    assert_eq!(instance.startup, Some(Startup::Refuses(said)));
}

/// setrlimit(2): RLIMIT_AS bounds what a process maps, and mmap fails with ENOMEM beyond it,
/// whatever the page size.
#[test]
fn an_address_space_below_its_memory_keeps_it_down() {
    let startup_of = |limit: &str| {
        jvm(&format!("[Service]\nLimitAS={limit}\nExecStart={RUNS}\n"), None, |source| source)
            .startup
    };
    // The heap of 1 GiB alone is more.
    let Some(Startup::Refuses(why)) = startup_of("512M") else {
        panic!("{:?}", startup_of("512M"))
    };
    assert!(
        why.starts_with("LimitAS is 512.0 MiB, but it maps 1.")
            && why.ends_with(&format!("({UNIT}:2)")),
        "{why}"
    );
    assert!(matches!(startup_of("512M:infinity"), Some(Startup::Refuses(_))));
    assert_eq!(
        [
            startup_of("16G"),
            startup_of("infinity"),
            startup_of("512M\nLimitAS=infinity"),
            startup_of("x")
        ],
        [None, None, None, None]
    );
}
