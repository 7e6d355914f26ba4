//! How much a line of a unit may become by what is filled in: a few words of a file can stand for more than any memory holds.

/// Text of a command, or of the variables of one service: what execve(2) takes is 2 MiB at most, environment included, and one
/// argument 128 KiB of it.
const MOST_TEXT: usize = 256 << 10;

/// Words of a command. Each costs far more here than the byte or two that it has in the file.
const MOST_WORDS: usize = 16 << 10;

/// A command or a value is longer than any server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with its variables filled in, it is longer than {} KiB or {MOST_WORDS} words", MOST_TEXT >> 10)]
pub(super) struct TooLong;

/// The same text, where it is not too long to be looked at.
pub(super) const fn bounded(text: &str) -> Result<&str, TooLong> {
    if text.len() > MOST_TEXT { Err(TooLong) } else { Ok(text) }
}

/// A text while it is put together.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn push_str(&mut self, part: &str) -> Result<(), TooLong> {
        if self.0.len().saturating_add(part.len()) > MOST_TEXT {
            return Err(TooLong);
        }
        self.0.push_str(part);
        Ok(())
    }

    pub(super) fn push(&mut self, sign: char) -> Result<(), TooLong> {
        self.push_str(sign.encode_utf8(&mut [0; 4]))
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// The words of a command, or the variables of a service, while they are put together.
#[derive(Debug, Default)]
pub(super) struct Room {
    text: usize,
    words: usize,
}

impl Room {
    /// Counts one more word of that many bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<(), TooLong> {
        self.text = self.text.saturating_add(length);
        self.words = self.words.saturating_add(1);
        if self.text > MOST_TEXT || self.words > MOST_WORDS { Err(TooLong) } else { Ok(()) }
    }

    /// Counts all of these words.
    pub(super) fn take_all(&mut self, words: &[String]) -> Result<(), TooLong> {
        words.iter().try_for_each(|word| self.take(word.len()))
    }
}
