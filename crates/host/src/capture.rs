//! Saves what was read, so that a reader elsewhere gets the same answers; secrets stay behind.
//!
//! Only kinds of files that are known here get in, and of those that people write only the lines
//! and words that are known to be harmless: see `redact` for files and `arguments` for command
//! lines.

mod arguments;
mod boot_loader;
mod forms;
mod line_filter;
mod new_files;
mod processes;
mod redact;
mod settings;
pub mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use hugewise_model::Observed;

pub use forms::{Forms, KeepsArguments, KeepsFile, KeepsValue};

use hugewise_source::RawSource as _;
use hugewise_source::RecordingSource;
use hugewise_source::captured::{NOTE, Note, PAGE_SIZES, SCHEMA};
use hugewise_source::output_place::OutputPlace;
use hugewise_source::recording::RecordedAnswers;
use hugewise_source::tree::Tree;

/// What of command lines and servers' configuration files is harmless and needed.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    /// Programs whose options are looked at; `*` at the end stands for all that begin so. Of others
    /// only the name is kept: `-p` is a port here and a password there.
    pub programs: Vec<&'static str>,
    /// How the names of mappings begin that may stay, with the number behind that.
    pub mappings: Vec<&'static str>,
    /// With their dashes: `-D`, `--datadir`; `-Xmx*` stands for all that begin so.
    pub options: Vec<&'static str>,
    /// Settings by name: `huge_pages`. `-` and `_` are one, as is case.
    pub settings: Vec<&'static str>,
    /// What engines say of what has a form of its own; the first that knows it decides.
    pub forms: Vec<&'static Forms>,
    /// What the value of a setting, or of an option with its dashes, can be; else it is left out.
    pub shape: Option<fn(&str) -> shape::ValueShape>,
    /// Files with lines that write a pool at boot, or start such a script: those lines are kept.
    pub writers: BTreeSet<String>,
    /// What is kept of lines that set nothing which is read, by the path of the configuration file.
    pub lines: BTreeMap<String, fn(&str) -> Option<String>>,
    /// The commands that units were read to start, by the line that names them: no file of a
    /// capture tells their variables. Several of one line are services of a template.
    pub starts: BTreeMap<(String, u64), Vec<Vec<String>>>,
    /// What is kept of processes and users.
    pub servers: CapturedServers,
    /// What kept the reader from seeing every process, where that is so.
    pub hidden: Option<String>,
}

/// The servers of a host: of other processes, their users and their folders no name is kept.
#[derive(Clone, Debug, Default)]
pub struct CapturedServers {
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

impl CapturedServers {
    /// Whether a folder of /sys/fs/cgroup is a root, or of a cgroup that one of them is in or
    /// below.
    fn are_in(&self, folder: &str) -> bool {
        let Some(below) = folder.strip_prefix("/sys/fs/cgroup") else { return true };
        let hierarchy = |name: &str| name.split(',').all(|one| HIERARCHIES.contains(&one));
        below.strip_prefix('/').is_none_or(hierarchy)
            || self.cgroups.iter().any(|own| path_prefixes(own).any(|path| below.ends_with(path)))
    }
}

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
fn path_prefixes(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
    ends.filter(|end| *end > 0).filter_map(|end| path.get(..end))
}

impl Keeps {
    fn has_exactly(&self, option: &str) -> bool {
        self.options.contains(&option)
    }

    fn has_prefix(&self, option: &str) -> bool {
        let mut prefixes = self.options.iter().filter_map(|kept| kept.strip_suffix('*'));
        prefixes.any(|prefix| option.starts_with(prefix))
    }

    fn has_option(&self, option: &str) -> bool {
        self.has_exactly(option) || self.has_prefix(option)
    }

    fn shape_of(&self, name: &str) -> shape::ValueShape {
        let Some(shape) = self.shape else { return shape::ValueShape::Plain };
        match shape(name) {
            shape::ValueShape::Plain => shape(&name.trim_start_matches('-').replace('-', "_")),
            known => known,
        }
    }

