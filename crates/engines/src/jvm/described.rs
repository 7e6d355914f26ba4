//! A Java virtual machine by its command line.

use hugewise_host::{Door, ParseError, Source};
use hugewise_model::instance::Setting;
use hugewise_model::{Asked, Engine, Host, Observed};

use super::{Flags, command_words, container, flags, instance};
use crate::description::{DescribeError, Described, Description};
use crate::settings::shown;
use crate::{Scene, described};

/// Where a bare `java` is.
const USUAL: &str = "/usr/bin/java";

/// `java` of most distributions is a link to a link.
const MOST_LINKS: usize = 8;

/// What the machine would take that is started with these words. Its version, which the formula depends on, stands in the file
/// `release` beside the folder of its program.
///
/// # Errors
/// There are no words; a size that is none; an argument file that is not there.
pub(crate) fn describe(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let Description::Command { command, .. } = description else {
        return Err(DescribeError::new(
            "no command line is given",
            "write it after --: java -Xmx8g -XX:+UseLargePages",
        ));
    };
    let scene = Scene::new(host, source);
    let mut door = Door::new(source);
    let Some(program) = command.first() else {
        return Err(DescribeError::new("the command line is empty", "begin it with the program: java -Xmx8g"));
    };
    let main = described::process(command.clone());
    let (words, all_words) = command_words(&scene, &mut door, &main);
    described::must_make_sense(&door.unread, "correct the argument file")?;
    for file in flags::own_words(command).iter().filter_map(|word| word.strip_prefix('@')) {
        described::must_be_there(&door, file, "name the argument file by its whole path")?;
    }
    let read = Flags::read(words.iter().map(String::as_str));
    for (name, value) in &read.0 {
        must_be_a_size(name, value)?;
    }

    let mut instance = described::without_process(instance(&scene, &mut door, &main, None));
    instance.engine = Engine::Jvm;
    instance.version = version(&mut door, program);
    if instance.asked == Asked::Unknown && all_words {
        // Nothing else will be said to it.
        instance.asked = Asked::No;
        instance.setting = Some(Setting { name: "UseLargePages".into(), value: "false".into(), place: None });
    }
    let release = instance.version.known().map(String::as_str);
    instance.asked_page_size =
        super::asked_page_size(host, &read, release).or_else_absent(|| Observed::Known(described::page_size(host)));
    (instance.demand, instance.beside) =
        super::demand(host, &instance, &read, None, container::memory(&scene, &main, &read, None).as_ref());
    Ok(Described { instance, unread: door.unread })
}

fn must_be_a_size(name: &str, value: &str) -> Result<(), DescribeError> {
    if flags::PERCENTAGES.contains(&name) && flags::percentage(value).is_none() {
        let what = format!("{name} is not a percentage: {:?}", shown(name, value));
        return Err(DescribeError::new(what, "write a number from 0 to 100"));
    }
    if name == flags::MODE.0 && !flags::MODE.1.contains(&value) {
        let what = format!("{name} is none of {}", flags::MODE.1.join(", "));
        return Err(DescribeError::new(what, "OpenJDK starts with no other"));
    }
    let sized = flags::size(value).is_some_and(|size| size.get() < 1 << 63);
    let zero = name == "MaxHeapSize" && flags::size(value).is_some_and(|size| size.get() == 0);
    if !flags::SIZES.contains(&name) || (sized && !zero) {
        return Ok(());
    }
    let what = format!("{name} is not a size: {:?}", shown(name, value));
    Err(DescribeError::new(what, "write a whole number of bytes, or one followed by k, m, g or t"))
}

/// `JAVA_VERSION` of the file `release` in the folder that the program's `bin` is in.
pub(super) fn version(door: &mut Door<'_>, program: &str) -> Observed<String> {
    let mut path = if program.contains('/') { program.to_owned() } else { USUAL.to_owned() };
    for _ in 0..MOST_LINKS {
        let home = path.rsplit_once("/bin/").map(|(home, _)| home.to_owned());
        let release = home.map_or(Observed::Absent, |home| door.parse(&format!("{home}/release"), parse_release));
        if !release.is_absent() {
            return release;
        }
        let Observed::Known(target) = door.source.link(&path) else { break };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        path = if target.starts_with('/') { target } else { format!("{folder}/{target}") };
    }
    Observed::Absent
}

/// # Errors
/// No line tells a version of HotSpot's.
fn parse_release(bytes: &[u8]) -> Result<String, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    if value("JVM_VARIANT").is_some_and(|variant| variant.eq_ignore_ascii_case("openj9")) {
        return Err(ParseError::whole("the machine is OpenJ9, of which nothing was measured"));
    }
    value("JAVA_VERSION").filter(|version| !version.is_empty()).ok_or_else(|| ParseError::whole("no JAVA_VERSION"))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::instance::DemandSource;
    use hugewise_model::{Asked, PageCount, PageSize};
    use proptest::prelude::*;

    use super::*;

    fn describe_with(command: &str) -> Result<Described, DescribeError> {
        let host = Host { default_huge_page: Observed::Known(PageSize::MIB_2), ..Host::default() };
        let source = MapSource::new()
            .link("/usr/bin/java", "/etc/alternatives/java")
            .link("/etc/alternatives/java", "/usr/lib/jvm/java-17-openjdk-amd64/bin/java")
            .file("/usr/lib/jvm/java-17-openjdk-amd64/release", "IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\n")
            .file("/opt/j9/release", "JAVA_VERSION=\"17.0.15\"\nJVM_VARIANT=\"Openj9\"\n")
            .file("/srv/jvm.options", "-Xmx4g\n-XX:+UseParallelGC\n");
        let command = command.split_whitespace().map(str::to_owned).collect();
        describe(&host, &source, &Description::Command { engine: Engine::Jvm, command }, false)
    }

    #[test]
    fn a_described_machine_is_like_a_running_one() {
        let instance = describe_with("java -Xmx1g -XX:+UseG1GC -XX:+UseLargePages shop.Main").unwrap().instance;
        assert_eq!((instance.name.as_str(), instance.asked, instance.pid), ("shop.Main", Asked::Try, 0));
        assert_eq!(instance.version, Observed::Known("17.0.15".into()));
        let demand = instance.demand.unwrap();
        assert_eq!((demand.pages, demand.source), (PageCount(651), DemandSource::Estimated { error_percent: 0 }));
    }

    #[test]
    fn the_error_grows_with_what_is_not_known() {
        let error = |command| match describe_with(command).unwrap().instance.demand.unwrap().source {
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
