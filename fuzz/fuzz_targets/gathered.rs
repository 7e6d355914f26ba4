#![no_main]

//! Any bytes as a file that is given to be investigated: a tar, compressed or not, or what a
//! collector wrote.

fn look(bytes: &[u8]) -> usize {
    hugewise_fuzz::with_file(bytes, |path| {
        let options = hugewise_investigate::Options::default();
        hugewise_investigate::investigate(&[path.to_owned()], &options, &|_| {})
            .map_or(0, |found| found.sources.len())
    })
}

hugewise_fuzz::target!(look);
