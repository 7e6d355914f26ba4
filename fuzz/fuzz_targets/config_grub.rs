#![no_main]

use hugewise_host::config::grub;

hugewise_fuzz::target!(walk, grub::parse_environment);

fn walk(bytes: &[u8]) {
    let menu = grub::parse(bytes);
    for default in ["0", "1>0", "saved"] {
        std::hint::black_box(menu.default_entry(default));
    }
    let _ = std::hint::black_box(grub::expand_grub_variables(
        &String::from_utf8_lossy(bytes),
        &menu.variables,
    ));
}
