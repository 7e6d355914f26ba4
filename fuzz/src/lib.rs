//! What the fuzz targets share. A target is one line: the parser it feeds.

mod attacker;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use hugewise_change::planner::{self, PlanOptions};
use hugewise_change::{Plan, allowed};
use hugewise_diagnose::sizing::{self, Request};
use hugewise_diagnose::target;
use hugewise_host::Source;

/// A target that feeds any bytes to a parser; it looks for panics, hangs and overflow, so what
/// the parser makes of them is dropped.
#[macro_export]
macro_rules! target {
    ($($parser:path),+ $(,)?) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $(let _ = ::std::hint::black_box($parser(bytes));)+
        });
    };
}

/// A plan whose checksum nobody looks at, written in every format: only one that could be written comes out.
pub fn plan_in_every_format(bytes: &[u8]) -> Option<usize> {
    let plan: hugewise_change::Plan = serde_json::from_slice(bytes).ok()?;
    let formats = [
        hugewise_report::formats::render_shell(&plan, true),
        hugewise_report::formats::render_ansible(&plan, true),
        hugewise_report::formats::cloud_init(&plan, true),
    ];
    let active = |character: char| character.is_control() && character != '\n' && character != '\t';
    for text in formats.iter().flatten() {
        assert!(!text.contains(active), "what acts on a terminal is written out or refused");
    }
    Some(formats.iter().flatten().count())
}

/// The plan of a host; `None` where the names in the options are nobody's.
fn plan(source: &dyn Source, options: &PlanOptions) -> Option<Plan> {
    let host = hugewise_host::read(source);
    let mut instances = hugewise_engines::find_instances(&host, source).instances;
    planner::mark_named_instances(&mut instances, options).ok()?;
    let assessment = hugewise_diagnose::assess_host(&host, &instances);
    let wanted = target::to_size(&host, &instances, &assessment, options.target_wish());
    let sizing = sizing::size_servers(&host, &wanted, &Request::default()).ok();
    planner::build_plan(&host, &instances, &assessment, sizing.as_ref(), source, options).ok()
}

/// A host on which a user without rights has done what he likes: it is planned for as if he was not there, and by name
/// nothing is planned for him that is not on the closed list.
pub fn planned_beside_an_attacker(bytes: &[u8]) {
    let source = attacker::host(bytes);
    let usual = plan(&source, &PlanOptions::default()).expect("a host that can be planned for");
    allowed::check_plan_allowed(&usual).expect("nothing but what is on the list");
    let without = plan(&attacker::host_without_him(), &PlanOptions::default()).expect("the same");
    assert_eq!((&usual.steps, &usual.instructions), (&without.steps, &without.instructions));
    let host = hugewise_host::read(&source);
    for instance in hugewise_engines::find_instances(&host, &source)
        .instances
        .iter()
        .filter(|it| it.pid >= attacker::FIRST)
    {
        assert!(!instance.is_trusted(), "{instance:?}");
        let named = vec![instance.unique_title()];
        let options =
            PlanOptions { instances: named.clone(), restart: named, ..PlanOptions::default() };
        if let Some(plan) = plan(&source, &options) {
            allowed::check_plan_allowed(&plan).expect("nothing but what is on the list");
            assert!(!plan.steps.iter().any(|step| step.id.starts_with("restart-")), "{plan:?}");
        }
    }
}

/// Processor time for each MiB that is given, and at the least: three seconds of a release build,
/// which the fuzzer's own instructions make slower.
const TIME_OF_MIB: Duration = Duration::from_secs(15);

/// A file as somebody gives it to `investigate`: its work is bounded by what came in. Memory is
/// bounded by libFuzzer's `-malloc_limit_mb` and `-rss_limit_mb`, which `cargo xtask fuzz` sets.
pub fn investigate_within_budget(bytes: &[u8]) {
    with_file(bytes, |path| {
        let before = processor_time();
        let options = hugewise_investigate::Options::default();
        let _ = hugewise_investigate::investigate(&[path.to_owned()], &options, &|_| {});
        let took = processor_time().saturating_sub(before);
        let mebibytes = u32::try_from(bytes.len() >> 20).unwrap_or(u32::MAX).saturating_add(1);
        assert!(took <= TIME_OF_MIB.saturating_mul(mebibytes), "{took:?}");
    });
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// What becomes of a file with these bytes.
pub fn with_file<T>(bytes: &[u8], look: impl FnOnce(&Path) -> T) -> T {
    let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    file.write_all(bytes).expect("room for them");
    look(file.path())
}
