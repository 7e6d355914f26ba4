//! What a MySQL or MariaDB server asks for at its start, stretch by stretch.
//!
//! MariaDB 10.11.19 (measured with `strace -e trace=mmap`) asks for five stretches: the blocks of
//! MyISAM's key cache, those of Aria's page cache, the buffer pool, and two log buffers. Each is
//! rounded up to its page, and one that is smaller than a page takes none. The caches' bookkeeping
//! is never on huge pages. A cache that is refused its huge pages affects nothing else; if the
//! buffer pool is refused, the log buffers are not even asked for on huge pages.
//!
//! The buffer pool has to begin at a multiple of 8 MiB. Where the kernel puts it elsewhere, the
//! server gives it back and asks for as much more as it was off by (`buf_pool_t::create` in
//! storage/innobase/buf/buf0buf.cc). The place depends on what its threads have mapped by then: of
//! 83 starts 71 took what they first asked for, 12 took three pages of 2 MiB more.
//! [`AllocationSizes::alignment_pages`] is the most that this can come to, so that the demand
//! always suffices.

use hugewise_model::instance::{Demand, DemandSource, Segment};
use hugewise_model::{Bytes, Engine, HugePageUse, Instance, PageCount, PageSize};

use super::cnf;
use super::values::{self, Dialect, Read};
use crate::MemoryStretch;
use crate::shared::segments;
use crate::shared::settings::ServerSettings;

/// The release that the formula was tested against: with the pages that it gives the server always
/// started wholly on them, with fewer than its least never.
const PROVEN: (u32, u32, u32) = (10, 11, 19);
/// The step of the buffer pool's size and start (`innodb_buffer_pool_extent_size`, 64-bit).
const EXTENT: u64 = 8 << 20;
/// In percent: MariaDB before the one-stretch pool may choose chunks of a 64th of the pool, each
/// rounded up.
const AUTOMATIC_CHUNKS_ERROR: u8 = 30;
/// A larger log buffer is adjusted, with a warning (10.11.19).
const LARGEST_LOG_BUFFER: u64 = 2_147_479_552;
/// MyISAM's key cache (mysys/mf_keycache.c; measured with 4 MiB to 8 GiB).
const KEY_CACHE: Bookkeeping = Bookkeeping { block: 112, link: 48 };
/// Aria's page cache (storage/maria/ma_pagecache.c; measured with 4 MiB to 8 GiB).
const ARIA: Bookkeeping = Bookkeeping { block: 144, link: 112 };

pub(super) struct AllocationSizes {
    pub(super) pool: u64,
    pub(super) chunk: u64,
    stretches: Vec<(u64, u64)>,
    /// Whether the pool is asked for anew where it does not begin at a multiple of its extent.
    aligned: bool,
    error_percent: u8,
    is_whole: bool,
}

impl AllocationSizes {
    pub(super) fn from_settings(
        settings: &ServerSettings,
        mariadb: bool,
        version: Option<(u32, u32, u32)>,
    ) -> Option<Self> {
        let dialect = Dialect { mariadb, version };
        let number = |name: &str, default: &str| {
            let value = settings.value_or(name, default).into_known()?;
            match values::parse_amount(&value, dialect) {
                Read::As(number) => Some(number),
                Read::Refused => None,
                Read::Unclear => cnf::parse_bytes(&value),
            }
        };
        // The server raises smaller sizes to this, with a warning.
        let least =
            if mariadb && version.is_some_and(values::is_one_stretch) { 2 << 20 } else { 5 << 20 };
        let pool = number("innodb_buffer_pool_size", "128M")?.max(least);
        let chunk = match number("innodb_buffer_pool_chunk_size", "0")? {
            0 => 128 << 20,
            given => given,
        };
        if !mariadb {
            // A chunk with its page descriptors is up to 3.1 % larger than asked for (MySQL 8.0).
            let keys = number("key_buffer_size", "8M")?;
            let mut sizes = Self::in_chunks(pool, chunk);
            sizes.stretches.push((1, keys));
            return Some(sizes);
        }
        let mut sizes = if version.is_some_and(values::is_one_stretch) {
            Self::in_one_stretch(pool, if version == Some(PROVEN) { 0 } else { 5 })
        } else {
            Self { is_whole: false, ..Self::in_chunks(pool, chunk) }
        };
        let log = number("innodb_log_buffer_size", "16M")?.clamp(2 << 20, LARGEST_LOG_BUFFER);
        sizes.stretches.push((2, log - log % 4096));
        let parts = number("key_cache_segments", "0")?.clamp(1, 64);
        let block = number("key_cache_block_size", "1024")?.clamp(512, 16384);
        let files = number("key_cache_file_hash_size", "512")?;
        let keys = number("key_buffer_size", "128M")?;
        sizes.stretches.push((
            parts,
            KEY_CACHE.cache_block_bytes((keys - keys % 4096) / parts, block - block % 512, files),
        ));
        let block = number("aria_block_size", "8192")?.clamp(4096, 32768);
        let files = number("aria_pagecache_file_hash_size", "512")?;
        let cache = number("aria_pagecache_buffer_size", "128M")?.max(128 << 10);
        sizes.stretches.push((1, ARIA.cache_block_bytes(cache, block - block % 1024, files)));
        Some(sizes)
    }

