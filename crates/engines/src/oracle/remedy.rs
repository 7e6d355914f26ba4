//! How an Oracle instance is made to ask for huge pages: where its parameters are kept, and what is to stand there.

use hugewise_model::configuration::Place;
use hugewise_model::instance::{Setting, Trait};
use hugewise_model::{Bytes, Host, Instance};

use super::described::{estimated, size};
use super::{AMM, asked, asks_for_amm, asleep, is_positive, last_start, starter};
use crate::options::file_name;
use crate::proposal::{Change, Proposal, Proposed};
use crate::work;

/// Automatic memory management deals its memory out so as an instance starts with nothing else set: this part in percent is the
/// SGA's, the rest the PGA's (Oracle Database Administrator's Guide 19c, "Using Automatic Memory Management").
const SGA_PERCENT: u64 = 60;

/// A target for the PGA is rounded up to whole ones of these.
const PGA_STEP: Bytes = Bytes::from_mib(64);

/// Where an instance keeps the parameters of its next start.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    /// In a server parameter file, which `ALTER SYSTEM` writes.
    Spfile,
    /// In this text file: without a server parameter file `ALTER SYSTEM ... SCOPE=SPFILE` fails (ORA-32001).
    Text(String),
    /// In a file that could not be read, as one in ASM.
    Unknown,
}

impl Kept {
    fn of(instance: &Instance) -> Self {
        // A text file that names a server parameter file is read with it.
        if instance.setting_value("spfile").is_some_and(|path| !path.is_empty()) {
            return Self::Spfile;
        }
        let places = instance.settings.values().filter_map(|setting| Some(setting.place.as_ref()?.file.as_str()));
        // What was seen of a process, or of a start that is over, is no file that the next start reads.
        let files: Vec<&str> = places
            .filter(|file| !file.starts_with("/proc/") && !last_start::is_place(file) && !is_table(file))
            .collect();
        let named = |start: &str| files.iter().find(|file| file_name(file).starts_with(start));
        match (named("spfile"), named("init").or(files.first())) {
            (Some(_), _) => Self::Spfile,
            (None, Some(file)) => Self::Text((*file).to_owned()),
            (None, None) => Self::Unknown,
        }
    }
}

/// Lines that have the next start ask for huge pages. Memory that no huge page can hold comes first: how much the new one
/// takes has to be seen before anything insists on it.
pub(super) fn ask(host: &Host, instance: &Instance, must: bool) -> Vec<String> {
    let kept = Kept::of(instance);
    if is_under_amm(instance) {
        return without_amm(host, instance, &kept);
    }
    let value = if must { "ONLY" } else { "TRUE" };
    set(host, instance, &kept, "use_large_pages", value)
}

/// Whether it is the list of a host's instances, which has their homes.
fn is_table(file: &str) -> bool {
    asleep::TABLES.contains(&file)
}

/// Where `ALTER SYSTEM` writes: of a cluster's instances this one alone, as hugewise knows no other node.
fn scope(host: &Host, instance: &Instance) -> String {
    let own = starter::runs_clusterware(host).then(|| format!(" SID='{}'", instance.name));
    format!("SCOPE=SPFILE{}", own.unwrap_or_default())
}

fn set(host: &Host, instance: &Instance, kept: &Kept, name: &str, value: &str) -> Vec<String> {
    let alter = format!("ALTER SYSTEM SET {name}={value} {};", scope(host, instance));
    match kept {
        Kept::Spfile => vec![format!("# in sqlplus / as sysdba: {alter}")],
        Kept::Text(file) => match instance.settings.get(name) {
            Some(Setting { value: old, place: Some(place), .. }) => {
                vec![format!("# in {place}: {name}={value} instead of {old}")]
            }
            _ => vec![format!("# in {file}: {name}={value}")],
        },
        Kept::Unknown => vec![
            format!("# in sqlplus / as sysdba: {alter}"),
            format!("# without an spfile (ORA-32001): {name}={value} in its init.ora"),
        ],
    }
}

