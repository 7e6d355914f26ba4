#![no_main]

hugewise_fuzz::target!(
    hugewise_engines::jvm::hsperf::parse,
    hugewise_engines::jvm::hsperf::without_secrets
);
