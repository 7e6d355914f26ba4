//! A guest as libvirt defines it (`virsh dumpxml`): its name, its memory and the pages of that.

use std::collections::BTreeSet;

use hugewise_host::ParseError;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::Bytes;

/// As many nodes as a kernel has at most (NODES_SHIFT of 10).
const MOST_NODES: u32 = 1024;

/// Definitions of guests of the system's libvirt, one file each.
pub(super) const DEFINITIONS: &str = "/etc/libvirt/qemu";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) uuid: Option<String>,
    pub(super) memory: Bytes,
    pub(super) pages: GuestPages,
    /// The nodes of the host that its memory is on, and on no others.
    pub(super) nodes: Option<Vec<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestPages {
    Base,
    Default,
    Of(Bytes),
    /// Of several sizes, or of invalid ones.
    Untold,
}

struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    text: &'a str,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Definition, ParseError> {
    let text = without_comments(&String::from_utf8_lossy(bytes));
    let (mut name, mut uuid, mut memory, mut pages) = (None, None, None, GuestPages::Base);
    let (mut nodes, mut by_cell) = (None, false);
    let mut cells = GuestCells::default();
    let mut inside: Vec<&str> = Vec::new();
    for tag in parse_tags(&text) {
        if let Some(closed) = tag.name.strip_prefix('/') {
            if inside.last() == Some(&closed) {
                inside.pop();
            }
            continue;
        }
        let value = tag.text.trim();
        match (inside.as_slice(), tag.name) {
            (["domain"], "name") => name = Some(unescape_xml(value)),
            (["domain"], "uuid") => uuid = Some(value.to_owned()),
            (["domain"], "memory") => {
                memory = parse_size(value, find_attribute(tag.attributes, "unit"), 10)
            }
            (["domain", "memoryBacking"], "hugepages") => pages = GuestPages::Default,
            (["domain", "memoryBacking", "hugepages"], "page") => {
                let page = find_attribute(tag.attributes, "size");
                let page = page
                    .and_then(|page| parse_size(page, find_attribute(tag.attributes, "unit"), 10));
                pages = match (pages, page) {
                    (GuestPages::Default, Some(page)) => GuestPages::Of(page),
                    (GuestPages::Of(before), Some(page)) if before == page => pages,
                    _ => GuestPages::Untold,
                };
                cells.take_page(tag.attributes);
            }
            (["domain", "cpu", "numa"], "cell") => cells.take_cell(tag.attributes),
            (["domain", "numatune"], "memory") => nodes = parse_strict_nodes(tag.attributes),
            // Each cell of the guest has nodes of its own.
            (["domain", "numatune"], "memnode") => by_cell = true,
            _ => {}
        }
        if !tag.attributes.trim_end().ends_with('/') {
            inside.push(tag.name);
        }
    }
    let name = name
        .filter(|name| !name.is_empty())
        .ok_or(ParseError::whole_file("no domain with a name"))?;
    let memory = memory.ok_or(ParseError::whole_file("no domain with a memory size"))?;
    let nodes = nodes.filter(|_| !by_cell);
    let pages = if cells.all_have_pages() { pages } else { GuestPages::Untold };
    Ok(Definition { name, uuid, memory, pages, nodes })
}

/// The guest's own nodes, and which of them its pages are for: the others are on base pages.
#[derive(Default)]
struct GuestCells {
    cells: BTreeSet<u32>,
    with_pages: BTreeSet<u32>,
    is_in_part: bool,
}

impl GuestCells {
    fn take_cell(&mut self, attributes: &str) {
        let next = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        let id = find_attribute(attributes, "id").map_or(Ok(next), str::parse);
        self.cells.insert(id.unwrap_or(u32::MAX));
    }

    fn take_page(&mut self, attributes: &str) {
        let Some(nodes) = find_attribute(attributes, "nodeset") else { return };
        self.is_in_part = true;
        self.with_pages.extend(parse_node_set(nodes).unwrap_or_default());
    }

    fn all_have_pages(&self) -> bool {
        !self.is_in_part || (!self.cells.is_empty() && self.cells.is_subset(&self.with_pages))
    }
}

/// `<memory mode='strict' nodeset='0-1'/>`: without a mode it is strict (libvirt's "Domain XML
/// format", "NUMA Node Tuning"). The other modes go elsewhere where these nodes are full.
fn parse_strict_nodes(attributes: &str) -> Option<Vec<u32>> {
    let mode = find_attribute(attributes, "mode").unwrap_or("strict");
    let nodes = find_attribute(attributes, "nodeset")?;
    if matches!(mode, "strict" | "restrictive") { parse_node_set(nodes) } else { None }
}

