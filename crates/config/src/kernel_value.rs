//! What the kernel makes of the text that is written into one of its files. Each kind of file has a
//! parser of its own: what one takes, another refuses.

/// Longest number that /proc/sys takes, signs and prefixes included (`TMPBUFLEN` of
/// kernel/sysctl.c, less one).
const LONGEST: usize = 20;

/// A count in /proc/sys (`proc_doulongvec_minmax`): decimal, `0x` hexadecimal, or octal behind a
/// `0`; what stands behind a blank is left alone. `None` where the kernel refuses the write.
pub fn sysctl_count(text: &str) -> Option<u64> {
    parse_strtoul(first_sysctl_word(text)?, 0)
}

fn first_sysctl_word(text: &str) -> Option<&str> {
    let word = text.trim_start_matches(BLANKS).split(BLANKS).next()?;
    // The kernel copies that many bytes and refuses a number that fills them.
    (word.len() <= LONGEST).then_some(word)
}

/// A number with a sign in /proc/sys (`proc_dointvec`): as a count, within 32 bits.
pub fn sysctl_int(text: &str) -> Option<i64> {
    let word = first_sysctl_word(text)?;
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
    let value = i64::try_from(parse_strtoul(digits, 0)?).ok()?;
    let value = if negative { -value } else { value };
    i32::try_from(value).is_ok().then_some(value)
}

/// A count in /sys (`kstrtoul(…, 10, …)`): decimal digits, with a plus before them and one line
/// feed behind them at most. `None` where the kernel refuses the write.
pub fn sysfs_count(text: &str) -> Option<u64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let digits = text.strip_prefix('+').unwrap_or(text);
    parse_strtoul(digits, 10)
}

/// A word that a file of /sys takes (`sysfs_streq`): exactly it, one line feed behind it at most.
pub fn sysfs_word<'a>(text: &str, words: &[&'a str]) -> Option<&'a str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    words.iter().find(|word| **word == text).copied()
}

const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// All of the text as a number of that base; of base 0 the prefix tells.
fn parse_strtoul(text: &str, base: u32) -> Option<u64> {
    let hexadecimal = || {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        digits.starts_with(|first: char| first.is_ascii_hexdigit()).then_some(digits)
    };
    let (digits, base) = match (base, hexadecimal()) {
        (0, Some(digits)) => (digits, 16),
        (0, None) if text.len() > 1 && text.starts_with('0') => (text, 8),
        (0, None) => (text, 10),
        (base, _) => (text, base),
    };
    // from_str_radix takes a plus, the kernel doesn't.
    digits
        .starts_with(|first: char| first.is_digit(base))
        .then(|| u64::from_str_radix(digits, base).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written to kernel.shmall of Linux 6.18, which has the parser of vm.nr_hugepages.
    #[test]
    fn counts_of_proc_sys() {
        for (text, value) in [
            ("5", 5),
            ("0x10", 16),
            ("0X1f", 31),
            ("010", 8),
            ("0", 0),
            ("5 # c", 5),
            ("5 6", 5),
            ("5\tx", 5),
            (" 7", 7),
            ("18446744073709551615", u64::MAX),
            ("00000000000000000005", 5),
            ("5                              6", 5),
        ] {
            assert_eq!(sysctl_count(text), Some(value), "{text:?}");
        }
        for text in [
            "",
            "08",
            "5# c",
            "5;x",
            "-5",
            "+5",
            "5k",
            "1e3",
            "5,6",
            "\"5\"",
            "0x",
            "0xg",
            "0b1",
            "18446744073709551616",
            "99999999999999999999",
            "000000000000000000000005",
            "123456789012345678901 5",
        ] {
            assert_eq!(sysctl_count(text), None, "{text:?}");
        }
    }

    #[test]
    fn numbers_with_signs() {
        assert_eq!(sysctl_int("-1"), Some(-1));
        assert_eq!(sysctl_int("0x7fffffff"), Some(0x7fff_ffff));
        for text in ["2147483648", "--1", "", "-"] {
            assert_eq!(sysctl_int(text), None, "{text:?}");
        }
    }

    /// lib/kstrtox.c.
    #[test]
    fn counts_of_sys() {
        for (text, value) in
            [("5", 5), ("5\n", 5), ("010", 10), ("+5", 5), ("000000000000000000000005", 5)]
        {
            assert_eq!(sysfs_count(text), Some(value), "{text:?}");
        }
        for text in [
            "",
            "\n",
            "0x10",
            " 5",
            "5 ",
            "5 6",
            "5 # c",
            "-5",
            "++5",
            "5\n\n",
            "18446744073709551616",
        ] {
            assert_eq!(sysfs_count(text), None, "{text:?}");
        }
        assert_eq!(sysfs_word("never\n", &["always", "never"]), Some("never"));
        assert_eq!(sysfs_word("never ", &["always", "never"]), None);
    }

    proptest! {
        #[test]
        fn numbers_read_back(number: u32, signed: i32, zeros in 0..20_usize) {
            let number = u64::from(number);
            for text in [format!("{number}"), format!("{number}\n"), format!("+{number}"), format!("{}{number}", "0".repeat(zeros))] {
                prop_assert_eq!(sysfs_count(&text), Some(number), "{:?}", text);
            }
            for text in [format!("{number} x"), format!(" {number}"), format!("{number:#x}"), format!("0{number:o}\n")] {
                prop_assert_eq!(sysctl_count(&text), Some(number), "{:?}", text);
            }
            prop_assert_eq!(sysctl_int(&signed.to_string()), Some(i64::from(signed)));
        }
    }
}
