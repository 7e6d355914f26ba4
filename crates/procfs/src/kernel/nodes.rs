//! NUMA nodes: /sys/devices/system/node/nodeN/meminfo.

use hugewise_model::host::NumaNode;
use hugewise_model::{Bytes, Observed};

use super::text::{parse_digits, parse_number, text_lines};
use hugewise_source::{FactReader, ParseError};

pub(super) const FOLDER: &str = "/sys/devices/system/node";

/// Total and free memory of one node: `Node 0 MemTotal:  9660192 kB`. Fails where a line of either
/// has no amount, or neither is there.
pub fn parse(bytes: &[u8]) -> Result<NumaNode, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut id = None;
    let (mut total, mut free) = (Observed::Absent, Observed::Absent);
    for (line, content) in text_lines(&text) {
        let mut words = content.split_ascii_whitespace();
        let (Some("Node"), Some(node), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let fact = match name {
            "MemTotal:" => &mut total,
            "MemFree:" => &mut free,
            _ => continue,
        };
        id = Some(parse_number(Some(node), line, "node")?);
        let kib = parse_number(words.next(), line, "amount")?;
        if words.next() != Some("kB") {
            return Err(ParseError::at_line(line, "an amount without its unit"));
        }
        *fact = Observed::Known(Bytes::from_kib(kib));
    }
    let id = id.ok_or_else(|| ParseError::whole_file("it has no field of a node's meminfo"))?;
    Ok(NumaNode { id, total, free })
}

/// Numbers of the nodes, lowest first.
pub fn read_node_ids(door: &mut FactReader<'_>) -> Observed<Vec<u32>> {
    door.list_folder(FOLDER).map(|names| {
        let numbers = names.iter().filter_map(|name| parse_digits(name.strip_prefix("node")?));
        let mut ids: Vec<u32> = numbers.collect();
        ids.sort_unstable();
        ids
    })
}

/// Reads every node; one whose file cannot be read has no amounts.
pub fn read(door: &mut FactReader<'_>, ids: &Observed<Vec<u32>>) -> Observed<Vec<NumaNode>> {
    ids.as_ref().map(|ids| {
        let nodes = ids.iter().map(|&id| {
            let path = format!("{FOLDER}/node{id}/meminfo");
            let node = door.parse(&path, parse);
            NumaNode {
                id,
                total: node.as_ref().and_then(|node| node.total.clone()),
                free: node.and_then(|node| node.free),
            }
        });
        nodes.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "Node 1 MemTotal:        9660192 kB\nNode 1 MemFree:         8453084 kB\n\
        Node 1 MemUsed:         1207108 kB\nNode 1 HugePages_Total:     0\n";

    #[test]
    fn amounts_of_a_node() {
        let node = parse(REAL.as_bytes()).unwrap();
        assert_eq!(node.id, 1);
        assert_eq!(node.total, Observed::Known(Bytes(9_892_036_608)));
        assert_eq!(node.free, Observed::Known(Bytes(8_655_958_016)));
        assert_eq!(parse(b"Node 0 MemTotal: 0 kB\n").unwrap().free, Observed::Absent);
        assert!(parse(b"Node 0 MemTotal: 12").is_err());
        assert!(parse(b"Node 0 MemTotal: x kB\n").is_err());
        assert!(parse(b"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(id: u32, total in 0..1_u64 << 50, free in 0..1_u64 << 50, noise in "[A-Z][A-Za-z()_]{1,16}") {
            let text = format!(
                "\nNode {id} MemTotal: {total:>14} kB\nNode {id} Other{noise}: 7 kB\nNode {id} \
                     MemFree: {free:>15} kB\n"
            );
            let known = |kib| Observed::Known(Bytes::from_kib(kib));
            prop_assert_eq!(parse(text.as_bytes()), Ok(NumaNode { id, total: known(total), free: known(free) }));
        }
    }
}