    fn has_program(&self, name: &str) -> bool {
        self.programs.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *known,
        })
    }

    fn has_setting(&self, name: &str) -> bool {
        let plain =
            |name: &str| name.trim_start_matches('-').replace('-', "_").to_ascii_lowercase();
        let name = plain(name);
        let is = |setting: &str| setting == name || setting.rsplit('.').next() == Some(&name);
        self.settings.iter().any(|kept| is(&plain(kept)))
            || self.forms.iter().any(|forms| forms.is_setting.is_some_and(|knows| knows(&name)))
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCapture {
    /// Where.
    pub target: PathBuf,
    /// Files in it.
    pub files: usize,
    /// Files that were read and left out, since nobody vouches that they hold no secrets.
    pub omitted: Vec<String>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", .target.display())]
pub struct CaptureError {
    /// What was to be written.
    pub target: PathBuf,
    /// What went wrong.
    pub what: String,
}

/// The capture as the bytes of a `.tar.gz`, and the number of its files.
pub fn pack_tar_gz(recording: &RecordingSource<'_>, keeps: &Keeps) -> io::Result<(Vec<u8>, usize)> {
    let content = collect_content(recording, keeps);
    Ok((write_tar(&content, Vec::new())?, content.files.len()))
}

/// Writes a recording to `target`: a gzipped tar for `.tar.gz` and `.tgz`, else a folder.
///
/// # Errors
/// The target exists (a folder may if it is empty), or cannot be written. Nothing half done is
/// left.
pub fn write(
    recording: &RecordingSource<'_>,
    keeps: &Keeps,
    target: &Path,
) -> Result<WrittenCapture, CaptureError> {
    let content = collect_content(recording, keeps);
    let name =
        target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let failed =
        |error: io::Error| CaptureError { target: target.to_owned(), what: error.to_string() };
    if name.is_empty() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let place = OutputPlace::find(target).map_err(failed)?;
    let temporary = place.name_in_same_folder(format!(".{name}.{}.partial", std::process::id()));
    let temporary = temporary.map_err(failed)?;
    if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
        new_files::write_new_tar(&content, &temporary, &place)
    } else {
        new_files::write_new_folder(&content, &temporary, &place)
    }
    .map_err(failed)?;
    Ok(WrittenCapture {
        target: target.to_owned(),
        files: content.files.len(),
        omitted: content.omitted,
    })
}

#[derive(Default)]
struct CaptureFileSet {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    omitted: Vec<String>,
}

fn collect_content(recording: &RecordingSource<'_>, keeps: &Keeps) -> CaptureFileSet {
    let note = note_machine_facts(recording, keeps);
    let mut collector = CaptureCollector {
        keeps,
        seen: &recording.seen.borrow(),
        note,
        content: CaptureFileSet::default(),
    };
    collector.collect_files();
    let lists = collector.collect_folders();
    collector.collect_links();
    collector.collect_page_sizes();
    collector.note_incomplete_lists(&lists);
    collector.note_changes_since_start();
    collector.note_changes_after();
    collector.into_file_set()
}

fn note_machine_facts(recording: &RecordingSource<'_>, keeps: &Keeps) -> Note {
    let machine = recording.machine_facts();
    Note {
        schema: SCHEMA.to_owned(),
        read_at: machine.read_at.get(),
        read_as: machine.read_as.get(),
        own_root: machine.own_root.get(),
        hidden: keeps.hidden.clone(),
        base_page_bytes: machine.base_page.get(),
        architecture: machine.architecture.as_known().cloned(),
        tlb_known: machine.tlb.is_known(),
        tlb: machine.tlb.into_known().unwrap_or_default(),
        ..Note::default()
    }
}

struct CaptureCollector<'a> {
    keeps: &'a Keeps,
    seen: &'a RecordedAnswers,
    note: Note,
    content: CaptureFileSet,
}

