//! Pages: one self-contained file each.
//!
//! No font and no picture from elsewhere: a page forbids itself to load any, so that it can be
//! mailed, printed, and opened without a network. The template crate escapes all text; nothing here
//! joins strings into markup. A page with a script reads without it.

mod cases;
pub(crate) mod check;
pub(crate) mod host_report;
pub(crate) mod investigate;
pub(crate) mod lab;
mod markdown;
mod parts;
pub(crate) mod size;
pub(crate) mod verify;

use base64::Engine;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::Digest;

use crate::glossary::WORDS;
use crate::table::TableColumn;
use crate::{chart, plain};

/// Wide tables scroll, paper gets no dark ground.
const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--faint:#59636e;--rule:#d8dee4;--good:#1a7f37;--bad:#b42318}
@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--faint:#9198a1;--rule:#30363d;--good:#4ac26b;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:58rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.5rem 0}.faint{color:var(--faint)}.good{color:var(--good)}.bad{color:var(--bad)}
figure{margin:1rem 0}figure svg{display:block;width:100%;max-width:40rem;height:auto}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--faint);font-weight:500}td.number,th.number{text-align:right}
code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}
details{margin:2rem 0 0}dt{font-weight:600}
@media print{details:not([open]){display:none}:root{--ground:#fff;--ink:#000;--faint:#333;--rule:#bbb;--good:#000;--bad:#000}main{max-width:none}section,figure,tr{break-inside:avoid}.scroll{overflow:visible}table{font-size:.7rem}}
";

const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(crate) fn render_page(title: &str, body: &Markup) -> String {
    page_with(title, body, "", None)
}

/// The page allows itself this script, and no other, by its hash.
pub(crate) fn page_with(title: &str, body: &Markup, style: &str, script: Option<&str>) -> String {
    let policy = match script {
        Some(script) => {
            let hash =
                base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
            format!("{POLICY}; script-src 'sha256-{hash}'")
        }
        None => POLICY.to_owned(),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(chart::STYLE)) (PreEscaped(style)) }
            }
            body {
                main { (body) (render_glossary()) }
                @if let Some(script) = script { script { (PreEscaped(script)) } }
            }
        }
    };
    // Once more over the whole page: escaped text can still turn around or hide what is beside it.
    format!("{}\n", plain::escape_document(&page.into_string()))
}

fn render_glossary() -> Markup {
    html! {
        details.faint {
            summary { "Glossary" }
            dl { @for (word, means) in WORDS { dt { (word) } dd { (means) } } }
        }
    }
}

pub(crate) fn render_text_table(columns: &[TableColumn], rows: &[Vec<String>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="table" {
            table {
                thead { tr { @for column in columns { th.number[column.right] scope="col" { (column.heading) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (column, cell) in columns.iter().zip(row) { td.number[column.right] { (cell) } } }
                    }
                }
            }
        }
    }
}

pub(crate) fn render_chart_figure(svg: &chart::Svg) -> Markup {
    html! { figure { (svg.to_inline_markup()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_words_stay_words() {
        let columns = [TableColumn::left("name")];
        let body = render_text_table(&columns, &[vec!["<img src=x onerror=alert(1)>".into()]]);
        let page = render_page("</title><script>alert(1)</script>", &body);
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    }

    #[test]
    fn a_page_needs_nothing_but_itself() {
        let page = render_page("t", &html! {});
        for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("<dt>page table</dt>"), "what its words mean: {page}");
        assert!(page.contains("default-src 'none'") && page.contains("width=device-width"));
    }
}