/// `0-3,^2`
fn parse_node_set(text: &str) -> Option<Vec<u32>> {
    let mut nodes = BTreeSet::new();
    for part in text.split(',') {
        let (is_out, part) = part.strip_prefix('^').map_or((false, part), |part| (true, part));
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        for node in first..=last.min(MOST_NODES) {
            if is_out {
                nodes.remove(&node)
            } else {
                nodes.insert(node)
            };
        }
    }
    (!nodes.is_empty()).then(|| nodes.into_iter().collect())
}

/// Keeps what is read, and a guest's name only if it is a plain one.
pub(super) fn redact_definition(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with(&format!("{}/", DEFINITIONS)) || !path.ends_with(".xml") {
        return None;
    }
    let Ok(Definition { name, uuid, memory, pages, nodes }) = parse(bytes) else {
        return Some(b"?\n".to_vec());
    };
    let name = if ValueShape::Names.matches_value(&name) { name } else { "-".to_owned() };
    let is_uuid = |text: &String| {
        text.len() <= 36 && text.bytes().all(|sign| sign.is_ascii_hexdigit() || sign == b'-')
    };
    let uuid =
        uuid.filter(is_uuid).map(|uuid| format!("<uuid>{uuid}</uuid>\n")).unwrap_or_default();
    let backing = match pages {
        GuestPages::Base => String::new(),
        GuestPages::Default => "<memoryBacking><hugepages/></memoryBacking>\n".to_owned(),
        GuestPages::Of(page) => {
            format!(
                "<memoryBacking><hugepages><page size='{}' unit='b'/></hugepages></memoryBacking>\n",
                page.get()
            )
        }
        GuestPages::Untold => {
            "<memoryBacking><hugepages><page/></hugepages></memoryBacking>\n".to_owned()
        }
    };
    let nodes = nodes.map_or_else(String::new, |nodes| {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        format!("<numatune><memory mode='strict' nodeset='{}'/></numatune>\n", nodes.join(","))
    });
    let size = memory.get();
    Some(
        format!(
            "<domain>\n<name>{name}</name>\n{uuid}<memory \
             unit='b'>{size}</memory>\n{backing}{nodes}</domain>\n"
        )
        .into_bytes(),
    )
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    kept + rest
}

fn parse_tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    text.split('<').skip(1).filter_map(|part| {
        let (tag, text) = part.split_once('>')?;
        let end = tag.find(|sign: char| sign.is_ascii_whitespace()).unwrap_or(tag.len());
        let (name, attributes) = tag.split_at_checked(end)?;
        let (name, attributes) = match name.strip_suffix('/') {
            Some(bare) if !bare.is_empty() => (bare, "/"),
            _ => (name, attributes),
        };
        (!name.starts_with(['?', '!'])).then_some(Tag { name, attributes, text })
    })
}

fn find_attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    attributes.split_ascii_whitespace().find_map(|word| {
        let (key, value) = word.trim_end_matches('/').split_once('=')?;
        (key == name).then(|| value.trim_matches(['\'', '"']))
    })
}

fn unescape_xml(text: &str) -> String {
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    signs.iter().fold(text.to_owned(), |text, (escaped, sign)| text.replace(escaped, sign))
}

