//! Files with the checksums of others, which lie beside captures.

use std::fs::File;
use std::io::{Read, Seek};

/// Lists of more are not recognised; in bytes.
pub(crate) const LARGEST: u64 = 64 << 10;

/// Digits of MD5, SHA-1, SHA-224, SHA-256, SHA-384 and SHA-512.
const DIGITS: [usize; 6] = [32, 40, 56, 64, 96, 128];

/// Whether these are lines as `md5sum` and its like write, or checksums alone, as sos does.
pub(crate) fn are_all(bytes: &[u8]) -> bool {
    let is_short = u64::try_from(bytes.len()).is_ok_and(|length| length <= LARGEST);
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|_| is_short) else { return false };
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(is_one)
}

/// The same of a file that is no larger than [`LARGEST`].
pub(crate) fn are_all_of(mut file: &File) -> bool {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.is_ok() && are_all(&bytes)
}

fn is_one(line: &str) -> bool {
    let digest = line.split_whitespace().next().unwrap_or_default();
    DIGITS.contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_the_tools_write_is_recognised_and_a_text_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a b"), "x").unwrap();
        std::fs::write(folder.path().join("c"), "y").unwrap();
        for tool in ["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"] {
            let sums = Command::new(tool)
                .current_dir(folder.path())
                .args(["a b", "c"])
                .output()
                .unwrap()
                .stdout;
            assert!(are_all(&sums), "{tool}");
            assert!(
                are_all(&sums[..sums.iter().position(|byte| *byte == b' ').unwrap()]),
                "{tool}"
            );
            assert!(!are_all(&sums[1..]), "{tool}");
        }
        for other in [
            &b""[..],
            b"\n\n",
            b"db1",
            b"d41d8cd98f00b204e9800998ecf8427e\nand a word",
            &[0xff; 32],
        ] {
            assert!(!are_all(other), "{other:?}");
        }
    }
}
