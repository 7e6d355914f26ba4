//! Saves what was read, so that a reader elsewhere gets the same answers; secrets stay behind.
//!
//! Only kinds of files that are known here get in, and of those that people write only the lines and words that
//! are known to be harmless: see `redact` for files and `arguments` for command lines.

mod arguments;
mod boot_loader;
mod forms;
mod lines;
mod processes;
mod redact;
mod settings;
pub mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use hugewise_model::Observed;

pub use forms::{Forms, KeepsArguments, KeepsFile, KeepsValue};

use crate::Source;
use crate::source::Recording;
use crate::source::captured::{NOTE, Note, PAGE_SIZES, SCHEMA, Tlb};
use crate::source::recording::Seen;
use crate::source::tree::Tree;

/// What of command lines and servers' configuration files is harmless and needed.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    /// Programs whose options are looked at; one that ends in `*` stands for all that begin so. Of any other program only
    /// its name is kept, whatever its options are called: `-p` is a port here and a password there.
    pub programs: Vec<&'static str>,
    /// How the names of mappings begin that may stay, with the number behind that.
    pub mappings: Vec<&'static str>,
    /// Options with their dashes: `-D`, `--datadir`; one that ends in `*` stands for all that start so: `-Xmx*`.
    pub options: Vec<&'static str>,
    /// Settings by name: `huge_pages`. `-` and `_` are one, as is case.
    pub settings: Vec<&'static str>,
    /// What engines say of what has a form of its own; the first that knows it decides.
    pub forms: Vec<&'static Forms>,
    /// What the value of a setting can be, by its name, or of an option with its dashes; whatever else stands there is left
    /// out.
    pub shape: Option<fn(&str) -> shape::Shape>,
    /// Files with lines that write a pool when the host boots, or start such a script: of these the lines alone are kept.
    pub writers: BTreeSet<String>,
    /// What is kept of lines that set nothing which is read, by the path of the configuration file.
    pub lines: BTreeMap<String, fn(&str) -> Option<String>>,
    /// The commands that units were read to start, by the line that names them: what no file of a capture tells of their variables
    /// is in them. Several of one line are services of a template.
    pub starts: BTreeMap<(String, u64), Vec<Vec<String>>>,
    /// What is kept of processes and users.
    pub servers: Servers,
    /// What kept the reader from seeing every process, where that is so.
    pub hidden: Option<String>,
}

/// The servers of a host: of other processes, their users and their folders no name is kept.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// Their processes.
    pub processes: BTreeSet<u32>,
    /// Processes that run in a service of theirs: what else runs there tells whose service it is.
    pub neighbours: BTreeSet<u32>,
    /// Processes whose names tell what starts them, and are kept.
    pub starters: BTreeSet<u32>,
    /// Those whose working directory is read.
    pub folders: BTreeSet<u32>,
    /// Users by id who own one, or shared memory.
    pub users: BTreeSet<u32>,
    /// Those of these users below whose home folder a server of theirs has files that are read.
    pub homes: BTreeSet<u32>,
    /// The names of these users and groups.
    pub names: BTreeSet<String>,
    /// Their groups, and that which may have huge pages.
    pub groups: BTreeSet<u32>,
    /// Where hugetlbfs is mounted.
    pub hugetlbfs: Vec<String>,
    /// Files that they map and that are read.
    pub files: BTreeSet<String>,
    /// Paths of the cgroups that they are in.
    pub cgroups: BTreeSet<String>,
}

impl Servers {
    fn has(&self, process: &str) -> bool {
        process.parse().is_ok_and(|pid| self.processes.contains(&pid))
    }

    fn is_neighbour(&self, process: &str) -> bool {
        process.parse().is_ok_and(|pid| self.neighbours.contains(&pid))
    }

    fn is_starter(&self, process: &str) -> bool {
        process.parse().is_ok_and(|pid| self.starters.contains(&pid))
    }

    fn reads_folder_of(&self, process: &str) -> bool {
        process.parse().is_ok_and(|pid| self.folders.contains(&pid))
    }

    /// Whether a folder of /sys/fs/cgroup is a hierarchy's root, or of a cgroup that one of them is in or below.
    fn are_in(&self, folder: &str) -> bool {
        let Some(below) = folder.strip_prefix("/sys/fs/cgroup") else { return true };
        let hierarchy = |name: &str| name.split(',').all(|one| HIERARCHIES.contains(&one));
        below.strip_prefix('/').is_none_or(hierarchy)
            || self.cgroups.iter().any(|own| lineage(own).any(|path| below.ends_with(path)))
    }
}

