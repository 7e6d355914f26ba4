#![no_main]

hugewise_fuzz::target!(hugewise_engines::jvm::flags::argument_file);
