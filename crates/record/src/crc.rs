//! CRC-32C (Castagnoli), as iSCSI (RFC 3720), ext4 and btrfs use it: eight bytes at a time, by tables.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLES: [[u32; 256]; 8] = tables();

#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "worked out by the compiler")]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let (lots, rest) = bytes.as_chunks::<8>();
    let mut crc = !0_u32;
    for lot in lots {
        let [a, b, c, d, e, f, g, h] = *lot;
        let [p, q, r, s] = crc.to_le_bytes();
        crc = at(7, a ^ p) ^ at(6, b ^ q) ^ at(5, c ^ r) ^ at(4, d ^ s) ^ at(3, e) ^ at(2, f) ^ at(1, g) ^ at(0, h);
    }
    for byte in rest {
        let [low, ..] = crc.to_le_bytes();
        crc = crc >> 8 ^ at(0, low ^ byte);
    }
    !crc
}

#[allow(clippy::indexing_slicing, reason = "a byte has a place in a table of 256, and there are eight tables")]
const fn at(table: usize, byte: u8) -> u32 {
    TABLES[table & 7][byte as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, B.4, and the check value of the catalogue of CRCs.
    #[test]
    fn it_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b""), 0);
    }
}
