//! Counters that are known by their names.

/// The two hundred counters of /proc/vmstat, which differ from kernel to kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    names: String,
    /// Where each name ends, and what it counts.
    counts: Vec<(usize, u64)>,
}

impl Counters {
    /// Adds one.
    pub fn push(&mut self, name: &str, count: u64) {
        self.names.push_str(name);
        self.counts.push((self.names.len(), count));
    }

    /// The count; `None` where the kernel has no such counter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(other, _)| *other == name).map(|(_, count)| count)
    }

    /// All of them, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let mut begin = 0;
        self.counts.iter().map(move |(end, count)| {
            let name = self.names.get(begin..*end).unwrap_or_default();
            begin = *end;
            (name, *count)
        })
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl<'a> FromIterator<(&'a str, u64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (&'a str, u64)>>(all: I) -> Self {
        let mut counters = Self::default();
        all.into_iter().for_each(|(name, count)| counters.push(name, count));
        counters
    }
}
