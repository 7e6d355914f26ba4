//! Reads archives and says what is in them.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a tool for those who work on the readers"
)]

use std::error::Error;
use std::fs::File;

use hugewise_investigate::readers;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        match readers::read(File::open(&path)?, &path) {
            Err(refused) => println!("{path}: {refused}"),
            Ok(all) => {
                for series in all {
                    let version = series.version.as_deref().unwrap_or("?");
                    let (samples, metrics) = (series.samples().len(), series.metrics().count());
                    println!(
                        "{path}: {} {version}, {samples} samples of {metrics} metrics",
                        series.format
                    );
                    for (metric, why) in &series.untrusted {
                        println!("  {:32} not trusted: {why}", metric.name());
                    }
                    for problem in &series.problems {
                        println!("  {problem}");
                    }
                }
            }
        }
    }
    Ok(())
}
