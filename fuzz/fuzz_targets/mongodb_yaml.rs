#![no_main]

hugewise_fuzz::target!(hugewise_engines::mongodb::yaml::parse);
