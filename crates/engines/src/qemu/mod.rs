//! QEMU: the memory of virtual machines, with or without KVM.

mod asleep;
mod definition;
mod described;
mod kept;
mod log;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::Shape;
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, NextStart, Segment, SessionModel, Setting, Trait};
use hugewise_model::{
    Asked, Bytes, Demand, DemandSource, Engine, Host, Instance, Observed, PageCount, PageSize, Process,
};

use crate::settings::shown;
use crate::starting::Starting;
use crate::{By, Found, Kind, Scene, options, segments};

/// QEMU.
pub static KIND: Kind = Kind {
    engine: Engine::Qemu,
    names: &[(Engine::Qemu, "QEMU/KVM")],
    programs: &["qemu-system-*", "qemu-kvm", "kvm"],
    find,
    asleep: asleep::asleep,
    starting: Some(&STARTING),
    forms: Forms { rewrite: Some(definition::kept), value: Some(kept::value), ..Forms::NONE },
    describe: Some((By::Command("qemu-system-x86_64 -m 8G ..."), described::describe)),
    ask: |_, _, _| {
        let how =
            "# give it -object memory-backend-memfd,hugetlb=on (libvirt: <memoryBacking><hugepages/></memoryBacking>)";
        vec![how.into()]
    },
    texts: &[("-mem-path", Shape::Path), ("mem-path", Shape::Path), ("memory-backend", Shape::Names)],
    log_format: Some(&log::FORMAT),
    asks_by: "a hugetlb memory backend",
    page_size_by: Some("hugetlbsize= of its backend, or pagesize= of its hugetlbfs"),
    names_page_size: |instance| instance.settings.contains_key("hugetlbsize"),
    takes_page_size: |_| true,
    services: &["virtqemud", "libvirtd"],
    accounts: &["libvirt-qemu", "qemu", "kvm", "libvirt", "oneadmin"],
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
    ..Kind::PLAIN
};

/// `-m` where none is given (QEMU's manual page).
const DEFAULT_MEMORY: Bytes = Bytes::from_mib(128);

/// Backends that are looked for: a guest has one a node, and 128 nodes at most.
const MOST_BACKENDS: usize = 1024;

/// Smaller shared mappings are devices' own.
const SMALLEST_PART: Bytes = Bytes::from_mib(16);

fn find(scene: &Scene<'_>, found: &mut Found) {
    for process in scene.host.processes.known().into_iter().flatten() {
        if KIND.runs(options::program(process)) {
            found.add(instance(scene.host, scene, process));
        }
    }
}

/// One `-object memory-backend-*`, or `-mem-path`, which is the same for the whole of the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Backend {
    /// `memory-backend-memfd`, `memory-backend-file`, `memory-backend-ram`.
    kind: String,
    properties: BTreeMap<String, String>,
}

impl Backend {
    fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    fn size(&self) -> Option<Bytes> {
        self.get("size").and_then(|text| size(text, 1))
    }

    /// Whether its memory is hugetlb: a memfd that asks for it, or a file on a hugetlbfs.
    fn huge(&self, host: &Host) -> bool {
        let on = |name| matches!(self.get(name), Some("on" | "yes" | "true" | "y"));
        match self.kind.as_str() {
            "memory-backend-memfd" => on("hugetlb"),
            "memory-backend-file" => self.get("mem-path").is_some_and(|path| is_on_hugetlbfs(host, path)),
            _ => false,
        }
    }

    fn page_size(&self, host: &Host) -> Option<PageSize> {
        if let Some(size) = self.get("hugetlbsize").and_then(|text| size(text, 1)) {
            return PageSize::new(size.get());
        }
        let mount = self.get("mem-path").and_then(|path| mount_of(host, path));
        mount.map_or_else(|| host.default_huge_page.get(), |mount| mount.page_size.get())
    }
}

/// The memory of a guest, and what else it maps for its devices: each backend with its size, and what is in none.
struct Memory {
    backends: Vec<Backend>,
    /// The size of the machine's own memory, where no backend holds it.
    plain: Option<Bytes>,
}

