#![no_main]

use hugewise_host::config::tuned;

hugewise_fuzz::target!(parse);

fn parse(bytes: &[u8]) {
    if let Ok(sections) = tuned::parse("/f", bytes) {
        std::hint::black_box(tuned::describe_profile(
            String::new(),
            &sections,
            &tuned::ConditionHost::default(),
        ));
    }
}
