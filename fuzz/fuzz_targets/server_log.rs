#![no_main]

//! Any bytes as what a server wrote, of each that is read.

use hugewise_model::Engine;

fn read(bytes: &[u8]) -> usize {
    let engines = [Engine::Oracle, Engine::PostgreSql, Engine::MariaDb];
    let events = |engine| {
        let mut stream = bytes;
        let read = hugewise_incident::readers::server_log::read(&mut stream, "log", engine);
        read.map_or(0, |series| series.events().count())
    };
    engines.into_iter().map(events).sum()
}

hugewise_fuzz::target!(read);
