//! /proc/zoneinfo: watermarks, by node and zone.

use hugewise_model::host::ZoneWatermarks;

use super::buddyinfo::node_and_zone;
use super::text::{parse_number, text_lines};
use hugewise_source::ParseError;

/// The file.
pub const PATH: &str = "/proc/zoneinfo";

#[derive(Default)]
struct Zone {
    line: u64,
    node: u32,
    name: String,
    min: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    present: Option<u64>,
    managed: Option<u64>,
}

impl Zone {
    fn finish(self) -> Result<ZoneWatermarks, ParseError> {
        let missing = |what: &'static str| {
            ParseError::at_line(self.line, "is missing in a zone").with_subject(what)
        };
        Ok(ZoneWatermarks {
            node: self.node,
            min: self.min.ok_or_else(|| missing("min"))?,
            low: self.low.ok_or_else(|| missing("low"))?,
            high: self.high.ok_or_else(|| missing("high"))?,
            // Kernels before 3.9 print no `managed`; `present` is the next best.
            managed: self.managed.or(self.present).ok_or_else(|| missing("managed"))?,
            zone: self.name,
        })
    }
}

/// One entry a zone, empty ones included. Fails where a zone lacks a watermark, on an invalid
/// number, and without any zone.
pub fn parse(bytes: &[u8]) -> Result<Vec<ZoneWatermarks>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut zones = Vec::new();
    let mut open: Option<Zone> = None;
    for (line, content) in text_lines(&text) {
        if content.starts_with("Node ") {
            zones.extend(open.take().map(Zone::finish).transpose()?);
            let (node, name, _) = node_and_zone(line, content)?;
            open = Some(Zone { line, node, name: name.to_owned(), ..Zone::default() });
            continue;
        }
        let Some(zone) = &mut open else { continue };
        let mut words = content.split_ascii_whitespace();
        let mark = match words.next() {
            Some("min") => &mut zone.min,
            Some("low") => &mut zone.low,
            Some("high") => &mut zone.high,
            Some("present") => &mut zone.present,
            Some("managed") => &mut zone.managed,
            _ => continue,
        };
        *mark = Some(parse_number(words.next(), line, "watermark")?);
    }
    zones.extend(open.take().map(Zone::finish).transpose()?);
    if zones.is_empty() { Err(ParseError::whole_file("no zone in it")) } else { Ok(zones) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon \
         53245\n  pages free     3840\n\
        \x20       boost    0\n        min      10\n        low      13\n        high     16\n        spanned  4095\n\
        \x20       present  3998\n        managed  3840\n        protection: (0, 2999, \
         9400)\n  pagesets\n    cpu: 0\n\
        \x20             count: 0\n              high:  13\n              batch: \
         1\n  start_pfn:           1\n\
        Node 1, zone   Normal\n  pages \
         free     772808\n        min      5406\n        low      6757\n\
        \x20       high     8108\n        scanned  0\n        spanned  1044480\n        present  782336\n";

    #[test]
    fn watermarks_by_node_and_zone() {
        let zones = parse(REAL.as_bytes()).unwrap();
        let dma = ZoneWatermarks {
            node: 0,
            zone: "DMA".into(),
            min: 10,
            low: 13,
            high: 16,
            managed: 3840,
        };
        let normal = ZoneWatermarks {
            node: 1,
            zone: "Normal".into(),
            min: 5406,
            low: 6757,
            high: 8108,
            managed: 782_336,
        };
        assert_eq!(zones, [dma, normal]);
    }

    #[test]
    fn a_cut_zone_is_no_zone() {
        let cut = REAL.find("high     8108").unwrap();
        assert_eq!(
            parse(&REAL.as_bytes()[..cut]),
            Err(ParseError::at_line(19, "is missing in a zone").with_subject("high"))
        );
        assert!(parse(b"").is_err());
    }

    proptest! {
        #[test]
        fn unknown_lines_are_skipped(at in 0..24usize, noise in "[ ]{4}x[a-z_]{1,20} [0-9a-z]{0,9}") {
            let mut lines: Vec<_> = REAL.lines().collect();
            lines.insert(at, &noise);
            prop_assert_eq!(parse(lines.join("\n").as_bytes()), parse(REAL.as_bytes()));
        }
    }
}
