//! Rules as people read about them.

use std::borrow::Cow;
use std::io;

use hugewise_diagnose::Rule;
use hugewise_diagnose::docs::{self, first_sentence};
use hugewise_engines::Message;
use serde::Serialize;

use crate::TextLayout;
use crate::palette::Role;
use crate::screen::{Screen, Spans};

/// Writes code, level and name of each rule, with what it looks for below.
pub fn write_list(rules: &[&Rule], out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()> {
    let mut screen = Screen::new(out, layout);
    for rule in rules {
        let heading = Spans::new()
            .add(Role::Text, &format!("{}  ", rule.code))
            .add(rule.level.into(), &format!("{:<5}  ", rule.level.as_str()))
            .add(Role::Strong, rule.name);
        screen.write_line(&heading)?;
        screen.write_paragraph(
            7,
            &Spans::from(format!("       {}", first_sentence(&docs::describe_rule(rule)))),
        )?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Rules {
    schema: &'static str,
    rules: Vec<RulePage>,
}

#[derive(Serialize)]
struct RulePage {
    code: &'static str,
    name: &'static str,
    level: &'static str,
    what: Cow<'static, str>,
    why: Cow<'static, str>,
    fix: Cow<'static, str>,
    sources: &'static [&'static str],
}

/// Writes rules, schema `hugewise.rules/1`.
pub fn write_json(rules: &[&Rule], out: &mut dyn io::Write) -> io::Result<()> {
    let page = |rule: &&Rule| RulePage {
        code: rule.code.as_str(),
        name: rule.name,
        level: rule.level.as_str(),
        what: docs::describe_rule(rule),
        why: docs::why_it_hurts(rule),
        fix: docs::how_to_fix(rule),
        sources: rule.docs.sources,
    };
    let rules = Rules { schema: "hugewise.rules/1", rules: rules.iter().map(page).collect() };
    crate::json::write_json_document(&rules, out)
}

#[derive(Serialize)]
struct MessagesDocument {
    schema: &'static str,
    messages: Vec<MessagePage>,
}

#[derive(Serialize)]
struct MessagePage {
    name: &'static str,
    says: &'static str,
    means: &'static str,
    look: &'static str,
    rules: &'static [&'static str],
    sources: &'static [&'static str],
}

/// Writes a message, schema `hugewise.rules/1`.
pub fn write_message_json(message: &Message, out: &mut dyn io::Write) -> io::Result<()> {
    let Message { name, says, means, look, rules, sources } = *message;
    let page = MessagePage { name, says, means, look, rules, sources };
    crate::json::write_json_document(
        &MessagesDocument { schema: "hugewise.rules/1", messages: vec![page] },
        out,
    )
}

/// Writes what a message means.
pub fn write_message(
    message: &Message,
    out: &mut dyn io::Write,
    layout: TextLayout,
) -> io::Result<()> {
    let mut screen = Screen::new(out, layout);
    let heading = Spans::new()
        .add(Role::Strong, message.name)
        .add(Role::Text, &format!("  {}", message.says));
    screen.write_paragraph(2, &heading)?;
    let rules: Vec<String> =
        docs::rules_of(message).map(|rule| format!("{} {}", rule.code, rule.name)).collect();
    let sources: Vec<String> = message.sources.iter().map(|source| format!("- {source}")).collect();
    let parts = [
        ("What it means", vec![message.means.to_owned()]),
        ("Where to look", vec![message.look.to_owned()]),
        ("Rules that find its causes", rules),
        ("Sources", sources),
    ];
    for (title, lines) in parts.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        screen.write_blank()?;
        screen.write_line(&Spans::new().add(Role::Strong, title))?;
        lines.iter().try_for_each(|line| screen.write_paragraph(0, &Spans::from(line.as_str())))?;
    }
    Ok(())
}

