//! /proc/buddyinfo: free blocks of 2^n base pages, by node and zone.

use hugewise_model::host::ZoneFreeBlocks;

use super::text::{parse_number, text_lines};
use hugewise_source::ParseError;

pub(super) const PATH: &str = "/proc/buddyinfo";

/// One entry a line. Fails on a line that is not `Node N, zone NAME COUNT...`, and without any.
pub fn parse(bytes: &[u8]) -> Result<Vec<ZoneFreeBlocks>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut zones = Vec::new();
    for (line, content) in text_lines(&text) {
        if content.trim().is_empty() {
            continue;
        }
        let (node, zone, counts) = node_and_zone(line, content)?;
        let blocks = counts
            .map(|word| parse_number(Some(word), line, "block count"))
            .collect::<Result<Vec<u64>, _>>()?;
        if blocks.is_empty() {
            return Err(ParseError::at_line(line, "no block counts"));
        }
        zones.push(ZoneFreeBlocks { node, zone: zone.to_owned(), blocks });
    }
    if zones.is_empty() { Err(ParseError::whole_file("empty")) } else { Ok(zones) }
}

/// `Node 0, zone   Normal` and what follows it.
pub(super) fn node_and_zone(
    line: u64,
    content: &str,
) -> Result<(u32, &str, impl Iterator<Item = &str>), ParseError> {
    let mut words = content.split_ascii_whitespace();
    let head = (
        words.next(),
        words.next().and_then(|word| word.strip_suffix(',')),
        words.next(),
        words.next(),
    );
    let (Some("Node"), Some(node), Some("zone"), Some(zone)) = head else {
        return Err(ParseError::at_line(line, "no node and zone"));
    };
    Ok((parse_number(Some(node), line, "node")?, zone, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "Node 0, zone      DMA      0      1      1 \nNode 0, \
         zone    DMA32      2      3      0 \n\
        Node 1, zone   Normal  10785   3573   1473 \n";

    #[test]
    fn blocks_by_node_and_zone() {
        let zones = parse(REAL.as_bytes()).unwrap();
        assert_eq!(zones.len(), 3);
        assert_eq!(
            zones[2],
            ZoneFreeBlocks { node: 1, zone: "Normal".into(), blocks: vec![10785, 3573, 1473] }
        );
        assert!(parse(b"Node 0, zone DMA\n").is_err());
        assert!(parse(b"Node x, zone DMA 1\n").is_err());
        assert!(parse(b"Node 0, zone DMA 1 -2\n").is_err());
    }

    proptest! {
        #[test]
        fn whole_lines_of_a_torn_file_are_kept(end in 0..REAL.len()) {
            crate::testing::rows_before_a_cut(REAL, end, 0, parse);
        }

        #[test]
        fn what_is_written_is_read(node: u32, zone in "[A-Z][a-z0-9]{1,8}", blocks in prop::collection::vec(any::<u64>(), 1..14)) {
            let counts: Vec<_> = blocks.iter().map(ToString::to_string).collect();
            let text = format!("Node {node}, zone {zone:>8} {} \n", counts.join(" "));
            prop_assert_eq!(parse(text.as_bytes()), Ok(vec![ZoneFreeBlocks { node, zone, blocks }]));
        }
    }
}