impl Memory {
    /// A machine's memory is `-m` of private memory, or of files in `-mem-path`; where `-machine memory-backend=` or
    /// `-numa memdev=` names backends it is these. What they don't name is memory of a device, and comes on top.
    fn of(arguments: &[String]) -> Self {
        let size = values(arguments, "m").last().map_or(Some(DEFAULT_MEMORY), |text| memory_size(text));
        let mut backends = objects(arguments);
        let path = values(arguments, "mem-path").last().copied();
        let named = |option: &str, property: &str| !references(arguments, option, property).is_empty();
        let of_devices = references(arguments, "device", "memdev");
        let ours = backends.iter().filter(|backend| backend.get("id").is_none_or(|id| !of_devices.contains(id)));
        let sum = ours.filter_map(Backend::size).sum::<Bytes>();
        let in_backends = ["machine", "M"].iter().any(|option| named(option, "memory-backend"))
            || named("numa", "memdev")
            // A capture of an older release has neither.
            || (sum > Bytes::ZERO && Some(sum) == size);
        let mut plain = size.filter(|_| !in_backends);
        if let (Some(path), Some(size)) = (path, plain) {
            let properties = [("mem-path", path.to_owned()), ("size", size.get().to_string())];
            let properties = properties.map(|(name, value)| (name.to_owned(), value)).into();
            backends.push(Backend { kind: "memory-backend-file".into(), properties });
            plain = None;
        }
        Self { backends, plain }
    }

    /// Pages by size: of what asks for huge pages those that it asks for, of all else the host's.
    fn demands(&self, host: &Host, huge_only: bool) -> BTreeMap<PageSize, PageCount> {
        let mut pages = BTreeMap::<PageSize, PageCount>::new();
        let of_backends = self.backends.iter().filter_map(|backend| {
            let huge = backend.huge(host);
            let page = if huge { backend.page_size(host) } else { host.default_huge_page.get() };
            Some((page.filter(|_| huge || !huge_only)?, backend.size()?))
        });
        let plain = host.default_huge_page.get().zip(self.plain).filter(|_| !huge_only);
        for (page, size) in of_backends.chain(plain) {
            let sum = pages.entry(page).or_default();
            *sum = *sum + page.pages_for(size);
        }
        pages
    }
}

/// The backends that a property of these options names: `-machine memory-backend=ram0`.
fn references(arguments: &[String], option: &str, property: &str) -> BTreeSet<String> {
    let in_json = |text: &str| {
        let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        fields.get(property)?.as_str().map(str::to_owned)
    };
    let in_pairs = |text: &str| {
        let pairs = key_values(text).into_iter().filter(|(name, _)| name == property);
        pairs.map(|(_, value)| value).next_back()
    };
    let of = |text: &str| if text.starts_with('{') { in_json(text) } else { in_pairs(text) };
    values(arguments, option).into_iter().filter_map(of).filter(|id| !id.is_empty()).collect()
}

/// Page sizes with their counts as demands: first that of `page`, then the others.
fn in_order(mut pages: BTreeMap<PageSize, PageCount>, page: PageSize) -> Vec<Demand> {
    let first = pages.remove_entry(&page);
    let demand = |(page_size, pages)| Demand { page_size, pages, source: DemandSource::Engine };
    first.into_iter().chain(pages).filter(|(_, count)| *count > PageCount::ZERO).map(demand).collect()
}