impl<'a> CaptureCollector<'a> {
    fn collect_files(&mut self) {
        for (path, answer) in &self.seen.files {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            if !self.keeps.servers.are_in(folder) {
                continue;
            }
            match answer {
                Observed::Known(bytes) => match redact::redact_file(path, bytes, self.keeps) {
                    Some(redacted) => {
                        self.content.files.insert(normalize_path(path), redacted);
                    }
                    None => {
                        let why = "left out of the capture".to_owned();
                        self.note.malformed.insert(format!("read:{path}"), why);
                        self.note.omitted.push(path.clone());
                    }
                },
                other => note_unreadable(&mut self.note, "read", path, other),
            }
        }
    }

    fn collect_folders(&mut self) -> BTreeMap<&'a String, Observed<Vec<String>>> {
        let (seen, keeps) = (self.seen, self.keeps);
        let lists = seen.lists.iter().filter(|(folder, _)| keeps.servers.are_in(folder));
        let lists: BTreeMap<&String, Observed<Vec<String>>> = lists
            .map(|(folder, answer)| {
                (folder, answer.clone().map(|names| choose_names(seen, keeps, folder, names)))
            })
            .collect();
        for (path, answer) in &lists {
            match answer {
                // A path that climbs is kept in the note alone: nothing is written outside the
                // capture.
                Observed::Known(_) if has_parent_dir(path) => {}
                Observed::Known(_) => {
                    self.content.folders.insert(normalize_path(path));
                }
                other => note_unreadable(&mut self.note, "list", path, other),
            }
        }
        lists
    }

    fn collect_links(&mut self) {
        for (path, answer) in &self.seen.links {
            let Observed::Known(target) = answer else {
                note_unreadable(&mut self.note, "link", path, answer);
                continue;
            };
            match processes::redact_process_link(path, target, self.keeps) {
                Some(target) if can_be_link(&self.content, path) => {
                    self.content.links.insert(normalize_path(path), target);
                }
                Some(target) => {
                    self.note.links.insert(path.clone(), target);
                }
                None => {}
            }
        }
    }

    fn collect_page_sizes(&mut self) {
        let sizes = self.seen.page_sizes.iter().filter_map(|(at, size)| Some((at, size.get()?)));
        let lines =
            sizes.map(|((pid, start), size)| format!("{pid} {start:x} {}\n", size.bytes().get()));
        let text: String = lines.collect();
        if !text.is_empty() {
            self.content.files.insert(PAGE_SIZES.to_owned(), text.into_bytes());
        }
    }

    fn note_incomplete_lists(&mut self, lists: &BTreeMap<&String, Observed<Vec<String>>>) {
        let tree = self.content.to_tree();
        for (folder, answer) in lists {
            if let Observed::Known(names) = answer
                && tree.list_folder(folder) != *answer
            {
                self.note.lists.insert((*folder).clone(), names.clone());
            }
        }
    }

    fn note_changes_since_start(&mut self) {
        let servers = &self.keeps.servers;
        let ours = |pid: &u32| servers.processes.contains(pid) || servers.neighbours.contains(pid);
        let held_against =
            |path: &String| self.seen.changed_after.keys().any(|(than, _)| than == path);
        for ((pid, path), changed) in &self.seen.changed_since_start {
            let counts = ours(pid) && (self.content.contains_path(path) || held_against(path));
            if let Some(changed) = changed.get().filter(|_| counts) {
                let changes = self.note.changed_since_start.entry(*pid).or_default();
                changes.insert(path.clone(), changed);
            }
        }
    }

    fn note_changes_after(&mut self) {
        for ((than, path), changed) in &self.seen.changed_after {
            if let Some(changed) = changed.get().filter(|_| self.content.contains_path(path)) {
                let changes = self.note.changed_after.entry(than.clone()).or_default();
                changes.insert(path.clone(), changed);
            }
        }
    }

    fn into_file_set(mut self) -> CaptureFileSet {
        self.note.denied.sort();
        self.content.omitted.clone_from(&self.note.omitted);
        // A map with texts for keys always has a JSON form.
        let json = serde_json::to_vec_pretty(&self.note).unwrap_or_default();
        self.content.files.insert(NOTE.to_owned(), json);
        self.content
    }
}

