//! How a MySQL or MariaDB server reads the names and values of its options (mysys/my_getopt.c).

use hugewise_host::capture::shape::NO_VALUE;

/// Settings that are amounts: sizes, counts and ports are read alike.
const AMOUNTS: [&str; 17] = [
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_chunk_size",
    "innodb_buffer_pool_instances",
    "innodb_log_buffer_size",
    "key_buffer_size",
    "key_cache_block_size",
    "key_cache_segments",
    "key_cache_file_hash_size",
    "aria_pagecache_buffer_size",
    "aria_pagecache_file_hash_size",
    "aria_block_size",
    "max_connections",
    "port",
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
];

pub(super) const SWITCHES: [&str; 2] = ["large_pages", "skip_networking"];

/// The shortest forms of settings that are no other option's beginning (MariaDB 10.11.19; MySQL 8.0
/// has no more options that begin like these).
const SHORTEST: [(&str, &str); 12] = [
    ("large_pages", "lar"),
    ("innodb_buffer_pool_size", "innodb_buffer_pool_si"),
    ("innodb_buffer_pool_chunk_size", "innodb_buffer_pool_c"),
    ("innodb_log_buffer_size", "innodb_log_b"),
    ("key_buffer_size", "key_b"),
    ("key_cache_block_size", "key_cache_b"),
    ("key_cache_segments", "key_cache_s"),
    ("key_cache_file_hash_size", "key_cache_f"),
    ("aria_pagecache_buffer_size", "aria_pagecache_b"),
    ("aria_pagecache_file_hash_size", "aria_pagecache_f"),
    ("aria_block_size", "aria_b"),
    ("max_connections", "max_connecti"),
];

pub(super) const PREFIXES: [&str; 6] =
    ["skip_", "disable_", "enable_", "maximum_", "loose_", "autoset_"];

/// Shorter beginnings may mean anything.
const TELLING: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) mariadb: bool,
    pub(super) version: Option<(u32, u32, u32)>,
}

