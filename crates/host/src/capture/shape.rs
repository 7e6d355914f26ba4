//! What the value of a setting can be: whatever else stands in its place may be anything.

/// Stands for a value that is none.
pub const NO_VALUE: &str = "?";

/// Stands for a word that was taken out.
pub const GONE: &str = "-";

/// Words in a value that make it a secret, whatever option it belongs to.
const SUSPECT: [&str; 7] = ["passw", "secret", "token", "credential", "apikey", "private", "auth="];

/// Longer values are none, paths aside.
const LONGEST: usize = 64;

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// A number, perhaps with a unit, or one of the few words that settings know.
    Plain,
    /// A path, without blanks and the signs that set things off from each other.
    Path,
    /// Paths between commas.
    Paths,
    /// A name that people gave, or several.
    Names,
    /// Plain, or some of these words between commas, in any case.
    Words(&'static [&'static str]),
    /// Of an option: `NAME=VALUE`, a setting of its own.
    Setting,
}

const WORDS: [&str; 27] = [
    "on",
    "off",
    "true",
    "false",
    "yes",
    "no",
    "t",
    "f",
    "y",
    "n",
    "try",
    "only",
    "auto",
    "auto_only",
    "autosize",
    "default",
    "mmap",
    "sysv",
    "windows",
    "posix",
    "max",
    "unlimited",
    "replica",
    "configsvr",
    "shardsvr",
    "local",
    "none",
];

impl ValueShape {
    /// Whether a text can be such a value.
    pub fn matches_value(self, value: &str) -> bool {
        let value = value.trim();
        match self {
            Self::Plain | Self::Setting => is_plain(value),
            Self::Path => is_path(value),
            Self::Paths => value.split(',').all(|one| one.trim().is_empty() || is_path(one.trim())),
            Self::Names => is_names(value),
            Self::Words(words) => {
                let known =
                    |one: &str| words.iter().any(|word| one.trim().eq_ignore_ascii_case(word));
                is_plain(value) || value.split(',').all(known)
            }
        }
    }

    /// The value, or what stands for one that is none.
    pub fn redact_value(self, value: &str) -> &str {
        if self.matches_value(value) { value } else { NO_VALUE }
    }
}

/// `128MB`, `1.5 GB`, `-1`, `0x10`, `on`.
fn is_plain(value: &str) -> bool {
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.is_empty()
        || is_amount(value)
}

fn is_amount(value: &str) -> bool {
    let number = value.strip_prefix(['-', '+']).unwrap_or(value);
    let (number, hex) = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
        Some(number) => (number, true),
        None => (number, false),
    };
    let digit = |sign: char| {
        if hex { sign.is_ascii_hexdigit() } else { sign.is_ascii_digit() || sign == '.' }
    };
    let rest = number.trim_start_matches(digit);
    let digits = number.len() - rest.len();
    // `1e9`
    let exponent = rest.strip_prefix(['e', 'E']);
    let exponent = exponent.map(|rest| rest.trim_start_matches(|sign: char| sign.is_ascii_digit()));
    let unit = exponent.unwrap_or(rest).trim_start();
    (1..=24).contains(&digits)
        && unit.len() <= 3
        && unit.bytes().all(|sign| sign.is_ascii_alphabetic())
}

fn is_path(value: &str) -> bool {
    let sign = |sign: char| {
        !sign.is_whitespace() && !sign.is_control() && !";='\"`|<>&$*{}()\\!#".contains(sign)
    };
    value.len() <= 4096 && value.chars().all(sign) && is_harmless(value)
}

fn is_names(value: &str) -> bool {
    let sign = |sign: char| sign.is_alphanumeric() || " ,._-/:+@$".contains(sign);
    value.len() <= LONGEST * 8
        && value.split([',', ' ']).all(|name| name.len() <= LONGEST)
        && value.chars().all(sign)
        && is_harmless(value)
}

/// `15`, `10.11.6-MariaDB`, `17.0.9+9-Debian`: a version as programs write it.
pub fn is_version(text: &str) -> bool {
    let sign = |sign: u8| sign.is_ascii_alphanumeric() || b".-+~_".contains(&sign);
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.len() <= 40
        && text.bytes().all(sign)
}

/// What is kept of a file with a version alone: one that holds more may be a link to secrets.
pub fn version_alone(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_matches(|sign: char| sign.is_whitespace() || sign == '\0');
    let kept = if is_version(first) { first } else { NO_VALUE };
    format!("{kept}\n").into_bytes()
}

/// Whether a value shows none of the signs of a secret.
pub fn is_harmless(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let url_with_user = lower.contains('@') && lower.contains("://");
    !url_with_user
        && !lower.starts_with("-xx:on")
        && !lower.starts_with("secret,")
        && !lower.contains("data=")
        && !SUSPECT.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_from_what_is_none() {
        for value in [
            "on",
            "TRY",
            "128MB",
            "1.5 GB",
            "-1",
            "0x400kB",
            "34359738368",
            "8G",
            "",
            "0",
            "autosize",
        ] {
            assert!(ValueShape::Plain.matches_value(value), "{value}");
        }
        for value in
            ["hunter2", "5999 'S3cret'", "S3cret", "12ab34", "1 2", "x:y", "MBMB", "1secret"]
        {
            assert!(!ValueShape::Plain.matches_value(value), "{value}");
            assert_eq!(ValueShape::Plain.redact_value(value), NO_VALUE);
        }
        for value in [
            "/run/mysqld/mysqld.sock",
            "conf.d",
            "+DATA/prod/spfile.ora",
            "?/dbs/a.ora",
            "@abstract",
            "/a-b_c~1,v",
        ] {
            assert!(ValueShape::Path.matches_value(value), "{value}");
        }
        for value in
            ["/run/x;password=S", "/run/x S", "/a?password", "http://u:p@h", "/x\ny", "/x#y"]
        {
            assert!(!ValueShape::Path.matches_value(value), "{value}");
        }
        assert!(ValueShape::Paths.matches_value("/run/a, /run/b"));
        assert!(ValueShape::Names.matches_value("pg_stat_statements, auto_explain"));
        assert!(!ValueShape::Names.matches_value("main;x"));
        let own = ValueShape::Words(&["*", "db"]);
        assert!(
            own.matches_value("DB")
                && own.matches_value("*, db")
                && own.matches_value("on")
                && own.matches_value("3")
        );
        assert!(
            !own.matches_value("db,hunter2")
                && !own.matches_value("database")
                && !ValueShape::Plain.matches_value("DB,x")
        );
        assert!(is_version("17.0.9+9-Debian") && !is_version("15 S3cret") && !is_version("S15"));
    }
}
