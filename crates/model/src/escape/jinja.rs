//! Jinja as Ansible evaluates it: names of plays and tasks are templates, and so is every value that is not `!unsafe`.

use super::plain::spelled;

/// A text that stands in a name: with `{` written out there is nothing that Jinja begins at, however many there are.
///
/// What it is put behind has to be words of our own, as Ansible takes a whole text that begins with `#jinja2:` for one
/// with delimiters of its own.
pub fn inert(text: &str) -> String {
    spelled(&super::plain::clean(text), |character| matches!(character, '{' | '}')).into_owned()
}

/// A text that Ansible takes as it is, as a value in YAML.
pub fn unsafe_value(text: &str) -> String {
    format!("!unsafe {}", super::yaml::quoted(text))
}

/// A path that Ansible's modules take as it is: they replace `$NAME`, `${NAME}` and a `~` at its start.
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
            let text =
                format!("a{}{}lookup(\"pipe\",\"id\"){}", "{".repeat(count), "%".repeat(count), "}".repeat(count));
            assert!(!inert(&text).contains(['{', '}']), "{text}");
        }
        assert_eq!(inert("/srv/{{x}}"), "/srv/\\x7b\\x7bx\\x7d\\x7d");
        assert!(is_module_path("/etc/sysctl.d/zz-x.conf"));
        for path in ["/srv/$HOME/x", "~/x", "x", "/srv/{x", "/srv/x "] {
            assert!(!is_module_path(path), "{path}");
        }
        assert_eq!(unsafe_value("{{ x }}\n"), "!unsafe \"{{ x }}\\n\"");
    }
}
