//! `-readconfig qemu.conf`: a machine's options in a file, as LXD and Incus start all of theirs.

use hugewise_host::capture::shape::ValueShape;
use hugewise_host::source::Source;
use hugewise_model::Process;

use super::option_values;
use crate::EngineContext;
use crate::shared::options;

/// What LXD and Incus call it; a capture keeps what is read of files with this name.
const NAME: &str = "qemu.conf";

/// Sections that say what memory there is, each with its option.
const SECTIONS: [(&str, &str); 5] = [
    ("object", "-object"),
    ("machine", "-machine"),
    ("memory", "-m"),
    ("numa", "-numa"),
    ("device", "-device"),
];

/// What is read of them.
const KEYS: [&str; 9] = [
    "qom-type",
    "size",
    "memory-backend",
    "memdev",
    "mem-path",
    "hugetlb",
    "hugetlbsize",
    "prealloc",
    "share",
];

/// Larger ones are nobody's.
const MOST: u64 = 1 << 20;

#[derive(Default)]
struct ConfigSection {
    name: String,
    id: Option<String>,
    pairs: Vec<(String, String)>,
}

/// The command line with the options of the files that it names; none where one cannot be read.
pub(super) fn read_all_options(
    scene: &EngineContext<'_>,
    process: &Process,
    arguments: &[String],
) -> Option<Vec<String>> {
    let mut all = arguments.to_vec();
    for path in option_values(arguments, "readconfig") {
        if options::file_name(path) != NAME {
            return None;
        }
        let files = scene.files_of(process);
        // LXD gives its machines another root once they have read it.
        let opened = [options::as_reader_opens(scene.host, process, path), path.to_owned()];
        let bytes = opened.iter().find_map(|path| {
            let answer = files.read(path);
            answer.into_known().filter(|bytes| u64::try_from(bytes.len()).is_ok_and(|n| n <= MOST))
        })?;
        all.extend(parse_sections(&bytes).iter().flat_map(ConfigSection::to_words));
    }
    Some(all)
}

/// What a capture keeps of such a file.
pub(super) fn redact_read_config(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if options::file_name(path) != NAME {
        return None;
    }
    let sections = parse_sections(bytes);
    let text: String = sections.iter().map(ConfigSection::to_kept_text).collect();
    Some(text.into_bytes())
}

fn parse_sections(bytes: &[u8]) -> Vec<ConfigSection> {
    let text = String::from_utf8_lossy(bytes);
    let mut sections: Vec<ConfigSection> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(inside) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let (name, id) = inside.split_once(' ').unwrap_or((inside, ""));
            let id = Some(unquote(id)).filter(|id| !id.is_empty()).map(str::to_owned);
            sections.push(ConfigSection { name: name.to_owned(), id, pairs: Vec::new() });
        } else if let (Some((key, value)), Some(section)) =
            (line.split_once('='), sections.last_mut())
        {
            let key = key.trim();
            if KEYS.contains(&key) {
                section.pairs.push((key.to_owned(), unquote(value).to_owned()));
            }
        }
    }
    sections.retain(|section| SECTIONS.iter().any(|(name, _)| *name == section.name));
    sections
}

fn unquote(text: &str) -> &str {
    text.trim().trim_matches('"')
}

impl ConfigSection {
    /// As the command line has them: `-object qom-type=memory-backend-file,id=mem0,size=4096M`.
    fn to_words(&self) -> Vec<String> {
        let option = SECTIONS.iter().find(|(name, _)| *name == self.name);
        let Some((_, option)) = option.filter(|_| !self.pairs.is_empty()) else {
            return Vec::new();
        };
        let is_kind = |pair: &&(String, String)| pair.0 == "qom-type";
        let kind = self.pairs.iter().find(is_kind).cloned();
        let id = self.id.clone().map(|id| ("id".to_owned(), id));
        let rest = self.pairs.iter().filter(|pair| !is_kind(pair)).cloned();
        let words = kind.into_iter().chain(id).chain(rest);
        let words = words.map(|(key, value)| format!("{key}={}", value.replace(',', ",,")));
        vec![(*option).to_owned(), words.collect::<Vec<_>>().join(",")]
    }

    fn to_kept_text(&self) -> String {
        let id = self.id.as_deref().filter(|id| ValueShape::Names.matches_value(id));
        let id = id.map(|id| format!(" \"{id}\"")).unwrap_or_default();
        let lines = self.pairs.iter().map(|(key, value)| {
            let shape = match key.as_str() {
                "mem-path" => ValueShape::Path,
                "qom-type" | "memory-backend" | "memdev" => ValueShape::Names,
                _ => ValueShape::Plain,
            };
            format!("{key} = \"{}\"\n", shape.redact_value(value))
        });
        format!("[{}{id}]\n{}", self.name, lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From LXD 4.3's template.
    const FILE: &[u8] = b"# Machine\n[machine]\ngraphics = \"off\"\ntype = \"q35\"\n\n[memory]\n\
        size = \"4096M\"\n\n[object \"mem0\"]\nqom-type = \"memory-backend-file\"\n\
        mem-path = \"/dev/hugepages\"\nprealloc = \"on\"\nsize = \"4096M\"\n\n\
        [numa]\ntype = \"node\"\nmemdev = \"mem0\"\n[chardev \"console\"]\npath = \"S3\"\n";

    fn rendered_words(bytes: &[u8]) -> Vec<String> {
        parse_sections(bytes).iter().flat_map(ConfigSection::to_words).collect()
    }

    #[test]
    fn sections_are_options_of_the_command_line() {
        assert_eq!(
            rendered_words(FILE),
            [
                "-m",
                "size=4096M",
                "-object",
                "qom-type=memory-backend-file,id=mem0,mem-path=/dev/hugepages,prealloc=on,\
                 size=4096M",
                "-numa",
                "memdev=mem0"
            ]
        );
        assert!(rendered_words(b"\xff\0[\n]=\n[object").is_empty());
    }

    #[test]
    fn a_capture_says_the_same_and_nothing_else() {
        let kept = redact_read_config("/run/incus/v1/qemu.conf", FILE).unwrap();
        assert_eq!(rendered_words(&kept), rendered_words(FILE));
        assert!(!String::from_utf8_lossy(&kept).contains("S3"));
        assert_eq!(redact_read_config("/etc/other.conf", FILE), None);
    }
}