/// Folders of /sys/fs/cgroup that are hierarchies of their own.
const HIERARCHIES: [&str; 15] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
    "systemd",
    "unified",
];

/// `/a`, `/a/b` of `/a/b`.
fn lineage(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
    ends.filter(|end| *end > 0).filter_map(|end| path.get(..end))
}

impl Keeps {
    fn has_exactly(&self, option: &str) -> bool {
        self.options.contains(&option)
    }

    fn has_prefix(&self, option: &str) -> bool {
        self.options.iter().filter_map(|kept| kept.strip_suffix('*')).any(|prefix| option.starts_with(prefix))
    }

    fn has_option(&self, option: &str) -> bool {
        self.has_exactly(option) || self.has_prefix(option)
    }

    /// What the value of a setting can be, or of an option as it is written.
    fn shape_of(&self, name: &str) -> shape::Shape {
        let Some(shape) = self.shape else { return shape::Shape::Plain };
        match shape(name) {
            shape::Shape::Plain => shape(&name.trim_start_matches('-').replace('-', "_")),
            known => known,
        }
    }

    /// Whether any option of a program of that name is kept.
    fn has_program(&self, name: &str) -> bool {
        self.programs.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *known,
        })
    }

    fn has_setting(&self, name: &str) -> bool {
        let plain = |name: &str| name.trim_start_matches('-').replace('-', "_").to_ascii_lowercase();
        let name = plain(name);
        let is = |setting: &str| setting == name || setting.rsplit('.').next() == Some(&name);
        self.settings.iter().any(|kept| is(&plain(kept)))
            || self.forms.iter().any(|forms| forms.is_setting.is_some_and(|knows| knows(&name)))
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub target: PathBuf,
    /// Files in it.
    pub files: usize,
    /// Files that were read and left out, since nobody vouches that they hold no secrets.
    pub omitted: Vec<String>,
}

/// Why nothing was written.
#[derive(Debug)]
pub struct CaptureError {
    /// What was to be written.
    pub target: PathBuf,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.target.display(), self.what)
    }
}

impl std::error::Error for CaptureError {}

/// The capture as the bytes of a `.tar.gz`, for whoever sends it instead of writing it here; and the number of its files.
///
/// # Errors
/// There is no memory for it.
pub fn packed(recording: &Recording<'_>, keeps: &Keeps) -> io::Result<(Vec<u8>, usize)> {
    let content = content(recording, keeps);
    Ok((write_tar(&content, Vec::new())?, content.files.len()))
}

/// Writes a recording to `target`: a gzipped tar where its name ends in `.tar.gz` or `.tgz`, else a folder.
///
/// # Errors
/// The target exists (a folder may if it is empty), or cannot be written. Nothing half done is left behind.
pub fn write(recording: &Recording<'_>, keeps: &Keeps, target: &Path) -> Result<Written, CaptureError> {
    let content = content(recording, keeps);
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let failed = |error: io::Error| CaptureError { target: target.to_owned(), what: error.to_string() };
    if name.is_empty() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let temporary = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let tar = name.ends_with(".tar.gz") || name.ends_with(".tgz");
    let done = if tar {
        let file = new_file(&temporary).map_err(failed)?;
        write_tar(&content, file).and_then(|file| file.sync_all()).and_then(|()| place_file(&temporary, target))
    } else {
        new_folder(&temporary).map_err(failed)?;
        write_folder(&content, &temporary).and_then(|()| place_folder(&temporary, target))
    };
    if let Err(error) = done {
        let removed = if tar { std::fs::remove_file(&temporary) } else { std::fs::remove_dir_all(&temporary) };
        // What went wrong first is what matters.
        drop(removed);
        return Err(failed(error));
    }
    Ok(Written { target: target.to_owned(), files: content.files.len(), omitted: content.omitted })
}

/// What a capture holds.
#[derive(Default)]
struct Content {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    omitted: Vec<String>,
}