    pub(super) fn for_instance(instance: &Instance, settings: &ServerSettings) -> Option<Self> {
        let version = instance.version.as_known();
        let version = version.and_then(|version| super::parse_version_numbers(version));
        Self::from_settings(settings, instance.engine == Engine::MariaDb, version)
    }

    fn in_one_stretch(pool: u64, error_percent: u8) -> Self {
        let whole = (pool >> 20 << 20).checked_next_multiple_of(EXTENT);
        let stretches = vec![(1, whole.unwrap_or(u64::MAX - u64::MAX % EXTENT))];
        Self { pool, chunk: pool.max(1), stretches, aligned: true, error_percent, is_whole: true }
    }

    fn in_chunks(pool: u64, chunk: u64) -> Self {
        let chunk = chunk.min(pool).max(1);
        let with_descriptors = chunk.saturating_add(chunk / 1000 * 31);
        let error_percent = if pool >= 512 << 20 { 5 } else { 10 };
        let stretches = vec![(pool.div_ceil(chunk), with_descriptors)];
        Self { pool, chunk, stretches, aligned: false, error_percent, is_whole: true }
    }

    const fn is_proven(&self) -> bool {
        self.aligned && self.error_percent == 0
    }

    fn pages_needed(&self, page: PageSize) -> PageCount {
        self.least_pages(page) + self.alignment_pages(page)
    }

    /// Pages that the stretches take if the pool is aligned at once: with fewer it never starts
    /// wholly on them. Stretches that are smaller than a page take none.
    fn least_pages(&self, page: PageSize) -> PageCount {
        let page = page.bytes().get();
        let taken = self.stretches.iter().filter(|(_, size)| *size >= page);
        PageCount(taken.fold(0, |sum, (count, size)| {
            sum.saturating_add(count.saturating_mul(size.div_ceil(page)))
        }))
    }

    /// The smallest stretch that may have been refused, where less than the settings come to is on
    /// huge pages. Only for the release whose stretches are known to the byte.
    pub(super) fn find_refused_stretch(&self, held: Bytes, page: PageSize) -> Option<Bytes> {
        let known = self.is_proven();
        let short = held < self.least_pages(page).to_bytes(page);
        let sizes =
            self.stretches.iter().map(|(_, size)| *size).filter(|size| *size >= page.bytes().get());
        sizes.min().filter(|_| known && short).map(Bytes)
    }

    /// The most pages that alignment adds.
    ///
    /// A stretch that is off by `w`, a multiple of the page below the extent, is asked for anew
    /// with `w` more, and kept once that covers what it is off by. It is asked for again only where
    /// it is then off by more than was added: the last `w` is at most an extent less one page, and
    /// all before it come to at least a page less than that.
    fn alignment_pages(&self, page: PageSize) -> PageCount {
        if self.aligned { most_chance(page) } else { PageCount::ZERO }
    }

    /// What the next start with the same settings may take beyond what is mapped: all of the
    /// alignment's pages, or what is left of them where the stretches are known to the byte.
    fn extra_pages_possible(&self, mapped: PageCount, page: PageSize) -> PageCount {
        let chance = self.alignment_pages(page);
        if self.error_percent == 0 {
            self.pages_needed(page).saturating_sub(mapped).min(chance)
        } else {
            chance
        }
    }

