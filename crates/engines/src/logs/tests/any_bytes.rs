use super::*;

fn logs() -> Vec<String> {
    let mut logs = partly();
    logs.extend(real::SAMPLES.iter().map(|(name, _)| real::sample(name)));
    logs
}

#[test]
fn no_cut_of_a_log_panics() {
    for text in logs() {
        let step = (text.len() / 60).max(1);
        for at in (0..text.len()).step_by(step) {
            let _ = (log(&text.as_bytes()[..at], None), log(&text.as_bytes()[at..], None));
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        for engine in [None, Some(Engine::Oracle), Some(Engine::PostgreSql), Some(Engine::MariaDb), Some(Engine::Jvm)] {
            let _ = log(&bytes, engine);
        }
    }

    #[test]
    fn damaged_logs_never_panic(which in 0..40_usize, at in any::<prop::sample::Index>(), with: Vec<u8>) {
        let logs = logs();
        let mut bytes = logs[which % logs.len()].clone().into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..(at + with.len()).min(bytes.len()), with);
        let _ = log(&bytes, None);
    }

    #[test]
    fn what_a_busy_server_writes_later_changes_nothing(lines in 0..700_usize) {
        let text = partly().remove(0);
        let busy = "Thread 1 advanced to log sequence 4711 (LGWR switch)\n".repeat(lines);
        let plain = report(&format!("{text}ALTER DATABASE OPEN\n"));
        prop_assert_eq!(report(&format!("{busy}{text}ALTER DATABASE OPEN\n{busy}")), plain);
    }

    #[test]
    fn all_is_exactly_what_was_expected(expected in 1..1_000_000_u64, missing in 0..1_000_000_u64) {
        let missing = missing.min(expected);
        let got = expected - missing;
        let rows = [("4K", "Configured", 5, 5 + missing * 512), ("2048K", "9999", expected, got)];
        let report = report(&table(&rows, STARS));
        let verdict = match (missing, got) {
            (0, _) => LogVerdict::All,
            (_, 0) => LogVerdict::None,
            _ => LogVerdict::Partly,
        };
        prop_assert_eq!(report.verdict, verdict);
        prop_assert_eq!(pages(&report), (Some(expected), Some(got), Some(expected)));
    }
}
