//! Jinja as Ansible evaluates it: in names of plays and tasks, and in values without `!unsafe`.

use super::plain::escape_matching;

/// A text inside a name, with all braces escaped. Words of our own have to stand in front:
/// Ansible takes delimiters from a text that begins with `#jinja2:`.
pub fn escape_jinja(text: &str) -> String {
    escape_matching(&super::plain::escape_line(text), |character| matches!(character, '{' | '}'))
        .into_owned()
}

/// A text that Ansible takes as it is, as a value in YAML.
pub fn unsafe_value(text: &str) -> String {
    format!("!unsafe {}", super::yaml::quote_scalar(text))
}

/// Whether Ansible's modules take a path as it is: they replace `$NAME`, `${NAME}` and a leading
/// `~`.
pub fn is_module_path(path: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.,:=@+-' ".contains(&byte);
    path.starts_with('/') && path.trim() == path && path.bytes().all(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_of_braces_begins_a_template() {
        for count in 1..=6 {
            let text = format!(
                "a{}{}lookup(\"pipe\",\"id\"){}",
                "{".repeat(count),
                "%".repeat(count),
                "}".repeat(count)
            );
            assert!(!escape_jinja(&text).contains(['{', '}']), "{text}");
        }
        assert_eq!(escape_jinja("/srv/{{x}}"), "/srv/\\x7b\\x7bx\\x7d\\x7d");
        assert!(is_module_path("/etc/sysctl.d/zz-x.conf"));
        for path in ["/srv/$HOME/x", "~/x", "x", "/srv/{x", "/srv/x "] {
            assert!(!is_module_path(path), "{path}");
        }
        assert_eq!(unsafe_value("{{ x }}\n"), "!unsafe \"{{ x }}\\n\"");
    }
}
