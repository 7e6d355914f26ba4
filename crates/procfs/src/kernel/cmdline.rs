//! /proc/cmdline, split as the kernel does (`next_arg` in lib/cmdline.c).

use hugewise_source::ParseError;

pub(super) const PATH: &str = "/proc/cmdline";

/// Bytes of the longest line that any architecture takes: COMMAND_LINE_SIZE is 2 KiB on most.
pub const LONGEST: usize = 64 << 10;

/// The kernel's own words: double quotes keep blanks together and are dropped; what follows `--` is
/// init's. Fails on a line that no kernel has.
pub fn parse(bytes: &[u8]) -> Result<Vec<String>, ParseError> {
    if bytes.len() > LONGEST {
        return Err(ParseError::whole_file("longer than any kernel's command line"));
    }
    let text = String::from_utf8_lossy(bytes);
    let mut quoted = false;
    let words = text.split(|character: char| {
        quoted ^= character == '"';
        !quoted && (character.is_ascii_whitespace() || character == '\0')
    });
    let own = words.filter(|word| !word.is_empty()).take_while(|word| *word != "--");
    Ok(own.map(unquote_word).collect())
}

fn unquote_word(word: &str) -> String {
    let strip = |text: &str| {
        let inner = text.strip_prefix('"')?;
        Some(inner.strip_suffix('"').unwrap_or(inner).to_owned())
    };
    if let Some(whole) = strip(word) {
        return whole;
    }
    match word.split_once('=') {
        Some((name, value)) => {
            strip(value).map_or_else(|| word.to_owned(), |value| format!("{name}={value}"))
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_with_quotes() {
        let words = parse(
            b"BOOT_IMAGE=/vmlinuz ro  default_hugepagesz=1G hugepagesz=2M \
                 hugepages=\"0:512,1:512\" \
              \"transparent_hugepage=never\" dyndbg=\"file a.c +p\" -- hugepages=9\n",
        )
        .unwrap();
        assert_eq!(
            words,
            [
                "BOOT_IMAGE=/vmlinuz",
                "ro",
                "default_hugepagesz=1G",
                "hugepagesz=2M",
                "hugepages=0:512,1:512",
                "transparent_hugepage=never",
                "dyndbg=file a.c +p",
            ]
        );
        assert_eq!(parse(b""), Ok(vec![]));
        assert_eq!(parse(b"a=\"open end").unwrap(), ["a=open end"]);
    }

    proptest! {
        #[test]
        fn plain_words_stay(words in prop::collection::vec("[a-z][a-z0-9_=,.:-]{0,12}", 0..12)) {
            prop_assert_eq!(parse(words.join(" ").as_bytes()), Ok(words));
        }
    }
}
