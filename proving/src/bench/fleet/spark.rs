//! The same fleets read as a Spark job, on executors that are processes of their own.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Fleet, name, size};
use crate::bench::tree::{self, Cost};
use hugewise_testkit::tools::{Failure, python, shell};

/// Two executors of a core and 1 GiB each.
const MASTER: &str = "local-cluster[2,1,1024]";
/// Captures of a bundle: some 16 MB.
const BUNDLE: u32 = 600;
/// What a further host may cost beside `collect`, in processors' time.
const WANTED_RATIO: f64 = 1.5;

/// A Spark that writes what its executors leave into a folder of ours.
struct Spark<'a> {
    python: PathBuf,
    home: PathBuf,
    hugewise: &'a Path,
    folder: &'a Path,
}

/// Measures it on fleets whose costs with `collect` are known, the smallest first; whether it is as
/// wanted.
pub(super) fn run(
    hugewise: &Path,
    captures: &Path,
    fleets: &[Fleet],
    folder: &Path,
    python: Option<&Path>,
) -> Result<bool, Failure> {
    let Some(spark) = Spark::found(hugewise, folder, python)? else {
        println!("\nSpark: not measured, it is not installed (cargo xtask fleet does it)");
        return Ok(true);
    };
    println!("\nas a Spark job, {MASTER}; CPU and memory of all its processes together");
    println!(
        "\n| hosts | in | hosts a second | CPU, ms a host | CPU, s | times collect | peak memory \
             | tables |"
    );
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut seen = Vec::new();
    for fleet in fleets {
        let given = bundled(captures, fleet.hosts, folder)?;
        seen.push((fleet, spark.collected(fleet, &given, "bundles")?));
    }
    if let Some(fleet) = fleets.iter().rev().nth(1) {
        spark.collected(fleet, &folder.join(format!("captures-{}", fleet.hosts)), "files")?;
    }
    let [.., (fewer, before), (more, after)] = seen.as_slice() else { return Ok(true) };
    let hosts = f64::from(more.hosts) - f64::from(fewer.hosts);
    let (each, own) = ((after.busy - before.busy) / hosts, (more.busy - fewer.busy) / hosts);
    let start = before.busy - each * f64::from(fewer.hosts);
    println!(
        "\nfrom {} to {} hosts: {:.2} ms of CPU a host on Spark, {:.2} ms with collect; Spark's \
             start and end: {start:.0} s",
        fewer.hosts,
        more.hosts,
        each * 1e3,
        own * 1e3
    );
    println!("ratio {:.2} (wanted: at most {WANTED_RATIO})", each / own);
    Ok(each <= own * WANTED_RATIO)
}

impl<'a> Spark<'a> {
    fn found(
        hugewise: &'a Path,
        folder: &'a Path,
        given: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        let python = given.map_or_else(|| python::program("spark"), Path::to_owned);
        let find = "import pathlib, pyarrow, pandas, pyspark; \
             print(pathlib.Path(pyspark.__file__).parent)";
        let found = Command::new(&python)
            .args(["-c", find])
            .output()
            .ok()
            .filter(|found| found.status.success());
        let Some(found) = found else {
            return if given.is_some() { Err("that Python has no Spark".into()) } else { Ok(None) };
        };
        let installed = PathBuf::from(String::from_utf8(found.stdout)?.trim());
        // Executors write to SPARK_HOME/work.
        let home = folder.join("spark");
        fs::create_dir(&home)?;
        for entry in fs::read_dir(installed)? {
            let entry = entry?;
            symlink(entry.path(), home.join(entry.file_name()))?;
        }
        Ok(Some(Self { python, home, hugewise, folder }))
    }

    fn collected(&self, fleet: &Fleet, given: &Path, within: &str) -> Result<Cost, Failure> {
        let hosts = fleet.hosts;
        let lake = self.folder.join(format!("spark-lake-{hosts}-{within}"));
        let said = self.folder.join("said");
        let package = shell::root().join("fleet/python");
        let mut collect = Command::new(&self.python);
        collect.args(["-B", "-m", "hugewise_fleet", "collect"]).arg(given).arg(&lake);
        collect.args(["--engine", MASTER, "--label", "bench", "--program"]).arg(self.hugewise);
        collect
            .env("PYTHONPATH", package)
            .env("SPARK_HOME", &self.home)
            .env("SPARK_LOCAL_DIRS", self.folder);
        let cost =
            match tree::run(&collect, File::create(&said)?, File::create(self.folder.join("log"))?)
            {
                Ok(cost) => cost,
                Err(failure) => {
                    let log = fs::read_to_string(self.folder.join("log"))?;
                    let last: Vec<&str> = log.lines().rev().take(20).collect();
                    return Err(format!(
                        "{failure}: {}",
                        last.into_iter().rev().collect::<Vec<_>>().join("\n")
                    )
                    .into());
                }
            };
        let said = fs::read_to_string(said)?;
        if !said.lines().any(|line| line == format!("hosts: {hosts} rows")) {
            return Err(format!("Spark did not read {hosts} hosts: {said}").into());
        }
        println!(
            "| {hosts} | {within} | {:.0} | {:.2} | {:.0} | {:.2} | {:.0} MiB | {:.1} MB |",
            f64::from(hosts) / cost.wall.as_secs_f64(),
            cost.busy * 1e3 / f64::from(hosts),
            cost.busy,
            cost.busy / fleet.busy,
            cost.peak.get() as f64 / 1_048_576.0,
            size(&lake)? as f64 / 1e6,
        );
        Ok(cost)
    }
}

/// A folder with so many captures in bundles.
fn bundled(captures: &Path, hosts: u32, folder: &Path) -> Result<PathBuf, Failure> {
    let given = folder.join(format!("bundles-{hosts}"));
    fs::create_dir(&given)?;
    for first in (0..hosts).step_by(usize::try_from(BUNDLE)?) {
        let mut bundle =
            tar::Builder::new(File::create(given.join(format!("from-{first:06}.tar")))?);
        for number in first..hosts.min(first + BUNDLE) {
            bundle.append_path_with_name(captures.join(name(number)), name(number))?;
        }
        bundle.finish()?;
    }
    Ok(given)
}
