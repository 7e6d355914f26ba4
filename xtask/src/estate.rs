//! `cargo xtask estate`: a captured host of an Oracle estate, made.

use std::path::PathBuf;

use hugewise_testkit::oracle_fixtures::catalog;

use hugewise_testkit::tools::Failure;

/// What is made, and where.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the estate; without one, all names are listed.
    name: Option<String>,
    /// Folder that becomes the host; it is made, and must not be there.
    #[arg(long, requires = "name")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(name) = &arguments.name else {
        for (name, what, _) in catalog::ALL {
            println!("{name:<12} {what}");
        }
        return Ok(());
    };
    let estate = catalog::find_fixture(name)
        .ok_or_else(|| format!("no estate is called {name}: cargo xtask estate lists them"))?;
    let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from(name));
    if folder.exists() {
        return Err(format!("{} is there already", folder.display()).into());
    }
    estate.write(&folder)?;
    println!("hugewise check --root {}", folder.display());
    Ok(())
}
