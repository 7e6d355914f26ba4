#![no_main]

//! Any text as --timezone, --from, --to, --interval and --offset, a line each.

/// What they are asked of: a log that says no zone.
const LOG: &[u8] =
    b"procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- \
         -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 1  0      0 1000000  1000 100000    0    0     1     1    1    1  1  1 98  0  0 2026-03-29 01:59:00
 1  0      0 1000000  1000 100000    0    0     1     1    1    1  1  1 98  0  0 2026-03-29 03:00:00
";

fn ask(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n').map(|line| (!line.is_empty()).then(|| line.to_owned()));
    let mut next = || lines.next().flatten();
    let (zone, from, to, interval) = (next(), next(), next(), next());
    let options = hugewise_investigate::Options {
        zone,
        from,
        to,
        interval,
        offsets: next().into_iter().collect(),
        hosts: Vec::new(),
    };
    hugewise_fuzz::with_file(LOG, |path| {
        hugewise_investigate::investigate(&[path.to_owned()], &options, &|_| {})
            .map_or(0, |found| found.sources.len())
    })
}

hugewise_fuzz::target!(ask);
