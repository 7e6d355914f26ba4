#![no_main]

//! Any bytes as a file of OSWatcher or made like it.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::oswatcher::read(&mut bytes, "db1_vmstat_26.11.21.2300.dat").map_or(0, |all| all.len())
}

hugewise_fuzz::target!(read);
