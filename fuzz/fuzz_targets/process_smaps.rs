#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let found = hugewise_host::process::smaps::page_size_at(bytes, 0x7f10_0000_0000);
    let _ = std::hint::black_box(found);
});
