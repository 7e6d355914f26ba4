//! Corrects a manifest: the fewest bytes that change, everything else stays as it was.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use similar::TextDiff;

use crate::judge::{Correction, JudgedManifest, judge_text};
use crate::node::NodeFacts;
use crate::wanted_resources::WantedResources;
use crate::yaml::{YamlContent, YamlNode};

/// Corrections may make others necessary: a second size of pages, a request beside them.
const MOST_ROUNDS: usize = 4;

/// The corrected manifest; `None` where nothing can be corrected in it.
pub(crate) fn correct_manifest(
    text: &str,
    judged: JudgedManifest,
    node: Option<&NodeFacts>,
) -> Option<String> {
    let (mut corrected, mut corrections) = (text.to_owned(), judged.corrections);
    for _ in 0..MOST_ROUNDS {
        let editor = ManifestEditor { text: &corrected };
        let edits = corrections.iter().filter_map(|correction| editor.edit(correction));
        let edits: Vec<TextEdit> = edits.flatten().collect();
        if edits.is_empty() {
            break;
        }
        corrected = apply_edits(&corrected, edits)?;
        corrections = judge_text(&corrected, node).ok()?.corrections;
    }
    (corrected != text).then_some(corrected)
}

/// `patch -p0` and `git apply -p0` take it.
pub(crate) fn unified_diff(file: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().header(file, file).to_string()
}

struct TextEdit {
    range: Range<usize>,
    text: String,
}

/// Edits from the end on, so that none moves another. Two at one place keep their order.
fn apply_edits(text: &str, mut edits: Vec<TextEdit>) -> Option<String> {
    edits.sort_by_key(|edit| edit.range.start);
    let overlap = |pair: &[TextEdit]| matches!(pair, [a, b] if a.range.end > b.range.start);
    if edits.windows(2).any(overlap) {
        return None;
    }
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for edit in edits {
        result.push_str(text.get(done..edit.range.start)?);
        result.push_str(&edit.text);
        done = edit.range.end;
    }
    result.push_str(text.get(done..)?);
    Some(result)
}

struct ManifestEditor<'a> {
    text: &'a str,
}

