//! Who types the commands: an account with sudo, in a terminal of 80 columns, on a fresh machine.

use std::path::{Path, PathBuf};

use super::pages;
use super::stories::{Chapter, Step, Story, Then};
use crate::vm::host::{Snapshot, postgresql};
use crate::vm::machine::{Disk, Hardware, Machine};
use hugewise_testkit::tools::Failure;

/// Of the terminal; nothing that hugewise prints may be wider.
const COLUMNS: usize = 80;

/// Types a command in a terminal, answers what it asks, and ends as it does. The answer waits for
/// the question: sudo throws away what was typed before.
const TERMINAL: &str = r#"cd /home/dba
rm -f /tmp/keys; mkfifo /tmp/keys
env -i HOME=/home/dba USER=dba SHELL=/bin/bash TERM=xterm-256color LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin \
    /sbin/runuser -u dba -- script -qec "stty cols @COLUMNS@ rows 24; $(cat /tmp/typed)" /dev/null </tmp/keys >/tmp/screen 2>&1 &
exec 9>/tmp/keys
if [ -n '@ANSWER@' ]; then
    until grep -aqE '\[[yY]/[nN]\] ?$' /tmp/screen; do
        kill -0 $! 2>/dev/null || break
        sleep 0.3
    done
    printf '%s\n' '@ANSWER@' >&9
fi
wait $!
code=$?
exec 9>&-
cat /tmp/screen
exit $code
"#;

const CLUSTER: &str = "if command -v pg_lsclusters >/dev/null; then pg_lsclusters --no-header; \
     else echo 15 main; fi |
    awk '{ printf \"%s/%s\", $1, $2 }'";

/// A newcomer at a machine.
pub(super) struct Player {
    machine: Machine,
    /// The host before hugewise changed anything.
    before: Snapshot,
    story: &'static Story,
    /// As `pg_lsclusters` has it: `15/main`; of a machine without PostgreSQL, what the documents
    /// say.
    cluster: String,
    verbose: bool,
}

/// What a command gave back in its terminal.
struct Screen {
    code: i32,
    text: String,
}

impl Player {
    /// At a fresh machine with what the story finds on it, and with the files of a release in the
    /// home folder.
    pub(super) fn sit_down(
        disk: &Disk,
        downloads: &Path,
        files: &[(String, PathBuf)],
        story: &'static Story,
        verbose: bool,
    ) -> Result<Self, Failure> {
        let mut machine =
            Machine::boot(disk, downloads, Hardware { memory_mib: 2048, ..Hardware::default() })?;
        for (name, _) in files {
            machine.must(&format!(
                "install -m 644 -o dba /usr/local/bin/{name} /home/dba/ && rm /usr/local/bin/{name}"
            ))?;
        }
        machine.must(story.found)?;
        let cluster = machine.must(CLUSTER)?;
        let before = Snapshot::record(&mut machine)?;
        Ok(Self { machine, before, story, cluster, verbose })
    }

    /// Plays all of it; how many commands that were.
    pub(super) fn play(mut self) -> Result<usize, Failure> {
        let mut typed = 0;
        for chapter in self.story.chapters {
            println!("   {}, \"{}\"", chapter.page, chapter.heading);
            for (command, step) in chapter.commands()? {
                let Some(step) = step else { continue };
                typed += 1;
                self.step(&command, step)
                    .map_err(|failure| format!("{}: `{command}`: {failure}", chapter.page))?;
            }
        }
        self.machine.power_off()?;
        Ok(typed)
    }

    fn step(&mut self, command: &str, step: &Step) -> Result<(), Failure> {
        let unit = self.cluster.replace('/', "-");
        let command = command
            .replace("15/main", &self.cluster)
            .replace("15-main", &unit)
            .replace("FOLDER", ".");
        let screen = self.type_in(&command, step.answer)?;
        println!("     $ {command}  -> {}", screen.code);
        if self.verbose {
            screen.text.lines().for_each(|line| println!("     | {line}"));
        }
        let wrong = |what: String| Err(format!("{what}\n{}", screen.text).into());
        if screen.code != step.code {
            return wrong(format!("ended with {}, documented is {}", screen.code, step.code));
        }
        if let Some(missing) =
            step.says.iter().find(|text| !screen.text.contains(&self.named(text)))
        {
            return wrong(format!("does not say `{missing}`"));
        }
        // What apt prints is apt's own affair.
        let wide = screen.text.lines().find(|line| line.chars().count() > COLUMNS);
        if let Some(wide) =
            wide.filter(|_| command.contains("hugewise ") && !command.contains("apt "))
        {
            return wrong(format!("wider than the terminal: {wide}"));
        }
        step.then.iter().try_for_each(|then| self.must_be(*then))
    }

