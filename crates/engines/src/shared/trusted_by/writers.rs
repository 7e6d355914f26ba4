//! Who else can write what decides on a server: its program, the code in it, the files that it was
//! described by, and what its unit loads or reads. A voucher would speak for whoever can, and not
//! for the server's account.

use std::collections::BTreeSet;

use hugewise_host::config::exec_start::LOADING_VARIABLES;
use hugewise_host::process::maps;
use hugewise_host::source::{OwnerSource, RawSource, TrustedWriters};
use hugewise_model::configuration::ServiceUnit;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{Engine, Host, Instance, Observed, Process};

use super::{Proof, is_wrapper, process_ancestors, unit, unit_of};
use crate::shared::options::{as_process_names, as_reader_opens};
use crate::{EngineContext, EngineKind};

/// Takes a host's word back for servers that somebody else decides on. A container's is for its
/// tenants, whoever of them writes.
pub(crate) fn withdraw_where_others_write(scene: &EngineContext<'_>, instances: &mut [Instance]) {
    for instance in instances.iter_mut().filter(|_| scene.host.live) {
        let is_hosts = |reason: &TrustReason| *reason != TrustReason::Container;
        let main = scene.host.find_process(instance.pid);
        let Some(main) = main.filter(|_| instance.trusted_by.iter().any(is_hosts)) else {
            continue;
        };
        match prove_writers(scene, instance, main) {
            Ok(proof) => instance.trust.held.push(proof),
            Err(why) => {
                let (withdrawn, left) = instance.trusted_by.iter().copied().partition(is_hosts);
                instance.trusted_by = left;
                let failed = withdrawn.into_iter().map(|reason| (reason, why.clone()));
                instance.trust.failed.extend(failed);
                instance.trust.held.clear();
            }
        }
    }
}

/// Who else could have written what a server that does not run is known by: files that have to be
/// root's, and those that may be its account's.
pub(crate) fn find_others_who_write(
    scene: &EngineContext<'_>,
    engine: Engine,
    main: &Process,
    of_root: &BTreeSet<String>,
    of_account: &BTreeSet<String>,
) -> Option<String> {
    let owned = scene.files_of(main);
    let prove = |path: &String, writers: &TrustedWriters| {
        prove_path(scene.host, &owned, path, writers).err()
    };
    let writers = find_trusted_writers(scene, engine, main);
    let mut of_root = of_root.iter();
    of_root
        .find_map(|path| prove(path, &TrustedWriters::ROOT_ALONE))
        .or_else(|| of_account.iter().find_map(|path| prove(path, &writers)))
}

fn prove_writers(scene: &EngineContext<'_>, instance: &Instance, main: &Process) -> Proof {
    let writers = find_trusted_writers(scene, instance.engine, main);
    let files = scene.files_of(main);
    let may_write = |what: &str, why: String| format!("others can write {what}: {why}");
    match scene.source.processes().check_writers_of_executable(main.pid, &writers) {
        Observed::Malformed(why) => return Err(may_write("its program", why)),
        Observed::Denied if scene.host.read_as == Observed::Known(0) => {
            return Err("whose its program is cannot be determined".to_owned());
        }
        Observed::Denied | Observed::Known(()) | Observed::Absent => {}
    }
    let opened = |path: &String| {
        let path = path.trim_end_matches(" (deleted)");
        as_reader_opens(scene.host, main, as_process_names(main, path))
    };
    let unit = unit_of(scene.host, instance);
    let code = read_code_files(scene, main)?;
    for line in code.iter().filter(|line| line.is_deleted()) {
        prove_deleted(scene, main, &files, line, &writers)
            .map_err(|why| may_write("the code that it runs", why))?;
    }
    let parts: [(&str, BTreeSet<String>); 4] = [
        ("its program", main.executable.as_known().map(opened).into_iter().collect()),
        (
            "the code that it runs",
            code.iter().filter(|line| !line.is_deleted()).map(|line| opened(&line.path)).collect(),
        ),
        ("its configuration", scene.paths_believed(main.pid)),
        ("what it is started with", list_start_files(scene.host, instance, main, unit)),
    ];
    for (what, paths) in &parts {
        for path in paths {
            prove_path(scene.host, &files, path, &writers).map_err(|why| may_write(what, why))?;
        }
    }
    let count: usize = parts.iter().map(|(_, paths)| paths.len()).sum();
    let owner = &instance.owner;
    Ok(format!("nobody but root and {owner} can write its program and its {count} files"))
}

fn prove_path(
    host: &Host,
    files: &OwnerSource<'_>,
    path: &str,
    writers: &TrustedWriters,
) -> Result<(), String> {
    match files.check_writers(path, writers) {
        Observed::Known(()) | Observed::Absent => Ok(()),
        // A reader without rights changes nothing either.
        Observed::Denied if host.read_as != Observed::Known(0) => Ok(()),
        Observed::Malformed(why) if why.contains(path) => Err(why),
        other => Err(format!("{path}: {}", other.reason_text().unwrap_or_default())),
    }
}

