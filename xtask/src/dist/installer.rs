//! install.sh, which knows what it has to find, and SHA256SUMS for those who verify by themselves.

use std::fs;
use std::path::Path;

use super::{Release, files};
use hugewise_testkit::tools::{Failure, shell};

/// Writes both, of what is there by now.
pub(super) fn build(release: &Release, releases: Option<&str>) -> Result<(), Failure> {
    let own = ["install.sh", "SHA256SUMS"];
    let mut sums = String::new();
    for path in files(&release.out)? {
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| !own.contains(&name))
        {
            sums += &sum(&path)?;
        }
    }
    let installer = release.out.join("install.sh");
    fs::write(&installer, script(&release.version, &sums, releases.unwrap_or_default())?)?;
    sums += &sum(&installer)?;
    Ok(fs::write(release.out.join("SHA256SUMS"), sums)?)
}

/// The line of a file as `sha256sum` has it, with the file's name alone.
fn sum(path: &Path) -> Result<String, Failure> {
    let said = String::from_utf8(shell::output(shell::command("sha256sum").arg(path))?)?;
    let sum = said.split_whitespace().next().ok_or("sha256sum said nothing")?;
    Ok(format!("{sum}  {}\n", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// install.sh of a release, with the sums of its archives.
fn script(version: &str, sums: &str, releases: &str) -> Result<String, Failure> {
    if !releases.is_empty()
        && (!releases.starts_with("https://") || releases.contains(['\'', ' ', '\\']))
    {
        return Err(format!("{releases} is no https:// address").into());
    }
    let archives: Vec<&str> = sums.lines().filter(|line| line.ends_with(".tar.gz")).collect();
    let script = fs::read_to_string(shell::root().join("packaging/install.sh"))?;
    Ok(script
        .replace("@VERSION@", version)
        .replace("@RELEASES@", releases)
        .replace("@SUMS@", &archives.join("\n")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A release whose program is a script that says its version.
    fn release(folder: &Path) -> String {
        release_for(folder, std::env::consts::ARCH)
    }

    fn release_for(folder: &Path, machine: &str) -> String {
        let name = format!("hugewise-1.2.3-linux-{machine}");
        let top = folder.join(&name);
        for part in ["man", "completions"] {
            fs::create_dir_all(top.join(part)).unwrap();
        }
        fs::write(top.join("hugewise"), "#!/bin/sh\necho hugewise 1.2.3\n").unwrap();
        let mut files = vec!["man/hugewise.1", "man/hugewise-check.1"];
        files.extend([
            "completions/hugewise.bash",
            "completions/_hugewise",
            "completions/hugewise.fish",
        ]);
        files.extend(["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"]);
        for file in files {
            fs::write(top.join(file), file).unwrap();
        }
        let mut made = Command::new("sh");
        let archive = format!("{name}.tar.gz");
        let made = made.arg("-c").arg(format!(
            "chmod 755 {name}/hugewise && tar -czf {archive} {name} && sha256sum {archive}"
        ));
        let made = made.current_dir(folder).output().unwrap();
        fs::remove_dir_all(top).unwrap();
        fs::write(
            folder.join("install.sh"),
            script("1.2.3", &String::from_utf8(made.stdout).unwrap(), "").unwrap(),
        )
        .unwrap();
        archive
    }

    /// Exit code, and all that was said.
    fn install(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
        let mut sh = Command::new("sh");
        let output =
            sh.arg(folder.join("install.sh")).args(arguments).current_dir(folder).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    }

    #[test]
    fn what_was_verified_is_installed_and_taken_away_again() {
        let folder = tempfile::tempdir().unwrap();
        release(folder.path());
        let prefix = folder.path().join("a prefix");
        let to = ["--from", ".", "--prefix", prefix.to_str().unwrap()];
        let (code, said) = install(folder.path(), &to);
        assert_eq!(code, Some(0), "{said}");
        let program = prefix.join("bin/hugewise");
        assert!(
            said.contains("verified ") && said.contains("hugewise 1.2.3 is installed"),
            "{said}"
        );
        assert!(
            said.contains(&format!("installed {}", program.display()))
                && said.contains("is not in your PATH"),
            "{said}"
        );
        assert!(prefix.join("share/man/man1/hugewise-check.1").exists());
        assert_eq!(Command::new(&program).output().unwrap().stdout, b"hugewise 1.2.3\n");
        // Once more over it, as an upgrade does, from the archive beside the script.
        assert_eq!(install(folder.path(), &["--prefix", prefix.to_str().unwrap()]).0, Some(0));
        let (code, said) =
            install(folder.path(), &["--remove", "--prefix", prefix.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
        let left = Command::new("find").arg(&prefix).args(["-type", "f"]).output().unwrap();
        assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
        assert_eq!(
            install(folder.path(), &["--remove", "--prefix", prefix.to_str().unwrap()]).0,
            Some(1)
        );
    }

    #[test]
    fn the_checksums_are_those_of_everything_in_the_release() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["hugewise.deb", "SHA256SUMS"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let out = folder.path().to_owned();
        let release = Release { version: "1.2.3".into(), epoch: 0, out: out.clone(), build: out };
        super::build(&release, None).unwrap();
        let mut check = Command::new("sha256sum");
        let said = check
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "hugewise.deb: OK\ninstall.sh: OK\n");
    }

    #[test]
    fn the_archive_is_that_of_the_machine() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let archive = release_for(folder.path(), "aarch64");
        let stub = folder.path().join("bin/uname");
        fs::create_dir(folder.path().join("bin")).unwrap();
        let path = format!("{}/bin:{}", folder.path().display(), std::env::var("PATH").unwrap());
        for (machine, code, said_of) in [
            ("aarch64", 0, format!("verified {archive}")),
            ("x86_64", 1, "this release has no archive for x86_64".to_owned()),
            ("riscv64", 1, "there is no hugewise for riscv64".to_owned()),
        ] {
            fs::write(
                &stub,
                format!("#!/bin/sh\ntest \"$1\" = -m && echo {machine} || echo Linux\n"),
            )
            .unwrap();
            fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
            let mut sh = Command::new("sh");
            sh.arg("install.sh").args(["--from", ".", "--prefix"]).arg(folder.path().join(machine));
            let output = sh.current_dir(folder.path()).env("PATH", &path).output().unwrap();
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(
                output.status.code() == Some(code) && said.contains(&said_of),
                "{machine}: {said}"
            );
        }
    }

    #[test]
    fn what_was_changed_is_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join(release(folder.path()));
        let mut bytes = fs::read(&archive).unwrap();
        bytes.push(0);
        fs::write(&archive, bytes).unwrap();
        let prefix = folder.path().join("prefix");
        let (code, said) =
            install(folder.path(), &["--from", ".", "--prefix", prefix.to_str().unwrap()]);
        assert!(code == Some(1) && said.contains("is not what was released"), "{said}");
        assert!(!prefix.exists());
    }

    #[test]
    fn a_list_of_files_removes_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        release(folder.path());
        let prefix = folder.path().join("prefix");
        let precious = folder.path().join("precious");
        fs::write(&precious, "").unwrap();
        fs::create_dir_all(prefix.join("share/hugewise")).unwrap();
        for line in [
            precious.display().to_string(),
            format!("{}/share/doc/hugewise/../../../../precious", prefix.display()),
        ] {
            fs::write(prefix.join("share/hugewise/installed-files"), format!("{line}\n")).unwrap();
            let (code, said) =
                install(folder.path(), &["--remove", "--prefix", prefix.to_str().unwrap()]);
            assert!(code == Some(1) && precious.exists(), "{said}");
        }
    }

    #[test]
    fn an_address_is_one() {
        for wrong in ["http://example.com", "https://example.com/'; rm -rf /; '"] {
            assert!(script("1.2.3", "", wrong).is_err(), "{wrong}");
        }
        assert!(
            script("1.2.3", "", "https://example.com/v1.2.3")
                .unwrap()
                .contains("releases='https://example.com/v1.2.3'")
        );
    }
}
