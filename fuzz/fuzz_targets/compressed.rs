#![no_main]

//! Any bytes as a compressed file, unpacked up to what a day of samples takes.

use std::io::Read;

fn unpack(bytes: &[u8]) -> u64 {
    let Ok(plain) = hugewise_host::compressed::open_decompressed(bytes) else { return 0 };
    std::io::copy(&mut plain.take(64 << 20), &mut std::io::sink()).unwrap_or(0)
}

hugewise_fuzz::target!(unpack);
