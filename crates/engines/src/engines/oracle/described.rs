//! An Oracle instance by its sizes or its parameter file.

use hugewise_host::{FactReader, Source};
use hugewise_model::instance::{Demand, DemandSource, Mechanism, SessionModel, Trait};
use hugewise_model::{Bytes, Engine, Host, Instance, Observed};

use super::{
    OracleProcessTitle, Parameters, demand, detect_traits, homes, parse_huge_page_request,
};
use crate::shared::description::{DescribeError, Described, Description};
use crate::shared::settings::new_setting;
use crate::shared::{described, options};
use crate::{CompanionServer, EngineContext, SizeOption, SizeOptions};

pub(super) static SIZES: SizeOptions = SizeOptions {
    size: SizeOption { option: "sga", help: "Oracle's SGA_TARGET: 34G" },
    most: SizeOption { option: "sga-max", help: "Oracle's SGA_MAX_SIZE, if it is larger" },
    sessions: SizeOption { option: "processes", help: "Oracle's PROCESSES" },
    beside: &[
        CompanionServer {
            size: SizeOption {
                option: "asm",
                help: "Also an ASM instance, with this SGA (1G if no size is given)",
            },
            usual: "1G",
            name: "+ASM",
            marked: Trait::Asm,
        },
        CompanionServer {
            size: SizeOption {
                option: "management-database",
                help: "Also the management database (-MGMTDB), with this SGA (1G if no size is \
                       given)",
            },
            usual: "1G",
            name: "-MGMTDB",
            marked: Trait::Gimr,
        },
    ],
};

const PARTS_ERROR: u8 = 30;

pub(crate) fn describe_oracle(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let scene = EngineContext::new(host, source);
    match description {
        Description::Sizes { sga, sga_max, processes, .. } => {
            by_sizes(&scene, *sga, *sga_max, *processes)
        }
        Description::Config { path, .. } => by_file(&scene, path),
        _ => Err(DescribeError::new(
            "no SGA size given",
            "give it with --sga 34G, or a file with --config",
        )),
    }
}

fn by_sizes(
    scene: &EngineContext<'_>,
    sga: Bytes,
    most: Option<Bytes>,
    processes: Option<u64>,
) -> Result<Described, DescribeError> {
    if sga.max(most.unwrap_or_default()) == Bytes::ZERO {
        return Err(DescribeError::new(
            "an SGA of size zero needs no pages",
            "give its size: --sga 34G",
        ));
    }
    let mut instance = described::new_described_instance(scene, Engine::Oracle, sga.to_string());
    let given = [
        ("sga_target", Some(sga.get())),
        ("sga_max_size", most.map(Bytes::get)),
        ("processes", processes),
    ];
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        let setting = new_setting(name, value.to_string(), None);
        instance.settings.insert(name.into(), setting);
    }
    complete_instance(scene, &mut instance, true)?;
    Ok(instance.into())
}

fn by_file(scene: &EngineContext<'_>, path: &str) -> Result<Described, DescribeError> {
    let mut facts = FactReader::new(scene.source);
    described::must_be_there(
        &facts,
        path,
        "name the parameter file of the instance: initPROD.ora or spfilePROD.ora",
    )?;
    let sid = sid_of(path);
    let prefix = if sid.starts_with('+') { "asm" } else { "ora" };
    let monitor = described::process_from_command(vec![format!("{prefix}_pmon_{sid}")]);
    let mut parameters = Parameters { read: Vec::new(), complete: true, last_start: None };
    parameters.add(scene, &mut facts, &monitor, path, 0);
    // Files in ASM are no fault of the description.
    let matters = |what: &str| !what.starts_with('+');
    let todo = "correct that file, or describe the instance with --sga";
    described::must_make_sense(&facts, matters, todo)?;

    let mut instance = described::new_described_instance(scene, Engine::Oracle, sid.to_owned());
    instance.version =
        path.rsplit_once("/dbs/").and_then(|(home, _)| homes::version_in_home_path(home)).into();
    parameters.fill_settings(sid, &mut instance);
    let title = format!("{prefix}_pmon_{sid}");
    if let Some(title) = OracleProcessTitle::parse(&title) {
        instance.traits = detect_traits(&instance, &title);
    }
    complete_instance(scene, &mut instance, parameters.complete)?;
    Ok(Described { instance, unread: facts.unread })
}

fn sid_of(path: &str) -> &str {
    let name = options::file_name(path).strip_suffix(".ora").unwrap_or_default();
    let sid = name.strip_prefix("spfile").or_else(|| name.strip_prefix("init")).unwrap_or_default();
    if sid.is_empty() { "instance" } else { sid }
}

fn complete_instance(
    scene: &EngineContext<'_>,
    instance: &mut Instance,
    complete: bool,
) -> Result<(), DescribeError> {
    (instance.asked, instance.setting) = parse_huge_page_request(instance, complete);
    let page_size = described::page_size(scene.host);
    instance.asked_page_size = Observed::Known(page_size);
    instance.mechanism = Mechanism::SysvShm;
    instance.session_model = SessionModel::Processes;
    super::fill_max_sessions(instance);
    if instance.traits.contains(&Trait::Amm) {
        return Ok(());
    }
    match estimate_demand(scene.host, instance)? {
        Some((demand, _)) => instance.demand = Some(demand),
        None if complete => {
            return Err(DescribeError::new(
                "no parameter gives the size of the SGA",
                "give it with --sga 34G",
            ));
        }
        None => {}
    }
    Ok(())
}

