#![no_main]

hugewise_fuzz::target!(
    hugewise_engines::postgresql::control::parse,
    hugewise_engines::postgresql::control::redact_control_file
);
