//! Pages: one file each, that needs nothing but itself.
//!
//! No script, no font, no picture from elsewhere: the page forbids them to itself, so that it can be mailed, printed,
//! and opened on a host without a network. All text is escaped by the template crate; nothing here joins strings
//! into markup. A page that has a script of its own reads without it.

mod cases;
pub(crate) mod check;
pub(crate) mod full;
pub mod investigate;
pub(crate) mod lab;
mod markdown;
mod parts;
pub(crate) mod size;
pub(crate) mod verify;

use base64::Engine;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::Digest;

use crate::glossary::WORDS;
use crate::{chart, plain};

/// The page's own style: wide tables scroll, paper gets no dark ground.
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

/// What the page lets itself do: show what is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A whole page.
pub fn page(title: &str, body: &Markup) -> String {
    page_with(title, body, &Extra::default())
}

/// What a page has besides what all pages have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// Its style.
    pub style: &'a str,
    /// Its script: the page allows itself this one, and no other, by its hash.
    pub script: Option<&'a str>,
}

/// A whole page with something besides.
pub(crate) fn page_with(title: &str, body: &Markup, extra: &Extra<'_>) -> String {
    let policy = match extra.script {
        Some(script) => {
            let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
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
                style { (PreEscaped(STYLE)) (PreEscaped(chart::STYLE)) (PreEscaped(extra.style)) }
            }
            body {
                main { (body) (glossary()) }
                @if let Some(script) = extra.script { script { (PreEscaped(script)) } }
            }
        }
    };
    // Whatever reached it as it was: a text that was escaped can still turn or hide what stands beside it.
    format!("{}\n", plain::document(&page.into_string()))
}

/// What the words on the page mean, for who asks.
fn glossary() -> Markup {
    html! {
        details.faint {
            summary { "Glossary" }
            dl { @for (word, means) in WORDS { dt { (word) } dd { (means) } } }
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    /// Numbers stand to the right.
    pub number: bool,
}

/// A table that scrolls by itself where it is wider than the page.
pub fn table(columns: &[Column], rows: &[Vec<String>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="table" {
            table {
                thead { tr { @for column in columns { th.number[column.number] scope="col" { (column.heading) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (column, cell) in columns.iter().zip(row) { td.number[column.number] { (cell) } } }
                    }
                }
            }
        }
    }
}

/// A chart with what it shows.
pub fn figure(svg: &chart::Svg) -> Markup {
    html! { figure { (svg.inline()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_words_stay_words() {
        let columns = [Column { heading: "name", number: false }];
        let body = table(&columns, &[vec!["<img src=x onerror=alert(1)>".into()]]);
        let page = page("</title><script>alert(1)</script>", &body);
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    }

    #[test]
    fn a_page_needs_nothing_but_itself() {
        let page = page("t", &html! {});
        for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("<dt>page table</dt>"), "what its words mean: {page}");
        assert!(page.contains("default-src 'none'") && page.contains("width=device-width"));
    }
}