fn mount_of<'a>(host: &'a Host, path: &str) -> Option<&'a hugewise_model::host::HugetlbfsMount> {
    let below = |mount: &str| {
        path.strip_prefix(mount.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mounts = host.hugetlbfs_mounts.known().into_iter().flatten();
    mounts.filter(|mount| below(&mount.path)).max_by_key(|mount| mount.path.len())
}

/// A container's mounts are not among those of the host: there the usual name has to do.
fn is_on_hugetlbfs(host: &Host, path: &str) -> bool {
    mount_of(host, path).is_some() || path.contains("/hugepages") || path.contains("/hugetlbfs")
}

/// A guest as another command line than its own would make it.
static STARTING: Starting = Starting {
    would_be: |scene, main, _| instance(scene.host, scene, main),
    decisive: |words| {
        let named =
            |name: &'static str| values(words, name).into_iter().map(move |value| (name.to_owned(), value.to_owned()));
        ["m", "mem-path", "object"].into_iter().flat_map(named).collect()
    },
    made: |_, _, _, _| None,
};

fn instance(host: &Host, scene: &Scene<'_>, process: &Process) -> Instance {
    let arguments = process.command.known().map(Vec::as_slice).unwrap_or_default();
    let memory = Memory::of(arguments);
    let backends = &memory.backends;
    let name = values(arguments, "name").last().and_then(|text| guest_name(text));
    let mut instance =
        scene.instance(Engine::Qemu, name.unwrap_or_else(|| process.pid.to_string()), process, Vec::new());

    let place = Some(Place::command_line(process.pid));
    let mut keep = |name: &str, value: &str| {
        instance
            .settings
            .insert(name.into(), Setting { name: name.into(), value: shown(name, value).into(), place: place.clone() });
    };
    if let Some(text) = values(arguments, "m").last() {
        keep("m", text);
    }
    // Of several backends the one that matters most here stands for them.
    let main = backends.iter().find(|backend| backend.huge(host)).or_else(|| backends.first());
    for name in ["mem-path", "hugetlb", "hugetlbsize", "size", "prealloc", "share"] {
        if let Some(value) = main.and_then(|backend| backend.get(name)) {
            keep(name, value);
        }
    }
    if let Some(backend) = main {
        keep("memory-backend", &backend.kind);
    }
    let huge = main.is_some_and(|backend| backend.huge(host));
    let file = main.is_some_and(|backend| backend.kind == "memory-backend-file");
    let decides = if file { "mem-path" } else { "hugetlb" };
    let by_default = || Setting { name: decides.into(), value: if file { "none" } else { "off" }.into(), place: None };
    instance.setting = instance.settings.get(decides).cloned().or_else(|| process.command.is_known().then(by_default));
    instance.asked = match (huge, process.command.is_known() && !hides_backends(arguments)) {
        (true, _) => Asked::Must,
        (false, true) => Asked::No,
        (false, false) => Asked::Unknown,
    };
    if instance.asked == Asked::Unknown {
        instance.setting = None;
    }
    instance.mechanism = if huge && file { Mechanism::Hugetlbfs } else { Mechanism::Mmap };
    instance.session_model = SessionModel::Threads;
    let page_size = match main {
        Some(backend) if huge => backend.page_size(host),
        _ => host.default_huge_page.get(),
    };
    instance.asked_page_size = page_size.into();

    let in_memory = |backend: &&Backend| backend.kind == "memory-backend-ram";
    let private = backends.iter().filter(in_memory).filter_map(Backend::size).chain(memory.plain);
    instance.segments = guest_memory(host, process, &private.collect::<Vec<_>>());
    instance.huge_pages = segments::huge_page_use(&instance.segments);
    let Some(page) = page_size.filter(|_| process.command.is_known()) else { return instance };
    let mut demands = in_order(memory.demands(host, false), page).into_iter();
    (instance.demand, instance.beside) = (demands.next(), demands.collect());
    let asked_for = in_order(memory.demands(host, true), page);
    if huge && instance.demand.iter().chain(&instance.beside).ne(&asked_for) {
        // The next start asks as this one did: for a part of it.
        instance.traits.push(Trait::AsksInPart);
        let setting = instance.setting.clone();
        instance.next = Observed::Known(NextStart { asked: instance.asked, setting, demands: asked_for });
    }
    instance
}

/// The guest's memory: memfds, files on tmpfs and hugetlbfs, and for what these do not hold the smallest private stretch
/// that is large enough: without KVM the translator has a private buffer too, of up to 1 GiB.
fn guest_memory(host: &Host, process: &Process, private: &[Bytes]) -> Vec<Segment> {
    let mappings = process.mappings.known().into_iter().flatten().filter(|mapping| mapping.accessible);
    let (mut guest, mut anonymous) = (Vec::new(), Vec::new());
    for mapping in mappings {
        let name = segments::plain(&mapping.name);
        let huge = segments::mapping_is_huge(host, mapping).get() == Some(true);
        let backed = name.starts_with("/memfd:") || name.starts_with("/dev/shm/") || is_on_hugetlbfs(host, name);
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
    let memory = segments::of(host, &[process.pid], |_, mapping| guest.contains(&mapping.start)).into_iter();
    memory.map(|segment| Segment { name: "guest memory".into(), ..segment }).collect()
}

/// The values of an option of QEMU's, which take one dash or two.
fn values<'a>(arguments: &'a [String], name: &str) -> Vec<&'a str> {
    let pairs = arguments.iter().skip(1).zip(arguments.iter().skip(2));
    let is = |option: &str| option.strip_prefix("--").or_else(|| option.strip_prefix('-')) == Some(name);
    pairs.filter(|(option, _)| is(option)).map(|(_, value)| value.as_str()).collect()
}

