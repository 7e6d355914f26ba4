//! In which form results are printed. A command that knows more forms than these says so itself.

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// How results are printed where a page helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PageFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// A single HTML page.
    Html,
}