    pub(super) fn to_demand(&self, page_size: PageSize) -> Option<Demand> {
        let source = match self.is_proven() {
            true => DemandSource::Enough { least: self.least_pages(page_size) },
            false => DemandSource::Estimated { error_percent: self.error_percent(page_size) },
        };
        Some(Demand { page_size, pages: self.pages_needed(page_size), source })
            .filter(|demand| demand.pages > PageCount::ZERO)
    }

    pub(super) fn least_demand(&self, page_size: PageSize) -> Option<Demand> {
        let pages = self.least_pages(page_size);
        self.to_demand(page_size).map(|demand| Demand { pages, ..demand })
    }

    /// The same of a server that holds so many pages. Where MySQL's key cache is not among them, it
    /// goes without at its next start, too.
    pub(super) fn least_demand_of_holder(
        &self,
        page_size: PageSize,
        held: PageCount,
    ) -> Option<Demand> {
        let least = self.least_demand(page_size)?;
        match self.stretches.as_slice() {
            [_, (count, keys)] if held < least.pages && *keys >= page_size.bytes().get() => {
                let keys = page_size.pages_for(Bytes(count.saturating_mul(*keys)));
                Some(Demand { pages: least.pages.saturating_sub(keys), ..least })
            }
            _ => Some(least),
        }
    }

    /// Bounds of the memory of a server with these settings. Where not all of it is on huge pages
    /// there is only a lower bound, the buffer pool: what else is mapped may be anything.
    pub(super) fn memory_range(&self, page: PageSize, all_on_huge_pages: bool) -> (Bytes, Bytes) {
        let error =
            u64::from(if self.is_whole { self.error_percent } else { AUTOMATIC_CHUNKS_ERROR });
        let below = |size: Bytes| Bytes(size.get() / (100 + error) * 100);
        if !all_on_huge_pages {
            let pool = if self.is_whole { self.pool } else { 0 };
            return (below(Bytes(pool)), Bytes(u64::MAX));
        }
        let most = self.pages_needed(page).to_bytes(page);
        (below(self.least_pages(page).to_bytes(page)), most + Bytes(most.get() / 100 * error))
    }

    /// How much less may do, in percent, rounded up; or the formula's error for other releases.
    fn error_percent(&self, page: PageSize) -> u8 {
        let chance = self.alignment_pages(page).get().saturating_mul(100);
        let less = chance.div_ceil(self.least_pages(page).get().max(1));
        u8::try_from(less).unwrap_or(100).max(self.error_percent)
    }
}

fn most_chance(page: PageSize) -> PageCount {
    match EXTENT / page.bytes().get() {
        0 | 1 => PageCount::ZERO,
        pages => PageCount(2 * pages - 3),
    }
}

pub(super) fn by_chance(instance: &Instance, page: PageSize) -> PageCount {
    if instance.engine != Engine::MariaDb {
        return PageCount::ZERO;
    }
    let mapped = instance.segments.iter().map(|segment| page.pages_for(segment.size)).sum();
    sizes_for_instance(instance)
        .map_or_else(|| most_chance(page), |sizes| sizes.extra_pages_possible(mapped, page))
}

/// What the buffer pool asks for at once: a chunk of 128 MiB by default. Before MySQL 5.7.5 and
/// MariaDB 10.2 that is one of its instances (`buf_pool_init_instance`), of which there are eight
/// from 1 GiB on since 5.6.
pub(super) fn piece_size(instance: &Instance) -> Bytes {
    let version = instance.version.as_known();
    let version = version.and_then(|version| super::parse_version_numbers(version));
    let in_chunks = if instance.engine == Engine::MariaDb { (10, 2, 0) } else { (5, 7, 5) };
    let Some(version) = version.filter(|version| *version < in_chunks) else {
        return Bytes::from_mib(128);
    };
    let amount = |name| instance.setting_value(name).and_then(cnf::parse_bytes);
    let pool = amount("innodb_buffer_pool_size").unwrap_or(128 << 20);
    let by_default = if version >= (5, 6, 0) && pool >= 1 << 30 { 8 } else { 1 };
    let instances = amount("innodb_buffer_pool_instances").filter(|number| *number > 0);
    Bytes(pool / instances.unwrap_or(by_default))
}

