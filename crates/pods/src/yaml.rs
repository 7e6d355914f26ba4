//! A stream of YAML documents as trees whose nodes know where they stand in the file.
//!
//! The parser only emits events; this builds the trees with its own stack and within limits, as a
//! manifest may come from anybody: a few aliases of aliases stand for any number of nodes.

use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use crate::template::TemplateMask;

/// A manifest of more bytes is refused.
pub const LARGEST_MANIFEST: usize = 4 << 20;
/// A manifest with more documents is refused.
pub const MOST_DOCUMENTS: usize = 10_000;
/// Deeper nesting is refused; a pod template in a `List` nests a dozen levels.
const DEEPEST: usize = 64;
/// Nodes of all documents, each counted as often as aliases repeat it.
const MOST_NODES: usize = 1_000_000;
/// So much of a text counts as a node, since an alias repeats texts, too.
const BYTES_A_NODE: usize = 32;

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ManifestError {
    /// From 1.
    pub line: u64,
    /// What is wrong there.
    pub what: String,
}

impl ManifestError {
    pub(crate) fn at_line(line: u64, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// A value in a manifest.
#[derive(Debug)]
pub(crate) struct YamlNode {
    pub(crate) content: YamlContent,
    /// Bytes of the file that it takes; those of a block end before the line after it.
    pub(crate) span: (usize, usize),
    pub(crate) line: u64,
    /// Columns before it.
    pub(crate) column: usize,
    /// Whether an anchor or alias lets it stand in several places, where no edit is safe.
    pub(crate) is_shared: bool,
    /// The text of the Helm or Go template that it is, or contains.
    pub(crate) template: Option<String>,
    /// Nodes in it, itself among them; a long text counts as several.
    size: usize,
}

#[derive(Debug)]
pub(crate) enum YamlContent {
    Scalar { text: String, is_plain: bool },
    Sequence(Vec<Rc<YamlNode>>),
    Mapping { entries: Vec<(Rc<YamlNode>, Rc<YamlNode>)>, is_flow: bool },
}

impl YamlNode {
    /// The value of a key, also of a mapping that is merged in by `<<`.
    pub(crate) fn get(&self, key: &str) -> Option<&Rc<Self>> {
        self.entry(key).map(|(_, value)| value).or_else(|| {
            let merged = &self.entry("<<")?.1;
            let direct = merged.entry(key).map(|(_, value)| value);
            direct.or_else(|| merged.items().find_map(|one| one.entry(key).map(|(_, value)| value)))
        })
    }

    /// The value at the end of several keys.
    pub(crate) fn value_at_path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key).map(AsRef::as_ref))
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&(Rc<Self>, Rc<Self>)> {
        self.entries().iter().find(|(name, _)| name.text() == Some(key))
    }

