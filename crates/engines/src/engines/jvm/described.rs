//! A Java virtual machine by its command line.

use hugewise_host::{FactReader, ParseError, Source};
use hugewise_model::{Engine, Host, HugePageMode, Observed};

use super::{Flags, HeapCounters, JvmParameters, build_instance, command_words, container, flags};
use crate::EngineContext;
use crate::shared::described;
use crate::shared::description::{DescribeError, Described, Description};
use crate::shared::settings::redact_value;

const USUAL: &str = "/usr/bin/java";
const MOST_LINKS: usize = 8;

pub(crate) fn describe_jvm(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let example = "java -Xmx8g -XX:+UseLargePages";
    let command = described::command_of(description, example, "java -Xmx8g")?;
    let scene = EngineContext::new(host, source);
    let mut facts = FactReader::new(source);
    let main = described::process_from_command(command.to_vec());
    let (words, all_words) = command_words(&scene, &mut facts, &main);
    described::must_make_sense(&facts, |_| true, "correct the argument file")?;
    for file in flags::own_words(command).iter().filter_map(|word| word.strip_prefix('@')) {
        described::must_be_there(&facts, file, "name the argument file by its whole path")?;
    }
    let read = Flags::read(words.iter().map(String::as_str));
    for (name, value) in &read.0 {
        must_be_a_size(name, value)?;
    }

    let mut instance = described::without_process(build_instance(&scene, &mut facts, &main, None));
    instance.engine = Engine::Jvm;
    instance.version = read_java_version(&mut facts, command.first().map_or("", String::as_str));
    if instance.asked == HugePageMode::Unknown && all_words {
        instance.asked = HugePageMode::No;
        instance.setting = Some(super::large_pages_off());
    }
    let release = instance.version.as_known().cloned();
    let release = release.as_deref();
    instance.asked_page_size = super::asked_page_size(host, &read, release)
        .or_else_absent(|| Observed::Known(described::page_size(host)));
    let memory = container::detect_visible_memory(&scene, &main, &read, None);
    let unknown = HeapCounters::default();
    let machine = JvmParameters::new(host, &read, release, memory.as_ref(), unknown);
    (instance.demand, instance.other_demands) = super::compute_demand(&instance, &machine, None);
    Ok(Described { instance, unread: facts.unread })
}

fn must_be_a_size(name: &str, value: &str) -> Result<(), DescribeError> {
    if flags::PERCENTAGES.contains(&name) && flags::parse_percentage(value).is_none() {
        let what = format!("{name} is not a percentage: {:?}", redact_value(name, value));
        return Err(DescribeError::new(what, "write a number from 0 to 100"));
    }
    if name == flags::MODE.0 && !flags::MODE.1.contains(&value) {
        let what = format!("{name} is none of {}", flags::MODE.1.join(", "));
        return Err(DescribeError::new(what, "OpenJDK starts with no other"));
    }
    let sized = flags::parse_size(value).is_some_and(|size| size.get() < 1 << 63);
    let zero =
        name == "MaxHeapSize" && flags::parse_size(value).is_some_and(|size| size.get() == 0);
    if !flags::SIZES.contains(&name) || (sized && !zero) {
        return Ok(());
    }
    let what = format!("{name} is not a size: {:?}", redact_value(name, value));
    Err(DescribeError::new(what, "write a whole number of bytes, or one followed by k, m, g or t"))
}

pub(super) fn read_java_version(facts: &mut FactReader<'_>, program: &str) -> Observed<String> {
    let mut path = if program.contains('/') { program.to_owned() } else { USUAL.to_owned() };
    for _ in 0..MOST_LINKS {
        let home = path.rsplit_once("/bin/").map(|(home, _)| home.to_owned());
        let release = home.map_or(Observed::Absent, |home| {
            facts.parse(&format!("{home}/release"), parse_release)
        });
        if !release.is_absent() {
            return release;
        }
        let Observed::Known(target) = facts.source.read_link(&path) else { break };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        path = if target.starts_with('/') { target } else { format!("{folder}/{target}") };
    }
    Observed::Absent
}