fn content(recording: &Recording<'_>, keeps: &Keeps) -> Content {
    let machine = recording.machine();
    let seen = recording.seen.borrow();
    let mut content = Content::default();
    let mut note = Note {
        schema: SCHEMA.to_owned(),
        read_at: machine.read_at.get(),
        read_as: machine.read_as.get(),
        own_root: machine.own_root.get(),
        hidden: keeps.hidden.clone(),
        base_page_bytes: machine.base_page.get(),
        architecture: machine.architecture.known().cloned(),
        tlb_known: machine.tlb.is_known(),
        tlb: machine.tlb.known().into_iter().flatten().map(Tlb::of).collect(),
        ..Note::default()
    };
    for (path, answer) in &seen.files {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !keeps.servers.are_in(folder) {
            continue;
        }
        match answer {
            Observed::Known(bytes) => match redact::redact(path, bytes, keeps) {
                Some(kept) => {
                    content.files.insert(tidy(path), kept);
                }
                None => {
                    note.malformed.insert(format!("read:{path}"), "left out of the capture".to_owned());
                    note.omitted.push(path.clone());
                }
            },
            other => refuse(&mut note, "read", path, other),
        }
    }
    let lists: BTreeMap<&String, Observed<Vec<String>>> = seen
        .lists
        .iter()
        .filter(|(folder, _)| keeps.servers.are_in(folder))
        .map(|(folder, answer)| (folder, answer.clone().map(|names| names_read(&seen, keeps, folder, names))))
        .collect();
    for (path, answer) in &lists {
        match answer {
            // Names of a path that climbs are kept in the note alone: nothing is written outside the capture.
            Observed::Known(_) if climbs(path) => {}
            Observed::Known(_) => {
                content.folders.insert(tidy(path));
            }
            other => refuse(&mut note, "list", path, other),
        }
    }
    for (path, answer) in &seen.links {
        match answer {
            Observed::Known(target) => match processes::link(path, target, keeps) {
                Some(target) if can_be_link(&content, path) => {
                    content.links.insert(tidy(path), target);
                }
                Some(target) => {
                    note.links.insert(path.clone(), target);
                }
                None => {}
            },
            other => refuse(&mut note, "link", path, other),
        }
    }
    let page_sizes = seen.page_sizes.iter().filter_map(|(at, size)| Some((at, size.get()?)));
    let lines = page_sizes.map(|((pid, start), size)| format!("{pid} {start:x} {}\n", size.bytes().get()));
    let page_sizes: String = lines.collect();
    if !page_sizes.is_empty() {
        content.files.insert(PAGE_SIZES.to_owned(), page_sizes.into_bytes());
    }
    let tree = content.tree();
    for (folder, answer) in &lists {
        if answer.is_known() && tree.list(folder) != *answer {
            note.lists.insert((*folder).clone(), answer.known().cloned().unwrap_or_default());
        }
    }
    let held_against = |path: &String| seen.changed_after.keys().any(|(than, _)| than == path);
    let ours = |pid: &u32| keeps.servers.processes.contains(pid) || keeps.servers.neighbours.contains(pid);
    for ((pid, path), changed) in &seen.changed_since_start {
        if let Some(changed) = changed.get().filter(|_| ours(pid) && (content.has(path) || held_against(path))) {
            note.changed_since_start.entry(*pid).or_default().insert(path.clone(), changed);
        }
    }
    for ((than, path), changed) in &seen.changed_after {
        if let Some(changed) = changed.get().filter(|_| content.has(path)) {
            note.changed_after.entry(than.clone()).or_default().insert(path.clone(), changed);
        }
    }
    note.denied.sort();
    content.omitted.clone_from(&note.omitted);
    // A map with texts for keys always has a JSON form.
    let json = serde_json::to_vec_pretty(&note).unwrap_or_default();
    content.files.insert(NOTE.to_owned(), json);
    content
}

/// Of a folder of a server's owner, and of a cgroup's, the names that are read: what was asked for by name, and what tells by
/// its name alone. The others are what people call their databases.
fn names_read(seen: &Seen, keeps: &Keeps, folder: &str, names: Vec<String>) -> Vec<String> {
    let cgroup = folder.starts_with("/sys/fs/cgroup");
    // Who else is started at the boot is read by nobody.
    let wants = folder.ends_with(".wants") || folder.ends_with(".requires");
    let scripts = crate::config::scripts::looks_through(folder);
    if !cgroup && !wants && !scripts && !seen.owned.contains(folder) {
        return names;
    }
    let asked = |name: &str| {
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        (seen.files.contains_key(&path) || seen.lists.contains_key(&path) || seen.links.contains_key(&path))
            && keeps.servers.are_in(&path)
    };
    let tells = |name: &str| match cgroup {
        true => name.starts_with("hugetlb.") || name.starts_with("cgroup."),
        false => keeps.forms.iter().any(|forms| forms.tells_by_name.is_some_and(|tells| tells(name))),
    };
    names.into_iter().filter(|name| tells(name) || asked(name)).collect()
}