    pub(crate) fn entries(&self) -> &[(Rc<Self>, Rc<Self>)] {
        match &self.content {
            YamlContent::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Rc<Self>> {
        let items = match &self.content {
            YamlContent::Sequence(items) => items.as_slice(),
            _ => &[],
        };
        items.iter()
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text of the value of a key that is no template and not empty.
    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        let value = self.get(key)?;
        value.text().filter(|text| value.template.is_none() && !text.is_empty())
    }

    /// Nothing, `~` or `null`: as if the key were not there.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, YamlContent::Scalar { text, is_plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
}

/// Reads all documents of a manifest.
/// # Errors
/// It is no YAML, repeats a key, or exceeds a limit.
pub(crate) fn read_documents(mask: &TemplateMask<'_>) -> Result<Vec<Rc<YamlNode>>, ManifestError> {
    let mut builder = TreeBuilder {
        lines: LineStarts::new(&mask.masked),
        mask,
        open: Vec::new(),
        documents: Vec::new(),
        anchors: BTreeMap::new(),
        total: 0,
    };
    for event in Parser::new_from_str(&mask.masked) {
        let (event, span) = event.map_err(|error| {
            let line = line_number(error.marker().line());
            ManifestError::at_line(line, format!("not valid YAML: {}", error.info()))
        })?;
        builder.take_event(event, span)?;
    }
    Ok(builder.documents)
}

struct OpenCollection {
    start: Marker,
    /// The same in bytes.
    offset: usize,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    Sequence(Vec<Rc<YamlNode>>),
    Mapping(Vec<(Rc<YamlNode>, Rc<YamlNode>)>, Option<Rc<YamlNode>>, BTreeMap<String, u64>),
}

struct TreeBuilder<'a> {
    lines: LineStarts,
    mask: &'a TemplateMask<'a>,
    open: Vec<OpenCollection>,
    documents: Vec<Rc<YamlNode>>,
    anchors: BTreeMap<usize, Rc<YamlNode>>,
    /// Nodes of the documents so far.
    total: usize,
}

impl TreeBuilder<'_> {
    fn take_event(&mut self, event: Event<'_>, span: Span) -> Result<(), ManifestError> {
        let kind = match event {
            Event::DocumentStart(_) => {
                self.anchors.clear();
                return Ok(());
            }
            Event::Alias(anchor) => {
                let line = line_number(span.start.line());
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(ManifestError::at_line(line, "an alias of nothing before it"));
                };
                return self.add_node(node, line);
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let content = YamlContent::Scalar { text: text.into_owned(), is_plain };
                let offset = self.lines.offset_of(&self.mask.masked, span.start);
                return self.finish_node(content, anchor, span.start, (offset, span.end));
            }
            Event::SequenceStart(anchor, _) => (anchor, OpenKind::Sequence(Vec::new())),
            Event::MappingStart(anchor, _) => {
                (anchor, OpenKind::Mapping(Vec::new(), None, BTreeMap::new()))
            }
            Event::SequenceEnd | Event::MappingEnd => return self.close_collection(span),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {
                return Ok(());
            }
        };
        let (anchor, kind) = kind;
        if self.open.len() >= DEEPEST {
            let line = line_number(span.start.line());
            return Err(ManifestError::at_line(line, format!("nested over {DEEPEST} levels deep")));
        }
        let offset = self.lines.offset_of(&self.mask.masked, span.start);
        self.open.push(OpenCollection { start: span.start, offset, anchor, kind });
        Ok(())
    }

    fn close_collection(&mut self, span: Span) -> Result<(), ManifestError> {
        let Some(OpenCollection { start, offset, anchor, kind }) = self.open.pop() else {
            return Ok(());
        };
        let is_flow = self.mask.masked.as_bytes().get(offset) == Some(&b'{');
        let content = match kind {
            OpenKind::Sequence(items) => YamlContent::Sequence(items),
            OpenKind::Mapping(entries, ..) => YamlContent::Mapping { entries, is_flow },
        };
        self.finish_node(content, anchor, start, (offset, span.end))
    }

    fn finish_node(
        &mut self,
        content: YamlContent,
        anchor: usize,
        start: Marker,
        (offset, end): (usize, Marker),
    ) -> Result<(), ManifestError> {
        let end = self.lines.offset_of(&self.mask.masked, end);
        let bytes = (offset, end.max(offset));
        let size = match &content {
            YamlContent::Scalar { text, .. } => 1 + text.len() / BYTES_A_NODE,
            YamlContent::Sequence(items) => sum_sizes(items.iter()),
            YamlContent::Mapping { entries, .. } => {
                sum_sizes(entries.iter().flat_map(|(key, value)| [key, value]))
            }
        };
        let is_scalar = matches!(content, YamlContent::Scalar { .. });
        let template = is_scalar.then(|| self.mask.template_in(bytes)).flatten();
        let line = line_number(start.line());
        let node = Rc::new(YamlNode {
            content,
            span: bytes,
            line,
            column: start.col(),
            is_shared: anchor != 0,
            template,
            size,
        });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.add_node(node, line)
    }

    fn add_node(&mut self, node: Rc<YamlNode>, line: u64) -> Result<(), ManifestError> {
        if self.total.saturating_add(node.size) > MOST_NODES {
            let what =
                format!("more than {MOST_NODES} values, aliases counted as what they repeat");
            return Err(ManifestError::at_line(line, what));
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None if self.documents.len() >= MOST_DOCUMENTS => {
                let what = format!("more than {MOST_DOCUMENTS} documents");
                return Err(ManifestError::at_line(line, what));
            }
            None => {
                self.total = self.total.saturating_add(node.size);
                self.documents.push(node);
            }
            Some(OpenKind::Sequence(items)) => items.push(node),
            Some(OpenKind::Mapping(entries, key, seen)) => match key.take() {
                Some(name) => entries.push((name, node)),
                None => {
                    if let Some(text) = node.text().filter(|_| node.template.is_none())
                        && let Some(first) = seen.insert(text.to_owned(), line)
                    {
                        let what = format!("the key {text:?} is already on line {first}");
                        return Err(ManifestError::at_line(line, what));
                    }
                    *key = Some(node);
                }
            },
        }
        Ok(())
    }
}

