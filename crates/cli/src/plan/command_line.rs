//! A plan's options as words of a command: `apply` without them makes another plan.

use clap::Parser;
use hugewise_diagnose::sizing::PageSizeChoice;
use hugewise_model::PageSize;
use hugewise_model::escape::shell;

use super::{Only, Overcommit, Wishes};

/// What a plan was made with, as it stands in its file.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct FileOptions {
    #[command(flatten)]
    pub(crate) wishes: Wishes,
    #[arg(long)]
    pub(crate) keep_partial: bool,
    /// Of no account in a file: who applies it has to say so himself.
    #[arg(long)]
    force: bool,
}

impl FileOptions {
    pub(crate) fn parse_words(words: &[String]) -> Result<Self, clap::Error> {
        Self::try_parse_from(words)
    }
}

impl Wishes {
    /// What was asked for beside the usual, each word behind a space; nothing where that is
    /// nothing.
    pub(super) fn to_command_line(&self, bent: super::Bent) -> String {
        let words = self.to_command_words(bent);
        let is_option = |word: &str| {
            word.strip_prefix("--").is_some_and(|name| {
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
            })
        };
        let shown = |word: &String| {
            if is_option(word) {
                format!(" {word}")
            } else {
                format!(" {}", shell::quote_word(word))
            }
        };
        words.iter().map(shown).collect()
    }

    /// The same as words.
    pub(super) fn to_command_words(&self, bent: super::Bent) -> Vec<String> {
        let mut words = Vec::new();
        let mut valued = |option: &str, value: &str| {
            words.extend([option.to_owned(), value.to_owned()]);
        };
        self.instance.iter().for_each(|name| valued("--instance", name));
        self.restart.iter().for_each(|name| valued("--restart", name));
        if let PageSizeChoice::Size(page) = self.page_size.0 {
            valued("--page-size", &render_page_size(page));
        }
        if self.headroom > 0 {
            valued("--headroom", &self.headroom.to_string());
        }
        if let Some(sessions) = self.sessions {
            valued("--sessions", &sessions.to_string());
        }
        match self.only {
            Some(Only::Now) => valued("--only", "now"),
            Some(Only::Boot) => valued("--only", "boot"),
            None => {}
        }
        for Overcommit(page, pages) in &self.overcommit {
            valued("--overcommit", &format!("{}={}", render_page_size(*page), pages.get()));
        }
        self.also.paths().for_each(|path| valued("--also", &path.to_string_lossy()));
        let switches = [
            ("--early", self.early),
            ("--shrink", self.shrink),
            ("--connect", self.connect),
            ("--keep-partial", bent.keep_partial),
            ("--force", bent.force),
        ];
        let on = switches.into_iter().filter(|(_, is_on)| *is_on);
        words.extend(on.map(|(switch, _)| switch.to_owned()));
        words
    }
}

/// `2M`, `1G`, `64K`.
fn render_page_size(page: PageSize) -> String {
    let bytes = page.bytes().get();
    [(30, "G"), (20, "M")]
        .into_iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift)
        .map_or(format!("{}K", bytes >> 10), |(shift, letter)| {
            format!("{}{letter}", bytes >> shift)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Bent;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        wishes: Wishes,
    }

    /// What is printed is taken again, and means the same.
    #[test]
    fn what_was_typed_is_what_is_printed() {
        let line = " --instance 'oracle PROD' --restart 15/main --page-size 1G --headroom 5 \
             --sessions 300 --only boot --overcommit 2M=100 \
                    --also /srv/db2.tar --early --shrink --connect";
        let words = [
            "x",
            "--instance",
            "oracle PROD",
            "--restart",
            "15/main",
            "--page-size",
            "1GiB",
            "--headroom",
            "5",
            "--sessions",
            "300",
            "--only",
            "boot",
            "--overcommit",
            "2MiB=100",
            "--also",
            "/srv/db2.tar",
            "--early",
            "--shrink",
            "--connect",
        ];
        let asked = Command::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(asked.wishes.to_command_line(Bent::default()), line);
        let usual = Command::try_parse_from(["x"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            usual.wishes.to_command_line(Bent { keep_partial: true, force: false }),
            " --keep-partial"
        );
        assert_eq!(usual.wishes.to_command_line(Bent::default()), "");
    }
}
