//! A guest as libvirt defines it (`virsh dumpxml`): its name, and its memory with the pages that it is to be on.

use hugewise_host::ParseError;
use hugewise_host::capture::shape::Shape;
use hugewise_model::Bytes;

/// Definitions of guests of the system's libvirt, one file each.
pub(super) const DEFINITIONS: &str = "/etc/libvirt/qemu";

/// What of a definition is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) uuid: Option<String>,
    pub(super) memory: Bytes,
    pub(super) pages: Pages,
}

/// The pages of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Base pages: nothing else is asked for.
    Base,
    /// The host's default huge pages.
    Default,
    /// Huge pages of that size.
    Of(Bytes),
    /// Of several sizes, or of some that make no sense.
    Untold,
}

/// One tag, and the text up to the next.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    text: &'a str,
}

/// # Errors
/// There is no domain in it, or one without a name or a size of memory.
pub(super) fn parse(bytes: &[u8]) -> Result<Definition, ParseError> {
    let text = without_comments(&String::from_utf8_lossy(bytes));
    let (mut name, mut uuid, mut memory, mut pages) = (None, None, None, Pages::Base);
    let mut inside: Vec<&str> = Vec::new();
    for tag in tags(&text) {
        if let Some(closed) = tag.name.strip_prefix('/') {
            if inside.last() == Some(&closed) {
                inside.pop();
            }
            continue;
        }
        let value = tag.text.trim();
        match (inside.as_slice(), tag.name) {
            (["domain"], "name") => name = Some(unescaped(value)),
            (["domain"], "uuid") => uuid = Some(value.to_owned()),
            (["domain"], "memory") => memory = size(value, attribute(tag.attributes, "unit"), 10),
            (["domain", "memoryBacking"], "hugepages") => pages = Pages::Default,
            (["domain", "memoryBacking", "hugepages"], "page") => {
                let page = attribute(tag.attributes, "size");
                let page = page.and_then(|page| size(page, attribute(tag.attributes, "unit"), 10));
                pages = match (pages, page) {
                    (Pages::Default, Some(page)) => Pages::Of(page),
                    (Pages::Of(before), Some(page)) if before == page => pages,
                    _ => Pages::Untold,
                };
                // The other nodes of the guest are on base pages.
                if attribute(tag.attributes, "nodeset").is_some() {
                    pages = Pages::Untold;
                }
            }
            _ => {}
        }
        if !tag.attributes.trim_end().ends_with('/') {
            inside.push(tag.name);
        }
    }
    let name = name.filter(|name| !name.is_empty()).ok_or(ParseError::whole("no domain with a name"))?;
    let memory = memory.ok_or(ParseError::whole("no domain with a memory size"))?;
    Ok(Definition { name, uuid, memory, pages })
}