fn sum_sizes<'a>(nodes: impl Iterator<Item = &'a Rc<YamlNode>>) -> usize {
    nodes.fold(1, |sum, node| sum.saturating_add(node.size))
}

fn line_number(line: usize) -> u64 {
    u64::try_from(line.max(1)).unwrap_or(u64::MAX)
}

/// Where each line begins. The parser's own index drifts behind comments that are not ASCII.
struct LineStarts {
    starts: Vec<usize>,
    /// Line, column and byte that were asked for last: a line may be as long as the file.
    last: (usize, usize, usize),
}

impl LineStarts {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { starts, last: (1, 0, 0) }
    }

    fn offset_of(&mut self, text: &str, marker: Marker) -> usize {
        let Some(start) = self.starts.get(marker.line().saturating_sub(1)).copied() else {
            return text.len();
        };
        let (line, column, offset) = self.last;
        let (column, offset) = if line == marker.line() { (column, offset) } else { (0, start) };
        let moved = marker.col().abs_diff(column);
        let mut passed = 0;
        let mut length = |signs: &mut dyn Iterator<Item = char>| -> usize {
            let on_line = signs.take(moved).take_while(|sign| *sign != '\n');
            on_line.inspect(|_| passed += 1).map(char::len_utf8).sum()
        };
        let offset = if marker.col() >= column {
            offset + length(&mut text.get(offset..).unwrap_or_default().chars())
        } else {
            offset - length(&mut text.get(..offset).unwrap_or_default().chars().rev())
        };
        // A marker behind the end of its line is no place to count from.
        if passed != moved {
            self.last = (0, 0, 0);
            return offset;
        }
        self.last = (marker.line(), marker.col(), offset);
        offset
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Rc<YamlNode>>, ManifestError> {
        read_documents(&TemplateMask::new(text))
    }

    fn source_of<'a>(text: &'a str, node: &YamlNode) -> &'a str {
        &text[node.span.0..node.span.1]
    }

    #[test]
    fn scalars_know_their_bytes_behind_any_letters() {
        let text = "# größer ☃\na: 1  # é\nb:\n  - {c: \"x y\", d: 'ü'}\n---\ne: f\n";
        let documents = read(text).unwrap();
        assert_eq!(documents.len(), 2);
        let first = &documents[0];
        assert_eq!(source_of(text, first.get("a").unwrap()), "1");
        let item = first.get("b").unwrap().items().next().unwrap();
        assert_eq!(source_of(text, item.get("c").unwrap()), "\"x y\"");
        assert_eq!(source_of(text, item.get("d").unwrap()), "'ü'");
        assert!(matches!(item.content, YamlContent::Mapping { is_flow: true, .. }));
        assert!(matches!(first.content, YamlContent::Mapping { is_flow: false, .. }));
        assert_eq!(source_of(text, documents[1].get("e").unwrap()), "f");
    }

    #[test]
    fn aliases_of_aliases_are_counted_and_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let item = format!("*a{}", level - 1);
            let items = vec![item; 10].join(", ");
            bomb += &format!("a{level}: &a{level} [{items}]\n");
        }
        let error = read(&bomb).unwrap_err();
        assert!(error.to_string().contains("aliases counted"), "{error}");
        assert!(read("a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n").is_ok());
        assert!(read("a: *nothing\n").is_err());
    }

    #[test]
    fn what_is_nested_without_end_is_refused_with_its_line() {
        for text in ["[".repeat(100_000), "a: {".repeat(100_000), "- ".repeat(100_000)] {
            assert_eq!(read(&format!("\n{text}")).unwrap_err().line, 2);
        }
        assert!(read("a: 1\na: 2\n").unwrap_err().to_string().starts_with("line 2: the key \"a\""));
        assert!(read("a:\n\tb: 1\n").unwrap_err().line > 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-a-c:{}\\[\\],&*!|>'\"#%@` \n\t?~é]{0,80}") {
            if let Ok(documents) = read(&text) {
                for document in documents {
                    prop_assert!(document.span.0 <= document.span.1);
                    prop_assert!(document.span.1 <= text.len());
                }
            }
        }
    }
}
