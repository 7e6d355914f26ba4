//! A rule's page, as Markdown: for the terminal and for the pages generated from it.

use std::borrow::Cow;

use hugewise_engines::{Kind, Message};

use crate::{Rule, rules};

/// What a rule looks for, and below that what each engine says itself of what it goes by.
pub fn what(rule: &Rule) -> Cow<'static, str> {
    if rule.code != rules::thp_policy::RULE.code {
        return Cow::Borrowed(rule.docs.what);
    }
    let line = |kind: &&Kind| {
        let names: Vec<&str> = kind.names.iter().map(|(_, name)| *name).collect();
        kind.thp_in_words.map(|words| format!("\n- {}: {words}", names.join(", ")))
    };
    let lines: String = hugewise_engines::kinds().iter().filter_map(line).collect();
    Cow::Owned(format!("{}\n{lines}", rule.docs.what.trim()))
}

/// Where the words are explained, for each page.
const GLOSSARY: &str = "Pool, segment, memlock and the other terms: [glossary](../glossary.md).";

/// The page of one rule.
pub fn page(rule: &Rule) -> String {
    let docs = &rule.docs;
    let mut page = format!("# {} {}\n\nWorst level: {}.\n", rule.code, rule.name, rule.level.as_str());
    let what = what(rule);
    for (title, text) in [("What it looks for", what.as_ref()), ("Why it hurts", docs.why), ("Fix", docs.fix)] {
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
    let mut page = String::from("# Rules\n\n| code | name | worst level | looks for |\n| --- | --- | --- | --- |\n");
    for rule in rules() {
        let (code, file, level) = (rule.code, file_name(rule), rule.level.as_str());
        page.push_str(&format!(
            "| [{code}]({file}) | {} | {level} | {} |\n",
            rule.name,
            first_sentence(rule.docs.what)
        ));
    }
    page.push_str(&format!("\n{GLOSSARY}\n"));
    page
}

/// The page of all messages that are explained.
pub fn messages_page() -> String {
    let mut page = String::from(
        "# Messages\n\nHow servers' error messages relate to huge pages. `hugewise rules ORA-27102` prints one.\n",
    );
    for message in messages() {
        page.push_str(&format!(
            "\n## {}: {}\n\n{}\n\nWhere to look: {}\n",
            message.name, message.says, message.means, message.look
        ));
        let rules: Vec<String> =
            rules_of(message).map(|rule| format!("[{} {}]({})", rule.code, rule.name, file_name(rule))).collect();
        if !rules.is_empty() {
            page.push_str(&format!("\nThese rules find its causes: {}.\n", rules.join(", ")));
        }
        page.push_str(&format!("\nSources: {}.\n", message.sources.join("; ")));
    }
    page.push_str(&format!("\n{GLOSSARY}\n"));
    page
}

/// The messages that are explained, of all engines.
pub fn messages() -> impl Iterator<Item = &'static Message> {
    hugewise_engines::kinds().iter().flat_map(|kind| kind.messages)
}

/// The message that is meant by a word.
pub fn message(word: &str) -> Option<&'static Message> {
    messages().find(|message| message.is(word))
}

/// The rules that find its causes.
pub fn rules_of(message: &Message) -> impl Iterator<Item = &'static Rule> {
    message.rules.iter().filter_map(|code| find(code))
}

/// Up to the first full stop that ends a sentence, on one line.
pub fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

/// The rule of that code or name, in any case.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    let wanted = code_or_name.trim();
    rules()
        .iter()
        .copied()
        .find(|rule| rule.code.as_str().eq_ignore_ascii_case(wanted) || rule.name.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_rules_that_are_there_and_their_sources() {
        assert!(messages().count() >= 9);
        for message in messages() {
            assert_eq!(rules_of(message).count(), message.rules.len(), "{}", message.name);
            assert!(!message.sources.is_empty(), "{}", message.name);
            assert!(messages_page().contains(&format!("## {}: ", message.name)));
        }
    }
}
