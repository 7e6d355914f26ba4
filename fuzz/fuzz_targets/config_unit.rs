#![no_main]

use hugewise_host::config::{systemd, unit};

hugewise_fuzz::target!(describe);

fn describe(bytes: &[u8]) {
    let assignments: Vec<_> =
        unit::parse(bytes).into_iter().map(|found| ("/f".to_owned(), found)).collect();
    std::hint::black_box(systemd::describe_service(&assignments));
    std::hint::black_box(systemd::default_memlocks("/f", bytes));
    std::hint::black_box(
        unit::UnitName::parse(&String::from_utf8_lossy(bytes)).map(|name| name.drop_in_names()),
    );
}
