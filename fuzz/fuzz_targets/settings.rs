#![no_main]

hugewise_fuzz::target!(
    hugewise_host::kernel::settings::parse,
    hugewise_host::kernel::settings::parse_group
);
