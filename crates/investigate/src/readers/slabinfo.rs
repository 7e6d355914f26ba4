//! `/proc/slabinfo`, version 2: memory of the kernel's own objects.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slabs {
    pages: u64,
    /// The most bytes of objects in a page of a slab: no more than the page.
    fullest: u64,
}

impl Slabs {
    pub(super) fn is_heading(line: &str) -> bool {
        line.starts_with("slabinfo - version: 2") || line.starts_with("# name ")
    }

    /// `name active objects size objects-a-slab pages-a-slab : tunables ... : slabdata active slabs`
    pub(super) fn parse_line(&mut self, line: &str) {
        let Some((cache, data)) = line.split_once(" : slabdata ") else { return };
        // A name can hold blanks; the five numbers before the tunables cannot.
        let cache = cache.split(" : ").next().unwrap_or_default();
        let mut numbers = cache.split_ascii_whitespace().rev().map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let (Some(pages), Some(objects), Some(size)) = (next(), next(), next()) else { return };
        let Some(slabs) =
            data.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok())
        else {
            return;
        };
        self.pages = self.pages.saturating_add(slabs.saturating_mul(pages));
        if let Some(held) = size.saturating_mul(objects).checked_div(pages) {
            self.fullest = self.fullest.max(held);
        }
    }

    /// The page size, which the file lacks, is the least power of two that holds the fullest page.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        if self.fullest == 0 {
            return None;
        }
        Some(self.pages.saturating_mul(self.fullest.checked_next_power_of_two()?.max(4096)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::cast_precision_loss)]

    use hugewise_testkit::{Skip, require};

    use super::*;

    fn parse_slabs(text: &str) -> Slabs {
        let mut slabs = Slabs::default();
        text.lines().for_each(|line| slabs.parse_line(line));
        slabs
    }

    #[test]
    fn slabs_of_all_caches_are_added() {
        let text = "slabinfo - version: 2.1\n\
             # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : \
             tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> \
             <sharedavail>\n\
             dentry            123 420    192   21    1 : tunables    0    0    0 : \
             slabdata     20     20      0\n\
             a cache           16    16   4096    8    8 : tunables    0    0    0 : \
             slabdata      2      2      0\n";
        assert!(text.lines().take(2).all(Slabs::is_heading));
        assert_eq!(parse_slabs(text).total_bytes(), Some((20 + 16) * 4096));
        assert_eq!(parse_slabs("").total_bytes(), None);
        assert_eq!(
            parse_slabs("x 1 1 0 1 0 : tunables 0 0 0 : slabdata 1 1 0\n").total_bytes(),
            None
        );
        let large = "x 1 1 65536 1 1 : tunables 0 0 0 : slabdata 3 3 0\n";
        assert_eq!(parse_slabs(large).total_bytes(), Some(3 * 65536));
    }

    #[test]
    fn the_sum_is_about_what_meminfo_says() {
        let read = std::fs::read_to_string("/proc/slabinfo");
        let text = require!(read.map_err(|error| Skip(format!("/proc/slabinfo: {error}"))));
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = meminfo.lines().find(|line| line.starts_with("Slab:")).unwrap();
        let slab: f64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        let sum = parse_slabs(&text).total_bytes().unwrap() as f64 / 1024.0;
        // The kernel counts a slab at its usual order, and large objects come past the caches.
        assert!((0.5..1.2).contains(&(sum / slab)), "{sum} of {slab} KiB");
    }
}