/// Writes one rule's page.
pub fn write_page(rule: &Rule, out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()> {
    let mut screen = Screen::new(out, layout);
    let heading = Spans::new()
        .add(Role::Strong, &format!("{} {}", rule.code, rule.name))
        .add(Role::Text, "  at worst ")
        .add(rule.level.into(), rule.level.as_str());
    screen.write_paragraph(2, &heading)?;
    let sources =
        rule.docs.sources.iter().map(|source| format!("- {source}")).collect::<Vec<_>>().join("\n");
    for (title, text) in [
        ("What it looks for", docs::describe_rule(rule)),
        ("Why it hurts", docs::why_it_hurts(rule)),
        ("How to fix it", docs::how_to_fix(rule)),
        ("Sources", sources.into()),
    ] {
        screen.write_blank()?;
        screen.write_line(&Spans::new().add(Role::Strong, title))?;
        write_markdown(&mut screen, text.trim())?;
    }
    Ok(())
}

/// Fills paragraphs, hangs list items, and leaves code as it is.
fn write_markdown(screen: &mut Screen<'_>, text: &str) -> io::Result<()> {
    let mut paragraph = String::new();
    let mut code = false;
    for line in text.lines() {
        let item = line.starts_with("- ");
        let fence = line.starts_with("```");
        let verbatim = code || line.starts_with("    ") || line.starts_with('|');
        if item || fence || verbatim || line.trim().is_empty() {
            flush_paragraph(screen, &mut paragraph)?;
        }
        if fence {
            code = !code;
        } else if verbatim {
            screen.write_line(&Spans::from(format!("  {line}")))?;
        } else if line.trim().is_empty() {
            screen.write_blank()?;
        } else {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line.trim());
        }
    }
    flush_paragraph(screen, &mut paragraph)
}

fn flush_paragraph(screen: &mut Screen<'_>, paragraph: &mut String) -> io::Result<()> {
    if !paragraph.is_empty() {
        let hang = if paragraph.starts_with("- ") { 4 } else { 2 };
        screen.write_paragraph(hang, &Spans::from(format!("  {paragraph}")))?;
        paragraph.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hugewise_diagnose::Docs;
    use hugewise_model::Level;

    use super::*;

    static RULE: Rule = Rule {
        code: hugewise_model::RuleId::new("HW999"),
        name: "sample",
        level: Level::Warn,
        role: hugewise_diagnose::CaseRole::Plain,
        docs: Docs {
            what: "Speaks where a segment of more than 1 GiB sits on base pages. The threshold \
                 is\nthe one of a test.\n\n- one item that is long enough to be wrapped at eighty \
                 columns, where it hangs below its text\n- another",
            cost: "a cost",
            why: "Because.",
            fix: "Run this:\n\n```\nsysctl -w vm.nr_hugepages=100    # a line that stays as it \
                 is, however long it may get to be\n```",
            sources: &["Documentation/admin-guide/mm/hugetlbpage.rst, Linux 6.12"],
        },
        check: |_| Vec::new(),
    };

    #[test]
    fn a_page_is_filled_and_its_code_stays_as_it_is() {
        let mut out = Vec::new();
        write_page(&RULE, &mut out, TextLayout::plain_text(80)).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        HW999 sample  at worst warn

        What it looks for
          Speaks where a segment of more than 1 GiB sits on base pages. The threshold is
          the one of a test.

          - one item that is long enough to be wrapped at eighty columns, where it hangs
            below its text
          - another

        Why it hurts
          Because.

        How to fix it
          Run this:

          sysctl -w vm.nr_hugepages=100    # a line that stays as it is, however long it may get to be

        Sources
          - Documentation/admin-guide/mm/hugetlbpage.rst, Linux 6.12
        "#);
    }

    #[test]
    fn the_list_says_of_each_rule_what_it_looks_for() {
        let mut out = Vec::new();
        write_list(&[&RULE], &mut out, TextLayout::plain_text(60)).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        HW999  warn   sample
               Speaks where a segment of more than 1 GiB sits on
               base pages.
        "#);
    }
}
