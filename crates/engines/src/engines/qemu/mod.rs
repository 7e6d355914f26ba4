//! QEMU: the memory of virtual machines, with or without KVM.

mod definition;
mod described;
mod hugetlbfs;
mod log;
mod meanings;
mod messages;
mod read_config;
mod redaction;
mod stopped;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{Mechanism, NextStart, Segment, ServerSetting, SessionModel, Trait};
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, Host, HugePageMode, Instance, Mapping, Observed,
    PageCount, PageSize, Process,
};

use crate::shared::kind::{
    CaptureRules, LogSources, PageSizeChoice, Recognition, RestartBehavior, SettingAdvice,
};
use crate::shared::settings::redacted_setting;
use crate::shared::starting::Starting;
use crate::shared::{options, segments};
use crate::{
    DescribedBy, EngineContext, EngineKind, FoundInstances, StartBehavior, TouchedAtStart,
    each_known,
};

use hugetlbfs::{GuestMounts, is_below};

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::Qemu,
    names: &[(Engine::Qemu, "QEMU/KVM")],
    recognition: Recognition {
        programs: &["qemu-system-*", "qemu-kvm", "kvm"],
        find_running: find_qemu_guests,
        find_stopped: stopped::find_stopped_guests,
        services: &["virtqemud", "libvirtd"],
        accounts: &["libvirt-qemu", "qemu", "kvm", "libvirt", "oneadmin", "qemu-libvirtd"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        forms: Forms {
            rewrite: Some(|path, bytes| {
                definition::redact_definition(path, bytes)
                    .or_else(|| read_config::redact_read_config(path, bytes))
            }),
            value: Some(redaction::redact_option_value),
            ..Forms::NONE
        },
        value_shapes: &[
            ("-mem-path", ValueShape::Path),
            ("mem-path", ValueShape::Path),
            ("memory-backend", ValueShape::Names),
        ],
        options: &[
            "-name",
            "-m",
            "-object",
            "-mem-path",
            "-mem-prealloc",
            "-machine",
            "-M",
            "-numa",
            "-device",
            "-readconfig",
        ],
        ..CaptureRules::PLAIN
    },
    logs: LogSources {
        format: Some(&log::FORMAT),
        messages: messages::MESSAGES,
        meanings: meanings::MEANINGS,
        ..LogSources::PLAIN
    },
    describe: Some((
        DescribedBy::Command("qemu-system-x86_64 -m 8G ..."),
        described::describe_guest,
    )),
    start: StartBehavior { touches: touched_at_start, ..StartBehavior::PLAIN },
    restart: RestartBehavior { command_line: Some(&STARTING), ..RestartBehavior::PLAIN },
    page_size: PageSizeChoice {
        setting: Some("hugetlbsize= of its backend, or pagesize= of its hugetlbfs"),
        is_named: |instance| instance.settings.contains_key("hugetlbsize"),
        can_be_named: |_| true,
        ..PageSizeChoice::PLAIN
    },
    settings: SettingAdvice {
        commands: |_, _, _| {
            let how = "# give it -object memory-backend-memfd,hugetlb=on (libvirt: \
                <memoryBacking><hugepages/></memoryBacking>)";
            vec![how.into()]
        },
        asks_by: "a hugetlb memory backend",
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
};

/// `-m` where none is given (QEMU's manual page).
const DEFAULT_MEMORY: Bytes = Bytes::from_mib(128);
/// A guest has a backend for each of its nodes, of which there are 128 at most.
const MOST_BACKENDS: usize = 1024;
const SMALLEST_PART: Bytes = Bytes::from_mib(16);

fn find_qemu_guests(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for process in each_known(&scene.host.processes) {
        if KIND.is_server_program(options::program_name(process)) {
            found.add(build_instance(scene, process));
        }
    }
}

/// `-object memory-backend-*`, or `-mem-path`, which does the same for all memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Backend {
    kind: String,
    properties: BTreeMap<String, String>,
}

impl Backend {
    fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    fn size(&self) -> Option<Bytes> {
        self.get("size").and_then(|text| parse_size(text, 1))
    }

