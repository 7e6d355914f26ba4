//! The Markdown that rules are written in: paragraphs, lists, code.

use maud::{Markup, html};

use crate::plain;

/// A part of a text.
enum Block {
    Paragraph(String),
    List(Vec<String>),
    Code(String),
}

/// A text as markup.
pub(super) fn markup(text: &str) -> Markup {
    html! {
        @for block in blocks(text) {
            @match block {
                Block::Paragraph(text) => p { (inline(&text)) },
                Block::List(items) => ul { @for item in &items { li { (inline(item)) } } },
                Block::Code(text) => pre { (plain::lines(&text)) },
            }
        }
    }
}

/// A line with code in it, between backticks.
pub(super) fn inline(text: &str) -> Markup {
    let text = plain::clean(text);
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    // Whether the next line goes on with what stands last.
    let mut goes_on = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            open = !open;
            if open {
                blocks.push(Block::Code(String::new()));
            }
            goes_on = false;
            continue;
        }
        let indented = line.starts_with("    ");
        match blocks.last_mut() {
            Some(Block::Code(code)) if open => *code += &format!("{line}\n"),
            Some(Block::Code(code)) if indented && goes_on => *code += &format!("{line}\n"),
            _ if line.trim().is_empty() => {
                goes_on = false;
                continue;
            }
            Some(Block::List(items)) if line.starts_with("- ") => items.push(item(line)),
            _ if line.starts_with("- ") => blocks.push(Block::List(vec![item(line)])),
            Some(Block::List(items)) if goes_on => {
                if let Some(last) = items.last_mut() {
                    *last += &format!(" {}", line.trim());
                }
            }
            Some(Block::Paragraph(paragraph)) if goes_on => *paragraph += &format!(" {}", line.trim()),
            _ if indented => blocks.push(Block::Code(format!("{line}\n"))),
            _ => blocks.push(Block::Paragraph(line.trim().to_owned())),
        }
        goes_on = true;
    }
    blocks
}

fn item(line: &str) -> String {
    line.trim_start_matches("- ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn paragraphs_lists_and_code() {
        let text = "One `a < b`\ngoes on.\n\n- first\n  hangs\n- second\n\nRun this:\n\n```\nsysctl -w x=1\n\n  echo <y>\n```\nEnd.\n\n    indented\n    twice";
        let shown = super::markup(text).into_string();
        assert_eq!(
            shown,
            "<p>One <code>a &lt; b</code> goes on.</p><ul><li>first hangs</li><li>second</li></ul><p>Run this:</p>\
             <pre>sysctl -w x=1\n\n  echo &lt;y&gt;\n</pre><p>End.</p><pre>    indented\n    twice\n</pre>"
        );
    }
}
