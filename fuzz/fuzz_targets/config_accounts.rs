#![no_main]

hugewise_fuzz::target!(
    hugewise_host::config::accounts::parse_users,
    hugewise_host::config::accounts::parse_groups
);