fn refuse<T>(note: &mut Note, question: &str, path: &str, answer: &Observed<T>) {
    match answer {
        Observed::Denied => note.denied.push(format!("{question}:{path}")),
        Observed::Malformed(why) => {
            note.malformed.insert(format!("{question}:{path}"), why.clone());
        }
        Observed::Known(_) | Observed::Absent => {}
    }
}

/// A path without doubled and trailing slashes.
fn tidy(path: &str) -> String {
    path.split('/').filter(|name| !name.is_empty()).fold(String::new(), |path, name| path + "/" + name)
}

/// Whether a path has `..` in it.
fn climbs(path: &str) -> bool {
    path.split('/').any(|name| name == "..")
}

/// Whether a link can lie at its own path: nothing of the capture is there or below, and no link is above, which
/// whoever writes or unpacks the capture would follow.
fn can_be_link(content: &Content, path: &str) -> bool {
    let path = tidy(path);
    let below = format!("{path}/");
    let free = |next: Option<&String>| next.is_none_or(|next| !next.starts_with(&below));
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    !climbs(&path)
        && !content.files.contains_key(&path)
        && !content.folders.contains(&path)
        && free(content.files.range(below.clone()..).next().map(|(path, _)| path))
        && free(content.folders.range(below.clone()..).next())
        && above.into_iter().all(|folder| !content.links.contains_key(folder) && !content.files.contains_key(folder))
}

impl Content {
    /// Whether a file, folder or link of that path is in it: the name of another is nobody's business.
    fn has(&self, path: &str) -> bool {
        let path = tidy(path);
        self.files.contains_key(&path) || self.folders.contains(&path) || self.links.contains_key(&path)
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        self.folders.iter().for_each(|path| tree.put_folder(path));
        self.files.iter().for_each(|(path, bytes)| tree.put_file(path, Observed::Known(bytes.clone())));
        self.links.iter().for_each(|(path, target)| tree.put_link(path, target));
        tree
    }
}

fn write_tar<W: io::Write>(content: &Content, stream: W) -> io::Result<W> {
    const TOP: &str = "hugewise-capture";
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(stream, flate2::Compression::default()));
    let header = |kind: tar::EntryType, mode: u32, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(0);
        header
    };
    for folder in &content.folders {
        let mut header = header(tar::EntryType::Directory, 0o700, 0);
        tar.append_data(&mut header, format!("{TOP}{folder}/"), io::empty())?;
    }
    // The machine comes before its processes, of which there are thousands: where a capture is torn, the rest says nothing without
    // /proc/meminfo and the host's name.
    let is_process =
        |path: &str| path.strip_prefix("/proc/").is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()));
    let (processes, machine): (Vec<_>, Vec<_>) = content.files.iter().partition(|(path, _)| is_process(path));
    for (path, bytes) in machine.into_iter().chain(processes) {
        let size = u64::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut header = header(tar::EntryType::Regular, 0o600, size);
        tar.append_data(&mut header, format!("{TOP}{path}"), bytes.as_slice())?;
    }
    for (path, target) in &content.links {
        let mut header = header(tar::EntryType::Symlink, 0o777, 0);
        // As it is: what sets it piece by piece makes `//` of `/`.
        header.set_link_name_literal(target)?;
        tar.append_data(&mut header, format!("{TOP}{path}"), io::empty())?;
    }
    tar.into_inner()?.finish()
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn new_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

fn write_folder(content: &Content, root: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700).recursive(true);
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    for folder in &content.folders {
        builder.create(below(folder))?;
    }
    for (path, bytes) in &content.files {
        let path = below(path);
        if let Some(folder) = path.parent() {
            builder.create(folder)?;
        }
        new_file(&path)?.write_all(bytes)?;
    }
    for (path, target) in &content.links {
        let path = below(path);
        if let Some(folder) = path.parent() {
            builder.create(folder)?;
        }
        symlink(target, path)?;
    }
    Ok(())
}

/// Gives the finished file its name, never in place of another.
fn place_file(temporary: &Path, target: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, temporary, CWD, target, RenameFlags::NOREPLACE) {
        // File systems without this: a link takes no other's place either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(temporary, target)?;
            std::fs::remove_file(temporary)
        }
        done => Ok(done?),
    }
}

/// Gives the finished folder its name; an empty one there gives way, by the kernel's own rule.
fn place_folder(temporary: &Path, target: &Path) -> io::Result<()> {
    std::fs::rename(temporary, target)
}

#[cfg(test)]
mod tests;
