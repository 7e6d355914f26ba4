//! A checked host as a page.

use hugewise_advice::case::Case;
use hugewise_model::{Finding, Reason};
use maud::{Markup, html};

use super::parts::{STYLE, chain, class, clean, host, name, table, unread};
use super::{Extra, page_with};
use crate::Checked;
use crate::palette::Role;
use crate::view::{cases, closing, instances, nothing};

pub(crate) fn page(checked: &Checked<'_>) -> String {
    let assessment = checked.assessment;
    let title = format!("hugewise check: {}", name(checked.host));
    let denied = assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    let undecided = closing::undecided(checked);
    let all = cases::of(checked);
    let to_do = cases::to_do(checked, true);
    let body = html! {
        header {
            p.faint { "hugewise check" }
            h1 { (name(checked.host)) }
            (first(checked, &all))
        }
        (host(checked.host))
        section {
            h2 { "Instances" }
            @if checked.instances.is_empty() { p { (clean(&nothing::why(checked.host))) } }
            (table("instances", &instances::COLUMNS, &instances::rows(checked)))
            @for (title, note) in instances::notes(checked) { p { span.strong { (clean(&title)) } ": " (clean(&note)) } }
            @for one in instances::unmentioned(checked) {
                h3 { (clean(&one.instance.to_string())) }
                (chain(one))
            }
        }
        @if !to_do.is_empty() {
            section { h2 { "What to do" } ol { @for what in &to_do { li { (clean(what)) } } } }
        }
        @if !all.is_empty() {
            section {
                h2 { "What is wrong" }
                p.faint { (closing::counts(checked)) }
                @for one in &all { (case(checked, one, &to_do)) }
            }
        }
        @if !undecided.is_empty() {
            section { h2 { "Undecided" } ul { @for what in &undecided { li { (clean(what)) } } } }
        }
        (unread(checked.host, checked.unread, denied))
    };
    page_with(&title, &body, &Extra { style: STYLE, script: None })
}

/// What is wrong, what it costs, what to do next; or that all is well.
fn first(checked: &Checked<'_>, all: &[Case<'_>]) -> Markup {
    html! {
        @match cases::worst(all) {
            Some(case) => {
                dl.first {
                    dt class=(class(Role::from(case.level()))) { (case.level().as_str()) }
                    dd.strong { (clean(&case.cause.summary)) }
                    dt { "cost" } dd { (clean(&case.cost)) }
                    dt { "next" } dd { code { (clean(&cases::next(checked, all))) } }
                }
            }
            None => { p.strong { (closing::counts(checked)) } }
        }
    }
}

/// One cause with the chain of its instance, and what follows from it.
fn case(checked: &Checked<'_>, case: &Case<'_>, to_do: &[String]) -> Markup {
    let chains = &checked.assessment.chains;
    let broken = chains.iter().find(|chain| Some(&chain.instance) == case.cause.instance.as_ref());
    html! {
        section.case {
            (finding(case.cause, to_do, html! { @if let Some(links) = broken { (chain(links)) } }, Some(&case.cost)))
            @for symptom in &case.symptoms { (finding(symptom, to_do, html! {}, None)) }
        }
    }
}

fn finding(finding: &Finding, to_do: &[String], chain: Markup, cost: Option<&str>) -> Markup {
    // What stands in the list above is not said again.
    let besides: Vec<&String> = finding.fix.iter().filter(|line| !to_do.contains(line)).collect();
    html! {
        article class={ "finding " (finding.level.as_str()) } id=(finding.code.as_str()) {
            p.head {
                span class=(class(Role::from(finding.level))) { (finding.level.as_str()) }
                span.faint { (finding.code.as_str()) }
                span.strong { (finding.name) }
                @if let Some(instance) = &finding.instance { span.faint { (clean(&instance.to_string())) } }
            }
            h3 { (clean(&finding.summary)) }
            (chain)
            dl {
                @if !finding.evidence.is_empty() {
                    dt { "seen" }
                    dd { @for fact in &finding.evidence { p { (clean(fact)) } } }
                }
                @if let Some(cost) = cost { dt { "cost" } dd { (clean(cost)) } }
                @if !besides.is_empty() {
                    dt { "do" }
                    dd { @for line in &besides { p { (clean(line)) } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
            assert!(page.contains(&format!("id=\"{}\"", finding.code)), "{}", finding.code);
        }
        assert_eq!(page.matches("<article class=\"finding").count(), sample.assessment.findings.len());
        assert!(page.contains("<article class=\"finding error\" id="), "{page}");
        for words in ["HW201", "no-pool", "17,411", "oracle PROD", "<ol class=\"chain\">", "128.0 GiB"] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<script") && page.contains("default-src 'none'"));
    }

    #[test]
    fn a_host_without_a_database_and_one_that_was_not_read() {
        assert!(page(&samples::empty()).contains("No database runs here. Looked for Oracle"));
        let denied = page(&samples::unprivileged());
        assert!(denied.contains("/proc/PID/") && denied.contains("Run as root to see the rest."), "{denied}");
    }

    #[test]
    fn hostile_words_stay_words() {
        let page = page(&samples::hostile());
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    }
}
