//! `cargo xtask fleet`: the tests of `fleet/python` with Spark, on executors and machines that are
//! killed, and with a store that speaks S3.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use hugewise_testkit::tools::{Failure, debian, python, shell};

/// What Spark needs.
const NEEDS: debian::Needs = &[
    ("/usr/bin/java", "openjdk-17-jre-headless"),
    ("/usr/lib/python3.11/ensurepip/__init__.py", "python3-venv"),
    ("/usr/sbin/ip", "iproute2"),
];
/// What Spark's Hadoop (3.5.0) speaks S3 with, and which parts of Amazon's SDK it uses: all of
/// that, 690 MB, are left out.
const JARS: [&str; 6] = [
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:s3:2.35.4",
    "software.amazon.awssdk:s3-transfer-manager:2.35.4",
    "software.amazon.awssdk:sts:2.35.4",
    "software.amazon.awssdk:apache-client:2.35.4",
    "software.amazon.awssdk:netty-nio-client:2.35.4",
];
const LEFT_OUT: &str = "software.amazon.awssdk:bundle,org.wildfly.openssl:wildfly-openssl";
/// Spark fetches them from Maven Central, as it does with `spark-submit --packages`.
const FETCH: &str = "
import sys
from pyspark.sql import SparkSession
packages, without, folder = sys.argv[1:]
builder = SparkSession.builder.master('local[1]').config('spark.jars.ivy', folder)
builder.config('spark.jars.packages', packages).config('spark.jars.excludes', \
     without).getOrCreate().stop()
";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A Python with the packages of crates/testkit/src/tools/spark.txt, instead of one below target/tools.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Tests to run, as unittest names them; all without it.
    tests: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let missing = debian::missing(NEEDS);
    if !missing.is_empty() {
        return Err(format!(
            "missing: {} (as root on Debian, cargo xtask test installs them)",
            missing.join(" ")
        )
        .into());
    }
    let python = match &arguments.python {
        Some(python) => std::path::absolute(python)?,
        None => python::environment("spark", python::SPARK)?,
    };
    let jars = jars(&python)?;
    shell::run(shell::cargo().args(["build", "--quiet", "--package", "hugewise"]))?;
    let mut tests = shell::command(python);
    tests.current_dir(shell::root().join("fleet/python"));
    tests.env("HUGEWISE_PROGRAM", shell::target().join("debug/hugewise"));
    tests.env("HUGEWISE_JARS", jars);
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

/// The folder with the jars, which are fetched where it is not there with these.
fn jars(python: &Path) -> Result<PathBuf, Failure> {
    let folder = shell::target().join("tools/jars");
    let installed = folder.join("installed.txt");
    let packages = JARS.join(",");
    if !fs::read_to_string(&installed).is_ok_and(|versions| versions == packages) {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let mut fetch = shell::command(python);
        shell::run(fetch.args(["-c", FETCH, &packages, LEFT_OUT]).arg(&folder))?;
        fs::write(&installed, packages)?;
    }
    Ok(folder.join("jars"))
}
