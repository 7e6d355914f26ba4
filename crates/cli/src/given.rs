//! What lies at a path that somebody gave, by a look at its first bytes: an error that names it can say which command
//! takes it.

use std::io::Read;
use std::path::Path;

use hugewise_host::compressed;
use hugewise_host::source::files::{self, Below, Given as Opened};
use hugewise_incident::readers;
use hugewise_model::escape::shell;
use hugewise_report::plain;

/// Bytes that are looked at.
const HEAD: u64 = 64 << 10;
/// Where a tar's first entry says that it is one.
const USTAR: usize = 257;
/// Folders that are looked into for hosts.
const MOST_FOLDERS: usize = 64;

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// A file that `plan --out` wrote.
    Plan,
    /// A collector's file, or a log, by its name in a sentence.
    Archive(&'static str),
    /// A folder that looks like a host's root.
    Host,
    /// A folder of such folders, the first one's name.
    Hosts(String),
    /// Another folder.
    Folder,
    /// A tar, of whatever.
    Tar,
    /// Another file.
    File,
    /// Nothing, or nothing that can be opened.
    Nothing,
}

impl Given {
    /// Looks at a path.
    pub(crate) fn at(path: &Path) -> Self {
        match files::open(path) {
            Ok(Opened::Folder(folder)) => of_folder(path, &folder),
            Ok(Opened::File(file, _)) => of_file(file),
            Err(_) => Self::Nothing,
        }
    }

    /// The command that takes it instead of `asked`, as a sentence; none where `asked` takes such things.
    pub(crate) fn instead_of(&self, asked: &str, path: &Path) -> Option<String> {
        let word = shell::word(&path.to_string_lossy());
        let takes_host = !matches!(asked, "apply" | "investigate" | "watch");
        let said = match self {
            Self::Plan if asked != "apply" => format!("it is a plan; run hugewise apply {word}"),
            Self::Archive(what) if !matches!(asked, "investigate" | "watch") => {
                format!("it is {what}; run hugewise investigate {word}")
            }
            Self::Host if !takes_host => format!("it is a captured host; run hugewise check --root {word}"),
            Self::Hosts(first) if takes_host => {
                let first = path.join(first);
                let first = shell::word(&first.to_string_lossy());
                format!("it is a folder of captured hosts, and {asked} takes one; run hugewise {asked} --root {first}")
            }
            Self::Tar if asked == "apply" => {
                format!("it is a tar; if hugewise capture or sosreport made it, run hugewise check --root {word}")
            }
            Self::Folder if takes_host => format!("if collectors write there, run hugewise investigate {word}"),
            _ => return None,
        };
        Some(plain::clean(&said).into_owned())
    }
}

fn of_folder(path: &Path, folder: &Below) -> Given {
    let has = |names: &[std::ffi::OsString], wanted: &str| names.iter().any(|name| name == wanted);
    let folders = folder.folders();
    if ["proc", "sys", "hugewise", "sos_commands"].iter().any(|name| has(&folders, name)) {
        return Given::Host;
    }
    // Many a folder has one called proc.
    let is_host = |path: &Path| matches!(files::open(&path.join("proc/meminfo")), Ok(Opened::File(..)));
    let host = folders.iter().take(MOST_FOLDERS).find(|name| is_host(&path.join(name)));
    host.map_or(Given::Folder, |name| Given::Hosts(name.to_string_lossy().into_owned()))
}

fn of_file(file: impl Read) -> Given {
    let Ok(unpacked) = compressed::open(file) else { return Given::File };
    let mut head = Vec::new();
    // What cannot be unpacked to its end has a beginning.
    let _ = unpacked.take(HEAD).read_to_end(&mut head);
    if head.get(USTAR..).is_some_and(|rest| rest.starts_with(b"ustar")) {
        return Given::Tar;
    }
    let text = String::from_utf8_lossy(&head);
    if text.trim_start().starts_with('{') && text.contains("\"hugewise.plan/") {
        return Given::Plan;
    }
    readers::called(&head).map_or(Given::File, Given::Archive)
}
