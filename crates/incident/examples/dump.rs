#![allow(
    clippy::all,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]
fn main() {
    for path in std::env::args().skip(1) {
        let t = std::time::Instant::now();
        let mut file = std::fs::File::open(&path).unwrap();
        match hugewise_incident::readers::sysstat::read(&mut file, &path) {
            Err(e) => println!("{path}: refused: {e}"),
            Ok(s) => {
                println!(
                    "{path}: {:?} {:?} {:?} {:?} samples {} metrics {} marks {} problems {:?} untrusted {:?} clock {:?} {:?}",
                    s.version,
                    s.host,
                    s.kernel,
                    s.architecture,
                    s.samples().len(),
                    s.metrics().count(),
                    s.marks.len(),
                    s.problems,
                    s.untrusted.len(),
                    s.clock,
                    t.elapsed()
                );
                let last = s.samples().len().saturating_sub(1);
                for m in s.metrics() {
                    print!("{}={} ", m.name(), s.value(m, last).map_or("-".into(), |v| format!("{v:.2}")));
                }
                println!();
            }
        }
    }
}
