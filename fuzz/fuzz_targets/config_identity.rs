#![no_main]

hugewise_fuzz::target!(
    hugewise_host::config::identity::parse_name,
    hugewise_host::config::identity::parse_os_release
);