/// The demand of its parameters and the one that decides it; none where they do not tell.
pub(super) fn estimate_demand(
    host: &Host,
    instance: &Instance,
) -> Result<Option<(Demand, &'static str)>, DescribeError> {
    let page_size = described::page_size(host);
    let target = size_parameter(instance, "sga_target")?;
    let most = size_parameter(instance, "sga_max_size")?;
    let parts =
        size_parameter(instance, "db_cache_size")? + size_parameter(instance, "shared_pool_size")?;
    let sga = if target == Bytes::ZERO { parts } else { target };
    if sga.max(most) == Bytes::ZERO {
        return Ok(None);
    }
    let version = instance.version.as_known().map(String::as_str);
    let (pages, error) = demand::estimate_sga_pages(version, sga, Some(most), page_size);
    let error_percent = if target.max(most) == Bytes::ZERO { PARTS_ERROR } else { error };
    let decides = if most > sga { "sga_max_size" } else { "sga_target" };
    Ok(Some((
        Demand { page_size, pages, source: DemandSource::Estimated { error_percent } },
        decides,
    )))
}

pub(super) fn possible_demand(host: &Host, instance: &Instance) -> Option<Demand> {
    estimate_demand(host, instance).ok().flatten().map(|(demand, _)| demand)
}

/// A parameter that is a size: `34G`, `28941m`, `1073741824`; zero where it is not set.
pub(super) fn size_parameter(instance: &Instance, name: &str) -> Result<Bytes, DescribeError> {
    let Some(setting) = instance.settings.get(name) else { return Ok(Bytes::ZERO) };
    let bytes = parse_bytes(&setting.value).filter(|bytes| *bytes < 1 << 63);
    bytes.map(Bytes).ok_or_else(|| described::invalid_size_error(setting))
}

/// An amount as Oracle writes it: a whole number, and one letter behind it.
fn parse_bytes(value: &str) -> Option<u64> {
    let value = value.trim();
    let shift = value.chars().next_back().and_then(options::unit_shift);
    let number = if shift.is_some() { value.get(..value.len() - 1)? } else { value };
    number.parse::<u64>().ok()?.checked_mul(1 << shift.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::{HugePageMode, PageCount, PageSize};

    use super::*;

    const FILE: &str = "/u01/app/oracle/product/19.3.0/dbhome_1/dbs/initPROD.ora";

    fn by(description: &Description, source: &MapSource) -> Result<Described, DescribeError> {
        let host = Host { default_huge_page: Observed::Known(PageSize::MIB_2), ..Host::default() };
        describe_oracle(&host, source, description, false)
    }

    fn describe_parameters(text: &str) -> Result<Instance, DescribeError> {
        let config = Description::Config { engine: Engine::Oracle, path: FILE.into() };
        by(&config, &MapSource::new().with_file(FILE, text)).map(|described| described.instance)
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
        assert_eq!(
            (demand.pages, demand.source),
            (PageCount(17_412), DemandSource::Estimated { error_percent: 1 })
        );
        assert_eq!((instance.asked, instance.max_sessions.get()), (HugePageMode::Try, Some(1000)));

        let prod = describe_parameters(
            "*.sga_target=8G\nPROD.sga_max_size=10G\nuse_large_pages=only\nprocesses=500\n",
        )
        .unwrap();
        assert_eq!((prod.name.as_str(), prod.asked), ("PROD", HugePageMode::Must));
        assert_eq!(prod.version, Observed::Known("19.3.0".into()));
        assert_eq!(prod.demand.unwrap().pages, PageCount(5124));
    }

    #[test]
    fn automatic_memory_management_takes_none() {
        let instance = describe_parameters("memory_target=8G\nsga_target=4G\n").unwrap();
        assert_eq!((instance.asked, instance.demand), (HugePageMode::Cannot, None));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let said = |text| describe_parameters(text).unwrap_err().to_string();
        assert!(
            said("a=1\nsga_target=34X\n")
                .starts_with(&format!("{FILE}:2: sga_target is not a size: \"34X\""))
        );
        assert!(said("processes=1\n").starts_with("no parameter gives the size"));
        assert!(said(&format!("sga_target=1G\nifile={FILE}\n")).contains("in a loop"));
        let none = Description::Config { engine: Engine::Oracle, path: "/none.ora".into() };
        assert!(
            by(&none, &MapSource::new())
                .unwrap_err()
                .to_string()
                .starts_with("/none.ora: no such file")
        );
        let nothing = Description::Sizes {
            engine: Engine::Oracle,
            sga: Bytes::ZERO,
            sga_max: None,
            processes: None,
        };
        assert!(by(&nothing, &MapSource::new()).is_err());
        let in_asm = describe_parameters("spfile='+DATA/prod/spfileprod.ora'\n").unwrap();
        assert_eq!((in_asm.demand, in_asm.asked), (None, HugePageMode::Unknown));
    }
}
