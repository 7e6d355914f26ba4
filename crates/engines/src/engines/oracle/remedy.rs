//! How an Oracle instance is made to ask for huge pages: where its parameters are kept, and which.

use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{ServerSetting, Trait};
use hugewise_model::{Bytes, Host, Instance};

use super::described::{possible_demand, size_parameter};
use super::{
    AMM, asks_for_amm, is_positive, last_start, parse_huge_page_request, starter, stopped,
};
use crate::shared::options::file_name;
use crate::shared::proposal::{Proposal, ProposedChange, ProposedSetting};
use crate::shared::settings::new_setting;
use crate::shared::work_memory;

/// The SGA's part in percent of automatic memory management at the start, where nothing else is
/// set; the PGA has the rest (Oracle Database Administrator's Guide 19c, "Using Automatic Memory
/// Management").
const SGA_PERCENT: u64 = 60;
/// A PGA target is rounded up to whole ones of these.
const PGA_STEP: Bytes = Bytes::from_mib(64);

#[derive(Debug, PartialEq, Eq)]
enum ParameterStorage {
    Spfile,
    /// In this text file: without a spfile `ALTER SYSTEM ... SCOPE=SPFILE` fails (ORA-32001).
    Text(String),
    Unknown,
}

impl ParameterStorage {
    fn from_instance(instance: &Instance) -> Self {
        // A text file that names a spfile is read with it.
        if instance.setting_value("spfile").is_some_and(|path| !path.is_empty()) {
            return Self::Spfile;
        }
        let places = instance
            .settings
            .values()
            .filter_map(|setting| Some(setting.place.as_ref()?.file.as_str()));
        // What a process or a past start shows is no file of the next start.
        let is_file = |file: &&str| {
            !file.starts_with("/proc/")
                && !last_start::is_place(file)
                && !stopped::TABLES.contains(file)
        };
        let files: Vec<&str> = places.filter(is_file).collect();
        let named = |start: &str| files.iter().find(|file| file_name(file).starts_with(start));
        match (named("spfile"), named("init").or(files.first())) {
            (Some(_), _) => Self::Spfile,
            (None, Some(file)) => Self::Text((*file).to_owned()),
            (None, None) => Self::Unknown,
        }
    }
}

/// Lines that have the next start ask for huge pages. Automatic memory management goes first: the
/// size of the new SGA has to be seen before anything insists on it.
pub(super) fn huge_page_commands(host: &Host, instance: &Instance, must: bool) -> Vec<String> {
    let kept = ParameterStorage::from_instance(instance);
    if is_under_amm(instance) {
        return without_amm(host, instance, &kept);
    }
    let value = if must { "ONLY" } else { "TRUE" };
    set_parameter_commands(host, instance, &kept, "use_large_pages", value)
}

/// Where `ALTER SYSTEM` writes: in a cluster for this instance, as no other node is known.
fn alter_system_scope(host: &Host, instance: &Instance) -> String {
    let own = starter::runs_clusterware(host).then(|| format!(" SID='{}'", instance.name));
    format!("SCOPE=SPFILE{}", own.unwrap_or_default())
}

fn set_parameter_commands(
    host: &Host,
    instance: &Instance,
    kept: &ParameterStorage,
    name: &str,
    value: &str,
) -> Vec<String> {
    let alter = format!("ALTER SYSTEM SET {name}={value} {};", alter_system_scope(host, instance));
    match kept {
        ParameterStorage::Spfile => vec![format!("# in sqlplus / as sysdba: {alter}")],
        ParameterStorage::Text(file) => match instance.settings.get(name) {
            Some(ServerSetting { value: old, place: Some(place), .. }) => {
                vec![format!("# in {place}: {name}={value} instead of {old}")]
            }
            _ => vec![format!("# in {file}: {name}={value}")],
        },
        ParameterStorage::Unknown => vec![
            format!("# in sqlplus / as sysdba: {alter}"),
            format!("# without an spfile (ORA-32001): {name}={value} in its init.ora"),
        ],
    }
}

pub(super) fn off_amm(instance: &Instance) -> String {
    let set = set_here(instance).filter(|setting| is_positive(instance, &setting.name));
    let set: Vec<&ServerSetting> = set.collect();
    let names: Vec<&str> = set.iter().map(|setting| setting.name.as_str()).collect();
    let names = names.join(" and ");
    match set.as_slice() {
        [] => "sga_target instead of memory_target".into(),
        _ if !is_positive(instance, "sga_target") => format!("sga_target instead of {names}"),
        [ServerSetting { place: Some(place), .. }] if !last_start::is_place(&place.file) => {
            format!("remove {names} ({place})")
        }
        _ => format!("remove {names}"),
    }
}

