#![no_main]

//! Any bytes as an archive of a host: opened, read whole, its servers looked for.

use hugewise_host::source;

hugewise_fuzz::target!(read);

fn read(bytes: &[u8]) {
    let path = std::env::temp_dir().join(format!("hugewise-fuzz-archive-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    if let Ok(source) = source::open_source(Some(&path)) {
        let host = hugewise_host::read(source.as_ref());
        std::hint::black_box(hugewise_engines::find_instances(&host, source.as_ref()));
    }
}
