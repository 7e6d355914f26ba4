//! How an Oracle instance is made to ask for huge pages: where its parameters are kept, and what is to stand there.

use hugewise_model::Instance;
use hugewise_model::instance::{Setting, Trait};

use super::{AMM, asks_for_amm, is_positive};
use crate::options::file_name;

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
        let read = instance.settings.values().filter(|setting| setting.name != "oracle_home");
        let files: Vec<&str> = read.filter_map(|setting| Some(setting.place.as_ref()?.file.as_str())).collect();
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
pub(super) fn ask(instance: &Instance, must: bool) -> Vec<String> {
    let kept = Kept::of(instance);
    if asks_for_amm(instance) || instance.traits.contains(&Trait::Amm) {
        return without_amm(instance, &kept);
    }
    let value = if must { "ONLY" } else { "TRUE" };
    set(instance, &kept, "use_large_pages", value)
}

fn set(instance: &Instance, kept: &Kept, name: &str, value: &str) -> Vec<String> {
    let alter = format!("ALTER SYSTEM SET {name}={value} SCOPE=SPFILE;");
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
        [Setting { place: Some(place), .. }] => format!("take {names} out ({place})"),
        _ => format!("take {names} out"),
    }
}

/// Automatic shared memory management with the memory that it has now.
fn without_amm(instance: &Instance, kept: &Kept) -> Vec<String> {
    let sga = format!("{}M", instance.segment_bytes().get().div_ceil(1 << 20));
    let set_here = || AMM.into_iter().filter_map(|name| instance.settings.get(name));
    // What it has beside them holds without them.
    let needs = |name: &str| !is_positive(instance, name);
    match kept {
        Kept::Text(file) => {
            let mut lines: Vec<String> = set_here()
                .map(|setting| match &setting.place {
                    Some(place) => format!("# in {place}: take {} out", setting.name),
                    None => format!("# in {file}: take {} out", setting.name),
                })
                .collect();
            if needs("sga_target") {
                lines.extend(set(instance, kept, "sga_target", &sga));
            }
            if needs("pga_aggregate_target") {
                lines.push(format!("# in {file}: pga_aggregate_target with the PGA that it needs"));
            }
            lines
        }
        Kept::Spfile | Kept::Unknown => {
            // RESET of what is not set fails (ORA-32010); of what could not be read nobody knows.
            let unread = set_here().next().is_none();
            let reset = AMM.into_iter().filter(|name| unread || instance.settings.contains_key(*name));
            let mut lines = vec!["# in sqlplus / as sysdba, with the PGA that it needs:".to_owned()];
            lines.extend(reset.map(|name| format!("# ALTER SYSTEM RESET {name} SCOPE=SPFILE;")));
            if needs("sga_target") {
                lines.push(format!("# ALTER SYSTEM SET sga_target={sga} SCOPE=SPFILE;"));
            }
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
    use hugewise_model::configuration::Place;
    use hugewise_model::{Engine, Host, Process};

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
        assert_eq!(ask(&text, true), [format!("# in {FILE}:6: use_large_pages=ONLY instead of FALSE")]);
        let text = instance(&[("sga_target", "12G", FILE, 3)]);
        assert_eq!(ask(&text, false), [format!("# in {FILE}: use_large_pages=TRUE")]);
        let included = instance(&[("use_large_pages", "FALSE", "/etc/ora/all.ora", 2), ("processes", "300", FILE, 1)]);
        assert_eq!(ask(&included, true), ["# in /etc/ora/all.ora:2: use_large_pages=ONLY instead of FALSE"]);
        for spfile in [
            instance(&[("sga_target", "12G", SPFILE, 0)]),
            instance(&[("spfile", "+DATA/DW/spfileDW.ora", FILE, 1), ("processes", "300", FILE, 2)]),
        ] {
            let told = ["# in sqlplus / as sysdba: ALTER SYSTEM SET use_large_pages=ONLY SCOPE=SPFILE;"];
            assert_eq!(ask(&spfile, true), told);
        }
        let unread = ask(&instance(&[]), true);
        assert!(unread.len() == 2 && unread[1].contains("ORA-32001"), "{unread:?}");
    }

    /// MEMORY_MAX_TARGET alone puts an instance under automatic memory management (Database Reference 19c).
    #[test]
    fn what_is_taken_out_is_what_is_set() {
        let told = |settings: &[(&str, &str, &str, u64)]| off_amm(&instance(settings));
        let (max, sga) = (("memory_max_target", "20G", FILE, 6), ("sga_target", "12G", FILE, 3));
        assert_eq!(told(&[max, sga]), format!("take memory_max_target out ({FILE}:6)"));
        assert_eq!(told(&[max]), "sga_target instead of memory_max_target");
        let target = ("memory_target", "16G", FILE, 5);
        assert_eq!(told(&[target, max, sga]), "take memory_target and memory_max_target out");
        assert_eq!(
            told(&[("memory_target", "0", FILE, 5), max, sga]),
            format!("take memory_max_target out ({FILE}:6)")
        );
        // What is right as it is stays.
        let lines = ask(&instance(&[max, sga]), false);
        assert!(lines.iter().all(|line| !line.contains("sga_target")), "{lines:?}");
    }

    #[test]
    fn memory_target_goes_before_huge_pages_are_asked_for() {
        let text = instance(&[("memory_target", "16G", FILE, 6), ("use_large_pages", "ONLY", FILE, 2)]);
        let told = ask(&text, true);
        assert_eq!(told[0], format!("# in {FILE}:6: take memory_target out"));
        assert!(told.iter().any(|line| line.contains("sga_target=")), "{told:?}");
        assert!(told.iter().all(|line| !line.contains("use_large_pages") && !line.contains("SPFILE")), "{told:?}");
        let spfile = ask(&instance(&[("memory_target", "16G", SPFILE, 0)]), false);
        assert!(spfile.contains(&"# ALTER SYSTEM RESET memory_target SCOPE=SPFILE;".into()), "{spfile:?}");
        // RESET of a parameter that is not in the spfile: ORA-32010.
        assert!(spfile.iter().all(|line| !line.contains("memory_max_target")), "{spfile:?}");
    }
}
