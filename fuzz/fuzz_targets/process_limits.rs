#![no_main]

hugewise_fuzz::target!(hugewise_host::process::limits::parse);