fn parse_release(bytes: &[u8]) -> Result<String, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    if value("JVM_VARIANT").is_some_and(|variant| variant.eq_ignore_ascii_case("openj9")) {
        return Err(ParseError::whole_file("the machine is OpenJ9, of which nothing was measured"));
    }
    value("JAVA_VERSION")
        .filter(|version| !version.is_empty())
        .ok_or_else(|| ParseError::whole_file("no JAVA_VERSION"))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::instance::DemandSource;
    use hugewise_model::{HugePageMode, PageCount, PageSize};
    use proptest::prelude::*;

    use super::*;

    fn describe_with(command: &str) -> Result<Described, DescribeError> {
        let host = Host { default_huge_page: Observed::Known(PageSize::MIB_2), ..Host::default() };
        let source = MapSource::new()
            .with_link("/usr/bin/java", "/etc/alternatives/java")
            .with_link("/etc/alternatives/java", "/usr/lib/jvm/java-17-openjdk-amd64/bin/java")
            .with_file(
                "/usr/lib/jvm/java-17-openjdk-amd64/release",
                "IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\n",
            )
            .with_file("/opt/j9/release", "JAVA_VERSION=\"17.0.15\"\nJVM_VARIANT=\"Openj9\"\n")
            .with_file("/srv/jvm.options", "-Xmx4g\n-XX:+UseParallelGC\n");
        let command = command.split_whitespace().map(str::to_owned).collect();
        describe_jvm(&host, &source, &Description::Command { engine: Engine::Jvm, command }, false)
    }

    #[test]
    fn a_described_machine_is_like_a_running_one() {
        let instance = describe_with("java -Xmx1g -XX:+UseG1GC -XX:+UseLargePages shop.Main")
            .unwrap()
            .instance;
        assert_eq!(
            (instance.name.as_str(), instance.asked, instance.pid),
            ("shop.Main", HugePageMode::Try, 0)
        );
        assert_eq!(instance.version, Observed::Known("17.0.15".into()));
        let demand = instance.demand.unwrap();
        assert_eq!(
            (demand.pages, demand.source),
            (PageCount(651), DemandSource::Estimated { error_percent: 0 })
        );
    }

    #[test]
    fn the_error_grows_with_what_is_not_known() {
        let error = |command| match describe_with(command).unwrap().instance.demand.unwrap().source
        {
            DemandSource::Estimated { error_percent } => error_percent,
            other => panic!("{other:?}"),
        };
        assert_eq!(error("java @/srv/jvm.options Main"), 0);
        assert!(error("/opt/none/bin/java -Xmx1g -XX:+UseG1GC Main") > 0);
        assert!(error("java -Xmx1g Main") > error("java -Xmx1g -XX:+UseG1GC Main"));
        let other = describe_with("/opt/j9/bin/java -Xmx1g -XX:+UseG1GC Main").unwrap();
        assert!(other.unread[0].why.to_string().contains("OpenJ9"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (command, said) in [
            ("", "the command line is empty"),
            ("java -Xmx8q Main", "MaxHeapSize is not a size: \"8q\""),
            ("java -Xmx0 Main", "MaxHeapSize is not a size: \"0\""),
            ("java -Xmx-1g Main", "MaxHeapSize is not a size: \"-1g\""),
            ("java -Xmx9223372036854775808 Main", "MaxHeapSize is not a size"),
            ("java @/none Main", "/none: no such file"),
        ] {
            let error = describe_with(command).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        assert!(describe_with("java -XX:LargePageSizeInBytes=0 -Xmx1g Main").is_ok());
    }

    proptest! {
        #[test]
        fn the_version_is_what_stands_in_quotes(version in "[0-9]{1,2}(\\.[0-9]{1,3}){0,3}(\\+[0-9]{1,2})?", before in "([A-Z]{1,8}_[A-Z]{1,8}=\"[a-z ]{0,9}\"\n){0,3}") {
            let file = format!("{before}JAVA_VERSION=\"{version}\"\nOS_ARCH=\"x86_64\"\n");
            prop_assert_eq!(parse_release(file.as_bytes()), Ok(version));
            prop_assert!(parse_release(before.as_bytes()).is_err());
        }
    }
}
