//! What somebody puts into a folder without a collector's name around it.

use std::fs;

use hugewise_investigate::{Options, investigate};
use tempfile::TempDir;

fn count_sources(files: &[(&str, &str)], from: Option<&str>) -> usize {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let options = Options { from: from.map(str::to_owned), ..Options::default() };
    let found = investigate(&[folder.path().to_owned()], &options, &|_| {});
    found.map_or(0, |found| found.sources.iter().filter(|source| source.from.is_some()).count())
}

const TOP: &str = "top - 11:20:01 up 10 days,  2:03,  1 user,  load average: 9.00, 8.00, 7.00\n\
    Tasks: 211 total,   2 running, 209 sleeping,   0 stopped,   0 zombie\n\
    %Cpu(s):  5.0 us, 80.0 sy,  0.0 ni, 15.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\
    KiB Mem : 16266532 total,   150000 free, 15000000 used,  1116532 buff/cache\n\
    KiB Swap:  8388604 total,  8388604 free,        0 used.   500000 avail Mem\n\n  \
    PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n   \
    79 root      20   0       0      0      0 R  98.0  0.0   9:00.00 kswapd0\n";
const SAR: &str = "10:00:00 CPU %user %nice %system %iowait %steal %idle\n\
    10:10:00 all 1.00 0.00 2.00 0.00 0.00 97.00\n10:20:00 all 1.00 0.00 2.00 0.00 0.00 97.00\n";
const PREFIXED: &str = "192.0.2.10: kern: warning: [2026-11-21T22:47:35.000000000Z]: Out of memory: \
    Killed process 7 (mysqld) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n";
const QUIET: &str = "Nov 21 08:12:00 db1 kernel: a\nNov 21 08:12:09 db1 kernel: c\n";

#[test]
fn a_folder_is_read_as_its_files_are_by_name() {
    for text in [TOP, SAR, PREFIXED] {
        assert_eq!(count_sources(&[("x.txt", text)], None), 1, "{text}");
    }
    // Beside others, by what no other tool prints, on the day that somebody says.
    for text in [TOP, SAR] {
        let beside = [("x.txt", text), ("messages", QUIET)];
        assert_eq!(count_sources(&beside, None), 1, "{text}");
        assert_eq!(count_sources(&beside, Some("2025-11-21T00:00:00+00:00")), 2, "{text}");
    }
    assert_eq!(count_sources(&[("x.txt", "all is well\n"), ("messages", QUIET)], None), 1);
}
