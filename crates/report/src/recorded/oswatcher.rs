//! What OSWatcher would have written, in UTC: meminfo and vmstat's table, each behind a date.

use std::io::{self, Write};

use hugewise_record::{Field, FieldUnit, HostSample};

/// Fields have the kernel's order.
pub(super) fn write_meminfo(sample: &HostSample, out: &mut dyn Write) -> io::Result<()> {
    for (field, value) in sample
        .known_fields()
        .filter(|(field, _)| (Field::MemTotal..=Field::Hugetlb).contains(field))
    {
        let name = format!("{}:", field.name());
        let unit = if field.unit() == FieldUnit::Kibibytes { " kB" } else { "" };
        writeln!(out, "{name:<15} {value:>8}{unit}")?;
    }
    Ok(())
}

/// vmstat's heading, its line since boot and the sample's own line, unless a figure is missing.
pub(super) fn write_vmstat(
    before: &HostSample,
    sample: &HostSample,
    page: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let zero = HostSample::default();
    let lines = [vmstat_line(&zero, sample, page), vmstat_line(before, sample, page)];
    if let [Some(boot), Some(now)] = lines {
        writeln!(
            out,
            "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----"
        )?;
        writeln!(
            out,
            " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st"
        )?;
        writeln!(out, "{boot}\n{now}")?;
    }
    Ok(())
}

fn vmstat_line(before: &HostSample, now: &HostSample, page: u64) -> Option<String> {
    let milliseconds = now.uptime.checked_sub(before.uptime).filter(|passed| *passed > 0)?;
    let grown = |field: Field| now.get(field)?.checked_sub(before.get(field).unwrap_or(0));
    let rate = |field: Field, factor: u64| {
        let all = grown(field)?.saturating_mul(factor).saturating_mul(1000);
        Some(all.saturating_add(milliseconds / 2) / milliseconds)
    };
    let count_of = |fields: &[Field]| {
        fields.iter().try_fold(0_u128, |all, field| Some(all + u128::from(grown(*field)?)))
    };
    use Field::{CpuIdle, CpuIowait, CpuIrq, CpuNice, CpuSoftirq, CpuSteal, CpuSystem, CpuUser};
    let parts = [
        count_of(&[CpuUser, CpuNice])?,
        count_of(&[CpuSystem, CpuIrq, CpuSoftirq])?,
        count_of(&[CpuIdle])?,
        count_of(&[CpuIowait])?,
        count_of(&[CpuSteal])?,
    ];
    let all = parts.iter().sum::<u128>().max(1);
    let [user, system, idle, wait, steal] = parts.map(|part| (part * 100 + all / 2) / all);
    let kib = page / 1024;
    let swapped = now.get(Field::SwapTotal)?.saturating_sub(now.get(Field::SwapFree)?);
    // As vmstat does: reclaimable slab counts as cache.
    let cache =
        now.get(Field::Cached)?.saturating_add(now.get(Field::SlabReclaimable).unwrap_or(0));
    Some(format!(
        "{:>2} {:>2} {:>6} {:>6} {:>6} {:>6} {:>4} {:>4} {:>5} {:>5} {:>4} {:>4} {user:>2} \
             {system:>2} {idle:>2} {wait:>2} {steal:>2}",
        now.get(Field::Running)?,
        now.get(Field::Blocked)?,
        swapped,
        now.get(Field::MemFree)?,
        now.get(Field::Buffers)?,
        cache,
        rate(Field::SwapIn, kib)?,
        rate(Field::SwapOut, kib)?,
        rate(Field::PagedIn, 1)?,
        rate(Field::PagedOut, 1)?,
        rate(Field::Interrupts, 1)?,
        rate(Field::ContextSwitches, 1)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_with(uptime: u64, values: &[(Field, u64)]) -> HostSample {
        let mut sample = HostSample::default();
        sample.uptime = uptime;
        for (field, value) in values {
            sample.set(*field, *value);
        }
        sample
    }

    #[test]
    fn the_line_is_what_vmstat_makes_of_the_same_counters() {
        use Field::*;
        let still = [
            (Running, 3),
            (Blocked, 1),
            (SwapTotal, 2000),
            (SwapFree, 500),
            (MemFree, 100),
            (Buffers, 7),
            (Cached, 50),
            (SlabReclaimable, 5),
        ];
        let counters = |by: u64| {
            [
                (CpuUser, 100 * by),
                (CpuNice, 0),
                (CpuSystem, 60 * by),
                (CpuIrq, 0),
                (CpuSoftirq, 40 * by),
                (CpuIdle, 200 * by),
                (CpuIowait, 0),
                (CpuSteal, 0),
                (SwapIn, 10 * by),
                (SwapOut, 0),
                (PagedIn, 64 * by),
                (PagedOut, 0),
                (Interrupts, 300 * by),
                (ContextSwitches, 500 * by),
            ]
        };
        let one = sample_with(10_000, &[&still[..], &counters(1)].concat());
        let two = sample_with(12_000, &[&still[..], &counters(3)].concat());
        let mut out = Vec::new();
        write_vmstat(&one, &two, 4096, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let numbers: Vec<u64> = text
            .lines()
            .nth(3)
            .unwrap()
            .split_ascii_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        // By hand: in two seconds 20 pages of 4 KiB are 40 KiB a second; 200 of 800 ticks are 25 %.
        assert_eq!(numbers, [3, 1, 1500, 100, 7, 55, 40, 0, 64, 0, 300, 500, 25, 25, 50, 0, 0]);
        let mut out = Vec::new();
        write_vmstat(&one, &sample_with(12_000, &still), 4096, &mut out).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn the_largest_numbers_are_no_overflow() {
        let full: Vec<(Field, u64)> = Field::ALL.iter().map(|field| (*field, u64::MAX)).collect();
        let mut out = Vec::new();
        write_vmstat(&sample_with(1, &[]), &sample_with(2, &full), u64::MAX, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let numbers: Vec<u64> = text
            .lines()
            .nth(3)
            .unwrap()
            .split_ascii_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        // User, nice; system, irq, softirq; idle; waiting; stolen: 2, 3, 1, 1 and 1 of 8, rounded.
        assert_eq!(numbers.get(12..), Some(&[25, 38, 13, 13, 13][..]));
        assert_eq!(numbers.get(5), Some(&u64::MAX));
    }
}
