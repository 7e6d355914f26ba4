//! The grammar of my.cnf (MySQL 5.7 to 8.4, MariaDB 10.3 to 11.8; mysys/my_default).

use hugewise_host::ParseError;

use super::values::{self, Dialect};

/// One line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CnfLine {
    /// From 1.
    pub number: u64,
    /// The group it stands in; empty before the first one.
    pub group: String,
    /// What it says.
    pub content: CnfContent,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CnfContent {
    /// `name = value` or `name`.
    Option(String, Option<String>),
    /// `!include`; it does not matter in which group.
    Include(String),
    /// `!includedir`: every `*.cnf` in it.
    IncludeFolder(String),
}

/// The lines of an option file.
///
/// The first line that the server would refuse.
pub fn parse(bytes: &[u8]) -> Result<Vec<CnfLine>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut group = String::new();
    let mut lines = Vec::new();
    for (text, number) in text.lines().zip(1_u64..) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = text.strip_prefix('[') {
            let (name, _) = header
                .split_once(']')
                .ok_or_else(|| ParseError::at_line(number, "group without ]"))?;
            name.trim().clone_into(&mut group);
            continue;
        }
        let content = match text.strip_prefix('!') {
            Some(directive) => parse_include(directive),
            None if group.is_empty() => {
                return Err(ParseError::at_line(number, "option before the first group"));
            }
            None => Some(parse_option(text)),
        };
        lines.extend(content.map(|content| CnfLine { number, group: group.clone(), content }));
    }
    Ok(lines)
}

fn parse_include(directive: &str) -> Option<CnfContent> {
    let (word, path) = directive.split_once(char::is_whitespace)?;
    match word {
        "include" => Some(CnfContent::Include(path.trim().to_owned())),
        "includedir" => Some(CnfContent::IncludeFolder(path.trim().to_owned())),
        _ => None,
    }
}

fn parse_option(text: &str) -> CnfContent {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(unquote_value(without_comment(value)))),
        None => (text, None),
    };
    CnfContent::Option(without_comment(name).to_owned(), value)
}

/// A `#` outside quotes ends the value.
fn without_comment(text: &str) -> &str {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (character, Some(open)) if character == open => quote = None,
            ('#', None) => return text.get(..at).unwrap_or_default().trim(),
            _ => {}
        }
    }
    text.trim()
}

fn unquote_value(value: &str) -> String {
    let quoted =
        ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    quoted.unwrap_or(value).to_owned()
}

/// An amount in bytes as today's servers read it: `512M`, `8G`, `134217728`.
pub fn parse_bytes(value: &str) -> Option<u64> {
    let newest = Dialect { mariadb: true, version: Some((u32::MAX, 0, 0)) };
    values::parse_amount(value, newest).into_known()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(text: &str) -> Vec<(String, String, Option<String>)> {
        let string_of = |line: CnfLine| match line.content {
            CnfContent::Option(name, value) => (line.group, name, value),
            other => panic!("{other:?}"),
        };
        parse(text.as_bytes()).unwrap().into_iter().map(string_of).collect()
    }

    #[test]
    fn options_stand_in_their_groups() {
        let read = options(
            "# c\n[client]\nport=1\n\n[ mysqld ]\n; c\nlarge-pages\nport = '3307' # \
                 c\nsocket=\"/a # b\"\n",
        );
        let expect = [
            ("client", "port", Some("1")),
            ("mysqld", "large-pages", None),
            ("mysqld", "port", Some("3307")),
            ("mysqld", "socket", Some("/a # b")),
        ];
        let expect =
            expect.map(|(group, name, value)| (group.into(), name.into(), value.map(String::from)));
        assert_eq!(read, expect);
    }

    #[test]
    fn includes_are_seen_before_any_group() {
        let lines =
            parse(b"!includedir /etc/mysql/conf.d/\n[mysqld]\n!include /etc/x.cnf\n!else\n")
                .unwrap();
        assert_eq!(lines[0].content, CnfContent::IncludeFolder("/etc/mysql/conf.d/".into()));
        assert_eq!(lines[1].content, CnfContent::Include("/etc/x.cnf".into()));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn what_the_server_refuses_is_malformed_with_its_line() {
        assert_eq!(parse(b"\nport=1\n").unwrap_err().line, 2);
        assert_eq!(parse(b"[mysqld\n").unwrap_err().line, 1);
    }

    #[test]
    fn amounts_have_one_letter_units() {
        assert_eq!(parse_bytes("512M"), Some(512 << 20));
        assert_eq!(parse_bytes("8g"), Some(8 << 30));
        assert_eq!(parse_bytes(" 134217728"), Some(128 << 20));
        assert_eq!(parse_bytes("8GB"), Some(8 << 30));
        for bad in ["1.5G", "-1", "99999999999999999999T", "é"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_amount_is_its_number_times_its_unit(number in 0..1_u64 << 23) {
            for (unit, shift) in [("", 0), ("K", 10), ("m", 20), ("G", 30), ("T", 40)] {
                prop_assert_eq!(parse_bytes(&format!("{number}{unit}")), Some(number << shift));
            }
        }

        #[test]
        fn quotes_keep_a_value_whole(value in "[^\"\\n\\r]{0,40}") {
            let read = options(&format!("[mysqld]\nsocket = \"{value}\" # and so on"));
            prop_assert_eq!(read[0].2.as_deref(), Some(value.as_str()));
        }

        #[test]
        fn lines_before_a_cut_are_what_they_were(cut in 0_usize..100) {
            let whole = b"[mysqld]\nlarge-pages=on\n!includedir /etc/d/\nsocket='a # b' # \
                 c\n[mariadb]\nport=3306\n";
            let lines = parse(whole).unwrap();
            if let Ok(torn) = parse(&whole[..cut.min(whole.len())]) {
                prop_assert!(torn.len() <= lines.len());
                let sound = torn.len().saturating_sub(1);
                prop_assert_eq!(&torn[..sound], &lines[..sound]);
            }
        }
    }
}
