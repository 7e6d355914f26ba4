//! One case: where it comes from, what is run, and what has to be said.

use std::fs;
use std::path::{Path, PathBuf};

use hugewise_testkit::tools::Failure;

use super::judge::Expectation;

/// Commands that judge a captured host.
const OF_HOSTS: [&str; 4] = ["check", "plan", "size", "verify"];

/// A case as `case.txt` tells it.
pub(crate) struct FieldCase {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) batch: u32,
    source: String,
    host: String,
    right: String,
    known: String,
    pub(crate) steps: Vec<CaseStep>,
}

/// One command, and what it has to say.
pub(crate) struct CaseStep {
    command: String,
    /// What the case is about.
    pub(crate) must: Vec<Expectation>,
    /// What a good answer says besides.
    pub(crate) also: Vec<Expectation>,
    /// What would do harm.
    pub(crate) never: Vec<Expectation>,
}

impl CaseStep {
    /// The words of the command: JSON is asked for, and a made host is given as its root.
    pub(crate) fn build_arguments(&self, host: Option<&Path>) -> Vec<String> {
        let mut given = self.command.split_whitespace().map(str::to_owned);
        let mut words: Vec<String> = given.by_ref().take_while(|word| word != "--").collect();
        let is_of_hosts = words.first().is_some_and(|word| OF_HOSTS.contains(&word.as_str()));
        if let (true, Some(host)) = (is_of_hosts, host) {
            words.extend(["--root".to_owned(), host.display().to_string()]);
        }
        words.extend(["--format".to_owned(), "json".to_owned()]);
        let rest: Vec<String> = given.collect();
        if !rest.is_empty() {
            words.push("--".to_owned());
            words.extend(rest);
        }
        words
    }
}

impl FieldCase {
    /// Reads the case in a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("case.txt");
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut case = Self {
            name,
            folder: folder.to_owned(),
            batch: 0,
            source: String::new(),
            host: String::new(),
            right: String::new(),
            known: String::new(),
            steps: Vec::new(),
        };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            case.take_line(line)
                .map_err(|problem| format!("{}:{}: {problem}", path.display(), at + 1))?;
        }
        Ok(case)
    }

    /// What has to be told of each case.
    #[cfg(test)]
    pub(crate) fn described_fields(&self) -> [(&'static str, &str); 4] {
        [
            ("source", &self.source),
            ("host", &self.host),
            ("right", &self.right),
            ("known", &self.known),
        ]
    }

    fn take_line(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(':').ok_or("not KEY: VALUE")?;
        let value = value.trim();
        let told = |text: &mut String| {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(value);
        };
        match key {
            "batch" => self.batch = value.parse().map_err(|_| "batch is no number")?,
            "source" => told(&mut self.source),
            "host" => told(&mut self.host),
            "right" => told(&mut self.right),
            "known" => told(&mut self.known),
            "corrected" => (),
            "command" => self.steps.push(CaseStep {
                command: value.to_owned(),
                must: Vec::new(),
                also: Vec::new(),
                never: Vec::new(),
            }),
            "must" | "also" | "never" => {
                let expectation = Expectation::parse(value)?;
                let step = self.steps.last_mut().ok_or("before any command")?;
                match key {
                    "must" => step.must.push(expectation),
                    "also" => step.also.push(expectation),
                    _ => step.never.push(expectation),
                }
            }
            _ => return Err(format!("unknown key {key}")),
        }
        Ok(())
    }
}
