//! One look at the host, and how it is put into a block: what was there, and by how much it differs from the one before.

use crate::field::{FIELDS, Field};
use crate::varint::{Put, Take};

const WORDS: usize = FIELDS.div_ceil(64);
/// Bytes of the map of fields that are there.
const MAP: usize = FIELDS.div_ceil(8);

/// Pools of a sample: sizes times nodes and one. More there are not on any machine that is known.
pub const MOST_POOLS: usize = 96;

/// The huge pages of one size, of the whole host or of one node. What the kernel does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The size of a page.
    pub page_kib: u64,
    /// Which node; `None` for the whole host.
    pub node: Option<u16>,
    /// nr_hugepages.
    pub total: Option<u64>,
    /// free_hugepages.
    pub free: Option<u64>,
    /// resv_hugepages; of the whole host alone.
    pub reserved: Option<u64>,
    /// surplus_hugepages.
    pub surplus: Option<u64>,
    /// nr_overcommit_hugepages; of the whole host alone.
    pub overcommit: Option<u64>,
}

/// What was seen at one moment. Its size is fixed: nothing is allocated for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// By the host's clock: milliseconds since 1970 of UTC.
    pub wall: i64,
    /// By the clock that nobody can set: milliseconds since the boot, sleep included.
    pub uptime: u64,
    values: [u64; FIELDS],
    there: [u64; WORDS],
    pools: [Pool; MOST_POOLS],
    pool_count: usize,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            wall: 0,
            uptime: 0,
            values: [0; FIELDS],
            there: [0; WORDS],
            pools: [Pool::default(); MOST_POOLS],
            pool_count: 0,
        }
    }
}

impl Sample {
    /// Forgets everything.
    pub const fn clear(&mut self) {
        self.there = [0; WORDS];
        self.pool_count = 0;
    }

    /// A field, where it was there.
    pub fn get(&self, field: Field) -> Option<u64> {
        let place = field.index();
        let there = self.there.get(place / 64)? >> (place % 64) & 1 == 1;
        if there { self.values.get(place).copied() } else { None }
    }

    /// Sets a field.
    pub fn set(&mut self, field: Field, value: u64) {
        let place = field.index();
        if let (Some(there), Some(held)) = (self.there.get_mut(place / 64), self.values.get_mut(place)) {
            *there |= 1 << (place % 64);
            *held = value;
        }
    }

    /// Adds to a field, which is there from then on.
    pub fn add(&mut self, field: Field, value: u64) {
        self.set(field, self.get(field).unwrap_or(0).saturating_add(value));
    }

