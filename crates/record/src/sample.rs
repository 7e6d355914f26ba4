//! One sample of the host, and its encoding in a block as the difference from the one before.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;

use crate::bounded_list::BoundedList;
use crate::field::{FIELDS, Field};
use crate::varint::{VarintReader, VarintWriter};

const WORDS: usize = FIELDS.div_ceil(64);
const MAP: usize = FIELDS.div_ceil(8);
/// Most pools of a sample, sizes times nodes and one: more than on any known machine.
pub const MOST_POOLS: usize = 96;

/// The huge pages of one size, on the whole host or one node; what the kernel does not tell is
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedPool {
    /// The size of a page.
    pub page_kib: u64,
    /// Which node; `None` for the whole host.
    pub node: Option<u16>,
    /// nr_hugepages.
    pub total: Option<u64>,
    /// free_hugepages.
    pub free: Option<u64>,
    /// resv_hugepages; only for the whole host.
    pub reserved: Option<u64>,
    /// surplus_hugepages.
    pub surplus: Option<u64>,
    /// nr_overcommit_hugepages; only for the whole host.
    pub overcommit: Option<u64>,
}

/// A sample, of fixed size without allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSample {
    /// By the host's clock: milliseconds since 1970 of UTC.
    pub wall: i64,
    /// Milliseconds since the boot, sleep included.
    pub uptime: u64,
    values: [u64; FIELDS],
    there: [u64; WORDS],
    pools: BoundedList<RecordedPool, MOST_POOLS>,
}

impl Default for HostSample {
    fn default() -> Self {
        Self {
            wall: 0,
            uptime: 0,
            values: [0; FIELDS],
            there: [0; WORDS],
            pools: BoundedList::default(),
        }
    }
}

impl HostSample {
    /// Forgets everything.
    pub const fn clear(&mut self) {
        self.there = [0; WORDS];
        self.pools.clear();
    }

    /// A field, where it is known.
    pub fn get(&self, field: Field) -> Option<u64> {
        let place = field.index();
        let there = self.there.get(place / 64)? >> (place % 64) & 1 == 1;
        if there { self.values.get(place).copied() } else { None }
    }

    /// Sets a field.
    pub fn set(&mut self, field: Field, value: u64) {
        let place = field.index();
        if let (Some(there), Some(held)) =
            (self.there.get_mut(place / 64), self.values.get_mut(place))
        {
            *there |= 1 << (place % 64);
            *held = value;
        }
    }

    /// Adds to a field, which counts from 0 where it was not known.
    pub fn add(&mut self, field: Field, value: u64) {
        self.set(field, self.get(field).unwrap_or(0).saturating_add(value));
    }

    /// The known fields.
    pub fn known_fields(&self) -> impl Iterator<Item = (Field, u64)> + '_ {
        Field::ALL.iter().filter_map(|field| Some((*field, self.get(*field)?)))
    }

    /// The pools.
    pub fn pools(&self) -> &[RecordedPool] {
        &self.pools
    }

    /// Adds a pool; false where there is no room.
    pub fn push_pool(&mut self, pool: RecordedPool) -> bool {
        self.pools.push(pool)
    }

    fn byte_of_map(&self, byte: usize) -> u8 {
        let word = self.there.get(byte / 8).copied().unwrap_or(0).to_le_bytes();
        word.get(byte % 8).copied().unwrap_or(0)
    }

    pub(crate) fn encode(&self, before: Option<&Self>, put: &mut VarintWriter<'_>) {
        let (wall, uptime) = before.map_or((0, 0), |before| (before.wall, before.uptime));
        put.write_number(self.uptime.wrapping_sub(uptime));
        put.write_signed(self.wall.wrapping_sub(wall));
        put.write_number(u64::try_from(MAP).unwrap_or(0));
        for byte in 0..MAP {
            put.write_byte(self.byte_of_map(byte));
        }
        for (field, value) in self.known_fields() {
            let earlier = before.and_then(|before| before.get(field)).unwrap_or(0);
            put.write_signed(value.wrapping_sub(earlier).cast_signed());
        }
        put.write_number(u64::try_from(self.pools.len()).unwrap_or(0));
        for pool in self.pools() {
            put.write_number(pool.page_kib);
            put.write_number(pool.node.map_or(0, |node| u64::from(node) + 1));
            let parts = pool.page_counts();
            let there = parts
                .iter()
                .enumerate()
                .map(|(place, part)| u8::from(part.is_some()) << place)
                .sum();
            put.write_byte(there);
            for part in parts.iter().flatten() {
                put.write_number(*part);
            }
        }
    }

    /// Replaces this sample; `None` where the bytes are invalid. Fields of later versions are
    /// skipped.
    pub(crate) fn decode(
        &mut self,
        before: Option<&Self>,
        take: &mut VarintReader<'_>,
    ) -> Option<()> {
        self.clear();
        let (wall, uptime) = before.map_or((0, 0), |before| (before.wall, before.uptime));
        self.uptime = uptime.wrapping_add(take.read_number()?);
        self.wall = wall.wrapping_add(take.read_signed()?);
        let length = take.read_small()?;
        let map = take.read_bytes(length)?;
        for (byte, bits) in map.iter().enumerate() {
            for bit in (0..8).filter(|bit| bits >> bit & 1 == 1) {
                let value = take.read_signed()?.cast_unsigned();
                if let Some(field) = Field::ALL.get(byte * 8 + bit) {
                    let earlier = before.and_then(|before| before.get(*field)).unwrap_or(0);
                    self.set(*field, earlier.wrapping_add(value));
                }
            }
        }
        let pools: usize = take.read_small()?;
        for _ in 0..pools {
            let page_kib = take.read_number()?;
            let node = take.read_small::<u16>()?.checked_sub(1);
            let there = take.read_byte()?;
            let mut part = |place: u8| {
                if there >> place & 1 == 1 { take.read_number().map(Some) } else { Some(None) }
            };
            let pool = RecordedPool {
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

impl RecordedPool {
    const fn page_counts(&self) -> [Option<u64>; 5] {
        [self.total, self.free, self.reserved, self.surplus, self.overcommit]
    }
}
