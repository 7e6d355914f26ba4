//! Translation buffers by CPUID.
//!
//! Intel: leaf 2 (one byte a descriptor) and leaf 0x18 (Software Developer's Manual, volume 2A,
//! CPUID). AMD and Hygon: leaves 0x80000005, 0x80000006 and 0x80000019 (AMD64 Architecture
//! Programmer's Manual, volume 3, appendix E.4). Entries for 4 MiB pages are left out: 64-bit
//! kernels have none.

use hugewise_model::host::{TlbHolds, TlbLevel};
use hugewise_model::{Observed, PageSize};

/// EAX, EBX, ECX and EDX of one leaf and subleaf.
type Registers = [u32; 4];
type Cpuid<'a> = &'a dyn Fn(u32, u32) -> Option<Registers>;

/// No processor has more; a hypervisor may claim anything.
const MAX_SUBLEAVES: u32 = 64;

/// All translation buffers, nearest first, by page size; absent in most virtual machines.
pub fn decode_tlb(cpuid: Cpuid<'_>) -> Observed<Vec<TlbLevel>> {
    let Some([highest, b, c, d]) = cpuid(0, 0) else { return Observed::Absent };
    let name: Vec<u8> = [b, d, c].into_iter().flat_map(u32::to_le_bytes).collect();
    let mut levels = match name.as_slice() {
        b"GenuineIntel" => decode_intel(cpuid, highest),
        b"AuthenticAMD" | b"HygonGenuine" => decode_amd(cpuid),
        _ => Vec::new(),
    };
    levels.sort_by_key(|entry| {
        (entry.level, u8::from(entry.holds == TlbHolds::Instructions), entry.page_size)
    });
    levels.dedup();
    if levels.is_empty() { Observed::Absent } else { Observed::Known(levels) }
}

fn decode_intel(cpuid: Cpuid<'_>, highest: u32) -> Vec<TlbLevel> {
    let descriptors =
        if highest >= 2 { descriptor_bytes(cpuid(2, 0).unwrap_or_default()) } else { Vec::new() };
    let levels: Vec<TlbLevel> =
        descriptors.iter().flat_map(|&descriptor| decode_descriptor(descriptor)).collect();
    // 0xFE: "leaf 2 does not report TLB information; use leaf 0x18". (0xFF says so of caches and
    // leaf 4.)
    if (descriptors.contains(&0xfe) || levels.is_empty()) && highest >= 0x18 {
        return decode_parameters(cpuid);
    }
    levels
}

/// Bytes of leaf 2: a register with its top bit set has none, and EAX's lowest is a count.
fn descriptor_bytes(registers: Registers) -> Vec<u8> {
    let valid = registers.into_iter().enumerate().filter(|(_, register)| register >> 31 == 0);
    let bytes = valid
        .flat_map(|(at, register)| register.to_le_bytes().into_iter().skip(usize::from(at == 0)));
    bytes.filter(|byte| *byte != 0).collect()
}

/// A descriptor's entries; none for unknown ones and caches.
fn decode_descriptor(descriptor: u8) -> Vec<TlbLevel> {
    use TlbHolds::{Both, Data, Instructions};
    const K4: PageSize = PageSize::KIB_4;
    const M2: PageSize = PageSize::MIB_2;
    const G1: PageSize = PageSize::GIB_1;
    let entries: &[(u8, TlbHolds, PageSize, u32)] = match descriptor {
        0x01 => &[(1, Instructions, K4, 32)],
        0x03 => &[(1, Data, K4, 64)],
        0x4f => &[(1, Instructions, K4, 32)],
        0x50 => &[(1, Instructions, K4, 64), (1, Instructions, M2, 64)],
        0x51 => &[(1, Instructions, K4, 128), (1, Instructions, M2, 128)],
        0x52 => &[(1, Instructions, K4, 256), (1, Instructions, M2, 256)],
        0x55 => &[(1, Instructions, M2, 7)],
        0x57 | 0x59 => &[(1, Data, K4, 16)],
        0x5a => &[(1, Data, M2, 32)],
        0x61 => &[(1, Instructions, K4, 48)],
        0x63 => &[(1, Data, M2, 32), (1, Data, G1, 4)],
        0x64 => &[(2, Data, K4, 512)],
        0x6a => &[(1, Data, K4, 64)],
        0x6b => &[(2, Data, K4, 256)],
        0x6c => &[(2, Data, M2, 128)],
        0x6d => &[(2, Data, G1, 16)],
        0x76 => &[(1, Instructions, M2, 8)],
        0xa0 => &[(1, Data, K4, 32)],
        0xb0 | 0xb6 => &[(1, Instructions, K4, 128)],
        0xb1 => &[(1, Instructions, M2, 8)],
        0xb2 | 0xb5 => &[(1, Instructions, K4, 64)],
        0xb3 => &[(1, Data, K4, 128)],
        0xb4 => &[(2, Data, K4, 256)],
        0xba => &[(2, Data, K4, 64)],
        0xc1 => &[(2, Both, K4, 1024), (2, Both, M2, 1024)],
        0xc2 => &[(1, Data, K4, 16), (1, Data, M2, 16)],
        0xc3 => &[(2, Both, K4, 1536), (2, Both, M2, 1536), (2, Both, G1, 16)],
        0xc4 => &[(1, Data, M2, 32)],
        0xca => &[(2, Both, K4, 512)],
        _ => &[],
    };
    entries
        .iter()
        .map(|&(level, holds, page_size, entries)| TlbLevel { level, holds, page_size, entries })
        .collect()
}

