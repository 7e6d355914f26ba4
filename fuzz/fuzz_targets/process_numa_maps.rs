#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = std::hint::black_box(hugewise_host::process::numa_maps::page_size_at(
        bytes,
        0x7f00_0000_0000,
    ));
});
