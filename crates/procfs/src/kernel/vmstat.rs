//! /proc/vmstat: one counter a line.

use hugewise_model::host::Counters;

use super::text::{parse_number, text_lines};
use hugewise_source::ParseError;

pub(super) const PATH: &str = "/proc/vmstat";

/// All counters, in the kernel's order. Fails where a counter has no number, and without any.
pub fn parse(bytes: &[u8]) -> Result<Counters, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut counters = Counters::default();
    for (line, content) in text_lines(&text) {
        let mut words = content.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        counters.push(name, parse_number(words.next(), line, "counter")?);
    }
    if counters.is_empty() { Err(ParseError::whole_file("empty")) } else { Ok(counters) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "nr_free_pages 5886028\nthp_fault_alloc 12\nhtlb_buddy_alloc_success 4\n\
        htlb_buddy_alloc_fail 0\ncompact_stall 3\n";

    #[test]
    fn counters_by_name() {
        let counters = parse(REAL.as_bytes()).unwrap();
        assert_eq!(counters.len(), 5);
        assert_eq!(
            (counters.get("htlb_buddy_alloc_success"), counters.get("htlb")),
            (Some(4), None)
        );
        assert_eq!(
            parse(b"a 1\nb x\n"),
            Err(ParseError::at_line(2, "is no number").with_subject("counter"))
        );
        assert_eq!(
            parse(b"a 1\nb"),
            Err(ParseError::at_line(2, "is missing").with_subject("counter"))
        );
        assert!(parse(b"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(counters in prop::collection::btree_map("[a-z_0-9]{1,12}", any::<u64>(), 1..20)) {
            let text: String = counters.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
            let parsed = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.iter().map(|(name, count)| (name.to_owned(), count)).collect::<std::collections::BTreeMap<_, _>>(), counters);
        }
    }
}
