//! `cargo xtask fleet`: the tests of `fleet/python` with Spark, on executors that are killed, and with a store that speaks S3.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use crate::{Failure, debian, python, shell};

/// What Spark needs.
const NEEDS: debian::Needs =
    &[("/usr/bin/java", "openjdk-17-jre-headless"), ("/usr/lib/python3.11/ensurepip/__init__.py", "python3-venv")];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A Python with the packages of xtask/spark.txt, instead of one below target/tools.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Tests to run, as unittest names them; all without it.
    tests: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let missing = debian::missing(NEEDS);
    if !missing.is_empty() {
        return Err(
            format!("missing: {} (as root on Debian, cargo xtask test installs them)", missing.join(" ")).into()
        );
    }
    let python = match &arguments.python {
        Some(python) => std::path::absolute(python)?,
        None => python::environment("spark", python::SPARK)?,
    };
    shell::run(shell::cargo().args(["build", "--quiet", "--package", "hugewise"]))?;
    let mut tests = shell::command(python);
    tests.current_dir(shell::root().join("fleet/python"));
    tests.env("HUGEWISE_PROGRAM", shell::target().join("debug/hugewise"));
    tests.args(["-B", "-m", "unittest"]);
    if arguments.tests.is_empty() {
        // It is a command of unittest's only where it comes first.
        tests.args(["discover", "--start-directory", "tests", "--top-level-directory", "."]);
    }
    tests.arg("--verbose");
    let mut running = tests.args(&arguments.tests).stderr(Stdio::piped()).spawn()?;
    let mut skipped = false;
    for line in running.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line?;
        skipped |= line.contains("... skipped ");
        eprintln!("{line}");
    }
    match (running.wait()?.success(), skipped) {
        (true, false) => Ok(()),
        (true, true) => Err("a test was skipped: what it needs is said there".into()),
        (false, _) => Err("the tests failed".into()),
    }
}
