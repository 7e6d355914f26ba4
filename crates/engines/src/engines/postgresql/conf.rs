//! The grammar of postgresql.conf (PostgreSQL 9.4 to 18, guc-file.l).

use hugewise_host::ParseError;
use hugewise_host::capture::shape::NO_VALUE;

use super::values::{self, MEMORY};

/// One line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresqlConfLine {
    /// From 1.
    pub number: u64,
    /// What it says.
    pub content: PostgresqlConfContent,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostgresqlConfContent {
    /// `name = value`; the name is in lower case.
    Set {
        /// Name.
        name: String,
        /// Value without its quotes.
        value: String,
    },
    /// `include`: the server does not start without the file.
    Include(String),
    /// `include_if_exists`.
    IncludeIfExists(String),
    /// `include_dir`: every `*.conf` in it.
    IncludeFolder(String),
}

/// The lines of a configuration file.
/// # Errors
/// The first line that the server would refuse.
pub fn parse(bytes: &[u8]) -> Result<Vec<PostgresqlConfLine>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    text.split('\n')
        .zip(1_u64..)
        .filter_map(|(text, number)| match parse_line(text, number) {
            Ok(content) => Some(Ok(PostgresqlConfLine { number, content: content? })),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

pub(super) fn parse_line(
    text: &str,
    number: u64,
) -> Result<Option<PostgresqlConfContent>, ParseError> {
    let text = text.trim_start_matches(SPACE);
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    // A wrong name is not repeated: a file that was not meant may hold secrets.
    let name = match parse_token(text) {
        Some((Token::Name | Token::Qualified, length)) => length,
        _ => return Err(ParseError::at_line(number, "no name of a setting")),
    };
    let (name, rest) = text.split_at(name);
    let rest = rest.trim_start_matches(SPACE);
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start_matches(SPACE);
    let wrong = |what: &'static str| {
        ParseError::at_line(number, what).with_subject(known_setting_name(name))
    };
    let (value, behind) = match (rest.strip_prefix('\''), parse_token(rest)) {
        (Some(quoted), _) => {
            unquote_string(quoted).ok_or_else(|| wrong("has a quote without end"))?
        }
        (None, Some((Token::Name | Token::Word | Token::Number, length))) => {
            let (value, behind) = rest.split_at(length);
            (value.to_owned(), behind)
        }
        (None, Some((Token::Qualified, _))) => return Err(wrong("has a value that needs quotes")),
        (None, None) if rest.is_empty() || rest.starts_with('#') => {
            return Err(wrong("has no value"));
        }
        (None, None) => match rest.strip_prefix(NO_VALUE) {
            Some(behind) => (NO_VALUE.to_owned(), behind),
            None => return Err(wrong("has a value that needs quotes")),
        },
    };
    let behind = behind.trim_start_matches(SPACE);
    if !behind.is_empty() && !behind.starts_with('#') {
        return Err(wrong("has more than one value"));
    }
    let name = name.to_ascii_lowercase();
    Ok(Some(match name.as_str() {
        "include" => PostgresqlConfContent::Include(value),
        "include_if_exists" => PostgresqlConfContent::IncludeIfExists(value),
        "include_dir" => PostgresqlConfContent::IncludeFolder(value),
        _ => PostgresqlConfContent::Set { name, value },
    }))
}

/// What stands without quotes, by the patterns of guc-file.l.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// `ID`.
    Name,
    /// `QUALIFIED_ID`: never a value.
    Qualified,
    /// `UNQUOTED_STRING`: never a name.
    Word,
    /// `INTEGER` or `REAL`, with letters behind a whole one.
    Number,
}