/// Leaf 0x18: one buffer a subleaf. EBX has the page sizes in bits 0 to 3 and the ways in 31:16,
/// ECX the sets, EDX the kind in 4:0 and the level in 7:5.
fn decode_parameters(cpuid: Cpuid<'_>) -> Vec<TlbLevel> {
    const SIZES: [(u32, PageSize); 3] =
        [(0, PageSize::KIB_4), (1, PageSize::MIB_2), (3, PageSize::GIB_1)];
    let last = cpuid(0x18, 0).map_or(0, |[last, ..]| last).min(MAX_SUBLEAVES);
    let mut levels = Vec::new();
    for [_, sizes_and_ways, sets, kind] in (0..=last).filter_map(|subleaf| cpuid(0x18, subleaf)) {
        let holds = match kind & 0x1f {
            // 4 is for loads, 5 for stores: counting both would count data twice.
            1 | 4 => TlbHolds::Data,
            2 => TlbHolds::Instructions,
            3 => TlbHolds::Both,
            _ => continue,
        };
        let entries = (sizes_and_ways >> 16).saturating_mul(sets);
        let level = u8::try_from(kind >> 5 & 7).unwrap_or(0);
        let sizes =
            SIZES.into_iter().filter(|(bit, _)| sizes_and_ways >> bit & 1 == 1 && entries > 0);
        levels.extend(sizes.map(|(_, page_size)| TlbLevel { level, holds, page_size, entries }));
    }
    levels
}