fn objects(arguments: &[String]) -> Vec<Backend> {
    let objects = values(arguments, "object").into_iter().filter_map(object);
    objects.filter(|backend| backend.kind.starts_with("memory-backend-")).collect()
}

/// Whether a backend may be named where it is not read: in a file, or in words that make no sense here.
fn hides_backends(arguments: &[String]) -> bool {
    let in_file = !values(arguments, "readconfig").is_empty();
    let broken = |text: &&str| text.contains("memory-backend-") && object(text).is_none();
    in_file || values(arguments, "object").iter().any(broken)
}

/// `memory-backend-memfd,id=m,size=1G,hugetlb=on`, or the JSON that libvirt writes since 6.10.
fn object(text: &str) -> Option<Backend> {
    if text.starts_with('{') {
        let serde_json::Value::Object(fields) = serde_json::from_str(text).ok()? else { return None };
        let plain = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let mut properties: BTreeMap<_, _> = fields.into_iter().map(|(name, value)| (name, plain(value))).collect();
        return Some(Backend { kind: properties.remove("qom-type")?, properties });
    }
    let mut parts = key_values(text).into_iter();
    let (kind, value) = parts.next()?;
    let kind = if kind == "qom-type" { value } else { kind };
    // A word without a value is a switch that is on.
    let on = |(name, value): (String, String)| (name, if value.is_empty() { "on".into() } else { value });
    Some(Backend { kind, properties: parts.map(on).collect() })
}

/// `a,b=c,d=e,,f`: a comma twice is one in a value.
fn key_values(text: &str) -> Vec<(String, String)> {
    let unescaped = text.replace(",,", "\0");
    let parts = unescaped.split(',').map(|part| part.replace('\0', ","));
    parts
        .map(|part| {
            part.split_once('=').map_or((part.clone(), String::new()), |(name, value)| (name.into(), value.into()))
        })
        .collect()
}

fn guest_name(text: &str) -> Option<String> {
    let parts = key_values(text);
    let named = parts.iter().find(|(name, _)| name == "guest").map(|(_, value)| value.clone());
    let first = || parts.first().filter(|(_, value)| value.is_empty()).map(|(name, _)| name.clone());
    named.or_else(first).filter(|name| !name.is_empty() && Shape::Names.fits(name))
}

/// `-m 4096`, `-m 4G`, `-m size=4194304k,slots=2,maxmem=8G`; mebibytes without a unit.
fn memory_size(text: &str) -> Option<Bytes> {
    let parts = key_values(text);
    let named = parts.iter().find(|(name, _)| name == "size").map(|(_, value)| value);
    size(named.or_else(|| parts.first().map(|(name, _)| name))?, 1 << 20)
}

/// A number with one of QEMU's units, or of `unit` bytes.
fn size(text: &str, unit: u64) -> Option<Bytes> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)?.chars().next().map(|c| c.to_ascii_lowercase()) {
        None => unit,
        Some('b') => 1,
        Some('k') => 1 << 10,
        Some('m') => 1 << 20,
        Some('g') => 1 << 30,
        Some('t') => 1 << 40,
        Some(_) => return None,
    };
    let whole = digits.parse::<u64>().ok()?;
    whole.checked_mul(unit).map(Bytes)
}

#[cfg(test)]
mod tests;
