//! What a manifest leaves to a template: `{{ ... }}` of Helm and of Go.
//!
//! A manifest with templates is no YAML yet. Each is masked by letters of the same length, so that
//! every byte keeps its place; what a mask covers is asked for and never guessed.

use std::borrow::Cow;
use std::cell::Cell;

/// A manifest whose templates are masked.
pub(crate) struct TemplateMask<'a> {
    text: &'a str,
    /// The manifest with masks.
    pub(crate) masked: Cow<'a, str>,
    spans: Vec<TemplateSpan>,
}

struct TemplateSpan {
    from: usize,
    to: usize,
    line: u64,
    /// It has its lines for itself, so that what it writes, or keeps, may be any YAML.
    is_whole_line: bool,
    /// It is part of a value: of a text over several lines, too.
    is_in_value: Cell<bool>,
}

impl<'a> TemplateMask<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let spans = find_spans(text);
        if spans.is_empty() {
            return Self { text, masked: Cow::Borrowed(text), spans };
        }
        let mut masked = text.as_bytes().to_vec();
        for span in &spans {
            let cover = if span.is_whole_line { b' ' } else { b'Z' };
            for byte in masked.get_mut(span.from..span.to).unwrap_or_default() {
                if *byte != b'\n' {
                    *byte = cover;
                }
            }
        }
        let masked = String::from_utf8(masked).map_or(Cow::Borrowed(text), Cow::Owned);
        Self { text, masked, spans }
    }

    /// The first template in the bytes of a value.
    pub(crate) fn template_in(&self, (from, to): (usize, usize)) -> Option<String> {
        let first = self.spans.partition_point(|span| span.to <= from);
        let inside = self.spans.get(first..).unwrap_or_default().iter();
        let inside = || inside.clone().take_while(|span| span.from < to);
        inside().for_each(|span| span.is_in_value.set(true));
        inside().next().map(|span| self.source_of(span))
    }

    /// Templates that are in no value and have lines for themselves, with those.
    pub(crate) fn whole_lines(&self) -> impl Iterator<Item = (u64, String)> {
        let spans = self.spans.iter();
        let spans = spans.filter(|span| span.is_whole_line && !span.is_in_value.get());
        spans.map(|span| (span.line, self.source_of(span)))
    }

    fn source_of(&self, span: &TemplateSpan) -> String {
        self.text.get(span.from..span.to).unwrap_or_default().trim().to_owned()
    }
}

fn find_spans(text: &str) -> Vec<TemplateSpan> {
    let mut spans = Vec::new();
    let (mut at, mut line, mut counted) = (0, 1, 0);
    while let Some(begin) = text.get(at..).and_then(|rest| rest.find("{{")).map(|found| at + found)
    {
        let rest = text.get(begin..).unwrap_or_default();
        let Some(end) = rest.find("}}").map(|found| begin + found + 2) else { break };
        line += text.get(counted..begin).map_or(0, count_lines);
        counted = begin;
        let (head, tail) = (text.get(..begin), text.get(end..));
        let is_blank = |sign: &char| sign.is_whitespace() && *sign != '\n';
        let before = head.and_then(|head| head.chars().rev().find(|sign| !is_blank(sign)));
        let after = tail.and_then(|tail| tail.chars().find(|sign| !is_blank(sign)));
        let is_whole_line = [before, after].iter().all(|sign| sign.is_none_or(|sign| sign == '\n'));
        let is_in_value = Cell::new(false);
        spans.push(TemplateSpan { from: begin, to: end, line, is_whole_line, is_in_value });
        at = end;
    }
    spans
}

fn count_lines(text: &str) -> u64 {
    u64::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_keep_their_place_and_are_told_apart() {
        let text = "a: {{ .Values.a }}\n{{- if .Values.b }}\nb: \"{{ .Values.é }}\"\n{{- end }}\n";
        let mask = TemplateMask::new(text);
        assert_eq!(mask.masked.len(), text.len());
        assert!(!mask.masked.contains('{'));
        assert_eq!(mask.template_in((3, 18)).as_deref(), Some("{{ .Values.a }}"));
        assert_eq!(mask.template_in((0, 2)), None);
        let whole: Vec<_> = mask.whole_lines().collect();
        assert_eq!(whole, [(2, "{{- if .Values.b }}".to_owned()), (4, "{{- end }}".to_owned())]);
        assert_eq!(TemplateMask::new("a: {b: {c: 1}}\n").spans.len(), 0);
    }

    #[test]
    fn a_template_within_a_text_is_part_of_that_text() {
        let text = "data:\n  rules: |\n    a\n    {{ $labels.node }}\n    b\nx: 1\n";
        let mask = TemplateMask::new(text);
        let documents = crate::yaml::read_documents(&mask).unwrap();
        let rules = documents[0].value_at_path(&["data", "rules"]).unwrap();
        assert_eq!(rules.template.as_deref(), Some("{{ $labels.node }}"));
        assert_eq!(mask.whole_lines().count(), 0);
    }
}
