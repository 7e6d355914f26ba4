//! `ExecStart` of a service as the words of a command line (systemd.service(5), "Command lines"; systemd.unit(5), "Specifiers").

use std::collections::BTreeMap;

use super::systemd::Service;
use super::unit::UnitName;

/// The words of a service's one command, the program first. A word that is a variable the unit does not set stays `$NAME`.
/// None where there is no one command, or a part of a word cannot be told.
pub fn command(unit: &str, service: &Service) -> Option<Vec<String>> {
    let [line] = service.starts.as_slice() else { return None };
    let variables = variables(unit, service)?;
    let plain = line.trim_start_matches(['@', '-', ':', '+', '!', '|']);
    let flags = line.get(..line.len() - plain.len()).unwrap_or_default();
    let mut found = Vec::new();
    for word in split(plain)? {
        if word == ";" {
            // Several commands.
            return None;
        }
        let word = specified(unit, &word)?;
        match word.strip_prefix('$').filter(|name| is_name(name) && !flags.contains(':')) {
            Some(name) => match variables.get(name).filter(|_| !service.more_environment) {
                Some(value) => found.extend(value.split_ascii_whitespace().map(str::to_owned)),
                None => found.push(word),
            },
            None if flags.contains(':') => found.push(word),
            None => found.push(expanded(&word, &variables, service.more_environment)?),
        }
    }
    if flags.contains('@') && found.len() > 1 {
        // What it is to call itself.
        found.remove(1);
    }
    (!found.is_empty()).then_some(found)
}

fn variables(unit: &str, service: &Service) -> Option<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for line in &service.environment {
        for word in split(line)? {
            let word = specified(unit, &word)?;
            let (name, value) = word.split_once('=')?;
            all.insert(name.to_owned(), value.to_owned());
        }
    }
    Some(all)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_')
}

/// `${NAME}` within a word; `$$` is a dollar sign.
fn expanded(word: &str, variables: &BTreeMap<String, String>, more: bool) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some((name, tail)) => {
                out.push_str(variables.get(name).filter(|_| !more)?);
                tail
            }
            None => {
                out.push('$');
                after.strip_prefix('$').unwrap_or(after)
            }
        };
    }
    out.push_str(rest);
    Some(out)
}

/// Specifiers that a unit of the system manager's can be told by its name alone.
fn specified(unit: &str, word: &str) -> Option<String> {
    let name = UnitName::parse(unit)?;
    let instance = name.instance.clone().unwrap_or_default();
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let specifier = after.chars().next()?;
        out.push_str(match specifier {
            '%' => "%",
            'n' => unit,
            'N' => unit.rsplit_once('.').map_or(unit, |(stem, _)| stem),
            'p' => &name.prefix,
            'i' => &instance,
            // Unescaped, which is the same where nothing is escaped.
            'I' if !instance.contains(['-', '\\']) => &instance,
            'P' if !name.prefix.contains(['-', '\\']) => &name.prefix,
            't' => "/run",
            'S' => "/var/lib",
            'C' => "/var/cache",
            'L' => "/var/log",
            'E' => "/etc",
            _ => return None,
        });
        rest = after.get(specifier.len_utf8()..).unwrap_or_default();
    }
    out.push_str(rest);
    Some(out)
}

/// Words by blanks and quotes; none where a quote has no end.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, '"' | '\'') if word.is_none() => {
                quote = Some(character);
                word = Some(String::new());
            }
            (Some(open), close) if open == close => quote = None,
            (_, '\\') => {
                let escaped = match characters.next()? {
                    'n' => '\n',
                    't' => '\t',
                    's' => ' ',
                    plain @ ('\\' | '"' | '\'' | ' ') => plain,
                    _ => return None,
                };
                word.get_or_insert_default().push(escaped);
            }
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lines: &[&str], environment: &[&str], more: bool) -> Option<Vec<String>> {
        let service = Service {
            starts: lines.iter().map(ToString::to_string).collect(),
            environment: environment.iter().map(ToString::to_string).collect(),
            more_environment: more,
            ..Service::default()
        };
        command("db@15-main.service", &service)
    }

    #[test]
    fn words_are_those_that_the_program_gets() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let plain = of(&["-/usr/sbin/mariadbd  --large-pages \"--x=a b\" $OPTS"], &[], false).unwrap();
        assert_eq!(plain, ["/usr/sbin/mariadbd", "--large-pages", "--x=a b", "$OPTS"]);
        let data = of(&["/usr/bin/postmaster -D ${PGDATA} $MORE"], &["PGDATA=/srv/%i \"MORE=-c a=1\""], false);
        assert_eq!(data, Some(words("/usr/bin/postmaster -D /srv/15-main -c a=1")));
        assert_eq!(of(&["@/usr/bin/java jvm -Xmx1g"], &[], false), Some(words("/usr/bin/java -Xmx1g")));
        assert_eq!(of(&["/bin/x $$A ${B}"], &["B=%%"], false), Some(words("/bin/x $A %")));
    }

    #[test]
    fn what_cannot_be_told_is_not_made_up() {
        assert_eq!(of(&[], &[], false), None);
        assert_eq!(of(&["/bin/a", "/bin/b"], &[], false), None);
        assert_eq!(of(&["/bin/a ; /bin/b"], &[], false), None);
        assert_eq!(of(&["/bin/x -D ${PGDATA}"], &[], false), None);
        assert_eq!(of(&["/bin/x -D ${PGDATA}"], &["PGDATA=/a"], true), None, "a file may say otherwise");
        assert_eq!(of(&["/bin/x %h"], &[], false), None);
        assert_eq!(of(&["/bin/x 'a"], &[], false), None);
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "[-@:$%{}\\\\'\"a-i /;]{0,30}", environment in "[A-B=$%'\" ]{0,12}") {
            of(&[&line], &[&environment], false);
        }
    }
}
