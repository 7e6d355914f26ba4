//! The Markdown of the rules: paragraphs, lists, code.

use maud::{Markup, html};

use crate::plain;

enum MarkdownBlock {
    Paragraph(String),
    List(Vec<String>),
    Code(String),
}

pub(super) fn render_markdown(text: &str) -> Markup {
    html! {
        @for block in parse_blocks(text) {
            @match block {
                MarkdownBlock::Paragraph(text) => p { (render_inline_code(&text)) },
                MarkdownBlock::List(items) => ul { @for item in &items { li { (render_inline_code(item)) } } },
                MarkdownBlock::Code(text) => pre { (plain::escape_lines(&text)) },
            }
        }
    }
}

pub(super) fn render_inline_code(text: &str) -> Markup {
    let text = plain::escape_line(text);
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn parse_blocks(text: &str) -> Vec<MarkdownBlock> {
    let mut blocks: Vec<MarkdownBlock> = Vec::new();
    let mut open = false;
    let mut goes_on = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            open = !open;
            if open {
                blocks.push(MarkdownBlock::Code(String::new()));
            }
            goes_on = false;
            continue;
        }
        let indented = line.starts_with("    ");
        match blocks.last_mut() {
            Some(MarkdownBlock::Code(code)) if open => *code += &format!("{line}\n"),
            Some(MarkdownBlock::Code(code)) if indented && goes_on => *code += &format!("{line}\n"),
            _ if line.trim().is_empty() => {
                goes_on = false;
                continue;
            }
            Some(MarkdownBlock::List(items)) if line.starts_with("- ") => {
                items.push(list_item_text(line))
            }
            _ if line.starts_with("- ") => {
                blocks.push(MarkdownBlock::List(vec![list_item_text(line)]))
            }
            Some(MarkdownBlock::List(items)) if goes_on => {
                if let Some(last) = items.last_mut() {
                    *last += &format!(" {}", line.trim());
                }
            }
            Some(MarkdownBlock::Paragraph(paragraph)) if goes_on => {
                *paragraph += &format!(" {}", line.trim())
            }
            _ if indented => blocks.push(MarkdownBlock::Code(format!("{line}\n"))),
            _ => blocks.push(MarkdownBlock::Paragraph(line.trim().to_owned())),
        }
        goes_on = true;
    }
    blocks
}

fn list_item_text(line: &str) -> String {
    line.trim_start_matches("- ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn paragraphs_lists_and_code() {
        let text = "One `a < b`\ngoes on.\n\n- first\n  hangs\n- second\n\nRun \
             this:\n\n```\nsysctl -w x=1\n\n  echo <y>\n```\nEnd.\n\n    indented\n    twice";
        let shown = super::render_markdown(text).into_string();
        assert_eq!(
            shown,
            "<p>One <code>a &lt; b</code> goes on.</p><ul><li>first \
                 hangs</li><li>second</li></ul><p>Run this:</p>\
             <pre>sysctl -w x=1\n\n  echo \
                 &lt;y&gt;\n</pre><p>End.</p><pre>    indented\n    twice\n</pre>"
        );
    }
}
