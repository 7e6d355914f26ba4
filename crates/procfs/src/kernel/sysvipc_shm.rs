//! /proc/sysvipc/shm (ipc/shm.c): System V segments of the reader's ipc namespace.

use hugewise_model::host::SysvSegment;
use hugewise_model::{Bytes, Observed};

use super::text::{parse_number, text_lines};
use hugewise_source::ParseError;

pub(super) const PATH: &str = "/proc/sysvipc/shm";

/// One entry a segment; before 2.6.36 there are no columns `rss` and `swap`. Fails where a needed
/// column is missing or has no number.
pub fn parse(bytes: &[u8]) -> Result<Vec<SysvSegment>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text_lines(&text);
    let heading: Vec<&str> =
        lines.next().map(|(_, names)| names.split_ascii_whitespace().collect()).unwrap_or_default();
    if !heading.contains(&"shmid") {
        return Err(ParseError::at_line(1, "no heading"));
    }
    let mut segments = Vec::new();
    for (line, content) in lines {
        let words: Vec<&str> = content.split_ascii_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        if words.len() < heading.len() {
            return Err(ParseError::at_line(line, "too few columns"));
        }
        let column = |name: &str| -> Option<&str> {
            let at = heading.iter().position(|title| *title == name)?;
            words.get(at).copied()
        };
        let optional = |name: &'static str| match column(name) {
            Some(word) => {
                parse_number(Some(word), line, name).map(|bytes| Observed::Known(Bytes(bytes)))
            }
            None => Ok(Observed::Absent),
        };
        let key = column("key").unwrap_or_default();
        let mode = column("perms").unwrap_or_default();
        segments.push(SysvSegment {
            id: parse_number(column("shmid"), line, "shmid")?,
            key: key
                .parse()
                .map_err(|_| ParseError::at_line(line, "is no number").with_subject("key"))?,
            mode: u32::from_str_radix(mode, 8)
                .map_err(|_| ParseError::at_line(line, "are not octal").with_subject("perms"))?,
            size: Bytes(parse_number(column("size"), line, "size")?),
            creator: parse_number(column("cpid"), line, "cpid")?,
            attached: parse_number(column("nattch"), line, "nattch")?,
            uid: parse_number(column("uid"), line, "uid")?,
            gid: parse_number(column("gid"), line, "gid")?,
            rss: optional("rss")?,
            swap: optional("swap")?,
        });
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "       key      shmid perms                  size  cpid  lpid \
         nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n\
        -1382931540      32769  1640           17179869184  4711  4802    212 54321 54321 54321 \
         54321 1700000000 1700000001 1690000000           17179869184                     0\n\
        \x20        0          3  3600               8388608   812   812      1     0     0     0     0 1700000000          0 1690000000               4096                     0\n";

    #[test]
    fn segments_by_the_heading() {
        let segments = parse(REAL.as_bytes()).unwrap();
        assert_eq!(segments[0].id, 32_769);
        assert_eq!(segments[0].key, -1_382_931_540);
        assert_eq!(segments[0].mode, 0o1640);
        assert_eq!(segments[0].size, Bytes::from_gib(16));
        assert_eq!(
            (segments[0].creator, segments[0].attached, segments[0].uid),
            (4711, 212, 54_321)
        );
        assert!(!segments[0].is_locked());
        assert!(segments[1].is_locked());
        assert_eq!(segments[1].rss, Observed::Known(Bytes(4096)));
    }

    #[test]
    fn an_old_kernel_has_no_rss_and_swap() {
        let old = "       key      shmid perms       size  cpid  lpid \
             nattch   uid   gid  cuid  cgid      atime      dtime      ctime\n\
             \x20        0          0   600     393216  2301  2301      2     0     0     0     0          0          0          0\n";
        let segments = parse(old.as_bytes()).unwrap();
        assert_eq!(segments[0].rss, Observed::Absent);
        assert_eq!(segments[0].swap, Observed::Absent);
        assert_eq!(segments[0].size, Bytes(393_216));
    }

    #[test]
    fn no_segments_and_no_file_differ() {
        let heading = REAL.lines().next().unwrap();
        assert_eq!(parse(heading.as_bytes()), Ok(vec![]));
        assert!(parse(b"").is_err());
        assert!(parse(format!("{heading}\n 0 1 600\n").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn whole_lines_of_a_torn_file_are_kept(end in 0..REAL.len()) {
            crate::testing::rows_before_a_cut(REAL, end, 1, parse);
        }

        #[test]
        fn columns_may_move(turn in 0..16usize) {
            let turned: Vec<String> = REAL.lines().map(|line| {
                let mut words: Vec<_> = line.split_ascii_whitespace().collect();
                words.rotate_left(turn);
                words.join(" ")
            }).collect();
            prop_assert_eq!(parse(turned.join("\n").as_bytes()), parse(REAL.as_bytes()));
        }
    }
}