/// A number with libvirt's unit: powers of 1024 but for `kB` and the like; KiB without one.
fn parse_size(number: &str, unit: Option<&str>, usual: u32) -> Option<Bytes> {
    let number: u64 = number.trim().parse().ok()?;
    let unit = unit.unwrap_or_default();
    let power = |sign: char| {
        "KMGTPE".find(sign.to_ascii_uppercase()).and_then(|at| u32::try_from(at + 1).ok())
    };
    let factor = match (unit, unit.chars().next()) {
        ("", _) => 1_u64 << usual,
        ("b" | "byte" | "bytes", _) => 1,
        (_, Some(first)) => {
            let base: u64 = if unit.len() == 2 && unit.ends_with(['B', 'b']) { 1000 } else { 1024 };
            base.checked_pow(power(first)?)?
        }
        (_, None) => return None,
    };
    number.checked_mul(factor).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xml(backing: &str) -> String {
        format!(
            "<!--\nWARNING: <name>x</name> virsh edit\n-->\n<domain \
                 type='kvm'>\n  <name>db&amp;1</name>\n  <uuid>a-1</uuid>\n  \
             <metadata>\n<x:name>y</x:name><name>z</name></metadata>\n<memory \
                 unit='KiB'>2097152</memory>\n\
             <currentMemory \
                 unit='KiB'>1</currentMemory>\n{backing}<devices><name>d</name></devices>\n</domain>\n"
        )
    }

    fn pages(backing: &str) -> GuestPages {
        parse(xml(backing).as_bytes()).unwrap().pages
    }

    #[test]
    fn a_guest_is_its_name_and_its_memory() {
        let guest = parse(xml("").as_bytes()).unwrap();
        assert_eq!(
            (guest.name.as_str(), guest.uuid.as_deref(), guest.memory),
            ("db&1", Some("a-1"), Bytes::from_gib(2))
        );
        let guest_pages_of =
            |inside: &str| pages(&format!("<memoryBacking>{inside}<locked/></memoryBacking>"));
        assert_eq!((guest.pages, guest_pages_of("")), (GuestPages::Base, GuestPages::Base));
        assert_eq!(guest_pages_of("<hugepages/>"), GuestPages::Default);
        assert_eq!(guest_pages_of("<hugepages>\n</hugepages>"), GuestPages::Default);
        assert_eq!(
            guest_pages_of("<hugepages><page size='1048576' unit='KiB'/></hugepages>"),
            GuestPages::Of(Bytes::from_gib(1))
        );
        assert_eq!(
            guest_pages_of("<hugepages><page size=\"1\" unit=\"G\"/></hugepages>"),
            GuestPages::Of(Bytes::from_gib(1))
        );
        assert_eq!(
            guest_pages_of("<hugepages><page size='2048'/></hugepages>"),
            GuestPages::Of(Bytes::from_mib(2))
        );
        assert_eq!(
            guest_pages_of("<hugepages><page size='1' unit='G' nodeset='0'/></hugepages>"),
            GuestPages::Untold
        );
        assert_eq!(
            guest_pages_of(
                "<hugepages><page size='1' unit='G'/><page size='2' unit='M'/></hugepages>"
            ),
            GuestPages::Untold
        );
        assert!(parse(b"").is_err() && parse(b"<domain><name>a</name></domain>").is_err());
    }

    /// Nova's definition of a guest with hw:mem_page_size=2048 names its only node.
    #[test]
    fn pages_for_all_nodes_of_a_guest_are_for_all_its_memory() {
        let pages_with = |nodeset: &str, cells: &[u32]| {
            let page = format!("<hugepages><page size='2048' unit='KiB' nodeset='{nodeset}'/>");
            let cell = |id: &u32| format!("<cell id='{id}' cpus='{id}' memory='1'/>");
            let cells: String = cells.iter().map(cell).collect();
            let text = format!(
                "<domain><name>a</name><memory>4194304</memory><memoryBacking>{page}</hugepages>\
                 </memoryBacking><cpu><numa>{cells}</numa></cpu></domain>"
            );
            parse(text.as_bytes()).unwrap().pages
        };
        let of_2_mib = GuestPages::Of(Bytes::from_mib(2));
        assert_eq!(pages_with("0", &[0]), of_2_mib);
        assert_eq!(pages_with("0-1", &[0, 1]), of_2_mib);
        assert_eq!(pages_with("0", &[0, 1]), GuestPages::Untold);
        assert_eq!(pages_with("0", &[]), GuestPages::Untold);
        assert_eq!(pages_with("x", &[0]), GuestPages::Untold);
    }

    /// libvirt's "Domain XML format", "NUMA Node Tuning".
    #[test]
    fn strict_memory_is_on_its_nodes_alone() {
        let nodes = |inside: &str| {
            parse(xml(&format!("<numatune>{inside}</numatune>")).as_bytes()).unwrap().nodes
        };
        assert_eq!(nodes("<memory mode='strict' nodeset='1-4,^3'/>"), Some(vec![1, 2, 4]));
        assert_eq!(nodes("<memory nodeset=\"0\"/>"), Some(vec![0]));
        assert_eq!(nodes("<memory mode='restrictive' nodeset='0'/>"), Some(vec![0]));
        for none in [
            "<memory mode='preferred' nodeset='0'/>",
            "<memory mode='interleave' nodeset='0-1'/>",
            "<memory mode='strict' placement='auto'/>",
            "<memory mode='strict' nodeset='0'/><memnode cellid='0' mode='strict' nodeset='1'/>",
            "<memory mode='strict' nodeset='x'/>",
            "<memory mode='strict' nodeset='0,^0'/>",
        ] {
            assert_eq!(nodes(none), None, "{none}");
        }
        assert_eq!(parse(xml("").as_bytes()).unwrap().nodes, None);
    }

    #[test]
    fn what_a_capture_keeps_is_read_the_same() {
        let path = "/etc/libvirt/qemu/db.xml";
        for backing in [
            "",
            "<memoryBacking><hugepages/></memoryBacking>",
            "<memoryBacking><hugepages><page size='2' unit='M'/></hugepages></memoryBacking>",
            "<numatune><memory mode='strict' nodeset='0,2-3'/></numatune>",
        ] {
            let text = xml(backing)
                .replace("db&amp;1", "db1")
                .replace("<devices>", "<devices passwd='S3'>");
            let kept = redact_definition(path, text.as_bytes()).unwrap();
            assert_eq!(
                parse(&kept).unwrap(),
                Definition { uuid: Some("a-1".into()), ..parse(text.as_bytes()).unwrap() }
            );
            assert!(!String::from_utf8_lossy(&kept).contains("S3"));
            assert_eq!(super::redact_definition(path, &kept).unwrap(), kept);
        }
        assert_eq!(redact_definition("/etc/other.xml", b""), None);
    }
}
