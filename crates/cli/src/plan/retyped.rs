//! The options of a plan as words of a command, for who goes on from it: `apply` without them makes another plan.

use hugewise_advice::sizing::PageSizeChoice;
use hugewise_model::PageSize;
use hugewise_model::escape::shell;

use super::{Only, Overcommit, Wishes};

impl Wishes {
    /// What was asked for beside the usual, each word behind a space; nothing where that is nothing.
    pub(super) fn retyped(&self, bent: super::Bent) -> String {
        let mut words: Vec<(&str, Option<String>)> = Vec::new();
        let mut valued = |option, value: &str| words.push((option, Some(shell::word(value))));
        self.instance.iter().for_each(|name| valued("--instance", name));
        self.restart.iter().for_each(|name| valued("--restart", name));
        if let PageSizeChoice::Size(page) = self.page_size.0 {
            valued("--page-size", &letter(page));
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
            valued("--overcommit", &format!("{}={}", letter(*page), pages.get()));
        }
        self.also.paths().for_each(|path| valued("--also", &path.to_string_lossy()));
        let switches = [
            ("--early", self.early),
            ("--shrink", self.shrink),
            ("--connect", self.connect),
            ("--keep-partial", bent.keep_partial),
            ("--force", bent.force),
        ];
        words.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(switch, _)| (switch, None)));
        words
            .iter()
            .map(|(option, value)| value.as_ref().map_or(format!(" {option}"), |it| format!(" {option} {it}")))
            .collect()
    }
}

/// `2M`, `1G`, `64K`.
fn letter(page: PageSize) -> String {
    let bytes = page.bytes().get();
    [(30, "G"), (20, "M")]
        .into_iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift)
        .map_or(format!("{}K", bytes >> 10), |(shift, letter)| format!("{}{letter}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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
        let line = " --instance 'oracle PROD' --restart 15/main --page-size 1G --headroom 5 --sessions 300 --only boot --overcommit 2M=100 \
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
        assert_eq!(asked.wishes.retyped(Bent::default()), line);
        let usual = Command::try_parse_from(["x"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(usual.wishes.retyped(Bent { keep_partial: true, force: false }), " --keep-partial");
        assert_eq!(usual.wishes.retyped(Bent::default()), "");
    }
}