/// Known only with all settings.
fn sizes_for_instance(instance: &Instance) -> Option<AllocationSizes> {
    let known = instance.engine == Engine::MariaDb
        && instance.settings.contains_key("innodb_buffer_pool_size");
    let settings =
        known.then(|| ServerSettings::from_values(&super::KIND, instance.settings.clone()))?;
    AllocationSizes::for_instance(instance, &settings)
}

/// What a start asks for in turn, if known: the caches of MyISAM and Aria, the buffer pool, which
/// may take more for its alignment, and the log buffers, which follow it.
pub(super) fn in_stretches(instance: &Instance, page: PageSize) -> Option<Vec<MemoryStretch>> {
    let sizes = sizes_for_instance(instance).filter(AllocationSizes::is_proven)?;
    let [pool, logs, keys, aria] = sizes.stretches.as_slice() else { return None };
    let pages = |pair: &(u64, u64), more: PageCount, follows: bool| {
        let each = page.pages_for(Bytes(pair.1));
        let count = if pair.1 < page.bytes().get() { 0 } else { pair.0 };
        let stretch =
            MemoryStretch { least: each, most: each + more, follows, is_essential: false };
        std::iter::repeat_n(stretch, usize::try_from(count).unwrap_or_default())
    };
    let (none, chance) = (PageCount::ZERO, sizes.alignment_pages(page));
    let caches = pages(keys, none, false).chain(pages(aria, none, false));
    Some(caches.chain(pages(pool, chance, false)).chain(pages(logs, none, true)).collect())
}

/// What a cache of MyISAM or Aria keeps beside each of its blocks, in bytes. It has two links a
/// block, and a table of links: 8 bytes for each entry, the next power of two and half as many
/// again.
struct Bookkeeping {
    block: u64,
    link: u64,
}

impl Bookkeeping {
    /// Bytes of the cache's blocks, its only stretch for huge pages: what the bookkeeping leaves of
    /// `memory`. A cache has at least 8 blocks.
    fn cache_block_bytes(&self, memory: u64, block: u64, files: u64) -> u64 {
        // It counts links for the blocks that it would like, and 10 bytes a block for the table.
        let wished = memory / (self.block + 2 * self.link + 10 + block);
        if wished < 8 {
            return 0;
        }
        let table = 8_u64
            .saturating_mul(wished.checked_next_power_of_two().unwrap_or(u64::MAX))
            .saturating_mul(2);
        let files = files.clamp(128, 16384).next_power_of_two() * 16;
        let rest = memory
            .saturating_sub(table)
            .saturating_sub(files)
            .saturating_sub(2 * self.link * wished);
        (rest / (self.block + block)).clamp(8, wished) * block
    }
}

