//! `cargo xtask incident`: hosts in trouble, in virtual machines, with all collectors beside each
//! other, and what `hugewise investigate` says of the archives that they left.
//!
//! First a host that runs out of memory over its page tables, with how long each collector wrote
//! nothing in it, and the same on huge pages, of which nothing is to be said. Then every cause,
//! each collected at every interval.

mod causes;
mod collectors;
mod figures;
mod gaps;
mod judge;
mod limits;
mod matrix;
mod play;
mod scripts;
mod storm;
mod story;

use std::path::{Path, PathBuf};

use crate::vm;
use crate::vm::image::{self, Image};
use crate::vm::machine;
use causes::Play;
use hugewise_testkit::tools::{Failure, programs};
use matrix::Wanted;

/// How it is run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Play this cause only, or `storm`; may be given again.
    #[arg(long, value_name = "NAME")]
    cause: Vec<String>,
    /// Name the causes; play none.
    #[arg(long)]
    list: bool,
    /// Machines beside each other: their clocks go by their own instructions, so that none makes
    /// another's collectors late.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    beside: u8,
    /// Show how far the storm is.
    #[arg(long)]
    verbose: bool,
    /// Keep the archives in this folder, and do not play what it has already.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Judge the archives of this folder, which --keep left; play none.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["keep", "program"])]
    judge: Option<PathBuf>,
    /// Take this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// What is no cause of the matrix, and is told by itself.
const STORM: &str = "storm";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        println!("{STORM}");
        causes::all().for_each(|cause| println!("{}", cause.name));
        return Ok(());
    }
    let (storm, causes) = chosen(&arguments.cause)?;
    if let Some(folder) = &arguments.judge {
        return ended(judged(storm, &causes, folder)?);
    }
    image::prepare()?;
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let image = Image::Collectors.disk()?;
    let folder = tempfile::Builder::new().prefix("incident-").tempdir_in(vm::folder()?)?;
    let programs = [("standin", &*programs::standin()?), ("hugewise", &*hugewise)];
    let programs = machine::programs(folder.path(), &programs)?;
    let archives = arguments.keep.clone().unwrap_or_else(|| folder.path().join("archives"));
    let mut wrong = Vec::new();
    let scene = play::Scene { image, programs };
    if storm {
        storm::play(&scene, &archives, arguments.verbose)?;
    }
    wrong.extend(matrix::play(&scene, &causes, &archives, usize::from(arguments.beside)));
    wrong.extend(judged(storm, &causes, &archives)?);
    ended(wrong)
}

/// Whether the storm is wanted, and which causes of which plays.
fn chosen(names: &[String]) -> Result<(bool, Vec<Wanted>), Failure> {
    let known = |name: &str| name == STORM || causes::all().any(|cause| cause.name == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        return Err(format!("no cause `{name}`; --list names them").into());
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let play_of = |play: &'static Play| {
        (play, play.causes.iter().filter(|cause| wanted(cause.name)).collect::<Vec<_>>())
    };
    let plays = causes::PLAYS.iter().map(play_of).filter(|(_, causes)| !causes.is_empty());
    Ok((wanted(STORM), plays.collect()))
}

/// The storm's figures and the matrix of what is in the folder, printed; what is wrong in them, and
/// what is not there.
fn judged(storm: bool, causes: &[Wanted], folder: &Path) -> Result<Vec<String>, Failure> {
    let mut wrong = if storm { storm::judge(folder)? } else { Vec::new() };
    let rows = matrix::judge(causes, folder)?;
    let there = |name: &str| rows.iter().any(|row| row.cause.name == name);
    let wanted = causes.iter().flat_map(|(_, causes)| causes.iter().map(|cause| cause.name));
    wrong.extend(
        wanted
            .filter(|name| !there(name))
            .map(|name| format!("{name} is not in {}", folder.display())),
    );
    if !rows.is_empty() {
        matrix::print(&rows);
    }
    wrong.extend(rows.iter().flat_map(judge::Row::wrong));
    Ok(wrong)
}

fn ended(wrong: Vec<String>) -> Result<(), Failure> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ").into()) }
}
