//! An Oracle instance by its sizes or its parameter file.

use hugewise_host::{Door, Source};
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Demand, DemandSource, Mechanism, SessionModel, Setting, Trait};
use hugewise_model::{Bytes, Engine, Host, Instance, Observed};

use super::{Parameters, SETTINGS, Title, asked, demand, homes, traits};
use crate::description::{DescribeError, Described, Description};
use crate::settings::shown;
use crate::{Beside, Scene, SizeOption, Sizes, described, options};

/// The options that describe one.
pub(super) static SIZES: Sizes = Sizes {
    size: SizeOption { option: "sga", help: "Oracle's SGA_TARGET: 34G" },
    most: SizeOption { option: "sga-max", help: "Oracle's SGA_MAX_SIZE, if it is larger" },
    sessions: SizeOption { option: "processes", help: "Oracle's PROCESSES" },
    beside: &[
        Beside {
            size: SizeOption { option: "asm", help: "Also an ASM instance, with this SGA (1G if no size is given)" },
            usual: "1G",
            name: "+ASM",
            marked: Trait::Asm,
        },
        Beside {
            size: SizeOption {
                option: "management-database",
                help: "Also the management database (-MGMTDB), with this SGA (1G if no size is given)",
            },
            usual: "1G",
            name: "-MGMTDB",
            marked: Trait::Gimr,
        },
    ],
};

/// Error in percent where the SGA is the sum of parts that are given and parts that are not.
const PARTS_ERROR: u8 = 30;

/// What the instance would ask for. ASM and the management database are instances of their own, each with its parameter file.
///
/// # Errors
/// A file that is not there or makes no sense; a size that is none; no size at all.
pub(crate) fn describe(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let scene = Scene::new(host, source);
    match description {
        Description::Sizes { sga, sga_max, processes, .. } => by_sizes(&scene, *sga, *sga_max, *processes),
        Description::Config { path, .. } => by_file(&scene, path),
        _ => Err(DescribeError::new("no SGA size given", "give it with --sga 34G, or a file with --config")),
    }
}

fn by_sizes(
    scene: &Scene<'_>,
    sga: Bytes,
    most: Option<Bytes>,
    processes: Option<u64>,
) -> Result<Described, DescribeError> {
    if sga.max(most.unwrap_or_default()) == Bytes::ZERO {
        return Err(DescribeError::new("an SGA of size zero needs no pages", "give its size: --sga 34G"));
    }
    let mut instance = described::instance(scene, Engine::Oracle, sga.to_string());
    let given = [("sga_target", Some(sga.get())), ("sga_max_size", most.map(Bytes::get)), ("processes", processes)];
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        let setting = Setting { name: name.into(), value: value.to_string(), place: None };
        instance.settings.insert(name.into(), setting);
    }
    finish(scene, &mut instance, true)?;
    Ok(instance.into())
}

fn by_file(scene: &Scene<'_>, path: &str) -> Result<Described, DescribeError> {
    let mut door = Door::new(scene.source);
    described::must_be_there(&door, path, "name the parameter file of the instance: initPROD.ora or spfilePROD.ora")?;
    let sid = sid_of(path);
    let prefix = if sid.starts_with('+') { "asm" } else { "ora" };
    let monitor = described::process(vec![format!("{prefix}_pmon_{sid}")]);
    let mut parameters = Parameters { read: Vec::new(), complete: true, last_start: None };
    parameters.add(scene, &mut door, &monitor, path, 0);
    let elsewhere = |what: &str| what.starts_with('+');
    let broken: Vec<_> = door.unread.iter().filter(|unread| !elsewhere(&unread.what)).cloned().collect();
    described::must_make_sense(&broken, "correct that file, or describe the instance with --sga")?;

    let mut instance = described::instance(scene, Engine::Oracle, sid.to_owned());
    instance.version = path.rsplit_once("/dbs/").and_then(|(home, _)| homes::version(home)).into();
    for name in SETTINGS {
        if let Some((file, one)) = parameters.effective(sid, name) {
            let place = Some(Place { file: file.to_owned(), line: one.line });
            let setting = Setting { name: (*name).to_owned(), value: shown(name, &one.value).to_owned(), place };
            instance.settings.insert((*name).to_owned(), setting);
        }
    }
    let title = format!("{prefix}_pmon_{sid}");
    if let Some(title) = Title::parse(&title) {
        instance.traits = traits(&instance, &title);
    }
    finish(scene, &mut instance, parameters.complete)?;
    Ok(Described { instance, unread: door.unread })
}

/// `PROD` of `/u01/app/oracle/product/19.3.0/dbhome_1/dbs/spfilePROD.ora`; a file of another name tells no SID.
fn sid_of(path: &str) -> &str {
    let name = options::file_name(path).strip_suffix(".ora").unwrap_or_default();
    let sid = name.strip_prefix("spfile").or_else(|| name.strip_prefix("init")).unwrap_or_default();
    if sid.is_empty() { "instance" } else { sid }
}

/// All that follows from the settings.
fn finish(scene: &Scene<'_>, instance: &mut Instance, complete: bool) -> Result<(), DescribeError> {
    (instance.asked, instance.setting) = asked(instance, complete);
    let page_size = described::page_size(scene.host);
    instance.asked_page_size = Observed::Known(page_size);
    instance.mechanism = Mechanism::SysvShm;
    instance.session_model = SessionModel::Processes;
    instance.max_sessions = instance.setting_value("processes").and_then(|value| value.parse().ok()).into();
    if instance.traits.contains(&Trait::Amm) {
        return Ok(());
    }
    match estimated(scene.host, instance)? {
        Some((demand, _)) => instance.demand = Some(demand),
        None if complete => {
            return Err(DescribeError::new("no parameter gives the size of the SGA", "give it with --sga 34G"));
        }
        None => {}
    }
    Ok(())
}