/// What takes an instance off automatic memory management, in a few words: what is set, and no more.
pub(super) fn off_amm(instance: &Instance) -> String {
    let set: Vec<&Setting> = AMM
        .into_iter()
        .filter(|name| is_positive(instance, name))
        .filter_map(|name| instance.settings.get(name))
        .collect();
    let names: Vec<&str> = set.iter().map(|setting| setting.name.as_str()).collect();
    let names = names.join(" and ");
    match set.as_slice() {
        [] => "sga_target instead of memory_target".into(),
        _ if !is_positive(instance, "sga_target") => format!("sga_target instead of {names}"),
        [Setting { place: Some(place), .. }] if !last_start::is_place(&place.file) => {
            format!("remove {names} ({place})")
        }
        _ => format!("remove {names}"),
    }
}

fn is_under_amm(instance: &Instance) -> bool {
    asks_for_amm(instance) || instance.traits.contains(&Trait::Amm)
}

/// Automatic shared memory management with the memory that an instance has now; none where it is under none other, or nothing
/// tells how much that is. ASM instances stay as Oracle sets them up.
pub(super) fn proposal(host: &Host, instance: &Instance) -> Option<Proposal> {
    if !is_under_amm(instance) || instance.traits.contains(&Trait::Asm) {
        return None;
    }
    let settings = targets(host, instance)?;
    let mut then = Instance { segments: Vec::new(), beside: Vec::new(), demand: None, ..instance.clone() };
    then.traits.retain(|one| *one != Trait::Amm);
    then.settings.retain(|name, _| !AMM.contains(&name.as_str()));
    let file = set_here(instance).find_map(|setting| setting.place.clone());
    let place = file.map(|place| Place { line: 0, ..place });
    for one in &settings {
        let setting = Setting { name: one.name.into(), value: one.value.clone(), place: place.clone() };
        then.settings.insert(one.name.into(), setting);
    }
    (then.asked, then.setting) = asked(&then, true);
    let (demand, _) = estimated(host, &then).ok().flatten()?;
    let change = Change {
        instead_of: "automatic memory management",
        settings,
        gone: set_here(instance).map(|setting| setting.name.clone()).collect(),
        lines: without_amm(host, instance, &Kept::of(instance)),
    };
    Some(Proposal { change, then: Box::new(then), demand: demand.at_most() })
}

/// SGA_TARGET and PGA_AGGREGATE_TARGET in place of what automatic memory management deals out. What is set beside it and is no
/// less stays.
fn targets(host: &Host, instance: &Instance) -> Option<Vec<Proposed>> {
    let amount = |name: &str| size(instance, name).ok().filter(|bytes| *bytes > Bytes::ZERO);
    let whole = AMM.into_iter().find_map(|name| Some((name, amount(name)?)));
    let runs = Some(instance.segment_bytes()).filter(|sga| *sga > Bytes::ZERO);
    // What is mapped are the files of all that it may grow to: less than the whole is what the SGA has of it.
    let own = runs.filter(|sga| whole.is_none_or(|(_, whole)| *sga < whole));
    let set = amount("sga_target").filter(|set| own.is_none_or(|own| *set >= own));
    let (sga, why_sga) = match (set, own, whole) {
        (Some(set), ..) => (set, "as set now, which is at least its current SGA".to_owned()),
        (None, Some(sga), _) => (sga, "its current SGA".to_owned()),
        (None, None, Some((name, whole))) => {
            let part = whole.shared_by(100)?.times(SGA_PERCENT);
            (part, format!("{SGA_PERCENT} % of {name}, the share automatic memory management starts with"))
        }
        (None, None, None) => (runs?, "its current SGA".to_owned()),
    };
    let held = work::held(host, instance);
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
    let proposed = |name, bytes: Bytes, because| Proposed { name, value: mebibytes(bytes), because };
    let mut targets = vec![proposed("sga_target", sga, why_sga)];
    if rounded > Bytes::ZERO {
        targets.push(proposed("pga_aggregate_target", rounded, why_pga.join("; ")));
    }
    Some(targets)
}

/// As a parameter takes it: `6144M`.
fn mebibytes(bytes: Bytes) -> String {
    format!("{}M", bytes.get().div_ceil(1 << 20))
}