    /// Whether its memory is hugetlb: a memfd that asks for it, or a file on a hugetlbfs.
    fn is_huge(&self, mounts: &GuestMounts<'_>) -> bool {
        let on = |name| matches!(self.get(name), Some("on" | "yes" | "true" | "y"));
        match self.kind.as_str() {
            "memory-backend-memfd" => on("hugetlb"),
            "memory-backend-file" => {
                self.get("mem-path").is_some_and(|path| mounts.is_on_hugetlbfs(path))
            }
            _ => false,
        }
    }

    /// Proxmox VE mounts this hugetlbfs itself, and makes the pages of a guest before each start
    /// (`hugepages_mount` and `hugepages_allocate` of PVE/QemuServer/Memory.pm).
    fn is_made_by_proxmox(&self) -> bool {
        self.get("mem-path").is_some_and(|path| path.starts_with("/run/hugepages/kvm/"))
    }

    fn page_size(&self, mounts: &GuestMounts<'_>) -> Option<PageSize> {
        if let Some(size) = self.get("hugetlbsize").and_then(|text| parse_size(text, 1)) {
            return PageSize::new(size.get());
        }
        let by_path = self.get("mem-path").and_then(|path| mounts.page_size_below(path));
        by_path.or_else(|| mounts.host.default_huge_page.get())
    }
}

struct GuestMemory {
    backends: Vec<Backend>,
    plain: Option<Bytes>,
    /// What QEMU before 5.0 puts into ordinary memory where `-mem-path` has not enough pages.
    may_fall_back: Option<Bytes>,
}

impl GuestMemory {
    /// A guest's memory is `-m` of private memory or of files in `-mem-path`, or the backends that
    /// `-machine memory-backend=` or `-numa memdev=` name. Other backends are memory of a device.
    fn from_arguments(arguments: &[String]) -> Self {
        let size = option_values(arguments, "m")
            .last()
            .map_or(Some(DEFAULT_MEMORY), |text| memory_size(text));
        let mut backends = parse_backends(arguments);
        let path = option_values(arguments, "mem-path").last().copied();
        let named = |option: &str, property: &str| {
            !referenced_backends(arguments, option, property).is_empty()
        };
        let of_devices = referenced_backends(arguments, "device", "memdev");
        let ours = backends
            .iter()
            .filter(|backend| backend.get("id").is_none_or(|id| !of_devices.contains(id)));
        let sum = ours.filter_map(Backend::size).sum::<Bytes>();
        let in_backends = ["machine", "M"].iter().any(|option| named(option, "memory-backend"))
            || named("numa", "memdev")
            // A capture of an older release has neither.
            || (sum > Bytes::ZERO
                && Some(sum) == size
                && option_values(arguments, "readconfig").is_empty());
        let mut plain = size.filter(|_| !in_backends);
        let is_touched =
            arguments.iter().any(|word| word.trim_start_matches('-') == "mem-prealloc");
        let may_fall_back = plain.filter(|_| path.is_some() && !is_touched);
        if let (Some(path), Some(size)) = (path, plain) {
            let properties = [("mem-path", path.to_owned()), ("size", size.get().to_string())];
            let properties = properties.map(|(name, value)| (name.to_owned(), value)).into();
            backends.push(Backend { kind: "memory-backend-file".into(), properties });
            plain = None;
        }
        Self { backends, plain, may_fall_back }
    }

    /// Whether what `-mem-path` was to hold is in ordinary memory, as no release from 5.0 on has it
    /// (68a86dc15c "numa: remove deprecated -mem-path fallback to anonymous RAM").
    fn has_fallen_back(&self, host: &Host, process: &Process) -> bool {
        let (Some(size), Some(mappings)) = (self.may_fall_back, process.mappings.as_known()) else {
            return false;
        };
        let is_huge = |mapping: &Mapping| segments::mapping_is_huge(host, mapping).get();
        let is_large = |mapping: &Mapping| {
            mapping.name.is_empty() && mapping.accessible && mapping.size() >= size
        };
        mappings.iter().all(|mapping| is_huge(mapping) == Some(false))
            && mappings.iter().any(is_large)
    }