/// What its parameters come to, and the one that decides; `None` where none tells.
///
/// # Errors
/// A size that is none.
pub(super) fn estimated(host: &Host, instance: &Instance) -> Result<Option<(Demand, &'static str)>, DescribeError> {
    let page_size = described::page_size(host);
    let target = size(instance, "sga_target")?;
    let most = size(instance, "sga_max_size")?;
    let parts = size(instance, "db_cache_size")? + size(instance, "shared_pool_size")?;
    let sga = if target == Bytes::ZERO { parts } else { target };
    if sga.max(most) == Bytes::ZERO {
        return Ok(None);
    }
    let version = instance.version.known().map(String::as_str);
    let (pages, error) = demand::estimate(version, sga, Some(most), page_size);
    let error_percent = if target.max(most) == Bytes::ZERO { PARTS_ERROR } else { error };
    let decides = if most > sga { "sga_max_size" } else { "sga_target" };
    Ok(Some((Demand { page_size, pages, source: DemandSource::Estimated { error_percent } }, decides)))
}

/// A parameter that is a size: `34G`, `28941m`, `1073741824`; nothing where it is not set.
pub(super) fn size(instance: &Instance, name: &str) -> Result<Bytes, DescribeError> {
    let Some(setting) = instance.settings.get(name) else { return Ok(Bytes::ZERO) };
    let bytes = bytes(&setting.value).filter(|bytes| *bytes < 1 << 63);
    bytes.map(Bytes).ok_or_else(|| {
        let what = format!("{name} is not a size: {:?}", shown(name, &setting.value));
        let todo = "write a whole number of bytes, or one followed by K, M, G or T";
        match &setting.place {
            Some(place) => DescribeError::of(&place.file, what, todo).at(place.line),
            None => DescribeError::new(what, todo),
        }
    })
}

/// An amount as Oracle writes it: a whole number, and one letter behind it.
fn bytes(value: &str) -> Option<u64> {
    let value = value.trim();
    let (number, shift) = match value.char_indices().next_back()? {
        (at, 'k' | 'K') => (value.get(..at)?, 10),
        (at, 'm' | 'M') => (value.get(..at)?, 20),
        (at, 'g' | 'G') => (value.get(..at)?, 30),
        (at, 't' | 'T') => (value.get(..at)?, 40),
        _ => (value, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::{Asked, PageCount, PageSize};

    use super::*;

    const FILE: &str = "/u01/app/oracle/product/19.3.0/dbhome_1/dbs/initPROD.ora";

    fn by(description: &Description, source: &MapSource) -> Result<Described, DescribeError> {
        let host = Host { default_huge_page: Observed::Known(PageSize::MIB_2), ..Host::default() };
        describe(&host, source, description, false)
    }

    fn with(text: &str) -> Result<Instance, DescribeError> {
        let config = Description::Config { engine: Engine::Oracle, path: FILE.into() };
        by(&config, &MapSource::new().file(FILE, text)).map(|described| described.instance)
    }

    #[test]
    fn an_sga_is_its_granules_and_some_spare_pages() {
        let sizes = Description::Sizes {
            engine: Engine::Oracle,
            sga: Bytes::from_gib(34),
            sga_max: None,
            processes: Some(1000),
        };
        let instance = by(&sizes, &MapSource::new()).unwrap().instance;
        let demand = instance.demand.unwrap();
        assert_eq!((demand.pages, demand.source), (PageCount(17_412), DemandSource::Estimated { error_percent: 1 }));
        assert_eq!((instance.asked, instance.max_sessions.get()), (Asked::Try, Some(1000)));

        let prod = with("*.sga_target=8G\nPROD.sga_max_size=10G\nuse_large_pages=only\nprocesses=500\n").unwrap();
        assert_eq!((prod.name.as_str(), prod.asked), ("PROD", Asked::Must));
        assert_eq!(prod.version, Observed::Known("19.3.0".into()));
        assert_eq!(prod.demand.unwrap().pages, PageCount(5124));
    }

    #[test]
    fn automatic_memory_management_takes_none() {
        let instance = with("memory_target=8G\nsga_target=4G\n").unwrap();
        assert_eq!((instance.asked, instance.demand), (Asked::Cannot, None));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let said = |text| with(text).unwrap_err().to_string();
        assert!(said("a=1\nsga_target=34X\n").starts_with(&format!("{FILE}:2: sga_target is not a size: \"34X\"")));
        assert!(said("processes=1\n").starts_with("no parameter gives the size"));
        assert!(said(&format!("sga_target=1G\nifile={FILE}\n")).contains("in a loop"));
        let none = Description::Config { engine: Engine::Oracle, path: "/none.ora".into() };
        assert!(by(&none, &MapSource::new()).unwrap_err().to_string().starts_with("/none.ora: no such file"));
        let nothing = Description::Sizes { engine: Engine::Oracle, sga: Bytes::ZERO, sga_max: None, processes: None };
        assert!(by(&nothing, &MapSource::new()).is_err());
        let in_asm = with("spfile='+DATA/prod/spfileprod.ora'\n").unwrap();
        assert_eq!((in_asm.demand, in_asm.asked), (None, Asked::Unknown));
    }
}
