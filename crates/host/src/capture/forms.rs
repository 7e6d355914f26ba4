//! What a kind of servers says of its own command lines and files, where lists of names don't tell
//! what to keep of them.

/// A program's name and its arguments, and what is kept of these.
pub type KeepsArguments = fn(&str, &[&str]) -> Option<Vec<String>>;
/// A program's name, an option, the word behind it and all arguments, and what is kept of that
/// word.
pub type KeepsValue = fn(&str, &str, &str, &[&str]) -> Option<String>;
/// A file's path or name and its bytes, and what is kept of these.
pub type KeepsFile = fn(&str, &[u8]) -> Option<Vec<u8>>;

/// Each is `None` where there is nothing to say. Nothing that a user could have put there may be in
/// what one keeps, and given its own answer it gives that again.
#[derive(Clone, Copy, Debug)]
pub struct Forms {
    /// Of a first argument of several words, which a server wrote over it; `None` of other titles.
    pub title: Option<fn(&str) -> Option<String>>,
    /// Of all arguments of a program by that name; `None` of a program that is not its own.
    pub arguments: Option<KeepsArguments>,
    /// Of the word behind an option; `None` where that has no form of its own.
    pub value: Option<KeepsValue>,
    /// Programs whose options of one letter may have their value in the same word: `-D/data`.
    pub attached: &'static [&'static str],
    /// Whether a name, in lower case and with `_`, means one of its settings without being the
    /// whole of its name.
    pub is_setting: Option<fn(&str) -> bool>,
    /// Of a line that is no setting, in a file that every engine may have written.
    pub line: Option<fn(&str) -> Option<String>>,
    /// Of a file in a format of its own, by its path in its mount namespace; `None` of others.
    pub rewrite: Option<KeepsFile>,
    /// A binary file of its own, by its name, as lines of settings, which are kept as any.
    pub text: Option<KeepsFile>,
    /// Whether a file in a folder of its servers' is read for its name alone.
    pub tells_by_name: Option<fn(&str) -> bool>,
}

impl Forms {
    /// Of a kind that has none.
    pub const NONE: Self = Self {
        title: None,
        arguments: None,
        value: None,
        attached: &[],
        is_setting: None,
        line: None,
        rewrite: None,
        text: None,
        tells_by_name: None,
    };
}
