//! /proc/swaps.

use hugewise_model::Bytes;
use hugewise_model::host::SwapArea;

use super::text::{parse_number, text_lines, unescape_octal};
use hugewise_source::ParseError;

pub(super) const PATH: &str = "/proc/swaps";

/// One entry a swap area. Fails without the heading, and on a line without size.
pub fn parse(bytes: &[u8]) -> Result<Vec<SwapArea>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    if !text.starts_with("Filename") {
        return Err(ParseError::at_line(1, "no heading"));
    }
    let mut areas = Vec::new();
    for (line, content) in text_lines(&text).skip(1) {
        // From the right: only the name may hold blanks.
        let mut words = content.split_ascii_whitespace().rev();
        let Some(_priority) = words.next() else { continue };
        let used = Bytes::from_kib(parse_number(words.next(), line, "amount used")?);
        let size = Bytes::from_kib(parse_number(words.next(), line, "size")?);
        let (Some(_kind), Some(path)) = (words.next(), words.next()) else {
            return Err(ParseError::at_line(line, "too few columns"));
        };
        areas.push(SwapArea { path: unescape_octal(path), size, used });
    }
    Ok(areas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n\
        /dev/dm-1                               partition\t8388604\t1024\t-2\n\
        /srv/swap\\040file\\040(deleted)          file\t\t1048572\t0\t-3\n";

    #[test]
    fn areas_with_size_and_use() {
        let areas = parse(REAL.as_bytes()).unwrap();
        assert_eq!(
            areas,
            [
                SwapArea {
                    path: "/dev/dm-1".into(),
                    size: Bytes(8_589_930_496),
                    used: Bytes(1_048_576)
                },
                SwapArea {
                    path: "/srv/swap file (deleted)".into(),
                    size: Bytes(1_073_737_728),
                    used: Bytes(0)
                },
            ]
        );
        assert_eq!(parse(b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"), Ok(vec![]));
        assert!(parse(b"").is_err());
        assert!(parse(b"Filename\n/dev/sda2 partition x 0 -1\n").is_err());
    }

    proptest! {
        #[test]
        fn whole_lines_of_a_torn_file_are_kept(end in 0..REAL.len()) {
            crate::testing::rows_before_a_cut(REAL, end, 1, parse);
        }

        #[test]
        fn what_is_written_is_read(path in "/[a-z/ -]{0,20}", size in 0..1_u64 << 40, used in 0..1_u64 << 40) {
            let escaped = path.replace(' ', "\\040");
            let text = format!("Filename Type Size Used Priority\n{escaped} \
                 file\t{size}\t{used}\t-2\n");
            let area = SwapArea { path, size: Bytes::from_kib(size), used: Bytes::from_kib(used) };
            prop_assert_eq!(parse(text.as_bytes()), Ok(vec![area]));
        }
    }
}
