//! A rule's page, as Markdown: for the terminal and for the pages generated from it.

use std::borrow::Cow;

use hugewise_engines::{EngineKind, Message};

use crate::amounts::fill_in_amounts;
use crate::{Rule, all_rules};

/// Where a rule's text goes on with what each engine advises.
pub(crate) const EACH_ENGINE: &str = "{each engine}";

/// Why what a rule finds hurts.
pub fn why_it_hurts(rule: &Rule) -> Cow<'static, str> {
    fill_in_amounts(rule.docs.why)
}

/// How to fix what a rule finds.
pub fn how_to_fix(rule: &Rule) -> Cow<'static, str> {
    fill_in_amounts(rule.docs.fix)
}

/// What a rule looks for, and below that what each engine says itself of what it goes by.
pub fn describe_rule(rule: &Rule) -> Cow<'static, str> {
    let what = fill_in_amounts(rule.docs.what);
    if !what.contains(EACH_ENGINE) {
        return what;
    }
    let line = |kind: &&EngineKind| {
        let names: Vec<&str> = kind.names.iter().map(|(_, name)| *name).collect();
        kind.thp.summary.map(|words| format!("\n- {}: {words}", names.join(", ")))
    };
    let lines: String = hugewise_engines::all_kinds().iter().filter_map(line).collect();
    Cow::Owned(what.replace(EACH_ENGINE, &lines))
}

const GLOSSARY: &str = "Pool, segment, memlock and the other terms: [glossary](../glossary.md).";

/// The page of one rule.
pub fn render_rule_page(rule: &Rule) -> String {
    let docs = &rule.docs;
    let mut page =
        format!("# {} {}\n\nWorst level: {}.\n", rule.code, rule.name, rule.level.as_str());
    for (title, text) in [
        ("What it looks for", describe_rule(rule)),
        ("Why it hurts", why_it_hurts(rule)),
        ("Fix", how_to_fix(rule)),
    ] {
        page.push_str(&format!("\n## {title}\n\n{}\n", text.trim()));
    }
    page.push_str("\n## Sources\n\n");
    for source in docs.sources {
        page.push_str(&format!("- {source}\n"));
    }
    page.push_str(&format!("\n{GLOSSARY}\n"));
    page
}

/// Name of a rule's page: `HW201-no-pool.md`.
pub fn file_name(rule: &Rule) -> String {
    format!("{}-{}.md", rule.code, rule.name)
}

/// The page that lists all rules.
pub fn index() -> String {
    let mut page = String::from(
        "# Rules\n\n| code | name | worst level | looks for |\n| --- | --- | --- | --- |\n",
    );
    for rule in all_rules() {
        let (code, file, level) = (rule.code, file_name(rule), rule.level.as_str());
        page.push_str(&format!(
            "| [{code}]({file}) | {} | {level} | {} |\n",
            rule.name,
            first_sentence(&describe_rule(rule))
        ));
    }
    page.push_str(&format!("\n{GLOSSARY}\n"));
    page
}

/// The page of all messages that are explained.
pub fn messages_page() -> String {
    let mut page = String::from(
        "# Messages\n\nHow servers' error messages relate to huge pages. `hugewise rules \
         ORA-27102` prints one.\n",
    );
    for message in all_messages() {
        page.push_str(&format!(
            "\n## {}: {}\n\n{}\n\nWhere to look: {}\n",
            message.name, message.says, message.means, message.look
        ));
        let rules: Vec<String> = rules_of(message)
            .map(|rule| format!("[{} {}]({})", rule.code, rule.name, file_name(rule)))
            .collect();
        if !rules.is_empty() {
            page.push_str(&format!("\nThese rules find its causes: {}.\n", rules.join(", ")));
        }
        page.push_str(&format!("\nSources: {}.\n", message.sources.join("; ")));
    }
    page.push_str(&format!("\n{GLOSSARY}\n"));
    page
}

pub(crate) fn all_messages() -> impl Iterator<Item = &'static Message> {
    hugewise_engines::all_kinds().iter().flat_map(|kind| kind.logs.messages)
}

/// Letters of words that are looked for in messages, not only as their names.
const TELLING: usize = 8;

/// The message that is meant by a word, or by a line of a log.
pub fn find_message(word: &str) -> Option<&'static Message> {
    let lower = word.trim().to_lowercase();
    let in_line = |message: &&Message| {
        let name = message.name.to_lowercase();
        name.len() >= TELLING && lower.contains(&name)
    };
    let in_words =
        |message: &&Message| lower.len() >= TELLING && message.says.to_lowercase().contains(&lower);
    all_messages()
        .find(|message| message.matches_word(word))
        .or_else(|| all_messages().find(in_line))
        .or_else(|| all_messages().find(in_words))
}

/// The rules that find its causes.
pub fn rules_of(message: &Message) -> impl Iterator<Item = &'static Rule> {
    message.rules.iter().filter_map(|code| find_rule(code))
}

/// Up to the first full stop that ends a sentence, on one line.
pub fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

/// The rule of that code or name, in any case.
pub fn find_rule(code_or_name: &str) -> Option<&'static Rule> {
    let wanted = code_or_name.trim();
    all_rules().iter().copied().find(|rule| {
        rule.code.as_str().eq_ignore_ascii_case(wanted) || rule.name.eq_ignore_ascii_case(wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_rules_that_are_there_and_their_sources() {
        assert!(all_messages().count() >= 9);
        for message in all_messages() {
            assert_eq!(rules_of(message).count(), message.rules.len(), "{}", message.name);
            assert!(!message.sources.is_empty(), "{}", message.name);
            assert!(messages_page().contains(&format!("## {}: ", message.name)));
        }
    }
}
