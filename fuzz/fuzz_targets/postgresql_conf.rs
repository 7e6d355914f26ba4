#![no_main]

hugewise_fuzz::target!(hugewise_engines::postgresql::conf::parse);
