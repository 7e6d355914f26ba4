//! Findings, worst first, each with its chain, its cost and its fix.

use std::collections::BTreeSet;
use std::io;

use hugewise_model::Finding;

use super::chain;
use crate::Checked;
use crate::palette::Role;
use crate::screen::{Screen, Spans, columns};

/// Column of the labels under a finding.
pub(super) const LABELS: usize = 6;
/// Column of the text beside them.
pub(super) const TEXT: usize = 13;

pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked<'_>) -> io::Result<()> {
    let mut chained = BTreeSet::new();
    for finding in &checked.assessment.findings {
        heading(screen, finding)?;
        if let Some(title) = &finding.instance
            && chained.insert(title.as_str())
            && let Some(chain) = checked.assessment.chains.iter().find(|chain| &chain.instance == title)
        {
            chain::write(screen, chain)?;
        }
        evidence(screen, finding)?;
        if let Some(cost) = &finding.cost {
            screen.flow(TEXT, &labelled("cost").add(Role::Text, cost))?;
        }
        fix(screen, finding)?;
    }
    Ok(())
}

/// `      cost   `.
pub(super) fn labelled(label: &str) -> Spans {
    let (before, width) = (" ".repeat(LABELS), TEXT - LABELS);
    Spans::new().add(Role::Text, &before).add(Role::Quiet, &format!("{label:width$}"))
}

fn heading(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    let spans = Spans::new()
        .add(finding.level.into(), &format!("{:5}", finding.level.as_str()))
        .add(Role::Text, &format!(" {} ", finding.code))
        .add(Role::Strong, finding.name)
        .add(Role::Text, &format!("  {}", finding.summary));
    screen.flow(LABELS, &spans)
}

fn evidence(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    let most = if screen.verbose() { usize::MAX } else { 1 };
    let facts: Vec<&str> = finding.evidence.iter().take(most).map(String::as_str).collect();
    if facts.is_empty() {
        return Ok(());
    }
    screen.flow(TEXT, &labelled("seen").add(Role::Text, &facts.join("; ")))
}

fn fix(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    for (at, command) in finding.fix.iter().enumerate() {
        let start = if at == 0 { labelled("fix") } else { Spans::from(" ".repeat(TEXT).as_str()) };
        if command.starts_with('#') {
            let (hash, words) = command.split_at(1);
            let hang = TEXT + 2;
            let mut first = start.add(Role::Quiet, hash);
            for line in fold(words.trim_start(), screen.width().saturating_sub(hang)) {
                screen.line(&first.add(Role::Quiet, &format!(" {line}")))?;
                first = Spans::from(" ".repeat(TEXT).as_str()).add(Role::Quiet, "#");
            }
        } else {
            let mut line = start;
            for part in continued(command, screen.width().saturating_sub(TEXT + 2)) {
                screen.line(&line.add(Role::Text, &part))?;
                line = Spans::from(" ".repeat(TEXT + 2).as_str());
            }
        }
    }
    Ok(())
}

/// A comment in lines of at most `width` columns, at least one line.
fn fold(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A command in lines that a shell joins again: broken at spaces outside of quotes, with ` \` at
/// the end. Where a quoted word is longer than the line it stays whole: a command must run as it is pasted.
fn continued(command: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = command;
    while columns(rest) > width {
        let places = breaks(rest);
        let fits = |at: &&usize| rest.get(..**at).is_some_and(|kept| columns(kept) + 2 <= width);
        let Some(at) = places.iter().rfind(fits).or_else(|| places.first()) else { break };
        let Some((now, later)) = rest.split_at_checked(*at) else { break };
        lines.push(format!("{now} \\"));
        rest = later.trim_start_matches(' ');
    }
    lines.push(rest.to_owned());
    lines
}

/// Bytes at which a shell command can be broken.
fn breaks(command: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for (at, character) in command.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('"') | None, '\\') => escaped = true,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '#') if before == ' ' => return found,
            (None, ' ') if at > 0 && before != ' ' => found.push(at),
            (None, _) => {}
        }
        before = character;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_run_as_they_are_pasted() {
        let command = "printf '%s\\n' 'vm.nr_hugepages = 17411' | sudo tee /etc/sysctl.d/90-hugewise.conf";
        let lines = continued(command, 50);
        assert_eq!(lines, ["printf '%s\\n' 'vm.nr_hugepages = 17411' | sudo \\", "tee /etc/sysctl.d/90-hugewise.conf"]);
        // Joined as a shell does, it is the same command.
        assert_eq!(lines.join("\n").replace("\\\n", ""), command);
        assert_eq!(continued("echo 'one two three four'", 12), ["echo \\", "'one two three four'"]);
        let quoted = continued("tee 'longer than the line is' > /tmp/a", 12);
        assert_eq!(quoted, ["tee \\", "'longer than the line is' \\", "> /tmp/a"]);
        assert_eq!(continued("true # and a long remark", 12), ["true \\", "# and a long remark"]);
    }
}
