//! What the fuzz targets share. A target is one line: the parser it feeds.

mod attacker;

use std::io::Write;
use std::path::Path;

use hugewise_advice::sizing::{self, Request};
use hugewise_advice::target;
use hugewise_change::planner::{self, Options};
use hugewise_change::{Plan, allowed};
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
        hugewise_report::formats::shell(&plan, true),
        hugewise_report::formats::ansible(&plan, true),
        hugewise_report::formats::cloud_init(&plan, true),
    ];
    let active = |character: char| character.is_control() && character != '\n' && character != '\t';
    for text in formats.iter().flatten() {
        assert!(!text.contains(active), "what acts on a terminal is written out or refused");
    }
    Some(formats.iter().flatten().count())
}

/// The plan of a host; `None` where the names in the options are nobody's.
fn plan(source: &dyn Source, options: &Options) -> Option<Plan> {
    let host = hugewise_host::read(source);
    let mut instances = hugewise_engines::find(&host, source).instances;
    planner::name(&mut instances, options).ok()?;
    let assessment = hugewise_advice::assess(&host, &instances);
    let wanted = target::to_size(&host, &instances, &assessment, options.wish());
    let sizing = sizing::size(&host, &wanted, &Request::default()).ok();
    planner::plan(&host, &instances, &assessment, sizing.as_ref(), source, options).ok()
}

/// A host on which a user without rights has done what he likes: it is planned for as if he was not there, and by name
/// nothing is planned for him that is not on the closed list.
pub fn planned_beside_an_attacker(bytes: &[u8]) {
    let source = attacker::host(bytes);
    let usual = plan(&source, &Options::default()).expect("a host that can be planned for");
    allowed::check(&usual).expect("nothing but what is on the list");
    let without = plan(&attacker::host_without_him(), &Options::default()).expect("the same");
    assert_eq!((&usual.steps, &usual.instructions), (&without.steps, &without.instructions));
    let host = hugewise_host::read(&source);
    for instance in hugewise_engines::find(&host, &source).instances.iter().filter(|it| it.pid >= attacker::FIRST) {
        assert!(!instance.is_vouched(), "{instance:?}");
        let named = vec![instance.handle()];
        let options = Options { instances: named.clone(), restart: named, ..Options::default() };
        if let Some(plan) = plan(&source, &options) {
            allowed::check(&plan).expect("nothing but what is on the list");
            assert!(!plan.steps.iter().any(|step| step.id.starts_with("restart-")), "{plan:?}");
        }
    }
}

/// What becomes of a file with these bytes.
pub fn with_file<T>(bytes: &[u8], look: impl FnOnce(&Path) -> T) -> T {
    let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    file.write_all(bytes).expect("room for them");
    look(file.path())
}
