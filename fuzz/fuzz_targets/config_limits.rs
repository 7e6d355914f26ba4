#![no_main]

use hugewise_host::config::limits;

hugewise_fuzz::target!(apply);

fn apply(bytes: &[u8]) {
    let rules = limits::parse("/f", bytes);
    std::hint::black_box(limits::for_user(
        &rules,
        "oracle",
        54321,
        &[(54321, "oinstall".to_owned())],
    ));
}