/// The longest token at the beginning of a text, and its bytes.
fn parse_token(text: &str) -> Option<(Token, usize)> {
    let run = |text: &str, matches: fn(char) -> bool| {
        text.find(|sign: char| !matches(sign)).unwrap_or(text.len())
    };
    let behind = |at: usize| text.get(at..).unwrap_or_default();
    let letter = |sign: char| sign.is_ascii_alphabetic() || sign == '_' || !sign.is_ascii();
    let of_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || !sign.is_ascii();
    if text.starts_with(letter) {
        let name = run(text, of_name);
        let second = behind(name).strip_prefix('.').filter(|rest| rest.starts_with(letter));
        let (kind, length) = match second {
            Some(rest) => (Token::Qualified, name + 1 + run(rest, of_name)),
            None => (Token::Name, name),
        };
        let word = run(text, |sign| {
            sign.is_ascii_alphanumeric()
                || !sign.is_ascii()
                || matches!(sign, '_' | '-' | '.' | ':' | '/')
        });
        return Some(if word > length { (Token::Word, word) } else { (kind, length) });
    }
    let sign = usize::from(text.starts_with(['-', '+']));
    let digit = |sign: char| sign.is_ascii_digit();
    let digits = sign + run(behind(sign), digit);
    let hex = behind(sign)
        .strip_prefix("0x")
        .map_or(0, |rest| run(rest, |sign| sign.is_ascii_hexdigit()));
    let whole = if hex > 0 { sign + 2 + hex } else { digits };
    let whole = whole + run(behind(whole), |sign| sign.is_ascii_alphabetic());
    let point = behind(digits).strip_prefix('.').map(|rest| digits + 1 + run(rest, digit));
    let real = point.map(|at| {
        let exponent = behind(at).strip_prefix(['e', 'E']);
        let unsigned = exponent.map(|rest| rest.strip_prefix(['-', '+']).unwrap_or(rest));
        let digits = unsigned.map_or(0, |rest| run(rest, digit));
        match (exponent, unsigned) {
            (Some(signed), Some(unsigned)) if digits > 0 => {
                at + 1 + (signed.len() - unsigned.len()) + digits
            }
            _ => at,
        }
    });
    let whole = if digits > sign { whole } else { 0 };
    let length = real.unwrap_or(0).max(whole);
    (length > 0).then_some((Token::Number, length))
}

fn known_setting_name(name: &str) -> &'static str {
    super::KIND
        .capture
        .settings
        .iter()
        .find(|known| known.eq_ignore_ascii_case(name))
        .copied()
        .unwrap_or("a setting")
}

const SPACE: &[char] = &[' ', '\t', '\r'];

fn unquote_string(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = quoted.char_indices();
    while let Some((at, character)) = rest.next() {
        match character {
            '\'' if rest.as_str().starts_with('\'') => {
                rest.next();
                value.push('\'');
            }
            '\'' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => {
                let (_, escaped) = rest.next()?;
                value.push(match escaped {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '0'..='7' => parse_octal(escaped, &mut rest),
                    other => other,
                });
            }
            other => value.push(other),
        }
    }
    None
}

/// `\101`: up to three octal digits are one byte.
fn parse_octal(first: char, rest: &mut std::str::CharIndices<'_>) -> char {
    let mut byte = first.to_digit(8).unwrap_or_default();
    for _ in 0..2 {
        let Some(digit) = rest.as_str().chars().next().and_then(|character| character.to_digit(8))
        else {
            break;
        };
        rest.next();
        byte = byte * 8 + digit;
    }
    char::from(u8::try_from(byte & 0xff).unwrap_or_default())
}

