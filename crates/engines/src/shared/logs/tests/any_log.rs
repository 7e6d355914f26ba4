use super::*;

proptest! {
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