    /// Pages by size: those that backends ask for, and the host's default for all else.
    fn pages_by_size(
        &self,
        mounts: &GuestMounts<'_>,
        huge_only: bool,
    ) -> BTreeMap<PageSize, PageCount> {
        let default = mounts.host.default_huge_page.get();
        let mut pages = BTreeMap::<PageSize, PageCount>::new();
        let of_backends = self.backends.iter().filter_map(|backend| {
            let huge = backend.is_huge(mounts);
            let page = if huge { backend.page_size(mounts) } else { default };
            Some((page.filter(|_| huge || !huge_only)?, backend.size()?))
        });
        let plain = default.zip(self.plain).filter(|_| !huge_only);
        for (page, size) in of_backends.chain(plain) {
            let sum = pages.entry(page).or_default();
            *sum = *sum + page.pages_for(size);
        }
        pages
    }
}

/// The backends that a property of these options names: `-machine memory-backend=ram0`.
fn referenced_backends(arguments: &[String], option: &str, property: &str) -> BTreeSet<String> {
    let in_json = |text: &str| {
        let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        fields.get(property)?.as_str().map(str::to_owned)
    };
    let in_pairs = |text: &str| {
        let pairs = key_values(text).into_iter().filter(|(name, _)| name == property);
        pairs.map(|(_, value)| value).next_back()
    };
    let text_of = |text: &str| if text.starts_with('{') { in_json(text) } else { in_pairs(text) };
    option_values(arguments, option)
        .into_iter()
        .filter_map(text_of)
        .filter(|id| !id.is_empty())
        .collect()
}

fn in_order(mut pages: BTreeMap<PageSize, PageCount>, page: PageSize) -> Vec<Demand> {
    pages.retain(|_, count| *count > PageCount::ZERO);
    let first = pages.remove_entry(&page);
    let demand = |(page_size, pages)| Demand { page_size, pages, source: DemandSource::Engine };
    first.into_iter().chain(pages).map(demand).collect()
}

static STARTING: Starting = Starting {
    would_be: |scene, main, _| build_instance(scene, main),
    decisive: |words| {
        let named = |name: &'static str| {
            option_values(words, name)
                .into_iter()
                .map(move |value| (name.to_owned(), value.to_owned()))
        };
        ["m", "mem-path", "object"].into_iter().flat_map(named).collect()
    },
    made: |_, _, _, _| None,
};

fn guest_settings(
    process: &Process,
    arguments: &[String],
    main: Option<&Backend>,
) -> BTreeMap<String, ServerSetting> {
    let backend = |name: &'static str| Some((name, main?.get(name)?));
    let size = option_values(arguments, "m").last().map(|text| ("m", *text));
    let of_backend = ["mem-path", "hugetlb", "hugetlbsize", "size", "prealloc", "share"];
    let kind = main.map(|backend| ("memory-backend", backend.kind.as_str()));
    let all = size.into_iter().chain(of_backend.into_iter().filter_map(backend)).chain(kind);
    let place = FileLocation::command_line(process.pid);
    all.map(|(name, value)| (name.to_owned(), redacted_setting(name, value, Some(place.clone()))))
        .collect()
}

fn find_deciding_setting(
    instance: &Instance,
    process: &Process,
    file: bool,
) -> Option<ServerSetting> {
    let decides = if file { "mem-path" } else { "hugetlb" };
    let by_default = || ServerSetting {
        name: decides.into(),
        value: if file { "none" } else { "off" }.into(),
        place: None,
    };
    let setting = instance.settings.get(decides).cloned();
    let setting = setting.or_else(|| process.command.is_known().then(by_default));
    setting.filter(|_| instance.asked != HugePageMode::Unknown)
}

