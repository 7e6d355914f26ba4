//! All tests: those of the command line, which mostly wait for servers and for each other's hold
//! of the host, beside those of all other crates.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use hugewise_testkit::tools::{Failure, shell};
use serde_json::Value;

/// The target that takes longest.
const LONGEST: &str = "cli";
/// Many of its tests wait for the host, which one at a time may change.
const THREADS_OF_LONGEST: &str = "--test-threads=4";

struct TestBinary {
    target: String,
    executable: PathBuf,
    package: PathBuf,
    program: PathBuf,
}

impl TestBinary {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package).env("HUGEWISE_BINARY", &self.program);
        command
    }

    fn describe_failure(&self, status: ExitStatus) -> Option<String> {
        let name = self.executable.file_name().unwrap_or_default().to_string_lossy();
        (!status.success()).then(|| format!("{name}: {status}"))
    }
}

/// Builds all tests and runs them with `program` as the hugewise that they try.
///
/// # Errors
/// They cannot be built, or some fail.
pub(super) fn run_all(program: &Path, root: bool) -> Result<(), Failure> {
    let (mut longest, others): (Vec<_>, Vec<_>) =
        build_tests(program)?.into_iter().partition(|binary| binary.target == LONGEST);
    let longest = longest.pop().ok_or("the tests of the command line were not built")?;
    let mut beside = longest.command().arg(THREADS_OF_LONGEST).spawn()?;
    let mut failures: Vec<String> = Vec::new();
    for binary in &others {
        match run_apart(binary) {
            Ok(status) => failures.extend(binary.describe_failure(status)),
            Err(why) => failures.push(format!("{}: {why}", binary.executable.display())),
        }
    }
    failures.extend(longest.describe_failure(beside.wait()?));
    let mut documented = shell::cargo();
    if let Err(why) = shell::run(documented.args(["test", "--workspace", "--doc"])) {
        failures.push(why.to_string());
    }
    if root {
        // Meanwhile nothing else on the host can read /proc.
        let status = longest.command().args(["--ignored", "--test-threads=1"]).status()?;
        failures.extend(longest.describe_failure(status));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

fn build_tests(program: &Path) -> Result<Vec<TestBinary>, Failure> {
    let mut build = shell::cargo();
    // They have the path of the program that they try in them.
    build.env("HUGEWISE_BINARY", program);
    build.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = build.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let mut binaries = Vec::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line)?;
        let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
        let text_at = |pointer| message.pointer(pointer).and_then(Value::as_str);
        let (true, Some(executable), Some(manifest), Some(target)) =
            (is_test, text_at("/executable"), text_at("/manifest_path"), text_at("/target/name"))
        else {
            continue;
        };
        binaries.push(TestBinary {
            target: target.to_owned(),
            executable: executable.into(),
            package: Path::new(manifest).parent().ok_or("a manifest without a folder")?.to_owned(),
            program: program.to_owned(),
        });
    }
    Ok(binaries)
}

/// Runs it and prints what it says at its end, in one piece.
fn run_apart(binary: &TestBinary) -> Result<ExitStatus, Failure> {
    let output = binary.command().output()?;
    let mut ours = std::io::stdout().lock();
    writeln!(ours, "\n== {} ({})", binary.target, binary.package.display())?;
    ours.write_all(&output.stdout)?;
    ours.write_all(&output.stderr)?;
    Ok(output.status)
}