/// Of folders of owners and cgroups only what was asked for by name, or tells by its name alone:
/// the others are what people call their databases.
fn choose_names(
    seen: &RecordedAnswers,
    keeps: &Keeps,
    folder: &str,
    names: Vec<String>,
) -> Vec<String> {
    let cgroup = folder.starts_with("/sys/fs/cgroup");
    // Who else is started at the boot is read by nobody.
    let wants = folder.ends_with(".wants") || folder.ends_with(".requires");
    let scripts = hugewise_config::scripts::looks_through(folder);
    if !cgroup && !wants && !scripts && !seen.owned.contains(folder) {
        return names;
    }
    let asked = |name: &str| {
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        (seen.files.contains_key(&path)
            || seen.lists.contains_key(&path)
            || seen.links.contains_key(&path))
            && keeps.servers.are_in(&path)
    };
    let tells = |name: &str| match cgroup {
        true => name.starts_with("hugetlb.") || name.starts_with("cgroup."),
        false => {
            keeps.forms.iter().any(|forms| forms.tells_by_name.is_some_and(|tells| tells(name)))
        }
    };
    names.into_iter().filter(|name| tells(name) || asked(name)).collect()
}

fn note_unreadable<T>(note: &mut Note, question: &str, path: &str, answer: &Observed<T>) {
    match answer {
        Observed::Denied => note.denied.push(format!("{question}:{path}")),
        Observed::Malformed(why) => {
            note.malformed.insert(format!("{question}:{path}"), why.clone());
        }
        Observed::Known(_) | Observed::Absent => {}
    }
}

fn normalize_path(path: &str) -> String {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(String::new(), |path, name| path + "/" + name)
}

fn has_parent_dir(path: &str) -> bool {
    path.split('/').any(|name| name == "..")
}

/// Nothing is there or below, and no link above that whoever unpacks the capture would follow.
fn can_be_link(content: &CaptureFileSet, path: &str) -> bool {
    let path = normalize_path(path);
    let below = format!("{path}/");
    let free = |next: Option<&String>| next.is_none_or(|next| !next.starts_with(&below));
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    !has_parent_dir(&path)
        && !content.files.contains_key(&path)
        && !content.folders.contains(&path)
        && free(content.files.range(below.clone()..).next().map(|(path, _)| path))
        && free(content.folders.range(below.clone()..).next())
        && above.into_iter().all(|folder| {
            !content.links.contains_key(folder) && !content.files.contains_key(folder)
        })
}

impl CaptureFileSet {
    /// The name of what is not in it is nobody's business.
    fn contains_path(&self, path: &str) -> bool {
        let path = normalize_path(path);
        self.files.contains_key(&path)
            || self.folders.contains(&path)
            || self.links.contains_key(&path)
    }

    fn to_tree(&self) -> Tree {
        let mut tree = Tree::default();
        self.folders.iter().for_each(|path| tree.put_folder(path));
        for (path, bytes) in &self.files {
            tree.put_file(path, Observed::Known(bytes.clone()));
        }
        self.links.iter().for_each(|(path, target)| tree.put_link(path, target));
        tree
    }
}

fn write_tar<W: io::Write>(content: &CaptureFileSet, stream: W) -> io::Result<W> {
    const TOP: &str = "hugewise-capture";
    let mut tar =
        tar::Builder::new(flate2::write::GzEncoder::new(stream, flate2::Compression::default()));
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
    // The machine before its thousands of processes: without it a torn capture says nothing.
    let is_process = |path: &str| {
        path.strip_prefix("/proc/")
            .is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()))
    };
    let (processes, machine): (Vec<_>, Vec<_>) =
        content.files.iter().partition(|(path, _)| is_process(path));
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

#[cfg(test)]
mod tests;