fn build_instance(scene: &EngineContext<'_>, process: &Process) -> Instance {
    let host = scene.host;
    let arguments = process.command.as_known().map(Vec::as_slice).unwrap_or_default();
    let with_files = read_config::read_all_options(scene, process, arguments);
    let is_hidden = with_files.is_none();
    let arguments = with_files.as_deref().unwrap_or(arguments);
    let memory = GuestMemory::from_arguments(arguments);
    let has_fallen_back = memory.has_fallen_back(host, process);
    let mounts = GuestMounts::from_process(scene, process);
    let backends = &memory.backends;
    let name = option_values(arguments, "name").last().and_then(|text| guest_name(text));
    let mut instance = scene.new_instance(
        Engine::Qemu,
        name.unwrap_or_else(|| process.pid.to_string()),
        process,
        Vec::new(),
    );

    let main =
        backends.iter().find(|backend| backend.is_huge(&mounts)).or_else(|| backends.first());
    instance.settings = guest_settings(process, arguments, main);
    let huge = main.is_some_and(|backend| backend.is_huge(&mounts));
    let file = main.is_some_and(|backend| backend.kind == "memory-backend-file");
    let is_told = process.command.is_known() && !is_hidden && !hides_backends(arguments);
    instance.asked = match (huge, is_told) {
        (true, _) if main.is_some_and(Backend::is_made_by_proxmox) => HugePageMode::Raises,
        (true, _) if has_fallen_back => HugePageMode::Try,
        (true, _) => HugePageMode::Must,
        (false, true) => HugePageMode::No,
        (false, false) => HugePageMode::Unknown,
    };
    instance.setting = find_deciding_setting(&instance, process, file);
    instance.mechanism = if huge && file { Mechanism::Hugetlbfs } else { Mechanism::Mmap };
    instance.session_model = SessionModel::Threads;
    let page_size = match main {
        Some(backend) if huge => backend.page_size(&mounts),
        _ => host.default_huge_page.get(),
    };
    instance.asked_page_size = page_size.into();

    let in_memory = |backend: &&Backend| backend.kind == "memory-backend-ram";
    let fallen = memory.may_fall_back.filter(|_| has_fallen_back);
    let private = backends.iter().filter(in_memory).filter_map(Backend::size);
    let private = private.chain(memory.plain).chain(fallen);
    let private: Vec<Bytes> = private.collect();
    let files: Vec<&str> = backends.iter().filter_map(|backend| backend.get("mem-path")).collect();
    instance.segments = guest_memory(&mounts, process, &private, &files);
    instance.huge_pages = segments::huge_page_use(&instance.segments);
    let Some(page) = page_size.filter(|_| process.command.is_known()) else { return instance };
    let mut demands = in_order(memory.pages_by_size(&mounts, false), page).into_iter();
    (instance.demand, instance.other_demands) = (demands.next(), demands.collect());
    if huge {
        note_part_asked_for(&mut instance, in_order(memory.pages_by_size(&mounts, true), page));
    }
    instance
}

/// Where that is not all its memory, the next start asks as this one did: for a part of it.
fn note_part_asked_for(instance: &mut Instance, asked_for: Vec<Demand>) {
    if instance.demand.iter().chain(&instance.other_demands).ne(&asked_for) {
        instance.traits.push(Trait::AsksInPart);
        let setting = instance.setting.clone();
        instance.next =
            Observed::Known(NextStart { asked: instance.asked, setting, demands: asked_for });
    }
}

/// With `prealloc`, which libvirt sets for each guest on huge pages, QEMU touches all of it and gives
/// up where that fails.
fn touched_at_start(instance: &Instance, _: Bytes) -> TouchedAtStart {
    let is_on = |value: &str| matches!(value, "on" | "yes" | "true" | "y");
    if instance.is_stopped() || instance.setting_value("prealloc").is_some_and(is_on) {
        TouchedAtStart::All
    } else {
        TouchedAtStart::Unmeasured
    }
}

/// The guest's memory: memfds, files on tmpfs, on hugetlbfs and wherever a backend has them, and for
/// each private part the smallest private stretch that is large enough: without KVM the translator has a private buffer too, of up
/// to 1 GiB.
fn guest_memory(
    mounts: &GuestMounts<'_>,
    process: &Process,
    private: &[Bytes],
    files: &[&str],
) -> Vec<Segment> {
    let host = mounts.host;
    let mappings = each_known(&process.mappings).filter(|mapping| mapping.accessible);
    let (mut guest, mut anonymous) = (Vec::new(), Vec::new());
    for mapping in mappings {
        let name = segments::strip_deleted_mark(&mapping.name);
        let huge = segments::mapping_is_huge(host, mapping).get() == Some(true);
        let backed = name.starts_with("/memfd:")
            || name.starts_with("/dev/shm/")
            || files.iter().any(|path| is_below(name, path))
            || mounts.is_on_hugetlbfs(name);
        if huge || (backed && mapping.size() >= SMALLEST_PART) {
            guest.push(mapping);
        } else if name.is_empty() || name == "/dev/zero" {
            anonymous.push(mapping);
        }
    }
    anonymous.sort_by_key(|mapping| mapping.size());
    for size in private.iter().take(MOST_BACKENDS) {
        let at = anonymous.partition_point(|mapping| mapping.size() < *size);
        if at < anonymous.len() {
            guest.push(anonymous.remove(at));
        }
    }
    let guest: BTreeSet<u64> = guest.iter().map(|mapping| mapping.start).collect();
    let memory = segments::collect_segments(host, &[process.pid], |_, mapping| {
        guest.contains(&mapping.start)
    })
    .into_iter();
    memory.map(|segment| Segment { name: "guest memory".into(), ..segment }).collect()
}