/// Wholly on huge pages the mappings are the demand, otherwise the settings.
pub(super) fn compute_demand(
    now: HugePageUse,
    segments: &[Segment],
    sizes: Option<&AllocationSizes>,
    page_size: PageSize,
) -> (Option<Demand>, Vec<Demand>) {
    match now {
        HugePageUse::All => segments::segment_demands(segments, page_size),
        _ => (sizes.and_then(|sizes| sizes.to_demand(page_size)), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::FileLocation;
    use proptest::prelude::*;

    use super::*;

    /// MySQL's manual of 8.4, "Enabling Large Page Support": 233 pages, 222 free, 55 of them reserved,
    /// so 66 with all settings at their defaults.
    #[test]
    fn a_key_cache_that_holds_no_pages_asks_for_none() {
        let settings = ServerSettings::from_values(&super::super::KIND, Default::default());
        let sizes = AllocationSizes::from_settings(&settings, false, Some((8, 4, 5))).unwrap();
        let least = |held| {
            sizes.least_demand_of_holder(PageSize::MIB_2, PageCount(held)).map(|least| least.pages)
        };
        assert_eq!((least(66), least(70)), (Some(PageCount(66)), Some(PageCount(70))));
    }

    /// MySQL's manuals of 5.5, 5.6 and 5.7: innodb_buffer_pool_instances, and chunks since 5.7.5.
    #[test]
    fn an_old_buffer_pool_is_asked_for_by_its_instances() {
        let piece = |engine, version: &str, instances: Option<&str>| {
            let setting = |name: &str, value: &str| {
                let place = Some(FileLocation { file: "/etc/my.cnf".into(), line: 1 });
                (name.to_owned(), crate::shared::settings::new_setting(name, value, place))
            };
            let (host, source) =
                (hugewise_model::Host::default(), hugewise_host::source::map::MapSource::new());
            let process = hugewise_model::Process::default();
            let scene = crate::EngineContext::new(&host, &source);
            let mut instance = scene.new_instance(engine, "x".into(), &process, Vec::new());
            instance.version = hugewise_model::Observed::Known(version.into());
            instance.settings.extend([setting("innodb_buffer_pool_size", "12G")]);
            let instances = instances.map(|count| setting("innodb_buffer_pool_instances", count));
            instance.settings.extend(instances);
            piece_size(&instance).get() >> 20
        };
        assert_eq!(piece(Engine::MySql, "5.5.62", None), 12 << 10);
        assert_eq!(piece(Engine::MySql, "5.6.36", None), 1536);
        assert_eq!(piece(Engine::MySql, "5.6.36", Some("4")), 3 << 10);
        assert_eq!(piece(Engine::MySql, "8.0.36", None), 128);
        assert_eq!(piece(Engine::MariaDb, "10.1.48-MariaDB", None), 1536);
        assert_eq!(piece(Engine::MariaDb, "10.6.12-MariaDB", None), 128);
    }

    fn settings(text: &str) -> ServerSettings {
        let mut settings = ServerSettings::new(&super::super::KIND);
        for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            settings.set(name, value, FileLocation { file: "my.cnf".into(), line: 1 });
        }
        settings
    }

    fn pages(text: &str, mariadb: bool, version: (u32, u32, u32)) -> u64 {
        AllocationSizes::from_settings(&settings(text), mariadb, Some(version))
            .unwrap()
            .pages_needed(PageSize::MIB_2)
            .get()
    }

    /// Bytes that MariaDB 10.11.19 maps for the blocks of its caches on base pages, where nothing
    /// is rounded to 2 MiB.
    #[test]
    fn caches_are_to_the_byte() {
        for (mib, key, aria) in [
            (4, 3_421_184, 3_997_696),
            (20, 16_962_560, 19_996_672),
            (50, 42_653_696, 50_036_736),
            (100, 85_315_584, 100_081_664),
            (128, 109_734_912, 128_180_224),
            (777, 662_518_784, 777_666_560),
            (2048, 1_755_881_472, 2_051_096_576),
            (8192, 7_023_550_464, 8_204_402_688),
        ] {
            assert_eq!(KEY_CACHE.cache_block_bytes(mib << 20, 1024, 512), key, "{mib} MiB");
            assert_eq!(ARIA.cache_block_bytes(mib << 20, 8192, 512), aria, "{mib} MiB");
        }
        assert_eq!(KEY_CACHE.cache_block_bytes(64 << 20, 1024, 512), 54_863_872);
        assert_eq!(KEY_CACHE.cache_block_bytes(256 << 20, 4096, 512), 254_447_616);
        assert_eq!(KEY_CACHE.cache_block_bytes(256 << 20, 1536, 512), 232_581_120);
        assert_eq!(KEY_CACHE.cache_block_bytes(256 << 20, 1024, 8192), 219_367_424);
        assert_eq!(ARIA.cache_block_bytes(256 << 20, 8192, 9000), 256_122_880);
        assert_eq!(KEY_CACHE.cache_block_bytes(8192, 1024, 512), 0);
    }

    /// Every way in which the kernel may place the buffer pool, played through as the server does
    /// it.
    #[test]
    fn no_placement_takes_more_than_the_demand() {
        for page_size in [64 << 10, 2 << 20, 4 << 20, 8 << 20, 1 << 30] {
            let page = PageSize::new(page_size).unwrap();
            let sizes = AllocationSizes::from_settings(
                &settings("innodb_buffer_pool_size=2G"),
                true,
                Some(PROVEN),
            )
            .unwrap();
            // What was added so far, after any run of placements.
            let mut reached = std::collections::BTreeSet::from([0_u64]);
            let mut kept = std::collections::BTreeSet::new();
            while let Some(added) = reached.pop_first() {
                for off in (0..EXTENT).step_by(usize::try_from(page_size).unwrap()) {
                    let waste = (EXTENT - off) % EXTENT;
                    if added >= waste {
                        kept.insert(added);
                    } else {
                        reached.insert(added + waste);
                    }
                }
            }
            let most = kept.last().unwrap().div_ceil(page_size);
            assert_eq!(sizes.alignment_pages(page), PageCount(most), "{page_size}");
        }
    }

    #[test]
    fn a_start_that_had_the_worst_place_is_followed_by_none_that_takes_more() {
        // 259 pages, and up to 5 for the place of the pool: who has 262 may take 2 more, who has
        // 264 none.
        let sizes = |patch| {
            AllocationSizes::from_settings(
                &settings("innodb_buffer_pool_size=256M"),
                true,
                Some((10, 11, patch)),
            )
            .unwrap()
        };
        for (mapped, more) in [(259, 5), (262, 2), (264, 0)] {
            assert_eq!(
                sizes(19).extra_pages_possible(PageCount(mapped), PageSize::MIB_2),
                PageCount(more)
            );
            // What another release has mapped is not held against the settings.
            assert_eq!(
                sizes(18).extra_pages_possible(PageCount(mapped), PageSize::MIB_2),
                PageCount(5)
            );
            assert_eq!(
                sizes(11).extra_pages_possible(PageCount(mapped), PageSize::MIB_2),
                PageCount(0),
                "in chunks"
            );
        }
    }

    #[test]
    fn a_pool_in_chunks_has_its_place_at_once() {
        for (version, aligned) in [
            ((10, 6, 30), false),
            ((10, 11, 11), false),
            ((10, 11, 12), true),
            ((11, 4, 5), false),
            ((11, 4, 6), true),
            ((11, 7, 9), false),
            ((11, 8, 2), true),
            ((12, 0, 0), true),
        ] {
            let sizes = AllocationSizes::from_settings(
                &settings("innodb_buffer_pool_size=1G"),
                true,
                Some(version),
            )
            .unwrap();
            assert_eq!(sizes.aligned, aligned, "{version:?}");
            assert_eq!(sizes.error_percent(PageSize::MIB_2), 5, "{version:?}");
        }
    }

    #[test]
    fn mysql_asks_chunk_by_chunk() {
        // MySQL 8.0 asks for 66 pages for each chunk of 128 MiB, and 4 are for the keys of MyISAM.
        assert_eq!(pages("innodb_buffer_pool_size=1G", false, (8, 0, 36)), 8 * 66 + 4);
    }

    proptest! {
        #[test]
        fn more_memory_never_needs_fewer_pages(
            name in prop::sample::select(vec!["innodb_buffer_pool_size", "innodb_log_buffer_size"]),
            mib in 8_u64..1 << 20,
            more in 0_u64..1 << 16,
            mariadb: bool,
            patch in 0_u32..30,
        ) {
            let pages = |mib: u64| pages(&format!("{name}={mib}M"), mariadb, (10, 11, patch));
            prop_assert!(pages(mib) <= pages(mib + more));
        }

        #[test]
        fn no_number_brings_it_down(values in prop::collection::vec(0_u64..=u64::MAX, 9), mariadb: bool, page in 12_u32..40) {
            let names = [
                "innodb_buffer_pool_size", "innodb_buffer_pool_chunk_size", "innodb_log_buffer_size", "key_buffer_size",
                "key_cache_segments", "key_cache_block_size", "key_cache_file_hash_size", "aria_pagecache_buffer_size",
                "aria_block_size",
            ];
            let text: Vec<_> = names.iter().zip(values).map(|(name, value)| format!("{name}={value}")).collect();
            for version in [None, Some(PROVEN), Some((8, 0, 36))] {
                let sizes = AllocationSizes::from_settings(&settings(&text.join(" ")), mariadb, version).unwrap();
                let _ = sizes.pages_needed(PageSize::new(1 << page).unwrap());
            }
        }
    }
}
