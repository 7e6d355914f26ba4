//! `cargo xtask newcomer`: what a newcomer types, taken out of the documents and typed on a fresh
//! Debian without Rust.
//!
//! The machine has its own kernel, pools, systemd and servers, so that each command does what the
//! documents say of it.

mod pages;
mod player;
mod stories;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use player::Player;
use stories::Story;

use crate::vm::image::{self, Suite};
use crate::vm::machine::{self, Disk};
use hugewise_testkit::tools::{Failure, shell};

/// Which of it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of stories; all of them when none is named.
    stories: Vec<String>,
    /// Debian's suites whose fresh machine they are played on.
    #[arg(long, value_delimiter = ',', default_values = ["bookworm", "sid"])]
    suites: Vec<Suite>,
    /// The folder that `cargo xtask dist` has filled; target/packages/out when not given.
    #[arg(long, value_name = "FOLDER")]
    release: Option<PathBuf>,
    /// Show all that the commands print.
    #[arg(long)]
    verbose: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let chosen = choose(&arguments.stories)?;
    let release = arguments.release.clone().unwrap_or_else(|| shell::target().join("dist/out"));
    let files = release_files(&release)?;
    // Before a machine is booted for it.
    for chapter in chosen.iter().flat_map(|story| story.chapters) {
        chapter.commands()?;
    }
    image::prepare()?;
    let folder = tempfile::Builder::new().prefix("release-").tempdir_in(crate::vm::folder()?)?;
    let named: Vec<(&str, &std::path::Path)> =
        files.iter().map(|(name, path)| (name.as_str(), path.as_path())).collect();
    let downloads = machine::programs(folder.path(), &named)?;
    let mut failed = Vec::new();
    for suite in &arguments.suites {
        for story in &chosen {
            let name = format!("{} on {}", story.name, suite.name());
            println!("== {name}: {}", story.shows);
            let begun = Instant::now();
            let played = (story.image)(*suite)
                .disk()
                .and_then(|image| Disk::over(&image))
                .and_then(|disk| {
                    Player::sit_down(&disk, &downloads, &files, story, arguments.verbose)?.play()
                });
            let seconds = begun.elapsed().as_secs();
            match played {
                Ok(commands) => println!(
                    "== {name}: {commands} commands did what the documents say, {seconds} s"
                ),
                Err(failure) => {
                    println!("== {name}: FAILED after {seconds} s: {failure}");
                    failed.push(name);
                }
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

fn choose(names: &[String]) -> Result<Vec<&'static Story>, Failure> {
    if names.is_empty() {
        return Ok(stories::ALL.iter().collect());
    }
    let find = |name: &String| {
        let known = || stories::ALL.iter().map(|story| story.name).collect::<Vec<_>>().join(", ");
        let found = stories::ALL.iter().find(|story| story.name == name);
        found.ok_or_else(|| format!("no story `{name}`; there are {}", known()).into())
    };
    names.iter().map(find).collect()
}

/// What a newcomer downloads.
fn release_files(folder: &std::path::Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| {
        format!("{}: {error}; `cargo xtask dist` builds a release there", folder.display())
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with("_amd64.deb")
            || name.ends_with("-linux-x86_64.tar.gz")
            || name == "install.sh"
        {
            files.push((name, path));
        }
    }
    if files.len() == 3 {
        Ok(files)
    } else {
        Err(format!(
            "{}: a package, an archive and install.sh are needed; `cargo xtask dist` builds them",
            folder.display()
        )
        .into())
    }
}
