//! A checked host as a page.

use hugewise_model::{Finding, InstanceId, Reason};
use maud::{Markup, html};

use super::parts::{STYLE, chain, class, clean, host, name, table, unread};
use super::{Extra, page_with};
use crate::Checked;
use crate::palette::Role;
use crate::text::{closing, instances, nothing};

pub(crate) fn page(checked: &Checked<'_>) -> String {
    let assessment = checked.assessment;
    let title = format!("hugewise check: {}", name(checked.host));
    let mentioned = |id: &InstanceId| assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(id));
    let denied = assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    let undecided = closing::undecided(checked);
    let body = html! {
        header {
            p.faint { "hugewise check" }
            h1 { (name(checked.host)) }
            p.strong { (closing::counts(checked)) }
        }
        (host(checked.host))
        @if !assessment.findings.is_empty() {
            section {
                h2 { "Findings" }
                @for (at, found) in assessment.findings.iter().enumerate() {
                    (finding(checked, found, first_of_instance(checked, at)))
                }
            }
        }
        section {
            h2 { "Instances" }
            @if checked.instances.is_empty() {
                p {
                    @match checked.host.processes.reason() {
                        Some(why) => { "No instance can be recognised: the processes of this host are not known (" (clean(&why)) ")." }
                        None => { (nothing::none_runs()) }
                    }
                }
            }
            (table("instances", &instances::COLUMNS, &instances::rows(checked)))
            @for one in assessment.chains.iter().filter(|chain| !mentioned(&chain.instance)) {
                h3 { (clean(&one.instance.to_string())) }
                (chain(one))
            }
        }
        @if !undecided.is_empty() {
            section { h2 { "Undecided" } ul { @for what in &undecided { li { (clean(what)) } } } }
        }
        (unread(checked.host, checked.unread, denied))
    };
    page_with(&title, &body, &Extra { style: STYLE, script: None })
}

/// Whether no finding before this one is of the same instance: the chain is shown once.
fn first_of_instance(checked: &Checked<'_>, at: usize) -> bool {
    let findings = &checked.assessment.findings;
    let of = |finding: &Finding| finding.instance.clone();
    findings.get(at).map(of).is_some_and(|this| !findings.iter().take(at).any(|before| of(before) == this))
}

fn finding(checked: &Checked<'_>, finding: &Finding, with_chain: bool) -> Markup {
    let chains = &checked.assessment.chains;
    let of = |id: &InstanceId| chains.iter().find(|chain| chain.instance == *id);
    let broken = finding.instance.as_ref().and_then(of).filter(|_| with_chain);
    html! {
        article class={ "finding " (finding.level.as_str()) } id=(finding.code.as_str()) {
            p.head {
                span class=(class(Role::from(finding.level))) { (finding.level.as_str()) }
                span.faint { (finding.code.as_str()) }
                span.strong { (finding.name) }
                @if let Some(instance) = &finding.instance { span.faint { (clean(&instance.to_string())) } }
            }
            h3 { (clean(&finding.summary)) }
            @if let Some(links) = broken { (chain(links)) }
            dl {
                @if !finding.evidence.is_empty() {
                    dt { "seen" }
                    dd { @for fact in &finding.evidence { p { (clean(fact)) } } }
                }
                @if let Some(cost) = &finding.cost { dt { "cost" } dd { (clean(cost)) } }
                @if !finding.fix.is_empty() {
                    dt { "fix" }
                    dd { pre { @for line in &finding.fix { (clean(line)) "\n" } } }
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
