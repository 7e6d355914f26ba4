#![no_main]

use hugewise_engines::log_files::read_log;
use hugewise_engines::logs::LogText;
use hugewise_model::Engine;

hugewise_fuzz::target!(read);

fn read(bytes: &[u8]) {
    let _ =
        std::hint::black_box(read_log(&LogText { path: "log", bytes }, Some(Engine::PostgreSql)));
}