fn is_under_amm(instance: &Instance) -> bool {
    asks_for_amm(instance) || instance.traits.contains(&Trait::Amm)
}

/// Automatic shared memory management with as much memory as now; ASM stays as it is.
pub(super) fn propose_asmm(host: &Host, instance: &Instance) -> Option<Proposal> {
    if !is_under_amm(instance) || instance.traits.contains(&Trait::Asm) {
        return None;
    }
    let settings = propose_targets(host, instance)?;
    let mut then = super::without_memory(instance);
    then.traits.retain(|one| *one != Trait::Amm);
    then.settings.retain(|name, _| !AMM.contains(&name.as_str()));
    let file = set_here(instance).find_map(|setting| setting.place.clone());
    let place = file.map(|place| FileLocation { line: 0, ..place });
    for one in &settings {
        let setting = new_setting(one.name, one.value.clone(), place.clone());
        then.settings.insert(one.name.into(), setting);
    }
    (then.asked, then.setting) = parse_huge_page_request(&then, true);
    let demand = possible_demand(host, &then)?;
    let change = ProposedChange {
        instead_of: "automatic memory management",
        settings,
        gone: set_here(instance).map(|setting| setting.name.clone()).collect(),
        lines: without_amm(host, instance, &ParameterStorage::from_instance(instance)),
    };
    Some(Proposal { change, then: Box::new(then), demand: demand.at_most() })
}

/// The targets for what automatic memory management deals out. Larger ones that are set stay.
fn propose_targets(host: &Host, instance: &Instance) -> Option<Vec<ProposedSetting>> {
    let amount =
        |name: &str| size_parameter(instance, name).ok().filter(|bytes| *bytes > Bytes::ZERO);
    let whole = AMM.into_iter().find_map(|name| Some((name, amount(name)?)));
    let runs = Some(instance.segment_bytes()).filter(|sga| *sga > Bytes::ZERO);
    // The mapped files are of all that it may grow to: only less than the whole is the SGA's.
    let own = runs.filter(|sga| whole.is_none_or(|(_, whole)| *sga < whole));
    let set = amount("sga_target").filter(|set| own.is_none_or(|own| *set >= own));
    let (sga, why_sga) = match (set, own, whole) {
        (Some(set), ..) => (set, "as set now, which is at least its current SGA".to_owned()),
        (None, Some(sga), _) => (sga, "its current SGA".to_owned()),
        (None, None, Some((name, whole))) => {
            let why = format!(
                "{SGA_PERCENT} % of {name}, the share automatic memory management starts with"
            );
            (whole.shared_by(100)?.saturating_mul(SGA_PERCENT), why)
        }
        (None, None, None) => (runs?, "its current SGA".to_owned()),
    };
    let held = work_memory::private_memory_held(host, instance);
    let left = whole.map(|(name, whole)| (name, whole.saturating_sub(sga)));
    let mut pga = left.map_or(Bytes::ZERO, |(_, left)| left).max(held.unwrap_or_default());
    let mut why_pga: Vec<String> =
        left.iter().map(|(name, left)| format!("{name} leaves {left} after the SGA")).collect();
    why_pga.extend(held.map(|held| format!("its processes hold {held} of private memory now")));
    if let Some(set) = amount("pga_aggregate_target").filter(|set| *set >= pga) {
        pga = set;
        why_pga.push("it is already set to that".into());
    }
    let rounded = pga.get().checked_next_multiple_of(PGA_STEP.get()).map_or(pga, Bytes);
    let proposed = |name, bytes: Bytes, because| ProposedSetting {
        name,
        value: format_mebibytes(bytes),
        because,
    };
    let mut targets = vec![proposed("sga_target", sga, why_sga)];
    if rounded > Bytes::ZERO {
        targets.push(proposed("pga_aggregate_target", rounded, why_pga.join("; ")));
    }
    Some(targets)
}

fn format_mebibytes(bytes: Bytes) -> String {
    format!("{}M", bytes.get().div_ceil(1 << 20))
}

fn set_here(instance: &Instance) -> impl Iterator<Item = &ServerSetting> {
    AMM.into_iter().filter_map(|name| instance.settings.get(name))
}

