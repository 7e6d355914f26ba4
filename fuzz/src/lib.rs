//! What the fuzz targets share. A target is one line: the parser it feeds.

/// A target that feeds any bytes to a parser; it looks for panics, hangs and overflow, so what
/// the parser makes of them is dropped.
#[macro_export]
macro_rules! target {
    ($($parser:path),+ $(,)?) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $(let _ = ::std::hint::black_box($parser(bytes));)+
        });
    };
}
