#![no_main]

hugewise_fuzz::target!(hugewise_change::Plan::from_json, hugewise_fuzz::plan_in_every_format);