    /// The fields that are there.
    pub fn fields(&self) -> impl Iterator<Item = (Field, u64)> + '_ {
        Field::ALL.iter().filter_map(|field| Some((*field, self.get(*field)?)))
    }

    /// The pools.
    pub fn pools(&self) -> &[Pool] {
        self.pools.get(..self.pool_count).unwrap_or_default()
    }

    /// Adds a pool; whether there was room.
    pub fn push_pool(&mut self, pool: Pool) -> bool {
        let Some(place) = self.pools.get_mut(self.pool_count) else { return false };
        *place = pool;
        self.pool_count += 1;
        true
    }

    fn byte_of_map(&self, byte: usize) -> u8 {
        let word = self.there.get(byte / 8).copied().unwrap_or(0).to_le_bytes();
        word.get(byte % 8).copied().unwrap_or(0)
    }

    /// Writes it as the difference from `before`, which is the sample before it in the same block.
    pub(crate) fn encode(&self, before: Option<&Self>, put: &mut Put<'_>) {
        let (wall, uptime) = before.map_or((0, 0), |before| (before.wall, before.uptime));
        put.number(self.uptime.wrapping_sub(uptime));
        put.signed(self.wall.wrapping_sub(wall));
        put.number(u64::try_from(MAP).unwrap_or(0));
        for byte in 0..MAP {
            put.byte(self.byte_of_map(byte));
        }
        for (field, value) in self.fields() {
            let earlier = before.and_then(|before| before.get(field)).unwrap_or(0);
            put.signed(value.wrapping_sub(earlier).cast_signed());
        }
        put.number(u64::try_from(self.pool_count).unwrap_or(0));
        for pool in self.pools() {
            put.number(pool.page_kib);
            put.number(pool.node.map_or(0, |node| u64::from(node) + 1));
            let parts = pool.parts();
            let there = parts.iter().enumerate().map(|(place, part)| u8::from(part.is_some()) << place).sum();
            put.byte(there);
            for part in parts.iter().flatten() {
                put.number(*part);
            }
        }
    }

    /// Becomes what is read; `None` where it makes no sense. Fields of later versions are passed over.
    pub(crate) fn decode(&mut self, before: Option<&Self>, take: &mut Take<'_>) -> Option<()> {
        self.clear();
        let (wall, uptime) = before.map_or((0, 0), |before| (before.wall, before.uptime));
        self.uptime = uptime.wrapping_add(take.number()?);
        self.wall = wall.wrapping_add(take.signed()?);
        let length = take.small()?;
        let map = take.bytes(length)?;
        for (byte, bits) in map.iter().enumerate() {
            for bit in (0..8).filter(|bit| bits >> bit & 1 == 1) {
                let value = take.signed()?.cast_unsigned();
                if let Some(field) = Field::ALL.get(byte * 8 + bit) {
                    let earlier = before.and_then(|before| before.get(*field)).unwrap_or(0);
                    self.set(*field, earlier.wrapping_add(value));
                }
            }
        }
        let pools: usize = take.small()?;
        for _ in 0..pools {
            let page_kib = take.number()?;
            let node = take.small::<u16>()?.checked_sub(1);
            let there = take.byte()?;
            let mut part = |place: u8| if there >> place & 1 == 1 { take.number().map(Some) } else { Some(None) };
            let pool = Pool {
                page_kib,
                node,
                total: part(0)?,
                free: part(1)?,
                reserved: part(2)?,
                surplus: part(3)?,
                overcommit: part(4)?,
            };
            if !self.push_pool(pool) {
                return None;
            }
        }
        Some(())
    }
}

impl Pool {
    const fn parts(&self) -> [Option<u64>; 5] {
        [self.total, self.free, self.reserved, self.surplus, self.overcommit]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        pub(crate) fn any_pool()(
            page_kib: u64,
            node in prop::option::of(0_u16..1024),
            parts: [Option<u64>; 5],
        ) -> Pool {
            let [total, free, reserved, surplus, overcommit] = parts;
            Pool { page_kib, node, total, free, reserved, surplus, overcommit }
        }
    }

    prop_compose! {
        pub(crate) fn any_sample()(
            wall: i64,
            uptime: u64,
            values in prop::collection::vec(any::<Option<u64>>(), FIELDS),
            pools in prop::collection::vec(any_pool(), 0..12),
        ) -> Sample {
            let mut sample = Sample { wall, uptime, ..Sample::default() };
            for (field, value) in Field::ALL.iter().zip(values) {
                if let Some(value) = value {
                    sample.set(*field, value);
                }
            }
            for pool in pools {
                sample.push_pool(pool);
            }
            sample
        }
    }

    proptest! {
        #[test]
        fn what_was_put_is_taken_whatever_was_before(before: bool, one in any_sample(), two in any_sample()) {
            let before = before.then_some(&one);
            let mut room = [0; 4000];
            let mut put = Put::new(&mut room);
            two.encode(before, &mut put);
            let used = put.used().unwrap();
            let mut take = Take::new(&room[..used]);
            let mut read = one.clone();
            prop_assert_eq!(read.decode(before, &mut take), Some(()));
            prop_assert_eq!(read.fields().collect::<Vec<_>>(), two.fields().collect::<Vec<_>>());
            prop_assert_eq!((read.pools(), read.wall, read.uptime), (two.pools(), two.wall, two.uptime));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn any_bytes_are_a_sample_or_none(bytes: Vec<u8>) {
            let _ = Sample::default().decode(None, &mut Take::new(&bytes));
        }
    }

    #[test]
    fn absent_is_not_zero() {
        let mut sample = Sample::default();
        assert_eq!(sample.get(Field::MemFree), None);
        sample.set(Field::MemFree, 0);
        sample.add(Field::AllocStall, 3);
        sample.add(Field::AllocStall, 4);
        assert_eq!((sample.get(Field::MemFree), sample.get(Field::AllocStall)), (Some(0), Some(7)));
        assert_eq!(sample.fields().count(), 2);
        sample.clear();
        assert_eq!(sample.fields().count(), 0);
    }
}
