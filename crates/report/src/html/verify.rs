use hugewise_diagnose::coverage::Coverage;
use hugewise_engines::logs::LogReport;
use maud::{Markup, html};

use super::page_with;
use super::parts::{
    STYLE, clean_text, host_title, render_chain, render_host_lines, render_notes, render_table,
    render_unread, role_class,
};
use crate::Verified;
use crate::palette::Role;
use crate::view::namesakes;
use crate::view::verify;

pub(crate) fn render_verify_page(verified: &Verified<'_>) -> String {
    let title = format!("hugewise verify: {}", host_title(verified.host));
    let body = html! {
        header {
            p.faint { "hugewise verify" }
            h1 { (host_title(verified.host)) }
            p class=(role_class(Role::from(verified.verdict))) { (clean_text(&verified.summary_sentence())) "." }
        }
        (render_host_lines(verified.host))
        @if !verified.instances.is_empty() {
            section {
                h2 { "Instances" }
                (render_table("instances", &verify::COLUMNS, &verify::verified_instance_rows(verified)))
                (render_notes(&namesakes::namesake_notes(verified.host, verified.instances)))
                @for (instance, standing) in verified.instances.iter().zip(verified.standings) {
                    @let title = instance.title();
                    @match standing {
                        Coverage::NotCounted(why) => {
                            p { "Not counted: " span.strong { (clean_text(&title)) } ", " (why) }
                        }
                        Coverage::All => {}
                        _ => {
                            @if let Some(links) = verified.assessment.chains.iter().find(|chain| chain.instance == instance.id()) {
                                h3 { (clean_text(&title)) }
                                (render_chain(links))
                            }
                        }
                    }
                }
            }
        }
        @if !verified.logs.is_empty() {
            section { h2 { "What the servers' own logs say" } @for one in verified.logs { (render_log(one)) } }
        }
        @if !verified.disagreements.is_empty() {
            section {
                h2 { "Where they disagree" }
                ul {
                    @for one in verified.disagreements {
                        li { (clean_text(&verify::describe_disagreement(one))) "." }
                    }
                }
            }
        }
        (render_unread(verified.host, verified.unread, false))
    };
    page_with(&title, &body, STYLE, None)
}

fn render_log(log: &LogReport) -> Markup {
    let (role, verdict) = verify::log_verdict_label(log);
    html! {
        article.finding {
            p.head {
                span class=(role_class(role)) { (verdict) }
                span.strong { (clean_text(&log.path)) }
                span.faint {
                    (log.format)
                    @if let Some(time) = &log.started_at { ", started " (clean_text(time)) }
                }
            }
            dl {
                @let facts = verify::log_facts(log);
                @if !facts.is_empty() { dt { "says" } dd { (clean_text(&facts.join("; "))) } }
                @if !log.reason.is_empty() { dt { "why" } dd { (clean_text(&log.reason)) } }
                @if !log.errors.is_empty() { dt { "errors" } dd { @for error in &log.errors { p { (clean_text(error)) } } } }
                @if !log.lines.is_empty() { dt { "lines" } dd { pre { @for line in &log.lines { (clean_text(line)) "\n" } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::PageReport;
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
        for words in [
            "oracle PROD",
            "17,411",
            "the start failed",
            "Where they disagree",
            "<ol class=\"chain\">",
        ] {
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