/// AMD's three leaves: bytes in the first level's leaf, in the others 12 bits of entries and 4 of
/// associativity, where 0 means no such buffer.
fn decode_amd(cpuid: Cpuid<'_>) -> Vec<TlbLevel> {
    let highest = cpuid(0x8000_0000, 0).map_or(0, |[highest, ..]| highest);
    let leaf = |leaf: u32| {
        if highest >= leaf { cpuid(leaf, 0).unwrap_or_default() } else { Registers::default() }
    };
    let [first_2m, first_4k, ..] = leaf(0x8000_0005);
    let [second_2m, second_4k, ..] = leaf(0x8000_0006);
    let [first_1g, second_1g, ..] = leaf(0x8000_0019);
    let mut levels = Vec::new();
    let mut add = |level, holds, page_size, ways: u32, entries: u32| {
        if ways > 0 && entries > 0 {
            levels.push(TlbLevel { level, holds, page_size, entries });
        }
    };
    for (page_size, register) in [(PageSize::KIB_4, first_4k), (PageSize::MIB_2, first_2m)] {
        let [i_entries, i_ways, d_entries, d_ways] = register.to_le_bytes().map(u32::from);
        add(1, TlbHolds::Data, page_size, d_ways, d_entries);
        add(1, TlbHolds::Instructions, page_size, i_ways, i_entries);
    }
    for (level, page_size, register) in [
        (2, PageSize::KIB_4, second_4k),
        (2, PageSize::MIB_2, second_2m),
        (1, PageSize::GIB_1, first_1g),
        (2, PageSize::GIB_1, second_1g),
    ] {
        add(level, TlbHolds::Data, page_size, register >> 28, register >> 16 & 0xfff);
        add(level, TlbHolds::Instructions, page_size, register >> 12 & 0xf, register & 0xfff);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTEL: [u32; 3] = [0x756e_6547, 0x6c65_746e, 0x4965_6e69];
    const AMD: [u32; 3] = [0x6874_7541, 0x444d_4163, 0x6974_6e65];

    fn decoded(leaves: &[(u32, u32, Registers)]) -> Observed<Vec<TlbLevel>> {
        decode_tlb(&|leaf, subleaf| {
            leaves
                .iter()
                .find(|(a, c, _)| (*a, *c) == (leaf, subleaf))
                .map(|(.., registers)| *registers)
        })
    }

    fn data(levels: &Observed<Vec<TlbLevel>>) -> Vec<(u8, u64, u32)> {
        let levels = levels.as_known().unwrap().iter();
        let data = levels.filter(|entry| entry.holds != TlbHolds::Instructions);
        data.map(|entry| (entry.level, entry.page_size.bytes().get() >> 10, entry.entries))
            .collect()
    }

    #[test]
    fn skylake_sp_by_descriptors() {
        let levels = decoded(&[
            (0, 0, [0x16, INTEL[0], INTEL[1], INTEL[2]]),
            (2, 0, [0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000]),
        ]);
        // L1D 64 x 4K, 32 x 2M, 4 x 1G; L2 1536 for 4K and 2M, 16 x 1G.
        let expected = [
            (1, 4, 64),
            (1, 2048, 32),
            (1, 1 << 20, 4),
            (2, 4, 1536),
            (2, 2048, 1536),
            (2, 1 << 20, 16),
        ];
        assert_eq!(data(&levels), expected);
        assert_eq!(levels.as_known().unwrap().len(), 8, "and two for instructions");
    }

    #[test]
    fn leaf_2_points_to_leaf_0x18() {
        let levels = decoded(&[
            (0, 0, [0x1b, INTEL[0], INTEL[1], INTEL[2]]),
            (2, 0, [0x00fe_ff01, 0xf0, 0, 0]),
            // Subleaf 0 is not valid; then loads 4K 16 ways x 4, 2M and 4M 32 x 1; stores; unified
            // 4K and 2M 8 x 128.
            (0x18, 0, [5, 0, 0, 0]),
            (0x18, 1, [0, 0x0010_0001, 4, 0x24]),
            (0x18, 2, [0, 0x0020_0006, 1, 0x24]),
            (0x18, 3, [0, 0x0010_000f, 1, 0x125]),
            (0x18, 4, [0, 0x0008_0007, 128, 0x43]),
            (0x18, 5, [0, 0x0008_0009, 0, 0x43]),
        ]);
        assert_eq!(data(&levels), [(1, 4, 64), (1, 2048, 32), (2, 4, 1024), (2, 2048, 1024)]);
    }

    #[test]
    fn zen_2_by_its_three_leaves() {
        let levels = decoded(&[
            (0, 0, [0x10, AMD[0], AMD[1], AMD[2]]),
            (0x8000_0000, 0, [0x8000_0020, 0, 0, 0]),
            (0x8000_0005, 0, [0xff40_ff40, 0xff40_ff40, 0, 0]),
            (0x8000_0006, 0, [0x4800_6400, 0x6800_6400, 0, 0]),
            (0x8000_0019, 0, [0xf040_f040, 0, 0, 0]),
        ]);
        assert_eq!(
            data(&levels),
            [(1, 4, 64), (1, 2048, 64), (1, 1 << 20, 64), (2, 4, 2048), (2, 2048, 2048)]
        );
    }

    #[test]
    fn a_virtual_machine_that_tells_nothing_is_not_zero_entries() {
        assert_eq!(decoded(&[(0, 0, [0x20, INTEL[0], INTEL[1], INTEL[2]])]), Observed::Absent);
        let zeros =
            [(0, 0, [0x10, AMD[0], AMD[1], AMD[2]]), (0x8000_0000, 0, [0x8000_0020, 0, 0, 0])];
        assert_eq!(decoded(&zeros), Observed::Absent);
        assert_eq!(decoded(&[]), Observed::Absent);
    }

    proptest! {
        #[test]
        fn any_answers(seed: u32, amd: bool) {
            let name = if amd { AMD } else { INTEL };
            let levels = decode_tlb(&|leaf, subleaf| Some(match leaf {
                0 => [seed | 0x18, name[0], name[1], name[2]],
                _ => [1, 3, 5, 7].map(|factor| seed.rotate_left(leaf ^ subleaf).wrapping_mul(factor)),
            }));
            for level in levels.as_known().into_iter().flatten() {
                prop_assert!(level.entries > 0);
            }
        }
    }
}