    fn named(&self, text: &str) -> String {
        text.replace("15/main", &self.cluster)
    }

    fn type_in(&mut self, command: &str, answer: &str) -> Result<Screen, Failure> {
        self.machine.must(&format!(
            "cat >/tmp/typed <<'END OF WHAT IS TYPED'\n{command}\nEND OF WHAT IS TYPED\n"
        ))?;
        let said = self.machine.run(
            &TERMINAL.replace("@COLUMNS@", &COLUMNS.to_string()).replace("@ANSWER@", answer),
        )?;
        Ok(Screen { code: said.code, text: plain(&said.out) })
    }

    /// Whether the kernel and the host say so.
    fn must_be(&mut self, then: Then) -> Result<(), Failure> {
        match then {
            Then::OnHugePages => {
                let server = postgresql(&mut self.machine)?;
                println!(
                    "       PostgreSQL: {} MiB on huge pages, {} MiB on base pages",
                    server.huge, server.base
                );
                let total = self
                    .machine
                    .must("awk '/^HugePages_(Total|Free)/ { printf \"%s \", $2 }' /proc/meminfo")?;
                println!("       HugePages_Total and _Free: {total}");
                if server.huge >= 512 && server.base < 16 {
                    Ok(())
                } else {
                    Err("PostgreSQL is not on huge pages".into())
                }
            }
            Then::OnBasePages => {
                let server = postgresql(&mut self.machine)?;
                println!(
                    "       PostgreSQL: {} MiB on huge pages, {} MiB on base pages",
                    server.huge, server.base
                );
                if server.huge == 0 && server.base >= 512 {
                    Ok(())
                } else {
                    Err("PostgreSQL is on huge pages".into())
                }
            }
            Then::Noted => {
                self.before = Snapshot::record(&mut self.machine)?;
                Ok(())
            }
            Then::AsBefore => Snapshot::record(&mut self.machine)?.must_be(&self.before),
            Then::Holds(script) => self.machine.must(script).map(|_| ()),
        }
    }
}

impl Chapter {
    /// Each command of the document with what is expected of it.
    pub(super) fn commands(&self) -> Result<Vec<(String, Option<&Step>)>, Failure> {
        let commands = pages::commands(self.page, self.heading)?;
        if commands.len() != self.steps.len() {
            let (page, heading, steps) = (self.page, self.heading, self.steps.len());
            let found = commands.join("`, `");
            return Err(format!(
                "{page}, `{heading}`: {steps} commands are expected, and there are `{found}`"
            )
            .into());
        }
        Ok(commands.into_iter().zip(self.steps.iter().map(Option::as_ref)).collect())
    }
}

/// What stands on the screen in the end: without colours, and of a line that was written over, the
/// last.
fn plain(screen: &str) -> String {
    let mut text = String::new();
    let mut signs = screen.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\u{1b}' => {
                // ESC [ parameters, up to a letter (ECMA-48).
                let _ = signs.find(|sign| sign.is_ascii_alphabetic());
            }
            _ => text.push(sign),
        }
    }
    let last =
        |line: &str| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default().to_owned();
    text.split('\n').map(last).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newcomer::stories;

    #[test]
    fn each_chapter_has_as_many_steps_as_its_document_has_commands() {
        for story in stories::ALL {
            for chapter in story.chapters {
                chapter.commands().unwrap();
            }
        }
    }

    #[test]
    fn a_screen_is_what_stands_on_it_in_the_end() {
        assert_eq!(plain("\u{1b}[1mbold\u{1b}[0m\r\n1 %\r\u{1b}[K2 %\r\n"), "bold\n2 %\n");
    }
}
