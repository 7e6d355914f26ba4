//! Whether instances are on huge pages, as a page.

use hugewise_advice::standing::Standing;
use hugewise_engines::logs::LogReport;
use maud::{Markup, html};

use super::parts::{STYLE, chain, class, clean, host, name, table, unread};
use super::{Extra, page_with};
use crate::Verified;
use crate::view::apart;
use crate::view::standing::role;
use crate::view::verify;

pub(crate) fn page(verified: &Verified<'_>) -> String {
    let title = format!("hugewise verify: {}", name(verified.host));
    let body = html! {
        header {
            p.faint { "hugewise verify" }
            h1 { (name(verified.host)) }
            p class=(class(role(verified.verdict))) { (clean(&verified.sentence())) "." }
        }
        (host(verified.host))
        @if !verified.instances.is_empty() {
            section {
                h2 { "Instances" }
                (table("instances", &verify::COLUMNS, &verify::rows(verified)))
                @for (title, text) in apart::notes(verified.host, verified.instances) { p { span.strong { (clean(&title)) } ": " (clean(&text)) } }
                @for (instance, standing) in verified.instances.iter().zip(verified.standings) {
                    @let title = instance.title();
                    @match standing {
                        Standing::NotCounted(why) => {
                            p { "Not counted: " span.strong { (clean(&title)) } ", " (why) }
                        }
                        Standing::All => {}
                        _ => {
                            @if let Some(links) = verified.assessment.chains.iter().find(|chain| chain.instance == instance.id()) {
                                h3 { (clean(&title)) }
                                (chain(links))
                            }
                        }
                    }
                }
            }
        }
        @if !verified.logs.is_empty() {
            section { h2 { "What the servers' own logs say" } @for one in verified.logs { (log(one)) } }
        }
        @if !verified.disagreements.is_empty() {
            section {
                h2 { "Where they disagree" }
                ul {
                    @for one in verified.disagreements {
                        li { (clean(&verify::disagreement(one))) "." }
                    }
                }
            }
        }
        (unread(verified.host, verified.unread, false))
    };
    page_with(&title, &body, &Extra { style: STYLE, script: None })
}

fn log(log: &LogReport) -> Markup {
    let (role, verdict) = verify::verdict(log);
    html! {
        article.finding {
            p.head {
                span class=(class(role)) { (verdict) }
                span.strong { (clean(&log.path)) }
                span.faint {
                    (log.format)
                    @if let Some(time) = &log.started_at { ", started " (clean(time)) }
                }
            }
            dl {
                @let facts = verify::facts(log);
                @if !facts.is_empty() { dt { "says" } dd { (clean(&facts.join("; "))) } }
                @if !log.reason.is_empty() { dt { "why" } dd { (clean(&log.reason)) } }
                @if !log.errors.is_empty() { dt { "errors" } dd { @for error in &log.errors { p { (clean(error)) } } } }
                @if !log.lines.is_empty() { dt { "lines" } dd { pre { @for line in &log.lines { (clean(line)) "\n" } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{self, Sample};

    fn page(sample: &Sample) -> String {
        sample.verified(|verified| {
            let mut out = Vec::new();
            verified.write_html(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn a_server_on_base_pages_and_what_its_log_says() {
        let page = page(&samples::prod());
        for words in ["oracle PROD", "17,411", "the start failed", "Where they disagree", "<ol class=\"chain\">"] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<script"));
    }

    #[test]
    fn hostile_words_stay_words_and_nothing_is_a_page() {
        let hostile = page(&samples::hostile());
        assert!(!hostile.contains("<script") && !hostile.contains("<img"), "{hostile}");
        assert!(!hostile.contains('\u{1b}') && !hostile.contains('\u{202e}'));
        assert!(page(&samples::empty()).ends_with("</html>\n"));
    }
}
