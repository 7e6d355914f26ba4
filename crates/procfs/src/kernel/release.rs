//! The kernel's release: /proc/sys/kernel/osrelease, or inside /proc/version.

use hugewise_model::KernelRelease;

use super::text::parse_digits;
use hugewise_source::ParseError;

/// The release alone.
pub const PATH: &str = "/proc/sys/kernel/osrelease";
/// The release in a sentence, as a sosreport keeps it.
pub const VERSION: &str = "/proc/version";

/// `5.14.0-503.el9.x86_64`, or `Linux version 5.14.0-503.el9.x86_64 (mockbuild@...) ...`. Fails
/// without two leading numbers.
pub fn parse(bytes: &[u8]) -> Result<KernelRelease, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start();
    let release = text
        .strip_prefix("Linux version ")
        .unwrap_or(text)
        .split_ascii_whitespace()
        .next()
        .unwrap_or("");
    let leading = |text: &str| -> Option<u32> {
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        parse_digits(text.get(..end)?)
    };
    let numbers = release
        .split_once('.')
        .and_then(|(major, rest)| Some((parse_digits(major)?, leading(rest)?)));
    let (major, minor) = numbers.ok_or(ParseError::whole_file("no release"))?;
    Ok(KernelRelease { text: release.to_owned(), major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn releases_in_the_wild() {
        for (text, release, major, minor) in [
            ("3.10.0-1160.el7.x86_64\n", "3.10.0-1160.el7.x86_64", 3, 10),
            ("6.18.44-fc-v769\n", "6.18.44-fc-v769", 6, 18),
            ("5.15-rc1+\n", "5.15-rc1+", 5, 15),
            ("4.14.35-2047.510.5.5.el7uek.aarch64", "4.14.35-2047.510.5.5.el7uek.aarch64", 4, 14),
            (
                "Linux version 5.14.0-503.el9.x86_64 (mockbuild@x) (gcc) #1 SMP\n",
                "5.14.0-503.el9.x86_64",
                5,
                14,
            ),
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Ok(KernelRelease { text: release.into(), major, minor })
            );
        }
        for text in ["", "Linux", "six.one", "6", "6.", ".1", "4294967296.1"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(major: u32, minor: u32, rest in "[-.+][a-z0-9._-]{0,20}") {
            let text = format!("{major}.{minor}{rest}");
            prop_assert_eq!(parse(format!("{text}\n").as_bytes()), Ok(KernelRelease { text, major, minor }));
        }
    }
}
