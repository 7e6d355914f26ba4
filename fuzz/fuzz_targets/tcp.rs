#![no_main]

hugewise_fuzz::target!(hugewise_host::kernel::tcp::parse);
