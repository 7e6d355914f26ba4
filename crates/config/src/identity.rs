//! The host's name and its distribution.

use hugewise_model::Observed;

use super::files::{first_present, numbered_lines};
use hugewise_source::FactReader;

/// Of the running host, in an archive perhaps of the next boot; the last two are sosreport's.
pub(crate) fn read_name(door: &mut FactReader<'_>) -> Observed<String> {
    let paths =
        ["/proc/sys/kernel/hostname", "/etc/hostname", "/hostname", "/sos_commands/host/hostname"];
    first_present(&paths, |path| {
        door.parse(path, |bytes| Ok(parse_name(bytes))).and_then(Observed::from)
    })
}

/// The first line that is no comment (hostname(5)), up to white space.
pub fn parse_name(bytes: &[u8]) -> Option<String> {
    numbered_lines(bytes)
        .map(|(_, line)| line.trim().to_owned())
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .and_then(|line| line.split_whitespace().next().map(str::to_owned))
}

/// `PRETTY_NAME` of os-release(5), or the one line of older Red Hat systems.
pub(crate) fn read_os(door: &mut FactReader<'_>) -> Observed<String> {
    let release = first_present(&["/etc/os-release", "/usr/lib/os-release"], |path| {
        door.parse(path, |bytes| Ok(parse_os_release(bytes))).and_then(Observed::from)
    });
    release.or_else_absent(|| {
        door.parse("/etc/redhat-release", |bytes| Ok(first_line(bytes))).and_then(Observed::from)
    })
}

fn first_line(bytes: &[u8]) -> Option<String> {
    numbered_lines(bytes).map(|(_, line)| line.trim().to_owned()).find(|line| !line.is_empty())
}

/// `PRETTY_NAME`, or where that is missing `NAME` and `VERSION`.
pub fn parse_os_release(bytes: &[u8]) -> Option<String> {
    let field = |wanted: &str| {
        numbered_lines(bytes)
            .filter_map(|(_, line)| {
                let (key, value) = line.trim().split_once('=')?;
                (key == wanted).then(|| unquote_shell_word(value)).filter(|value| !value.is_empty())
            })
            .last()
    };
    field("PRETTY_NAME").or_else(|| match (field("NAME")?, field("VERSION")) {
        (name, Some(version)) => Some(format!("{name} {version}")),
        (name, None) => Some(name),
    })
}

/// A shell word without its quotes; in double quotes a backslash keeps the next character.
pub(crate) fn unquote_shell_word(word: &str) -> String {
    let word = word.trim();
    if let Some(inner) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inner.to_owned();
    }
    let inner = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(word);
    let mut characters = inner.chars();
    let mut text = String::with_capacity(inner.len());
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    #[test]
    fn names_of_live_and_archived_hosts() {
        let sos = MapSource::new().with_file("/sos_commands/host/hostname", "db7.example.org\n");
        assert_eq!(
            read_name(&mut FactReader::new(&sos)),
            Observed::Known("db7.example.org".into())
        );
        let etc = sos.with_file("/etc/hostname", "# set by us\ndb8\n");
        assert_eq!(read_name(&mut FactReader::new(&etc)), Observed::Known("db8".into()));
        let live = etc.with_file("/proc/sys/kernel/hostname", "db9\n");
        assert_eq!(read_name(&mut FactReader::new(&live)), Observed::Known("db9".into()));
        assert_eq!(read_name(&mut FactReader::new(&MapSource::new())), Observed::Absent);
    }

    #[test]
    fn distributions_name_themselves() {
        let name = |text: &str| parse_os_release(text.as_bytes());
        assert_eq!(
            name("NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            Some("Debian GNU/Linux 12 (bookworm)".into())
        );
        assert_eq!(
            name("PRETTY_NAME='Oracle Linux Server 8.10'\n"),
            Some("Oracle Linux Server 8.10".into())
        );
        assert_eq!(name("PRETTY_NAME=\"A \\\"B\\\" \\$C\"\n"), Some("A \"B\" $C".into()));
        assert_eq!(name("NAME=Alpine\nVERSION=3.20\n"), Some("Alpine 3.20".into()));
        assert_eq!(name("ID=x\n"), None);
        let old = MapSource::new().with_file(
            "/etc/redhat-release",
            "Red Hat Enterprise Linux Server release 6.10 (Santiago)\n",
        );
        assert_eq!(
            read_os(&mut FactReader::new(&old)),
            Observed::Known("Red Hat Enterprise Linux Server release 6.10 (Santiago)".into())
        );
    }
}
