//! One line for a monitoring system, as its plugins print it.

use hugewise_diagnose::coverage::Coverage;
use hugewise_engines::logs::LogVerdict;
use hugewise_model::escape::nagios as escape;

use crate::Verified;

/// `HUGEPAGES OK - 2 of 2 instances wholly on huge pages|instances=2 ...`.
pub fn render_status_line(verified: &Verified<'_>) -> String {
    let mut text = verified.summary();
    for (instance, standing) in verified.instances.iter().zip(verified.standings) {
        if !matches!(standing, Coverage::Partly | Coverage::None | Coverage::Unknown) {
            continue;
        }
        let title = instance.title();
        let chain = verified.assessment.chains.iter().find(|chain| chain.instance == instance.id());
        let cause = chain.and_then(hugewise_model::HugePageChain::first_broken_link);
        let cause = cause.map(|link| format!(", {}", link.evidence)).unwrap_or_default();
        text.push_str(&format!("; {title}: {}{cause}", standing.as_str()));
    }
    for log in verified.logs.iter().filter(|log| {
        matches!(log.verdict, LogVerdict::Failed | LogVerdict::Died | LogVerdict::None)
    }) {
        let error = log.errors.first().map(|error| format!(", {error}")).unwrap_or_default();
        text.push_str(&format!("; {}: {}{error}", log.path, log.verdict));
    }
    format!(
        "HUGEPAGES {} - {}|{}\n",
        coverage_word(verified.verdict),
        escape::escape_nagios_text(&text),
        render_performance_data(verified)
    )
}

/// The line of a check that failed.
pub fn render_failure(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    format!("HUGEPAGES UNKNOWN - {}\n", escape::escape_nagios_text(message))
}

const fn coverage_word(verdict: &Coverage) -> &'static str {
    match verdict {
        Coverage::All => "OK",
        Coverage::Partly => "WARNING",
        Coverage::None | Coverage::DoesNotStart => "CRITICAL",
        Coverage::Unknown | Coverage::NotRunning | Coverage::NotCounted(_) => "UNKNOWN",
    }
}

/// `label=value;warn;crit;min;max`.
fn render_performance_data(verified: &Verified<'_>) -> String {
    let counted = verified.count_instances();
    let mut data = vec![
        format!("instances={counted};;;0"),
        format!("on_huge_pages={};;;0;{counted}", verified.count_wholly_huge()),
    ];
    for pool in verified.host.pools.as_known().into_iter().flatten() {
        let kib = pool.page_size.bytes().get() / 1024;
        if let (Some(total), Some(available)) = (pool.total.get(), pool.available_pages()) {
            let (total, available) = (total.get(), available.get());
            data.push(format!("pool_{kib}kB_total={total};;;0"));
            data.push(format!("pool_{kib}kB_available={available};;;0;{total}"));
        }
    }
    data.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn one_line_with_its_numbers_behind_one_bar() {
        assert_eq!(
            samples::prod().verified(render_status_line),
            "HUGEPAGES CRITICAL - 1 of 2 instances wholly on huge pages; oracle PROD: none, \
                 17,411 pages needed, \
             9 available; /u01/alert_PROD.log: failed, ORA-27125: unable to create shared memory \
                 segment\
             |instances=2;;;0 on_huge_pages=1;;;0;2 pool_2048kB_total=3200;;;0 \
                 pool_2048kB_available=9;;;0;3200\n"
        );
        let hostile = samples::hostile().verified(render_status_line);
        assert_eq!(
            (hostile.matches('\n').count(), hostile.matches('|').count()),
            (1, 1),
            "{hostile}"
        );
        assert_eq!(render_failure("a|b\nc"), "HUGEPAGES UNKNOWN - a/b\n");
    }
}
