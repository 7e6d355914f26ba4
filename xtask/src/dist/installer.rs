//! install.sh, which knows what it has to find, and SHA256SUMS for those who verify by themselves.

use std::fs;

use super::{Release, files};
use crate::{Failure, shell};

/// Writes both, of what is there by now.
pub(super) fn build(release: &Release, releases: Option<&str>) -> Result<(), Failure> {
    let own = ["install.sh", "SHA256SUMS"];
    let mut sums = String::new();
    for path in files(&release.out)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !own.contains(name)) else {
            continue;
        };
        let said = shell::output(shell::command("sha256sum").arg(&path))?;
        let said = String::from_utf8(said)?;
        let sum = said.split_whitespace().next().ok_or("sha256sum said nothing")?;
        sums += &format!("{sum}  {name}\n");
    }
    let releases = releases.unwrap_or_default();
    if !releases.is_empty() && (!releases.starts_with("https://") || releases.contains(['\'', ' ', '\\'])) {
        return Err(format!("{releases} is no https:// address").into());
    }
    let archives: Vec<&str> = sums.lines().filter(|line| line.ends_with(".tar.gz")).collect();
    let script = fs::read_to_string(shell::root().join("packaging/install.sh"))?;
    let script = script
        .replace("@VERSION@", &release.version)
        .replace("@RELEASES@", releases)
        .replace("@SUMS@", &archives.join("\n"));
    fs::write(release.out.join("install.sh"), script)?;
    Ok(fs::write(release.out.join("SHA256SUMS"), sums)?)
}
