//! Fills the amounts into the rules' texts: `{NAME}` stands for the constant that the rule goes by.

use std::borrow::Cow;

use hugewise_engines::session_activity;
use hugewise_model::{Bytes, page_tables};

use crate::boot::crowding;
use crate::{cause, demand, idle, rules, starvation};

fn amount(name: &str) -> Option<String> {
    Some(match name {
        "BIG_SEGMENT" => size(demand::BIG_SEGMENT),
        "LARGE_SEGMENT" => size(demand::LARGE_SEGMENT),
        "LARGEST_POOL" => percent(demand::LARGEST_POOL),
        "PAGE_TABLES_NOTE" => percent(page_tables::NOTE),
        "PAGE_TABLES_NOTE_BYTES" => size(page_tables::NOTE_BYTES),
        "PAGE_TABLES_WARN" => percent(page_tables::WARN),
        "PAGE_TABLES_ERROR" => percent(page_tables::ERROR),
        "SMALL_REST" => percent(cause::SMALL_REST),
        "DEADLY_POOL" => percent(crowding::DEADLY),
        "LARGE_PART" => percent(crowding::LARGE_PART),
        "SMALLEST_REST" => size(crowding::SMALLEST_REST),
        "LEAST_IDLE" => size(idle::LEAST_IDLE),
        "SPARE" => percent(idle::SPARE),
        "LEAST_SPARE" => size(idle::LEAST_SPARE),
        "IDLE_WARN" => size(rules::idle_pool::WARN_BYTES),
        "IDLE_WARN_PART" => percent(rules::idle_pool::WARN_PART),
        "NOTHING_LEFT" => percent(starvation::NOTHING_LEFT),
        "PLENTY" => percent(starvation::PLENTY),
        "IN_SWAP" => size(rules::heap_swappable::IN_SWAP),
        "SWAP_IN_USE" => size(rules::swap_with_unlocked_segment::SWAP_IN_USE),
        "TOLERATED_DIFFERENCE" => percent(rules::nodes_unequal::TOLERATED),
        "LEAST_ORPHANED" => size(rules::orphaned_segment::LEAST),
        "ORPHANED_WARN" => size(rules::orphaned_segment::WARN),
        "LEAST_SESSIONS" => session_activity::LEAST.to_string(),
        "SESSIONS_EACH" => session_activity::EACH.to_string(),
        "SESSIONS_WARN" => rules::too_many_sessions::WARN.to_string(),
        _ => return None,
    })
}

pub(crate) fn fill_in_amounts(text: &'static str) -> Cow<'static, str> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, named)) = rest.split_once('{') {
        let Some((name, after)) = named.split_once('}') else { break };
        filled.push_str(before);
        match amount(name) {
            Some(amount) => filled.push_str(&amount),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = after;
    }
    if filled.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(filled + rest) }
}

/// `256 MiB`, without the decimals of [`Bytes`].
fn size(bytes: Bytes) -> String {
    bytes.to_string().replace(".0 ", " ")
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all_rules, docs};

    /// What the texts quote: sizes of pages, facts of kernels and programs, measurements. A
    /// threshold of a rule is none of these.
    const QUOTED: &[(&str, &[&str])] = &[
        // Page sizes of arm64 with base pages of 64 KiB.
        ("boot-values-ignored", &["64 KiB", "2 MiB", "512 MiB", "16 GiB", "1 GiB"]),
        ("gib-pages-unsupported", &["1 GiB", "2 MiB"]),
        // HotSpot's compressed references.
        ("heap-too-large", &["32 GiB", "48 GiB", "33 GiB"]),
        // Oracle's preinstall package and its own checks.
        ("memlock-below-segment", &["90 %", "128 GiB"]),
        // An example.
        ("page-size-unknown", &["1 MiB", "1 GiB"]),
        // Defaults of systemd and of Linux.
        ("memlock-login-vs-service", &["8 MiB", "64 KiB"]),
        // Readings of healthy hosts.
        ("page-tables-heavy", &["0.76 %"]),
        // Gigantic pages by architecture.
        ("pages-asked-late", &["1 GiB", "4 KiB", "32 MiB", "16 KiB", "64 KiB", "16 GiB"]),
        ("pool-on-demand", &["2 MiB"]),
        // Compaction, up to the largest block of the page allocator.
        ("pool-short-of-request", &["4 MiB"]),
        // Sizing guides for Oracle.
        ("pool-starves-host", &["80 %"]),
        // What kernels before 3.16 start with.
        ("shm-limits", &["32 MiB", "8 GiB"]),
        // An example.
        ("slow-log-ins", &["5 GiB"]),
        ("thp-defrag", &["2 MiB"]),
        ("thp-policy", &["2 MiB", "4 KiB"]),
        ("wrong-page-size", &["1 GiB", "2 MiB"]),
    ];

    /// The amounts that a text writes out: a number, and its unit in the next word.
    fn literal_amounts(text: &str) -> Vec<String> {
        const UNITS: [&str; 10] =
            ["KiB", "kB", "MiB", "GiB", "TiB", "%", "s", "seconds", "minutes", "ms"];
        let words: Vec<&str> = text.split_whitespace().collect();
        let amounts = words.windows(2).filter_map(|pair| {
            let [number, unit] = *pair else { return None };
            let number = number.trim_start_matches('(');
            let unit = unit.trim_end_matches(|sign: char| !sign.is_alphanumeric() && sign != '%');
            let is_number = number.starts_with(|sign: char| sign.is_ascii_digit());
            (is_number && UNITS.contains(&unit)).then(|| format!("{number} {unit}"))
        });
        amounts.collect()
    }

    #[test]
    fn thresholds_in_the_rules_texts_are_their_constants() {
        let mut wrong = Vec::new();
        for rule in all_rules() {
            let quoted = QUOTED.iter().find(|(name, _)| *name == rule.name);
            for text in [rule.docs.what, rule.docs.why, rule.docs.fix, rule.docs.cost] {
                for amount in literal_amounts(text) {
                    if !quoted.is_some_and(|(_, amounts)| amounts.contains(&amount.as_str())) {
                        wrong.push(format!("{} writes out {amount}", rule.name));
                    }
                }
                let filled = fill_in_amounts(text).replace(docs::EACH_ENGINE, "");
                if filled.contains('{') {
                    wrong.push(format!("{} names no amount: {filled}", rule.name));
                }
            }
        }
        for (name, amounts) in QUOTED {
            let rule = all_rules().iter().find(|rule| rule.name == *name).unwrap();
            let texts = [rule.docs.what, rule.docs.why, rule.docs.fix, rule.docs.cost];
            let said: Vec<_> = texts.into_iter().flat_map(literal_amounts).collect();
            let unsaid = amounts.iter().filter(|amount| !said.iter().any(|said| said == *amount));
            wrong.extend(unsaid.map(|amount| format!("{name} does not quote {amount}")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn names_in_braces_become_amounts() {
        assert_eq!(
            fill_in_amounts("from {BIG_SEGMENT} on, or {SPARE}"),
            "from 256 MiB on, or 10 %"
        );
        assert_eq!(fill_in_amounts("nothing"), "nothing");
        assert_eq!(fill_in_amounts("{LEAST_SESSIONS} of them"), "100 of them");
        assert_eq!(fill_in_amounts("an {unknown} one"), "an {unknown} one");
    }
}
