#![no_main]

hugewise_fuzz::target!(hugewise_host::process::status::parse);