/// The parameters that put it under automatic memory management, as far as they are set.
fn set_here(instance: &Instance) -> impl Iterator<Item = &Setting> {
    AMM.into_iter().filter_map(|name| instance.settings.get(name))
}

fn without_amm(host: &Host, instance: &Instance, kept: &Kept) -> Vec<String> {
    let targets = targets(host, instance).unwrap_or_default();
    // What it has beside them and is no less holds without them.
    let short = |one: &&Proposed| {
        let set = size(instance, one.name).unwrap_or_default();
        set == Bytes::ZERO || mebibytes(set) != one.value
    };
    let targets: Vec<&Proposed> = targets.iter().filter(short).collect();
    match kept {
        Kept::Text(file) => {
            let gone = set_here(instance).map(|setting| match &setting.place {
                Some(place) => format!("# in {place}: remove {}", setting.name),
                None => format!("# in {file}: remove {}", setting.name),
            });
            gone.chain(targets.iter().flat_map(|one| set(host, instance, kept, one.name, &one.value))).collect()
        }
        Kept::Spfile | Kept::Unknown => {
            // RESET of what is not set fails (ORA-32010); of what could not be read nobody knows.
            let unread = set_here(instance).next().is_none();
            let reset = AMM.into_iter().filter(|name| unread || instance.settings.contains_key(*name));
            let mut lines = vec!["# in sqlplus / as sysdba:".to_owned()];
            // A value for all instances of a cluster is not this one's alone to be reset.
            let all = if starter::runs_clusterware(host) { " SID='*'" } else { "" };
            lines.extend(reset.map(|name| format!("# ALTER SYSTEM RESET {name} SCOPE=SPFILE{all};")));
            let scope = scope(host, instance);
            lines.extend(targets.iter().map(|one| format!("# ALTER SYSTEM SET {}={} {scope};", one.name, one.value)));
            if *kept == Kept::Unknown {
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
    use crate::Scene;

    const FILE: &str = "/u01/app/oracle/product/19.23.0/db/dbs/initDW.ora";
    const SPFILE: &str = "/u01/app/oracle/product/19.23.0/db/dbs/spfileDW.ora";

    fn instance(settings: &[(&str, &str, &str, u64)]) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = Scene::new(&host, &source);
        let mut instance = scene.instance(Engine::Oracle, "DW".into(), &Process::default(), Vec::new());
        let setting = |(name, value, file, line): &(&str, &str, &str, u64)| {
            let place = Some(Place { file: (*file).into(), line: *line });
            ((*name).to_owned(), Setting { name: (*name).into(), value: (*value).into(), place })
        };
        instance.settings = settings.iter().map(setting).collect::<BTreeMap<_, _>>();
        instance
    }

    /// `ALTER SYSTEM ... SCOPE=SPFILE` of an instance without one: ORA-32001 (Oracle error messages).
    #[test]
    fn a_parameter_is_set_where_it_is_kept() {
        let text = instance(&[("use_large_pages", "FALSE", FILE, 6), ("sga_target", "12G", FILE, 3)]);
        assert_eq!(
            ask(&Host::default(), &text, true),
            [format!("# in {FILE}:6: use_large_pages=ONLY instead of FALSE")]
        );
        let text = instance(&[("sga_target", "12G", FILE, 3)]);
        assert_eq!(ask(&Host::default(), &text, false), [format!("# in {FILE}: use_large_pages=TRUE")]);
        let included = instance(&[("use_large_pages", "FALSE", "/etc/ora/all.ora", 2), ("processes", "300", FILE, 1)]);
        assert_eq!(
            ask(&Host::default(), &included, true),
            ["# in /etc/ora/all.ora:2: use_large_pages=ONLY instead of FALSE"]
        );
        for spfile in [
            instance(&[("sga_target", "12G", SPFILE, 0)]),
            instance(&[("spfile", "+DATA/DW/spfileDW.ora", FILE, 1), ("processes", "300", FILE, 2)]),
        ] {
            let told = ["# in sqlplus / as sysdba: ALTER SYSTEM SET use_large_pages=ONLY SCOPE=SPFILE;"];
            assert_eq!(ask(&Host::default(), &spfile, true), told);
        }
        let unread = ask(&Host::default(), &instance(&[]), true);
        assert!(unread.len() == 2 && unread[1].contains("ORA-32001"), "{unread:?}");
    }

    /// MEMORY_MAX_TARGET alone puts an instance under automatic memory management (Database Reference 19c).
    #[test]
    fn what_is_taken_out_is_what_is_set() {
        let told = |settings: &[(&str, &str, &str, u64)]| off_amm(&instance(settings));
        let (max, sga) = (("memory_max_target", "20G", FILE, 6), ("sga_target", "12G", FILE, 3));
        assert_eq!(told(&[max, sga]), format!("remove memory_max_target ({FILE}:6)"));
        assert_eq!(told(&[max]), "sga_target instead of memory_max_target");
        let target = ("memory_target", "16G", FILE, 5);
        assert_eq!(told(&[target, max, sga]), "remove memory_target and memory_max_target");
        assert_eq!(told(&[("memory_target", "0", FILE, 5), max, sga]), format!("remove memory_max_target ({FILE}:6)"));
        // What is right as it is stays.
        let lines = ask(&Host::default(), &instance(&[max, sga]), false);
        assert!(lines.contains(&format!("# in {FILE}: pga_aggregate_target=8192M")), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("sga_target")), "{lines:?}");
    }

    /// 16 GiB of which the SGA has 10 leave 6 GiB, and what the processes hold may be more than that; without a word on the SGA
    /// it begins with 60 % (Oracle Database Administrator's Guide 19c).
    #[test]
    fn the_targets_are_what_it_has_now() {
        use hugewise_model::instance::{Segment, SegmentKind};
        use hugewise_model::{Observed, PageCount};

        let values = |host: &Host, instance: &Instance| -> Vec<String> {
            let proposal = proposal(host, instance).unwrap();
            proposal.change.settings.iter().map(|one| format!("{}={}", one.name, one.value)).collect()
        };
        let mut running = instance(&[("memory_target", "16G", FILE, 6)]);
        assert_eq!(values(&Host::default(), &running), ["sga_target=9831M", "pga_aggregate_target=6592M"]);
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
        assert_eq!(values(&Host::default(), &running), ["sga_target=10240M", "pga_aggregate_target=6144M"]);
        let mut host = Host::default();
        let process = Process { pid: 7, rss_anon: Observed::Known(Bytes::from_mib(7001)), ..Process::default() };
        host.processes = Observed::Known(vec![std::sync::Arc::new(process)]);
        running.pids = vec![7];
        assert_eq!(values(&host, &running), ["sga_target=10240M", "pga_aggregate_target=7040M"]);
        // 10 GiB are 320 granules of 32 MiB, 5,120 pages of 2 MiB, and four to spare; the estimate is off by 1 % at most.
        let demand = proposal(&host, &running).unwrap().demand;
        assert!((PageCount(5124)..=PageCount(5124 + 52)).contains(&demand.pages), "{demand:?}");
        // ASM stays as Oracle sets it up.
        running.traits.push(Trait::Asm);
        assert!(proposal(&host, &running).is_none());
        assert!(proposal(&host, &instance(&[("sga_target", "10G", FILE, 6)])).is_none());
    }

    #[test]
    fn memory_target_goes_before_huge_pages_are_asked_for() {
        let text = instance(&[("memory_target", "16G", FILE, 6), ("use_large_pages", "ONLY", FILE, 2)]);
        let told = ask(&Host::default(), &text, true);
        assert_eq!(told[0], format!("# in {FILE}:6: remove memory_target"));
        assert!(told.iter().any(|line| line.contains("sga_target=")), "{told:?}");
        assert!(told.iter().all(|line| !line.contains("use_large_pages") && !line.contains("SPFILE")), "{told:?}");
        let spfile = ask(&Host::default(), &instance(&[("memory_target", "16G", SPFILE, 0)]), false);
        assert!(spfile.contains(&"# ALTER SYSTEM RESET memory_target SCOPE=SPFILE;".into()), "{spfile:?}");
        // RESET of a parameter that is not in the spfile: ORA-32010.
        assert!(spfile.iter().all(|line| !line.contains("memory_max_target")), "{spfile:?}");
    }
}