/// The values of an option, with one dash or two.
fn option_values<'a>(arguments: &'a [String], name: &str) -> Vec<&'a str> {
    let pairs = arguments.iter().skip(1).zip(arguments.iter().skip(2));
    let is =
        |option: &str| option.strip_prefix("--").or_else(|| option.strip_prefix('-')) == Some(name);
    pairs.filter(|(option, _)| is(option)).map(|(_, value)| value.as_str()).collect()
}

fn parse_backends(arguments: &[String]) -> Vec<Backend> {
    let objects = option_values(arguments, "object").into_iter().filter_map(parse_backend);
    objects.filter(|backend| backend.kind.starts_with("memory-backend-")).collect()
}

/// Whether a backend may be named in words that make no sense here.
fn hides_backends(arguments: &[String]) -> bool {
    let broken = |text: &&str| text.contains("memory-backend-") && parse_backend(text).is_none();
    option_values(arguments, "object").iter().any(broken)
}

/// `memory-backend-memfd,id=m,size=1G,hugetlb=on`, or the JSON that libvirt writes since 6.10.
fn parse_backend(text: &str) -> Option<Backend> {
    if text.starts_with('{') {
        let serde_json::Value::Object(fields) = serde_json::from_str(text).ok()? else {
            return None;
        };
        let plain = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let mut properties: BTreeMap<_, _> =
            fields.into_iter().map(|(name, value)| (name, plain(value))).collect();
        return Some(Backend { kind: properties.remove("qom-type")?, properties });
    }
    let mut parts = key_values(text).into_iter();
    let (kind, value) = parts.next()?;
    let kind = if kind == "qom-type" { value } else { kind };
    // A word without a value is a switch that is on.
    let on = |(name, value): (String, String)| {
        (name, if value.is_empty() { "on".into() } else { value })
    };
    Some(Backend { kind, properties: parts.map(on).collect() })
}

/// `a,b=c,d=e,,f`: a double comma is one in a value.
fn key_values(text: &str) -> Vec<(String, String)> {
    let unescaped = text.replace(",,", "\0");
    let parts = unescaped.split(',').map(|part| part.replace('\0', ","));
    parts
        .map(|part| {
            part.split_once('=')
                .map_or((part.clone(), String::new()), |(name, value)| (name.into(), value.into()))
        })
        .collect()
}

fn guest_name(text: &str) -> Option<String> {
    let parts = key_values(text);
    let named = parts.iter().find(|(name, _)| name == "guest").map(|(_, value)| value.clone());
    let first =
        || parts.first().filter(|(_, value)| value.is_empty()).map(|(name, _)| name.clone());
    named.or_else(first).filter(|name| !name.is_empty() && ValueShape::Names.matches_value(name))
}

/// `-m 4096`, `-m 4G`, `-m size=4194304k,slots=2,maxmem=8G`; mebibytes without a unit.
fn memory_size(text: &str) -> Option<Bytes> {
    let parts = key_values(text);
    let named = parts.iter().find(|(name, _)| name == "size").map(|(_, value)| value);
    parse_size(named.or_else(|| parts.first().map(|(name, _)| name))?, 1 << 20)
}

fn parse_size(text: &str, unit: u64) -> Option<Bytes> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)?.chars().next() {
        None => unit,
        Some('b' | 'B') => 1,
        Some(letter) => 1 << options::unit_shift(letter)?,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Bytes)
}

#[cfg(test)]
mod tests;