fn without_amm(host: &Host, instance: &Instance, kept: &ParameterStorage) -> Vec<String> {
    let targets = propose_targets(host, instance).unwrap_or_default();
    // Values that are set and no smaller stay as they are.
    let short = |one: &&ProposedSetting| {
        let set = size_parameter(instance, one.name).unwrap_or_default();
        set == Bytes::ZERO || format_mebibytes(set) != one.value
    };
    let targets: Vec<&ProposedSetting> = targets.iter().filter(short).collect();
    match kept {
        ParameterStorage::Text(file) => {
            let gone = set_here(instance).map(|setting| match &setting.place {
                Some(place) => format!("# in {place}: remove {}", setting.name),
                None => format!("# in {file}: remove {}", setting.name),
            });
            gone.chain(
                targets.iter().flat_map(|one| {
                    set_parameter_commands(host, instance, kept, one.name, &one.value)
                }),
            )
            .collect()
        }
        ParameterStorage::Spfile | ParameterStorage::Unknown => {
            // RESET of a parameter that is not set fails (ORA-32010); unread ones may be set.
            let unread = set_here(instance).next().is_none();
            let reset =
                AMM.into_iter().filter(|name| unread || instance.settings.contains_key(*name));
            // A value for all instances of a cluster is reset for all.
            let all = if starter::runs_clusterware(host) { " SID='*'" } else { "" };
            let resets =
                reset.map(|name| format!("# ALTER SYSTEM RESET {name} SCOPE=SPFILE{all};"));
            let scope = alter_system_scope(host, instance);
            let sets = targets
                .iter()
                .map(|one| format!("# ALTER SYSTEM SET {}={} {scope};", one.name, one.value));
            let first = "# in sqlplus / as sysdba:".to_owned();
            let mut lines: Vec<String> = [first].into_iter().chain(resets).chain(sets).collect();
            if *kept == ParameterStorage::Unknown {
                lines.push("# without an spfile (ORA-32001): the same in its init.ora".into());
            }
            lines
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hugewise_host::source::MapSource;
    use hugewise_model::{Engine, Process};

    use super::*;
    use crate::EngineContext;

    const FILE: &str = "/u01/app/oracle/product/19.23.0/db/dbs/initDW.ora";
    const SPFILE: &str = "/u01/app/oracle/product/19.23.0/db/dbs/spfileDW.ora";

    fn instance(settings: &[(&str, &str, &str, u64)]) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let mut instance =
            scene.new_instance(Engine::Oracle, "DW".into(), &Process::default(), Vec::new());
        let setting = |(name, value, file, line): &(&str, &str, &str, u64)| {
            let place = Some(FileLocation { file: (*file).into(), line: *line });
            (
                (*name).to_owned(),
                ServerSetting { name: (*name).into(), value: (*value).into(), place },
            )
        };
        instance.settings = settings.iter().map(setting).collect::<BTreeMap<_, _>>();
        instance
    }

    /// `ALTER SYSTEM ... SCOPE=SPFILE` of an instance without one: ORA-32001 (Oracle error
    /// messages).
    #[test]
    fn a_parameter_is_set_where_it_is_kept() {
        let text =
            instance(&[("use_large_pages", "FALSE", FILE, 6), ("sga_target", "12G", FILE, 3)]);
        assert_eq!(
            huge_page_commands(&Host::default(), &text, true),
            [format!("# in {FILE}:6: use_large_pages=ONLY instead of FALSE")]
        );
        let text = instance(&[("sga_target", "12G", FILE, 3)]);
        assert_eq!(
            huge_page_commands(&Host::default(), &text, false),
            [format!("# in {FILE}: use_large_pages=TRUE")]
        );
        let included = instance(&[
            ("use_large_pages", "FALSE", "/etc/ora/all.ora", 2),
            ("processes", "300", FILE, 1),
        ]);
        assert_eq!(
            huge_page_commands(&Host::default(), &included, true),
            ["# in /etc/ora/all.ora:2: use_large_pages=ONLY instead of FALSE"]
        );
        for spfile in [
            instance(&[("sga_target", "12G", SPFILE, 0)]),
            instance(&[
                ("spfile", "+DATA/DW/spfileDW.ora", FILE, 1),
                ("processes", "300", FILE, 2),
            ]),
        ] {
            let told =
                ["# in sqlplus / as sysdba: ALTER SYSTEM SET use_large_pages=ONLY SCOPE=SPFILE;"];
            assert_eq!(huge_page_commands(&Host::default(), &spfile, true), told);
        }
        let unread = huge_page_commands(&Host::default(), &instance(&[]), true);
        assert!(unread.len() == 2 && unread[1].contains("ORA-32001"), "{unread:?}");
    }

    /// MEMORY_MAX_TARGET alone puts an instance under automatic memory management (Database
    /// Reference 19c).
    #[test]
    fn what_is_taken_out_is_what_is_set() {
        let told = |settings: &[(&str, &str, &str, u64)]| off_amm(&instance(settings));
        let (max, sga) = (("memory_max_target", "20G", FILE, 6), ("sga_target", "12G", FILE, 3));
        assert_eq!(told(&[max, sga]), format!("remove memory_max_target ({FILE}:6)"));
        assert_eq!(told(&[max]), "sga_target instead of memory_max_target");
        let target = ("memory_target", "16G", FILE, 5);
        assert_eq!(told(&[target, max, sga]), "remove memory_target and memory_max_target");
        assert_eq!(
            told(&[("memory_target", "0", FILE, 5), max, sga]),
            format!("remove memory_max_target ({FILE}:6)")
        );
        // What is right as it is stays.
        let lines = huge_page_commands(&Host::default(), &instance(&[max, sga]), false);
        assert!(lines.contains(&format!("# in {FILE}: pga_aggregate_target=8192M")), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("sga_target")), "{lines:?}");
    }

    /// 16 GiB of which the SGA has 10 leave 6 GiB, and what the processes hold may be more than
    /// that; without a word on the SGA it begins with 60 % (Oracle Database Administrator's Guide
    /// 19c).
    #[test]
    fn the_targets_are_what_it_has_now() {
        use hugewise_model::instance::{Segment, SegmentKind};
        use hugewise_model::{Observed, PageCount};

        let values = |host: &Host, instance: &Instance| -> Vec<String> {
            let proposal = propose_asmm(host, instance).unwrap();
            proposal
                .change
                .settings
                .iter()
                .map(|one| format!("{}={}", one.name, one.value))
                .collect()
        };
        let mut running = instance(&[("memory_target", "16G", FILE, 6)]);
        assert_eq!(
            values(&Host::default(), &running),
            ["sga_target=9831M", "pga_aggregate_target=6592M"]
        );
        running.segments = vec![Segment {
            kind: SegmentKind::Posix,
            name: "/dev/shm/ora_*".into(),
            size: Bytes::from_gib(10),
            mappers: 8,
            page_size: Observed::Absent,
            huge: Observed::Known(false),
            identity: (0, 0),
        }];
        running.traits = vec![Trait::Amm];
        assert_eq!(
            values(&Host::default(), &running),
            ["sga_target=10240M", "pga_aggregate_target=6144M"]
        );
        let mut host = Host::default();
        let process = Process {
            pid: 7,
            rss_anon: Observed::Known(Bytes::from_mib(7001)),
            ..Process::default()
        };
        host.processes = Observed::Known(vec![std::sync::Arc::new(process)]);
        running.pids = vec![7];
        assert_eq!(values(&host, &running), ["sga_target=10240M", "pga_aggregate_target=7040M"]);
        // 10 GiB are 320 granules of 32 MiB, 5,120 pages of 2 MiB, and four to spare; the estimate
        // is off by 1 % at most.
        let demand = propose_asmm(&host, &running).unwrap().demand;
        assert!((PageCount(5124)..=PageCount(5124 + 52)).contains(&demand.pages), "{demand:?}");
        // ASM stays as Oracle sets it up.
        running.traits.push(Trait::Asm);
        assert!(propose_asmm(&host, &running).is_none());
        assert!(propose_asmm(&host, &instance(&[("sga_target", "10G", FILE, 6)])).is_none());
    }

    #[test]
    fn memory_target_goes_before_huge_pages_are_asked_for() {
        let text =
            instance(&[("memory_target", "16G", FILE, 6), ("use_large_pages", "ONLY", FILE, 2)]);
        let told = huge_page_commands(&Host::default(), &text, true);
        assert_eq!(told[0], format!("# in {FILE}:6: remove memory_target"));
        assert!(told.iter().any(|line| line.contains("sga_target=")), "{told:?}");
        assert!(
            told.iter().all(|line| !line.contains("use_large_pages") && !line.contains("SPFILE")),
            "{told:?}"
        );
        let spfile = huge_page_commands(
            &Host::default(),
            &instance(&[("memory_target", "16G", SPFILE, 0)]),
            false,
        );
        assert!(
            spfile.contains(&"# ALTER SYSTEM RESET memory_target SCOPE=SPFILE;".into()),
            "{spfile:?}"
        );
        // RESET of a parameter that is not in the spfile: ORA-32010.
        assert!(spfile.iter().all(|line| !line.contains("memory_max_target")), "{spfile:?}");
    }
}