/// What a capture keeps of a definition: what is read of it, and nothing of what a guest is called that is no name.
pub(super) fn kept(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with(&format!("{}/", DEFINITIONS)) || !path.ends_with(".xml") {
        return None;
    }
    let Ok(Definition { name, uuid, memory, pages }) = parse(bytes) else { return Some(b"?\n".to_vec()) };
    let name = if Shape::Names.fits(&name) { name } else { "-".to_owned() };
    let is_uuid = |text: &String| text.len() <= 36 && text.bytes().all(|sign| sign.is_ascii_hexdigit() || sign == b'-');
    let uuid = uuid.filter(is_uuid).map(|uuid| format!("<uuid>{uuid}</uuid>\n")).unwrap_or_default();
    let backing = match pages {
        Pages::Base => String::new(),
        Pages::Default => "<memoryBacking><hugepages/></memoryBacking>\n".to_owned(),
        Pages::Of(page) => {
            format!("<memoryBacking><hugepages><page size='{}' unit='b'/></hugepages></memoryBacking>\n", page.get())
        }
        Pages::Untold => "<memoryBacking><hugepages><page/></hugepages></memoryBacking>\n".to_owned(),
    };
    let size = memory.get();
    Some(
        format!("<domain>\n<name>{name}</name>\n{uuid}<memory unit='b'>{size}</memory>\n{backing}</domain>\n")
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

fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    text.split('<').skip(1).filter_map(|part| {
        let (tag, text) = part.split_once('>')?;
        let end = tag.find(|sign: char| sign.is_ascii_whitespace()).unwrap_or(tag.len());
        let (name, attributes) = tag.split_at_checked(end)?;
        // `<hugepages/>`
        let (name, attributes) = match name.strip_suffix('/') {
            Some(bare) if !bare.is_empty() => (bare, "/"),
            _ => (name, attributes),
        };
        (!name.starts_with(['?', '!'])).then_some(Tag { name, attributes, text })
    })
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    attributes.split_ascii_whitespace().find_map(|word| {
        let (key, value) = word.trim_end_matches('/').split_once('=')?;
        (key == name).then(|| value.trim_matches(['\'', '"']))
    })
}

fn unescaped(text: &str) -> String {
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    signs.iter().fold(text.to_owned(), |text, (escaped, sign)| text.replace(escaped, sign))
}

/// A number with a unit of libvirt's: powers of 1024 but for `kB` and the like; KiB without one.
fn size(number: &str, unit: Option<&str>, usual: u32) -> Option<Bytes> {
    let number: u64 = number.trim().parse().ok()?;
    let unit = unit.unwrap_or_default();
    let power = |sign: char| "KMGTPE".find(sign.to_ascii_uppercase()).and_then(|at| u32::try_from(at + 1).ok());
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
            "<!--\nWARNING: <name>x</name> virsh edit\n-->\n<domain type='kvm'>\n  <name>db&amp;1</name>\n  <uuid>a-1</uuid>\n  \
             <metadata>\n<x:name>y</x:name><name>z</name></metadata>\n<memory unit='KiB'>2097152</memory>\n\
             <currentMemory unit='KiB'>1</currentMemory>\n{backing}<devices><name>d</name></devices>\n</domain>\n"
        )
    }

    fn pages(backing: &str) -> Pages {
        parse(xml(backing).as_bytes()).unwrap().pages
    }

    #[test]
    fn a_guest_is_its_name_and_its_memory() {
        let guest = parse(xml("").as_bytes()).unwrap();
        assert_eq!(
            (guest.name.as_str(), guest.uuid.as_deref(), guest.memory),
            ("db&1", Some("a-1"), Bytes::from_gib(2))
        );
        let of = |inside: &str| pages(&format!("<memoryBacking>{inside}<locked/></memoryBacking>"));
        assert_eq!((guest.pages, of("")), (Pages::Base, Pages::Base));
        assert_eq!(of("<hugepages/>"), Pages::Default);
        assert_eq!(of("<hugepages>\n</hugepages>"), Pages::Default);
        assert_eq!(of("<hugepages><page size='1048576' unit='KiB'/></hugepages>"), Pages::Of(Bytes::from_gib(1)));
        assert_eq!(of("<hugepages><page size=\"1\" unit=\"G\"/></hugepages>"), Pages::Of(Bytes::from_gib(1)));
        assert_eq!(of("<hugepages><page size='2048'/></hugepages>"), Pages::Of(Bytes::from_mib(2)));
        assert_eq!(of("<hugepages><page size='1' unit='G' nodeset='0'/></hugepages>"), Pages::Untold);
        assert_eq!(of("<hugepages><page size='1' unit='G'/><page size='2' unit='M'/></hugepages>"), Pages::Untold);
        assert!(parse(b"").is_err() && parse(b"<domain><name>a</name></domain>").is_err());
    }

    #[test]
    fn what_a_capture_keeps_is_read_the_same() {
        let path = "/etc/libvirt/qemu/db.xml";
        for backing in [
            "",
            "<memoryBacking><hugepages/></memoryBacking>",
            "<memoryBacking><hugepages><page size='2' unit='M'/></hugepages></memoryBacking>",
        ] {
            let text = xml(backing).replace("db&amp;1", "db1").replace("<devices>", "<devices passwd='S3'>");
            let kept = kept(path, text.as_bytes()).unwrap();
            assert_eq!(
                parse(&kept).unwrap(),
                Definition { uuid: Some("a-1".into()), ..parse(text.as_bytes()).unwrap() }
            );
            assert!(!String::from_utf8_lossy(&kept).contains("S3"));
            assert_eq!(super::kept(path, &kept).unwrap(), kept);
        }
        assert_eq!(kept("/etc/other.xml", b""), None);
    }
}