impl ManifestEditor<'_> {
    /// The edits of a correction; none where the file's form leaves it to a person.
    fn edit(&self, correction: &Correction) -> Option<Vec<TextEdit>> {
        match correction {
            Correction::Scalar { node, text } => Some(vec![self.replace_scalar(node, text)?]),
            Correction::Resources { parent, wanted } => self.edit_resources(parent, wanted),
        }
    }

    fn edit_resources<'a>(
        &self,
        parent: &YamlNode,
        wanted: &'a WantedResources,
    ) -> Option<Vec<TextEdit>> {
        if parent.is_shared {
            return None;
        }
        let of = |amounts: [&'a BTreeMap<String, String>; 2]| -> Vec<(&'a str, &'a str)> {
            let all = amounts.into_iter().flatten();
            all.map(|(name, amount)| (name.as_str(), amount.as_str())).collect()
        };
        let limits = of([&wanted.both, &wanted.limits]);
        let requests = of([&wanted.both, &wanted.requests]);
        let sections = [("limits", limits), ("requests", requests)];
        let sections = sections.iter().filter(|(_, amounts)| !amounts.is_empty());
        match parent.entry("resources") {
            None => Some(vec![self.insert_resources(parent, sections)?]),
            Some((key, value)) if value.is_null() => {
                Some(vec![self.fill_in_resources(key, value, sections)?])
            }
            Some((_, resources)) if self.is_empty_flow(resources) => {
                let inside: Vec<String> =
                    sections.map(|(name, amounts)| flow_section(name, amounts)).collect();
                let text = format!("{{{}}}", inside.join(", "));
                Some(vec![TextEdit { range: resources.span.0..resources.span.1, text }])
            }
            Some((_, resources)) => {
                let mut edits = Vec::new();
                for (section, amounts) in sections {
                    edits.extend(self.edit_section(resources, section, amounts)?);
                }
                Some(edits)
            }
        }
    }

    /// `{}`, and nothing else in the bytes that it takes.
    fn is_empty_flow(&self, node: &YamlNode) -> bool {
        let written = self.text.get(node.span.0..node.span.1).unwrap_or_default();
        let inside = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        !node.is_shared && inside.is_some_and(|inside| inside.trim().is_empty())
    }

    fn edit_section(
        &self,
        resources: &YamlNode,
        section: &str,
        amounts: &[(&str, &str)],
    ) -> Option<Vec<TextEdit>> {
        if resources.is_shared {
            return None;
        }
        let Some((key, node)) = resources.entry(section) else {
            return Some(vec![self.insert_entry(resources, section, amounts)?]);
        };
        if node.is_null() {
            let block = [(section, amounts.to_vec())];
            let lines = self.section_lines(key.column, block.iter());
            return Some(vec![self.replace_line_of(key, node, &lines)?]);
        }
        if node.is_shared {
            return None;
        }
        let mut edits = Vec::new();
        let mut missing = Vec::new();
        for (name, amount) in amounts {
            match node.entry(name) {
                Some((_, value)) => edits.push(self.replace_scalar(value, amount)?),
                None => missing.push((*name, *amount)),
            }
        }
        if !missing.is_empty() {
            edits.push(self.insert_scalars(node, &missing)?);
        }
        Some(edits)
    }

    /// A scalar on one line, in the quotes that it has.
    fn replace_scalar(&self, node: &YamlNode, text: &str) -> Option<TextEdit> {
        let range = node.span.0..node.span.1;
        let written = self.text.get(range.clone())?;
        let trimmed = written.trim_end();
        if node.is_shared || node.template.is_some() || trimmed.is_empty() || trimmed.contains('\n')
        {
            return None;
        }
        let quote = trimmed.chars().next().filter(|sign| ['"', '\''].contains(sign));
        let quote = quote.map(String::from).unwrap_or_default();
        // Only a scalar that stands there as it was read is replaced.
        if trimmed.trim_matches(['"', '\'']) != node.text()? {
            return None;
        }
        let range = range.start..range.start + trimmed.len();
        Some(TextEdit { range, text: format!("{quote}{text}{quote}") })
    }

    fn insert_scalars(&self, mapping: &YamlNode, amounts: &[(&str, &str)]) -> Option<TextEdit> {
        let pairs: Vec<String> =
            amounts.iter().map(|(name, amount)| format!("{name}: {amount}")).collect();
        self.insert_into(mapping, &pairs, &pairs.join(", "))
    }

    fn insert_entry(
        &self,
        mapping: &YamlNode,
        section: &str,
        amounts: &[(&str, &str)],
    ) -> Option<TextEdit> {
        let pairs: Vec<String> =
            amounts.iter().map(|(name, amount)| format!("{name}: {amount}")).collect();
        let mut lines = vec![format!("{section}:")];
        lines.extend(pairs.iter().map(|pair| format!("  {pair}")));
        self.insert_into(mapping, &lines, &format!("{section}: {{{}}}", pairs.join(", ")))
    }

    /// Before the first entry of a mapping: as lines of a block, or as one text behind a brace.
    fn insert_into(&self, mapping: &YamlNode, lines: &[String], flow: &str) -> Option<TextEdit> {
        let YamlContent::Mapping { entries, is_flow } = &mapping.content else { return None };
        if *is_flow {
            let at = mapping.span.0 + 1;
            let behind = self.text.get(at..)?.starts_with(' ');
            let (before, end) = if behind { (" ", "") } else { ("", " ") };
            let comma = if entries.is_empty() { "" } else { "," };
            let end = if entries.is_empty() { "" } else { end };
            return Some(TextEdit { range: at..at, text: format!("{before}{flow}{comma}{end}") });
        }
        let (first, _) = entries.first()?;
        let start = self.line_start(first.span.0);
        // A block that begins behind a dash or a key has no line of its own to stand before.
        if !self.text.get(start..first.span.0)?.bytes().all(|byte| byte == b' ') {
            return None;
        }
        let indent = " ".repeat(first.column);
        let end = self.line_end();
        let text = lines.iter().map(|line| format!("{indent}{line}{end}")).collect();
        Some(TextEdit { range: start..start, text })
    }

    /// Behind the first entry of a container that is on one line.
    fn insert_resources<'s>(
        &self,
        parent: &YamlNode,
        sections: impl Iterator<Item = &'s (&'s str, Vec<(&'s str, &'s str)>)>,
    ) -> Option<TextEdit> {
        let YamlContent::Mapping { entries, is_flow } = &parent.content else { return None };
        if *is_flow {
            let inside: Vec<String> =
                sections.map(|(name, amounts)| flow_section(name, amounts)).collect();
            return self.insert_into(parent, &[], &format!("resources: {{{}}}", inside.join(", ")));
        }
        let on_one_line = |(key, value): &&(Rc<YamlNode>, Rc<YamlNode>)| {
            let written = self.text.get(key.span.0..value.span.1);
            value.text().is_some_and(|text| !text.is_empty())
                && written.is_some_and(|written| !written.trim_end().contains('\n'))
        };
        let (key, value) = entries.iter().find(on_one_line)?;
        let at = self.text.get(value.span.1..)?.find('\n').map(|end| value.span.1 + end + 1);
        let end = self.line_end();
        let (at, before) = at.map_or((self.text.len(), end), |at| (at, ""));
        let indent = " ".repeat(key.column);
        let lines = self.section_lines(key.column + 2, sections);
        Some(TextEdit { range: at..at, text: format!("{before}{indent}resources:{end}{lines}") })
    }

    /// `resources:` or `resources: null` without anything below it.
    fn fill_in_resources<'s>(
        &self,
        key: &YamlNode,
        value: &YamlNode,
        sections: impl Iterator<Item = &'s (&'s str, Vec<(&'s str, &'s str)>)>,
    ) -> Option<TextEdit> {
        let indent = " ".repeat(key.column);
        let lines = self.section_lines(key.column + 2, sections);
        let block = format!("{indent}resources:{}{lines}", self.line_end());
        self.replace_line_of(key, value, &block)
    }

    /// Replaces the line of a key that has no value, where nothing else is on it.
    fn replace_line_of(&self, key: &YamlNode, value: &YamlNode, lines: &str) -> Option<TextEdit> {
        let start = self.line_start(key.span.0);
        let rest = self.text.get(key.span.1..)?;
        let end = rest.find('\n').map_or(self.text.len(), |at| key.span.1 + at + 1);
        let behind = self.text.get(key.span.1..end)?.trim().trim_start_matches(':').trim();
        let is_alone = behind.is_empty() || Some(behind) == value.text();
        let before = self.text.get(start..key.span.0)?;
        (is_alone && before.bytes().all(|byte| byte == b' '))
            .then(|| TextEdit { range: start..end, text: lines.to_owned() })
    }

    fn section_lines<'s>(
        &self,
        column: usize,
        sections: impl Iterator<Item = &'s (&'s str, Vec<(&'s str, &'s str)>)>,
    ) -> String {
        let (indent, end) = (" ".repeat(column), self.line_end());
        let mut lines = String::new();
        for (name, amounts) in sections {
            lines += &format!("{indent}{name}:{end}");
            for (resource, amount) in amounts {
                lines += &format!("{indent}  {resource}: {amount}{end}");
            }
        }
        lines
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|head| head.rfind('\n')).map_or(0, |end| end + 1)
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }
}

fn flow_section(name: &str, amounts: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        amounts.iter().map(|(resource, amount)| format!("{resource}: {amount}")).collect();
    format!("{name}: {{{}}}", pairs.join(", "))
}
