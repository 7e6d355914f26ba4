use super::*;
use crate::Metric;

/// What `sar -u` of sysstat 12.6.1 printed of one file by `LC_ALL`: the date, the times of the
/// headings and of the first line, and a decimal point.
const LANGUAGES: &[(&str, &str, &str, &str, &str)] = &[
    ("C", "11/05/26", "12:21:55", "12:21:56", "."),
    ("en_US", "11/05/2026", "12:21:55 PM", "12:21:56 PM", "."),
    ("fr_FR", "05/11/2026", "12:21:55", "12:21:56", ","),
    ("es_ES", "05/11/26", "12:21:55", "12:21:56", ","),
    ("de_DE", "05.11.2026", "12:21:55", "12:21:56", ","),
    ("da_DK", "05-11-2026", "12:21:55", "12:21:56", ","),
    ("fi_FI", "05.11.2026", "12.21.55", "12.21.56", ","),
    ("ja_JP", "2026年11月05日", "12時21分55秒", "12時21分56秒", "."),
    ("zh_CN", "2026年11月05日", "12时21分55秒", "12时21分56秒", "."),
    ("ko_KR", "2026년 11월 05일", "12시 21분 55초", "12시 21분 56초", "."),
    ("hi_IN", "5/11/26", "12:21:55 अपराह्न UTC", "12:21:56 अपराह्न UTC", "."),
    ("ar_EG", "05 نوف, 2026", "UTC 12:21:55 م", "UTC 12:21:56 م", "."),
    ("fa_IR", "۲۶/۱۱/۰۵", "۱۲:۲۱:۵۵", "۱۲:۲۱:۵۶", "."),
    ("th_TH", "05/11/2569", "12:21:55", "12:21:56", "."),
    ("mt_MT", "il-Ħamis, 05 ta Nov, 2026", "12:21:55 UTC", "12:21:56 UTC", "."),
];

fn sar_output(date: &str, headings: &str, values: &str, point: &str) -> String {
    let average = format!("Average:        all     57{point}29     32{point}66     10{point}05");
    format!(
        "Linux 6.18.44 (db1) \t{date} \t_x86_64_\t(2 \
             CPU)\n\n{headings}     CPU     %user     %nice   %system\n\
         {values}     all     57{point}29     32{point}66     10{point}05\n{average}\n"
    )
}

#[test]
fn every_language_tells_the_same() {
    for (language, date, headings, values, point) in LANGUAGES {
        let text = sar_output(date, headings, values, point);
        for text in [text.clone(), text.replace('\t', " ")] {
            let series = read(&mut text.as_bytes(), "sar.txt")
                .unwrap_or_else(|refused| panic!("{language}: {refused}"));
            let [series] = series.as_slice() else { panic!("{language}") };
            // date -u -d '2026-11-05 12:21:56' +%s
            let at = Moment::from_seconds(1_793_881_316);
            let rows: Vec<_> = series
                .samples()
                .iter()
                .map(|sample| (sample.at, sample.interval.unwrap().as_secs()))
                .collect();
            assert_eq!(rows, [(at, 1)], "{language}");
            let value = |metric| series.value(metric, 0).unwrap();
            assert!(
                (value(Metric::CpuSystem) - 10.05).abs() < 1e-9
                    && (value(Metric::CpuUser) - 57.29).abs() < 1e-9
            );
            assert_eq!(series.value(Metric::Processors, 0), Some(2.0));
            assert_eq!(series.architecture.as_deref(), Some("x86_64"), "{language}");
        }
    }
}

#[test]
fn a_language_that_is_not_read_is_refused_by_what_it_prints() {
    let refused = |text: &str| read(&mut text.as_bytes(), "sar.txt").unwrap_err().0;
    // nb_NO prints no seconds; eu_ES declines the month.
    let norwegian = refused(&sar_output("5. nov. 2026", "kl. 12.21 +0000", "kl. 12.21 +0000", ","));
    assert!(
        norwegian.contains("`kl. 12.21 +0000 CPU`") && norwegian.contains("LC_ALL=C sar"),
        "{norwegian}"
    );
    let basque = refused(&sar_output("og., 2026.eko azaren 5a", "12:21:55", "12:21:56", ","));
    assert!(
        basque.contains("`og., 2026.eko azaren 5a`") && basque.contains("LC_ALL=C sar"),
        "{basque}"
    );
}

