//! What a path is, by its first bytes, so that an error can name the command that takes it.

use std::io::Read;
use std::path::Path;

use hugewise_host::compressed;
use hugewise_host::source::files::{self, OpenFolder, OpenedPath as Opened};
use hugewise_investigate::readers;
use hugewise_model::escape::shell;
use hugewise_report::plain;

const HEAD: u64 = 64 << 10;
/// Offset of a tar's magic.
const USTAR: usize = 257;
/// Subfolders that are searched for a host.
const MOST_FOLDERS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// Written by `plan --out`.
    Plan,
    /// A collector's file or a log, with its name in a sentence.
    Archive(&'static str),
    /// A folder that looks like a host's root.
    Host,
    /// A folder of such folders, with the first one's name.
    Hosts(String),
    Folder,
    Tar,
    File,
    /// Nothing that can be opened.
    Nothing,
}

impl PathKind {
    pub(crate) fn from_path(path: &Path) -> Self {
        match files::open_path(path) {
            Ok(Opened::Folder(folder)) => of_folder(path, &folder),
            Ok(Opened::File(file, _)) => of_file(file),
            Err(_) => Self::Nothing,
        }
    }

    /// The command that takes it, as a sentence, unless `asked` does.
    pub(crate) fn instead_of(&self, asked: &str, path: &Path) -> Option<String> {
        let word = shell::quote_word(&path.to_string_lossy());
        let takes_host = !matches!(asked, "apply" | "investigate" | "watch");
        let said = match self {
            Self::Plan if asked != "apply" => format!("it is a plan; run hugewise apply {word}"),
            Self::Archive(what) if !matches!(asked, "investigate" | "watch") => {
                format!("it is {what}; run hugewise investigate {word}")
            }
            Self::Host if !takes_host => {
                format!("it is a captured host; run hugewise check --root {word}")
            }
            Self::Hosts(first) if takes_host => {
                let first = path.join(first);
                let first = shell::quote_word(&first.to_string_lossy());
                format!(
                    "it is a folder of captured hosts, and {asked} takes one; run hugewise \
                         {asked} --root {first}"
                )
            }
            Self::Tar if asked == "apply" => {
                format!(
                    "it is a tar; if hugewise capture or sosreport made it, run hugewise check \
                         --root {word}"
                )
            }
            Self::Folder if takes_host => {
                format!("if collectors write there, run hugewise investigate {word}")
            }
            _ => return None,
        };
        Some(plain::escape_line(&said).into_owned())
    }
}

fn of_folder(path: &Path, folder: &OpenFolder) -> PathKind {
    let has = |names: &[std::ffi::OsString], wanted: &str| names.iter().any(|name| name == wanted);
    let folders = folder.folder_names();
    if ["proc", "sys", "hugewise", "sos_commands"].iter().any(|name| has(&folders, name)) {
        return PathKind::Host;
    }
    // Many a folder has one called proc.
    let is_host =
        |path: &Path| matches!(files::open_path(&path.join("proc/meminfo")), Ok(Opened::File(..)));
    let host = folders.iter().take(MOST_FOLDERS).find(|name| is_host(&path.join(name)));
    host.map_or(PathKind::Folder, |name| PathKind::Hosts(name.to_string_lossy().into_owned()))
}

fn of_file(file: impl Read) -> PathKind {
    let Ok(unpacked) = compressed::open_decompressed(file) else { return PathKind::File };
    let mut head = Vec::new();
    // A damaged file still has its beginning.
    let _ = unpacked.take(HEAD).read_to_end(&mut head);
    if head.get(USTAR..).is_some_and(|rest| rest.starts_with(b"ustar")) {
        return PathKind::Tar;
    }
    let text = String::from_utf8_lossy(&head);
    if text.trim_start().starts_with('{') && text.contains("\"hugewise.plan/") {
        return PathKind::Plan;
    }
    readers::describe_format(&head).map_or(PathKind::File, PathKind::Archive)
}