impl Dialect {
    /// Whether it knows what came with these first releases, if its version is known.
    fn is_from(self, mysql: (u32, u32, u32), mariadb: (u32, u32, u32)) -> Option<bool> {
        Some(self.version? >= if self.mariadb { mariadb } else { mysql })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read<T> {
    As(T),
    Refused,
    Unclear,
}

impl<T> Read<T> {
    pub(super) fn into_known(self) -> Option<T> {
        match self {
            Self::As(value) => Some(value),
            Self::Refused | Self::Unclear => None,
        }
    }

    pub(super) fn and_then<U>(self, next: impl FnOnce(T) -> Read<U>) -> Read<U> {
        match self {
            Self::As(value) => next(value),
            Self::Refused => Read::Refused,
            Self::Unclear => Read::Unclear,
        }
    }
}

/// A number and its unit: the first letter behind the digits counts, the others are ignored. `2GB`
/// is 2 GiB, `1.5G` nothing (`eval_num_suffix_ull`).
pub(super) fn parse_amount(value: &str, dialect: Dialect) -> Read<u64> {
    if value == NO_VALUE {
        return Read::Unclear;
    }
    let text = value.trim_start_matches(|sign: char| sign.is_ascii_whitespace());
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(unsigned.len());
    let (digits, behind) = unsigned.split_at(end);
    // Without a digit nothing was read, and all of it follows.
    let behind = if digits.is_empty() { value } else { behind };
    let shift = match behind.chars().next().map(|letter| letter.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some(letter @ ('t' | 'p' | 'e')) => match dialect.is_from((8, 0, 14), (5, 5, 0)) {
            Some(true) if letter == 't' => 40,
            Some(true) if letter == 'p' => 50,
            Some(true) => 60,
            Some(false) => return Read::Refused,
            None => return Read::Unclear,
        },
        Some(_) => return Read::Refused,
    };
    let number = if digits.is_empty() { Ok(0) } else { digits.parse::<u64>() };
    match number {
        Err(_) => Read::Refused,
        Ok(number) if negative && number > 0 => {
            let refused =
                dialect.mariadb && dialect.is_from((u32::MAX, 0, 0), (10, 11, 0)) == Some(true);
            if refused { Read::Refused } else { Read::Unclear }
        }
        // The server drops what exceeds 64 bits.
        Ok(number) => Read::As(number.wrapping_mul(1 << shift)),
    }
}

/// Any value but these is off; the server warns of those that are none of its six words.
pub(super) fn is_on(value: &str) -> bool {
    ["1", "on", "true"].iter().any(|on| value.eq_ignore_ascii_case(on))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecognizedOption {
    pub(super) name: &'static str,
    pub(super) value: Read<Option<String>>,
}

/// What an option says: whole or cut short, with dashes or underscores, behind `skip-`, `loose-`
/// and the like. None where its setting is not read here.
pub(super) fn recognize_option(
    name: &str,
    value: Option<&str>,
    dialect: Dialect,
) -> Option<RecognizedOption> {
    let plain = name.trim().to_ascii_lowercase().replace('-', "_");
    let mut rest = plain.as_str();
    let mut beginning = "";
    loop {
        let own = |name: &'static str, cut: Read<()>| {
            let value = cut.and_then(|()| apply_name_prefix(name, beginning, value));
            Some(RecognizedOption { name, value })
        };
        if let Some(name) = super::KIND.capture.settings.iter().find(|known| **known == rest) {
            return own(name, Read::As(()));
        }
        if let Some((name, cut)) = cut_short(rest, dialect) {
            return own(name, cut);
        }
        beginning = PREFIXES.into_iter().find(|prefix| rest.starts_with(prefix))?;
        rest = rest.strip_prefix(beginning)?;
    }
}

pub(super) fn is_setting(name: &str) -> bool {
    recognize_option(name, None, Dialect { mariadb: true, version: None }).is_some()
}

/// The value of an option with its prefix: `skip-large-pages`, `enable-large-pages=0`.
fn apply_name_prefix(name: &str, beginning: &str, value: Option<&str>) -> Read<Option<String>> {
    let zero = value == Some("0");
    let word = |on: bool| Read::As(Some(if on { "ON" } else { "OFF" }.to_owned()));
    match beginning {
        "autoset_" => Read::Refused,
        "maximum_" if SWITCHES.contains(&name) => Read::Refused,
        "skip_" | "disable_" if SWITCHES.contains(&name) => word(zero),
        "enable_" if SWITCHES.contains(&name) => word(!zero),
        "skip_" | "disable_" | "enable_" if AMOUNTS.contains(&name) => Read::Unclear,
        _ => match value {
            Some(value) => Read::As(Some(value.to_owned())),
            None if SWITCHES.contains(&name) => word(true),
            None if AMOUNTS.contains(&name) => Read::Refused,
            None => Read::As(None),
        },
    }
}

fn cut_short(rest: &str, dialect: Dialect) -> Option<(&'static str, Read<()>)> {
    let meant = |(name, _): &&(&'static str, &str)| name.starts_with(rest) && *name != rest;
    let mut value_of = SHORTEST.iter().filter(meant);
    let (name, shortest) = value_of.next()?;
    if value_of.next().is_some() || rest.len() < shortest.len() {
        // Another release may have fewer options that begin so.
        return (rest.len() >= TELLING).then_some((*name, Read::Unclear));
    }
    // MariaDB with the one-stretch pool also has innodb_buffer_pool_size_max.
    let cut = match dialect.version {
        _ if *name != "innodb_buffer_pool_size" || !dialect.mariadb => Read::As(()),
        Some(version) if is_one_stretch(version) => Read::Refused,
        Some(_) => Read::As(()),
        None => Read::Unclear,
    };
    Some((name, cut))
}

pub(super) fn is_amount(name: &str) -> bool {
    AMOUNTS.contains(&name)
}

/// First releases of each series whose buffer pool is one stretch (MDEV-29445).
const ONE_STRETCH: [(u32, u32, u32); 3] = [(10, 11, 12), (11, 4, 6), (11, 8, 2)];

pub(super) fn is_one_stretch(version: (u32, u32, u32)) -> bool {
    let first = ONE_STRETCH.iter().find(|first| (first.0, first.1) == (version.0, version.1));
    first.map_or(version.0 >= 12, |first| version >= *first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARIADB: Dialect = Dialect { mariadb: true, version: Some((10, 11, 19)) };
    const MYSQL: Dialect = Dialect { mariadb: false, version: Some((8, 0, 36)) };
    const NOBODY: Dialect = Dialect { mariadb: false, version: None };

    /// As `mariadbd --verbose --help` of 10.11.19 read them from an option file.
    #[test]
    fn an_amount_is_what_the_server_makes_of_it() {
        for (text, bytes) in [
            ("2GB", 2 << 30),
            ("2Gb", 2 << 30),
            ("2gib", 2 << 30),
            ("2G4", 2 << 30),
            (" 2G", 2 << 30),
            ("2G;c", 2 << 30),
            ("+5M", 5 << 20),
            ("010M", 10 << 20),
            ("2T", 2 << 40),
            ("1P", 1 << 50),
            ("1e9", 1 << 60),
            ("16E", 0),
            ("", 0),
            ("k", 0),
            ("134217728", 128 << 20),
        ] {
            assert_eq!(parse_amount(text, MARIADB), Read::As(bytes), "{text:?}");
        }
        for text in [
            "1.5G",
            ".5G",
            "2 G",
            "0x40000000",
            "2B",
            "2x",
            "abc",
            "-1",
            "-5M",
            "20000000000000000000",
            "\\x",
        ] {
            assert_eq!(parse_amount(text, MARIADB), Read::Refused, "{text:?}");
        }
    }

    #[test]
    fn what_a_release_decides_is_unclear_without_it() {
        assert_eq!(parse_amount("1T", MYSQL), Read::As(1 << 40));
        assert_eq!(
            parse_amount("1T", Dialect { version: Some((5, 7, 44)), ..MYSQL }),
            Read::Refused
        );
        assert_eq!(parse_amount("1T", NOBODY), Read::Unclear);
        assert_eq!(parse_amount("1.5G", NOBODY), Read::Refused);
        assert_eq!(parse_amount("-1", MYSQL), Read::Unclear);
        assert_eq!(parse_amount(NO_VALUE, MARIADB), Read::Unclear);
    }

    fn read(name: &str, value: Option<&str>) -> Option<(&'static str, Read<Option<String>>)> {
        recognize_option(name, value, MARIADB).map(|known| (known.name, known.value))
    }

    #[test]
    fn names_are_whole_or_cut_short_behind_what_tells_how_to_take_them() {
        let on = |on: bool| {
            Some(("large_pages", Read::As(Some(if on { "ON" } else { "OFF" }.to_owned()))))
        };
        for name in [
            "large-pages",
            "LARGE_PAGES",
            "large-p",
            "lar",
            "loose-large-pages",
            "skip-loose-large-pages",
        ] {
            assert_eq!(read(name, None), on(true), "{name}");
        }
        for name in [
            "skip-large-pages",
            "disable_large-pages",
            "loose-skip-large-p",
            "skip-skip-large-pages",
        ] {
            assert_eq!(read(name, None), on(false), "{name}");
            assert_eq!(read(name, Some("0")), on(true), "{name}");
        }
        assert_eq!(
            (read("enable-large-pages", Some("0")), read("enable-large-pages", Some("off"))),
            (on(false), on(true))
        );
        assert_eq!(read("autoset-large-pages", None), Some(("large_pages", Read::Refused)));
        assert_eq!(read("super-large-pages", None), None);
        assert_eq!(
            read("skip-networking", None),
            Some(("skip_networking", Read::As(Some("ON".to_owned()))))
        );
    }

    #[test]
    fn a_beginning_of_several_options_is_none_of_them() {
        let pool = "innodb_buffer_pool_size";
        assert_eq!(read("innodb-buffer-pool-siz", Some("2G")), Some((pool, Read::Refused)));
        let older = recognize_option("innodb-buffer-pool-siz", Some("2G"), MYSQL).unwrap();
        assert_eq!((older.name, older.value), (pool, Read::As(Some("2G".to_owned()))));
        assert_eq!(read("innodb-buffer-pool", Some("2G")), Some((pool, Read::Unclear)));
        assert_eq!(read("l", None), None);
        assert_eq!(read("innodb-buffer-pool-size", None), Some((pool, Read::Refused)));
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(name in "[a-z_-]{0,40}", value in ".{0,24}") {
            let _ = recognize_option(&name, Some(&value), MARIADB);
            let _ = parse_amount(&value, NOBODY);
        }
    }
}
