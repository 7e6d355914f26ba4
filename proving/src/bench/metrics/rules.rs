//! A file of recording rules as these are written here: a name and an expression each, in groups.

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What it records.
    pub(crate) record: String,
    /// PromQL.
    pub(crate) expression: String,
}

/// The groups, in their order.
///
/// # Errors
/// A rule without an expression: the file has another form.
pub(crate) fn groups(text: &str) -> Result<Vec<Vec<Rule>>, String> {
    let mut groups: Vec<Vec<Rule>> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let word = line.trim();
        if word.starts_with("- name: ") {
            groups.push(Vec::new());
        } else if let Some(record) = word.strip_prefix("- record: ") {
            let group = groups.last_mut().ok_or_else(|| format!("{record} is in no group"))?;
            group.push(Rule { record: record.to_owned(), expression: String::new() });
        } else if let Some(rule) = groups.last_mut().and_then(|group| group.last_mut()) {
            let more = word.strip_prefix("expr: ").unwrap_or(word).trim_start_matches(">-");
            rule.expression = format!("{} {more}", rule.expression).trim().to_owned();
        }
    }
    match groups.iter().flatten().find(|rule| rule.expression.is_empty()) {
        Some(rule) => Err(format!("{} has no expression", rule.record)),
        None => Ok(groups),
    }
}

/// The words of PromQL that can be names of metrics of hugewise's.
pub(crate) fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'));
    words.filter(|word| {
        word.starts_with("hugewise_") || word.starts_with("hugewise:") || *word == "up"
    })
}