/// An amount of memory in bytes: `6GB`, `16384` in units of `unit` bytes, `0x400kB`, `1.5 GB`.
/// Units are case-sensitive, as in the server.
pub fn parse_memory(value: &str, unit: u64) -> Option<u64> {
    let units = u64::try_from(values::parse_amount(value, MEMORY, unit)?).ok()?;
    units.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> Result<Option<(String, String)>, ParseError> {
        Ok(parse(text.as_bytes())?.into_iter().next().map(|line| match line.content {
            PostgresqlConfContent::Set { name, value } => (name, value),
            other => panic!("{other:?}"),
        }))
    }

    #[test]
    fn a_setting_is_read_as_the_server_reads_it() {
        for text in [
            "huge_pages = on",
            "huge_pages on",
            "huge_pages=on",
            "  Huge_Pages\t=\t'on'  # comment\r\n",
            "huge_pages 'o\\156'",
            "huge_pages = on#comment",
        ] {
            assert_eq!(set(text).unwrap(), Some(("huge_pages".into(), "on".into())), "{text}");
        }
        assert_eq!(set("cluster_name = 'it''s #1'").unwrap().unwrap().1, "it's #1");
        assert_eq!(set("cluster_name = ''").unwrap().unwrap().1, "");
        assert_eq!(set("pg_stat_statements.max = 5").unwrap().unwrap().0, "pg_stat_statements.max");
        assert_eq!(set("#huge_pages = on\n\n   \n").unwrap(), None);
    }

    #[test]
    fn what_the_server_refuses_is_malformed_with_its_line() {
        for (text, line) in [
            ("\nhuge_pages =", 2),
            ("a = 'x", 1),
            ("a = b c", 1),
            ("= b", 1),
            ("a", 1),
            ("a = 'b' c", 1),
            ("a = 1.5GB", 1),
            ("a = 1e5", 1),
            ("a = b.conf", 1),
            ("a = /tmp", 1),
            ("9a = 1", 1),
            ("a.b.c = 1", 1),
            ("a == 1", 1),
            ("a = \"1\"", 1),
            ("a = 1;", 1),
            ("a = 1_0", 1),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().line, line, "{text:?}");
        }
    }

    #[test]
    fn includes_are_no_settings() {
        let lines =
            parse(b"include 'a.conf'\ninclude_if_exists = 'b.conf'\nInclude_Dir 'conf.d'\n")
                .unwrap();
        let content: Vec<_> = lines.into_iter().map(|line| line.content).collect();
        assert_eq!(
            content,
            [
                PostgresqlConfContent::Include("a.conf".into()),
                PostgresqlConfContent::IncludeIfExists("b.conf".into()),
                PostgresqlConfContent::IncludeFolder("conf.d".into())
            ]
        );
    }

    #[test]
    fn memory_is_in_the_units_of_the_server() {
        assert_eq!(parse_memory("6GB", 8192), Some(6 << 30));
        assert_eq!(parse_memory("16384", 8192), Some(128 << 20));
        assert_eq!(parse_memory(" 128 MB ", 8192), Some(128 << 20));
        assert_eq!(parse_memory("1.5GB", 8192), Some(3 << 29));
        assert_eq!(parse_memory("0x10", 8192), Some(128 << 10));
        assert_eq!(parse_memory("2097152", 1024), Some(2 << 30));
        for bad in ["6gb", "x", "", "GB", "1.x", "99999999999TB", "-1"] {
            assert_eq!(parse_memory(bad, 8192), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn memory_is_its_number_times_its_unit(number in 0..1_u64 << 20, unit in 0..5_usize) {
            let (name, size) = [("B", 1_u64), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)][unit];
            // The server rounds what is no whole number of its own units.
            let expected = number * size;
            let read = parse_memory(&format!("{number}{name}"), 1);
            prop_assert!(read == Some(expected), "{read:?} {number}{name}");
        }

        #[test]
        fn quoting_and_reading_gives_the_same_value(value in "[^\\x00\\n\\r]{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('\'', "''");
            let read = set(&format!("x = '{quoted}' # and so on")).unwrap().unwrap().1;
            prop_assert_eq!(read, value);
        }

        #[test]
        fn comments_and_blanks_change_nothing(before in "(#[^\\n]*\\n|[ \\t]*\\n){0,5}") {
            prop_assert_eq!(set(&format!("{before}port = 5433")).unwrap().unwrap().1, "5433");
        }

        #[test]
        fn lines_before_a_cut_are_what_they_were(cut in 0_usize..120) {
            let whole = b"# comment\nhuge_pages = 'try' # c\ninclude_dir 'conf.d'\nshared_buffers \
                 6GB\ncluster_name = 'a\\'b''c'\n";
            let lines = parse(whole).unwrap();
            if let Ok(torn) = parse(&whole[..cut.min(whole.len())]) {
                prop_assert!(torn.len() <= lines.len());
                let sound = torn.len().saturating_sub(1);
                prop_assert_eq!(&torn[..sound], &lines[..sound]);
            }
        }
    }
}
