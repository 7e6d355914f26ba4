//! The command that a shell script ends with, where it can be told without running it.

/// The words of a script's last command, with the variables that are known. `None` where a part of
/// it would have to be run, or a variable is not known.
pub(crate) fn last_command(
    script: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    let commands = split_commands(&joined)?;
    let last = commands.into_iter().rfind(|command| {
        let command = command.trim();
        !command.is_empty() && !command.starts_with('#')
    })?;
    let words = split_words(last, variable)?;
    // The end of a block is no command.
    let is_block = |word: &String| ["fi", "done", "esac", "}", "wait"].contains(&word.as_str());
    (!words.is_empty() && !words.first().is_some_and(is_block)).then_some(words)
}

/// Commands between line breaks, `;` and `&&`, outside quotes; none with a pipe or `&` in them.
fn split_commands(script: &str) -> Option<Vec<&str>> {
    let mut commands = Vec::new();
    let (mut start, mut quote, mut escaped) = (0, None, false);
    let mut signs = script.char_indices().peekable();
    while let Some((at, sign)) = signs.next() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, sign) {
            (_, '\\') if quote != Some('\'') => escaped = true,
            (Some(open), _) if open == sign => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(sign),
            (None, '\n' | ';') => {
                commands.push(script.get(start..at)?);
                start = at + 1;
            }
            (None, '&') if signs.peek().is_some_and(|(_, next)| *next == '&') => {
                signs.next();
                commands.push(script.get(start..at)?);
                start = at + 2;
            }
            (None, '|' | '&' | '`' | '<' | '(') => return None,
            (None, _) => {}
        }
    }
    commands.push(script.get(start..)?);
    quote.is_none().then_some(commands)
}

fn split_words(command: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut signs = command.chars().peekable();
    while let Some(sign) = signs.next() {
        match (quote, sign) {
            (Some(open), _) if open == sign => quote = None,
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(signs.next()),
            (None | Some('"'), '$') => {
                let value = variable(&take_name(&mut signs)?)?;
                let target = word.get_or_insert_default();
                // Unquoted, it may become several words.
                match quote {
                    None if value.contains(char::is_whitespace) => {
                        let mut parts = value.split_whitespace();
                        target.push_str(parts.next().unwrap_or_default());
                        for part in parts {
                            words.extend(word.replace(part.to_owned()));
                        }
                    }
                    _ => target.push_str(&value),
                }
            }
            (None, '`' | '>') | (Some('"'), '`') => return None,
            (_, sign) => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    Some(words)
}

/// The name behind `$`, in braces or not; none for anything else that a dollar begins.
fn take_name(signs: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let in_braces = signs.next_if_eq(&'{').is_some();
    let mut name = String::new();
    while let Some(sign) = signs.next_if(|sign| sign.is_ascii_alphanumeric() || *sign == '_') {
        name.push(sign);
    }
    let is_closed = !in_braces || signs.next() == Some('}');
    (is_closed && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_command_is_what_the_shell_would_run() {
        let variable = |name: &str| (name == "OPTS").then(|| "-a -b".to_owned());
        let said = |script: &str| last_command(script, &variable).map(|words| words.join("|"));
        assert_eq!(said("exec postgres -c 'a=b c'").as_deref(), Some("exec|postgres|-c|a=b c"));
        assert_eq!(
            said("set -e\nmkdir /x && exec java $OPTS X\n").as_deref(),
            Some("exec|java|-a|-b|X")
        );
        assert_eq!(said("java \"$OPTS\" \\\n  Main").as_deref(), Some("java|-a -b|Main"));
        for unknown in
            ["java $(cat x) Main", "java $OTHER Main", "a | b", "if x; then y; fi", "java `x`", "'"]
        {
            assert_eq!(said(unknown), None, "{unknown}");
        }
    }
}
