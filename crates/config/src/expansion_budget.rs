//! How much a line of a unit may become by what is filled in: a few words of a file can stand for
//! more than any memory holds.

/// Text of a command, or of the variables of one service: what execve(2) takes is 2 MiB at most,
/// environment included, and one argument 128 KiB of it.
const MOST_TEXT: usize = 256 << 10;

/// Words of a command. Each costs far more here than the byte or two that it has in the file.
const MOST_WORDS: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with its variables filled in, it is longer than {} KiB or {MOST_WORDS} words", MOST_TEXT >> 10)]
pub(super) struct ExpansionTooLong;

pub(super) const fn check_text_length(text: &str) -> Result<&str, ExpansionTooLong> {
    if text.len() > MOST_TEXT { Err(ExpansionTooLong) } else { Ok(text) }
}

#[derive(Debug, Default)]
pub(super) struct BoundedText(String);

impl BoundedText {
    pub(super) fn push_str(&mut self, part: &str) -> Result<(), ExpansionTooLong> {
        if self.0.len().saturating_add(part.len()) > MOST_TEXT {
            return Err(ExpansionTooLong);
        }
        self.0.push_str(part);
        Ok(())
    }

    pub(super) fn push(&mut self, sign: char) -> Result<(), ExpansionTooLong> {
        self.push_str(sign.encode_utf8(&mut [0; 4]))
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[derive(Debug, Default)]
pub(super) struct ExpansionBudget {
    text: usize,
    words: usize,
}

impl ExpansionBudget {
    pub(super) fn count_word(&mut self, length: usize) -> Result<(), ExpansionTooLong> {
        self.text = self.text.saturating_add(length);
        self.words = self.words.saturating_add(1);
        if self.text > MOST_TEXT || self.words > MOST_WORDS {
            Err(ExpansionTooLong)
        } else {
            Ok(())
        }
    }

    pub(super) fn count_words(&mut self, words: &[String]) -> Result<(), ExpansionTooLong> {
        words.iter().try_for_each(|word| self.count_word(word.len()))
    }
}
