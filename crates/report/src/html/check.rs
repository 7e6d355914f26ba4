use hugewise_model::Reason;
use maud::html;

use super::host_report::{SCRIPT, STYLE as PAGE};
use super::parts::{
    PageSection, STYLE, host_title, read_at, render_document, render_host_lines, render_unread,
};
use super::{cases, page_with};
use crate::CheckReport;
use crate::host_report::VERSION;
use crate::view::cases as view;

pub(crate) fn render_check_page(checked: &CheckReport<'_>) -> String {
    let title = format!("hugewise check: {}", host_title(checked.host));
    let all = view::cases_of_report(checked);
    let head = html! {
        p.faint { "hugewise " (VERSION) " check, " (read_at(checked.host)) }
        h1 { (host_title(checked.host)) }
        (cases::render_worst_case(checked, &all))
        (render_host_lines(checked.host))
    };
    let section = |id, title, body| PageSection { id, title, body };
    let mut sections = vec![section("instances", "Instances", cases::render_instances(checked))];
    if !all.is_empty() {
        sections.push(section("cases", "What is wrong", cases::render_all_cases(checked, &all)));
    }
    sections.extend(
        cases::render_undecided(checked).map(|body| section("undecided", "Undecided", body)),
    );
    sections.extend(cases::render_rule_pages(checked).map(|body| section("rules", "Rules", body)));
    let denied = checked.assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    let end = html! {
        (render_unread(checked.host, checked.unread, denied))
        p.faint { "hugewise report makes the whole report: target, plan, sizing and what-if." }
    };
    let body = render_document(&head, &sections, &end);
    page_with(&title, &body, &[STYLE, PAGE].concat(), Some(SCRIPT))
}

#[cfg(test)]
mod tests {
    use crate::PageReport;
    use crate::samples::{self, Sample};

    fn page(sample: &Sample) -> String {
        let mut out = Vec::new();
        sample.checked().write_html(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn everything_that_text_says_is_on_the_page() {
        let sample = samples::prod();
        let page = page(&sample);
        for finding in &sample.assessment.findings {
            let code = finding.code;
            assert!(page.contains(&format!("<a href=\"#{code}\">")), "{code}");
            // Its rule is explained on the same page.
            assert_eq!(page.matches(&format!(" id=\"{code}\"")).count(), 1, "{code}");
        }
        assert_eq!(
            page.matches("<article class=\"finding").count(),
            sample.assessment.findings.len()
        );
        assert!(page.contains("<article class=\"finding error\">"), "{page}");
        for words in [
            "HW201",
            "no-pool",
            "17,411",
            "oracle PROD",
            "<ol class=\"chain\">",
            "128.0 GiB",
            "2023-11-14T22:13:20Z",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(page.matches("<script").count() == 1 && page.contains("default-src 'none'"));
    }

    #[test]
    fn a_host_without_a_database_and_one_that_was_not_read() {
        assert!(page(&samples::empty()).contains("No database runs here. Looked for Oracle"));
        let denied = page(&samples::unprivileged());
        assert!(
            denied.contains("/proc/PID/") && denied.contains("Run as root to see the rest."),
            "{denied}"
        );
    }

    #[test]
    fn hostile_words_stay_words() {
        let page = page(&samples::hostile());
        assert!(page.matches("<script").count() == 1 && !page.contains("<img"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    }
}
