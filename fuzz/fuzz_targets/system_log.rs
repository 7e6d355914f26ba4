#![no_main]

//! Any bytes as what dmesg, journalctl or rsyslog wrote.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::system_log::read(&mut bytes, "messages").map_or(0, |series| series.events().count())
}

hugewise_fuzz::target!(read);