/// Root, the server's own account, and those made for servers of its kind; groups of nobody else.
fn find_trusted_writers(
    scene: &EngineContext<'_>,
    engine: Engine,
    main: &Process,
) -> TrustedWriters {
    let accounts = &scene.host.accounts;
    let kinds = EngineKind::for_engine(engine).recognition.accounts;
    let is_trusted = |uid: u32, name: &str| uid == 0 || uid == main.uid || kinds.contains(&name);
    let mut users = vec![main.uid];
    let (mut strangers, mut groups_of_strangers) = (BTreeSet::new(), BTreeSet::new());
    for (uid, user) in &accounts.users {
        if is_trusted(*uid, &user.name) {
            users.push(*uid);
        } else {
            strangers.insert(user.name.as_str());
            groups_of_strangers.insert(user.gid);
        }
    }
    let is_closed = |members: &[String]| !members.iter().any(|name| strangers.contains(&**name));
    let groups = accounts.groups.iter();
    let groups = groups
        .filter(|(gid, group)| !groups_of_strangers.contains(*gid) && is_closed(&group.members));
    TrustedWriters {
        users,
        groups: groups.map(|(gid, _)| *gid).collect(),
        has_sticky: true,
        process: Some(main.pid),
    }
}

/// The files that its memory has code of: the program, its loader and all libraries, from wherever
/// they were asked for (PT_INTERP, LD_PRELOAD, DT_RUNPATH, dlopen).
/// Errors: as root, why they cannot be determined.
fn read_code_files(scene: &EngineContext<'_>, main: &Process) -> Result<Vec<CodeMapping>, String> {
    let path = format!("/proc/{}/maps", main.pid);
    let maps = match scene.source.read(&path) {
        Observed::Known(bytes) => bytes,
        Observed::Absent => return Ok(Vec::new()),
        Observed::Denied if scene.host.read_as != Observed::Known(0) => return Ok(Vec::new()),
        unknown => {
            let why = unknown.reason_text().unwrap_or_default();
            return Err(format!("the code that it runs cannot be determined: {path}: {why}"));
        }
    };
    let lines = maps.split(|byte| *byte == b'\n').filter_map(maps::parse_single_line);
    let is_file = |name: &&[u8]| {
        name.starts_with(b"/") && !name.starts_with(b"/dev/zero") && !name.starts_with(b"/SYSV")
    };
    let of_code = lines.filter(|line| line.permissions.get(2) == Some(&b'x'));
    let of_files = of_code.filter(|line| is_file(&line.name));
    let mut seen = BTreeSet::new();
    Ok(of_files
        .filter(|line| seen.insert((line.device, line.inode, line.name)))
        .map(|line| CodeMapping {
            path: String::from_utf8_lossy(line.name).into_owned(),
            addresses: (line.start, line.end),
        })
        .collect())
}

/// Code of a file in a process's memory.
struct CodeMapping {
    path: String,
    addresses: (u64, u64),
}

impl CodeMapping {
    fn is_deleted(&self) -> bool {
        self.path.ends_with(" (deleted)")
    }
}

/// A file that was removed has been the writers' where only they can put one in its place, as
/// packages do; elsewhere the file itself is asked.
fn prove_deleted(
    scene: &EngineContext<'_>,
    main: &Process,
    files: &OwnerSource<'_>,
    mapping: &CodeMapping,
    writers: &TrustedWriters,
) -> Result<(), String> {
    let has_place = !mapping.path.starts_with("/memfd:");
    let path = as_process_names(main, mapping.path.trim_end_matches(" (deleted)"));
    let path = as_reader_opens(scene.host, main, path);
    if has_place && prove_path(scene.host, files, &path, writers).is_ok() {
        return Ok(());
    }
    let asked =
        scene.source.processes().check_writers_of_mapping(main.pid, mapping.addresses, writers);
    match asked {
        Observed::Known(()) => Ok(()),
        Observed::Malformed(why) => Err(format!("{}: {why}", mapping.path)),
        // A reader without rights changes nothing either.
        _ if scene.host.read_as != Observed::Known(0) || !has_place => Ok(()),
        _ => Err(format!("{}: whose it was cannot be determined", mapping.path)),
    }
}

/// What its unit's variables load, the files of these variables, and what keeps it up, with the file
/// that this is told by (Patroni's).
fn list_start_files(
    host: &Host,
    instance: &Instance,
    main: &Process,
    unit: Option<&ServiceUnit>,
) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    if let Some(unit) = unit {
        let start = &unit.start;
        files.extend(start.variable_places.iter().cloned());
        let loaded = LOADING_VARIABLES.iter().filter_map(|name| start.environment.get(*name));
        let loaded = loaded.flat_map(|value| value.split([':', ';', ' ']));
        // The loader takes an empty part for the working directory.
        let directory = start.directory.as_deref().unwrap_or("/").trim_end_matches('/');
        files.extend(loaded.map(|path| match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("{directory}/{path}"),
        }));
    }
    let keeps_up = |process: &&Process| is_wrapper(host, process, instance.engine, main);
    for process in process_ancestors(host, main).filter(keeps_up) {
        let words = process.command.as_known().map(Vec::as_slice).unwrap_or_default();
        let script = unit::script_of(words);
        let told = words.iter().skip_while(|word| Some(word.as_str()) != script).take(2);
        files.extend(told.filter(|word| word.starts_with('/')).cloned());
    }
    files
}
