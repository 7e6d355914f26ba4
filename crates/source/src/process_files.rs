//! Files of a process that are read ahead together.

use std::collections::BTreeMap;

use hugewise_model::Observed;

/// Longer ones are read when they are asked for: 64 processes are read ahead.
const MOST_OF_COMMAND: u64 = 8 << 10;
const MOST_OF_MAPS: u64 = 128 << 10;

/// Of one process: a client's socket is among the first.
const MOST_DESCRIPTORS: usize = 1024;

const LINKS: [&str; 7] = ["exe", "cwd", "root", "ns/mnt", "ns/pid", "ns/ipc", "ns/user"];

/// How files and links are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadCalls {
    /// A file of at most so many bytes.
    pub(super) file: fn(&str, u64) -> Observed<Vec<u8>>,
    pub(super) link: fn(&str) -> Observed<String>,
}

/// Each is taken once.
#[derive(Debug, Default)]
pub(super) struct ProcessFiles {
    command: Option<Observed<Vec<u8>>>,
    maps: Option<Observed<Vec<u8>>>,
    links: [Option<Observed<String>>; LINKS.len()],
    /// Those of descriptors, by number.
    descriptors: BTreeMap<String, Observed<String>>,
}

impl ProcessFiles {
    pub(super) fn read(pid: u32, reads_maps: bool, calls: ReadCalls) -> Self {
        let path = |name: &str| format!("/proc/{pid}/{name}");
        Self {
            command: Some((calls.file)(&path("cmdline"), MOST_OF_COMMAND)),
            maps: reads_maps.then(|| (calls.file)(&path("maps"), MOST_OF_MAPS)),
            links: LINKS.map(|name| Some((calls.link)(&path(name)))),
            descriptors: BTreeMap::new(),
        }
    }

    /// What the first of the open files in a process's folder `fd` are.
    pub(super) fn read_descriptors(folder: &str, names: &[String], calls: ReadCalls) -> Self {
        let link = |name: &String| (name.clone(), (calls.link)(&format!("{folder}/{name}")));
        let descriptors = names.iter().take(MOST_DESCRIPTORS).map(link).collect();
        Self { descriptors, ..Self::default() }
    }

    pub(super) fn take_file(&mut self, path: &str) -> Option<Observed<Vec<u8>>> {
        let read = match file_name(path)? {
            "cmdline" => self.command.take(),
            "maps" => self.maps.take(),
            _ => None,
        };
        read.filter(|read| !super::is_too_large(read))
    }

    pub(super) fn take_link(&mut self, path: &str) -> Option<Observed<String>> {
        let name = file_name(path)?;
        if let Some(descriptor) = name.strip_prefix("fd/") {
            return self.descriptors.remove(descriptor);
        }
        let at = LINKS.iter().position(|link| *link == name)?;
        self.links.get_mut(at)?.take()
    }
}

/// `ns/mnt` of `/proc/PID/ns/mnt`.
fn file_name(path: &str) -> Option<&str> {
    Some(path.strip_prefix("/proc/")?.split_once('/')?.1)
}