#[test]
fn a_restart_before_the_first_number_is_of_the_same_day() {
    let text = "Linux 6.1.0 (db1) \t05/11/26 \t_x86_64_\t(2 CPU)\n\n00:10:00  LINUX \
         RESTART\t(2 CPU)\n\n\
                00:20:00     CPU     %user     %nice   %system\n00:30:00     all     57,29     32,66     10,05\n";
    let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
    let marks: Vec<_> = series.marks.iter().map(|mark| (mark.at, mark.kind.clone())).collect();
    assert_eq!(marks, [(Moment::from_seconds(1_793_836_800 + 600), MarkKind::Restart)]);
    assert_eq!(series.samples()[0].at, Moment::from_seconds(1_793_836_800 + 1800));
}

fn sar_table(columns: &str, times: &[&str], values: &str) -> String {
    let rows = times.iter().skip(1).map(|time| format!("{time}     {values}\n"));
    format!("\n{}     {columns}\n{}", times[0], rows.collect::<String>())
}

fn sample_hours(series: &Series) -> Vec<i64> {
    series.samples().iter().map(|sample| (sample.at.0 / 1000 - 1_793_836_800) / 3600).collect()
}

const CPU: (&str, &str) =
    ("CPU     %user     %nice   %system", "all     57.29     32.66     10.05");
const FORKS: (&str, &str) = ("proc/s   cswch/s", "1.00   2.00");

#[test]
fn tables_of_a_file_of_many_days_lie_on_each_other() {
    let times =
        ["00:00:00", "08:00:00", "16:00:00", "00:00:00", "08:00:00", "16:00:00", "00:00:00"];
    let text = format!(
        "Linux 6.1.0 (db1) \t11/05/26 \t_x86_64_\t(2 CPU)\n{}{}",
        sar_table(CPU.0, &times, CPU.1),
        sar_table(FORKS.0, &times, FORKS.1)
    );
    let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
    assert_eq!(sample_hours(&series), [8, 16, 24, 32, 40, 48]);
    assert!((0..6).all(|row| series.value(Metric::Forks, row) == Some(1.0)));
    // A page that begins with its headings is of the same table.
    let pages =
        [sar_table(CPU.0, &times[..4], CPU.1), sar_table(CPU.0, &times[3..], CPU.1)].concat();
    let text = format!(
        "Linux 6.1.0 (db1) \t11/05/26 \t_x86_64_\t(2 CPU)\n{pages}{}",
        sar_table(FORKS.0, &times, FORKS.1)
    );
    assert_eq!(
        sample_hours(&read(&mut text.as_bytes(), "sar.txt").unwrap()[0]),
        [8, 16, 24, 32, 40, 48]
    );
}

#[test]
fn the_same_tables_again_without_a_first_line_are_another_days() {
    let times = ["08:00:00", "09:00:00", "10:00:00"];
    let day = [sar_table(CPU.0, &times, CPU.1), sar_table(FORKS.0, &times, FORKS.1)].concat();
    let text = format!("Linux - ({HEADLESS}) 2026-11-05\n{day}{day}");
    let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
    assert_eq!(sample_hours(&series), [9, 10, 33, 34]);
    assert_eq!(series.value(Metric::Forks, 3), Some(1.0));
}

#[test]
fn a_restart_is_told_in_each_table_and_is_one() {
    let table = |(columns, values): (&str, &str)| {
        let before = sar_table(columns, &["00:00:00", "00:30:00"], values);
        let behind = sar_table(columns, &["02:00:00", "12:00:00", "23:00:00"], values);
        format!("{before}\n01:00:00  LINUX RESTART\t(2 CPU)\n{behind}")
    };
    let text =
        format!("Linux 6.1.0 (db1) \t11/05/26 \t_x86_64_\t(2 CPU)\n{}{}", table(CPU), table(FORKS));
    let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
    let marks: Vec<_> = series.marks.iter().map(|mark| mark.at).collect();
    assert_eq!(marks, [Moment::from_seconds(1_793_836_800 + 3600)]);
    assert_eq!(sample_hours(&series), [0, 12, 23]);
    assert!((0..3).all(|row| series.value(Metric::Forks, row) == Some(1.0)));
}

#[test]
fn units_of_sar_human_are_of_kib() {
    for (word, value) in [
        ("2.2G", 2.2 * 1_048_576.0),
        ("86.3M", 86.3 * 1024.0),
        ("12.0k", 12.0),
        ("24.0%", 24.0),
        ("0.0B", 0.0),
        ("2,5T", 2.5 * 1_073_741_824.0),
    ] {
        assert!((parse_number(word).unwrap() - value).abs() < 1e-6, "{word}");
    }
    for word in ["24/s", "2.2X", "G", "k", "-", "1.2.3M"] {
        assert_eq!(parse_number(word), None, "{word}");
    }
}
