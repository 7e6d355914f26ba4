#![no_main]

hugewise_fuzz::target!(hugewise_fuzz::planned_beside_an_attacker);
