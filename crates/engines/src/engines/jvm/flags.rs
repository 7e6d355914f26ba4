//! A Java virtual machine's command line: flags that decide on huge pages, and the program's name.

use std::collections::BTreeMap;

use hugewise_host::capture::shape;
use hugewise_model::Bytes;
use hugewise_model::instance::ServerSetting;

use crate::shared::options;

const SWITCHES: &[&str] = &[
    "UseLargePages",
    "UseTransparentHugePages",
    "UseSHM",
    "UseHugeTLBFS",
    "AlwaysPreTouch",
    "SegmentedCodeCache",
    "TieredCompilation",
    "UseG1GC",
    "UseParallelGC",
    "UseSerialGC",
    "UseShenandoahGC",
    "UseZGC",
    "UseEpsilonGC",
    "UseContainerSupport",
    "AggressiveHeap",
    "AlwaysActAsServerClassMachine",
    "NeverActAsServerClassMachine",
    "UseCompressedOops",
];

pub(super) const SIZES: &[&str] = &[
    "LargePageSizeInBytes",
    "MaxHeapSize",
    "MaxPermSize",
    "PermSize",
    "InitialHeapSize",
    "MinHeapSize",
    "ReservedCodeCacheSize",
    "InitialCodeCacheSize",
    "NonNMethodCodeHeapSize",
    "ProfiledCodeHeapSize",
    "NonProfiledCodeHeapSize",
    "CICompilerCount",
    "MaxMetaspaceSize",
    "MaxDirectMemorySize",
    "G1HeapRegionSize",
    "ShenandoahRegionSize",
    "ShenandoahTargetNumRegions",
    "GCCardSizeInBytes",
    "NewSize",
    "MaxNewSize",
    "NewRatio",
    "MaxRAM",
    "MaxRAMFraction",
    "MinRAMFraction",
    "InitialRAMFraction",
    "ErgoHeapSizeLimit",
    "ActiveProcessorCount",
    "TieredStopAtLevel",
    "ObjectAlignmentInBytes",
];

pub(super) const PERCENTAGES: &[&str] =
    &["MaxRAMPercentage", "MinRAMPercentage", "InitialRAMPercentage"];

/// The flag whose value is one of these words (OpenJDK 17, compilerDefinitions.cpp).
pub(super) const MODE: (&str, [&str; 4]) =
    ("CompilationMode", ["default", "quick-only", "high-only", "high-only-quick-internal"]);

/// Flags by name, as `-XX:+PrintFlagsFinal` writes them, with their values; the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub Vec<(&'static str, String)>);

impl Flags {
    /// Reads the known flags of a command line.
    pub fn read<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut flags = Self::default();
        for word in words {
            if let Some((name, value)) = parse_flag(word) {
                flags.0.retain(|(other, _)| *other != name);
                flags.0.push((name, value));
            }
        }
        flags
    }

    /// The flags that an instance's settings tell, those that the machine chose among them.
    pub(super) fn from_settings(settings: &BTreeMap<String, ServerSetting>) -> Self {
        let names = SWITCHES.iter().chain(SIZES).chain(PERCENTAGES);
        let names = names.chain([&MODE.0, &INTERPRETED, &OPENJ9_LARGE_PAGES, &HEAP_FOLDER]);
        let flag_of = |name: &&'static str| {
            Some((*name, settings.get(&name.to_ascii_lowercase())?.value.clone()))
        };
        Self(names.filter_map(flag_of).collect())
    }

    /// What decides whether the machine asks for pages of a pool (`os::large_page_init`): up to
    /// release 21 one of two further flags turns large pages on by itself.
    pub(super) fn asks_for_large_pages(&self, release: Option<u32>) -> bool {
        if self.get("UseLargePages") == Some("false") || self.is_on("UseTransparentHugePages") {
            return false;
        }
        let by_kind = ["UseHugeTLBFS", "UseSHM"].into_iter().any(|name| self.is_on(name))
            && release.is_none_or(|release| release <= LAST_WITH_KINDS);
        ["UseLargePages", OPENJ9_LARGE_PAGES, "AggressiveHeap"]
            .into_iter()
            .any(|name| self.is_on(name))
            || by_kind
    }

    /// The flag behind [`Self::asks_for_large_pages`].
    pub(super) fn asking_flag(&self, release: Option<u32>) -> Option<&'static str> {
        let mut names =
            ["UseLargePages", OPENJ9_LARGE_PAGES, "UseHugeTLBFS", "UseSHM", "AggressiveHeap"]
                .into_iter();
        let asks = self.asks_for_large_pages(release);
        names.find(|name| asks && self.is_on(name))
    }

    /// Whether it takes System V segments: HotSpot where that alone is named, and up to release 6,
    /// which knows nothing else (7034464); OpenJ9 always.
    pub(super) fn uses_system_v(&self, release: Option<u32>) -> bool {
        let has_kinds = release.is_none_or(|release| release <= LAST_WITH_KINDS);
        (self.is_on("UseSHM") && !self.is_on("UseHugeTLBFS") && has_kinds)
            || !self.takes_tables(release)
    }

    /// Whether the collector's tables are on large pages, too: not of OpenJ9, nor up to release 6.
    pub(super) fn takes_tables(&self, release: Option<u32>) -> bool {
        !self.is_on(OPENJ9_LARGE_PAGES)
            && release.is_none_or(|release| release > LAST_WITH_SEGMENTS)
    }

    /// A flag's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on; all are off by default but the collector that the machine chooses.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | STRICT))
    }

    /// A flag that the machine accepted and whose value is not understood here.
    pub fn find_unclear_flag(&self) -> Option<(&'static str, &str)> {
        let is_clear = |name: &str, value: &str| match () {
            () if SIZES.contains(&name) => parse_size(value).is_some(),
            () if PERCENTAGES.contains(&name) => parse_percentage(value).is_some(),
            () => true,
        };
        self.0
            .iter()
            .find(|(name, value)| !is_clear(name, value))
            .map(|(name, value)| (*name, value.as_str()))
    }

    /// A size above zero, where it is given.
    pub fn size_value(&self, name: &str) -> Option<Bytes> {
        self.get(name).and_then(parse_size).filter(|size| *size > Bytes::ZERO)
    }
}

/// A percentage such as `12.5` in millionths of a percent, up to the whole.
pub(super) fn parse_percentage(text: &str) -> Option<u64> {
    const MILLION: u64 = 1_000_000;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    let part: u64 = format!("{part:0<6}").get(..6)?.parse().ok()?;
    let all = whole.parse::<u64>().ok()?.checked_mul(MILLION)?.checked_add(part)?;
    (all <= 100 * MILLION).then_some(all)
}

pub(super) fn parse_flag(word: &str) -> Option<(&'static str, String)> {
    // The launcher makes -Xmx of -mx, and -Xms of -ms (java.c, AddOption).
    let sized = |long: &str, short: &str| {
        let is_size = |value: &&str| value.starts_with(|sign: char| sign.is_ascii_digit());
        word.strip_prefix(long)
            .or_else(|| word.strip_prefix(short).filter(is_size))
            .map(str::to_owned)
    };
    if let Some(value) = sized("-Xmx", "-mx") {
        return Some(("MaxHeapSize", value));
    }
    if let Some(value) = sized("-Xms", "-ms") {
        return Some(("InitialHeapSize", value));
    }
    if let Some(value) = word.strip_prefix("-Xmn") {
        return Some(("MaxNewSize", value.to_owned()));
    }
    // OpenJ9's; other forms are for its code cache alone.
    if word == "-Xlp" || word.starts_with("-Xlp:objectheap") {
        let mut words = word.rsplit([':', ',']);
        let last = words.find(|word| ["strict", "warn"].contains(word));
        let value = if last == Some(STRICT) { STRICT } else { "true" };
        return Some((OPENJ9_LARGE_PAGES, value.into()));
    }
    if word == "-Xint" {
        return Some((INTERPRETED, "true".into()));
    }
    let option = word.strip_prefix("-XX:")?;
    if let Some(folder) = option.strip_prefix(HEAP_FOLDER).and_then(|rest| rest.strip_prefix('=')) {
        return Some((HEAP_FOLDER, folder.to_owned()));
    }
    let switch = |name: &str| SWITCHES.iter().find(|known| **known == name);
    if let Some(name) = option.strip_prefix('+') {
        return switch(name).map(|name| (*name, "true".into()));
    }
    if let Some(name) = option.strip_prefix('-') {
        return switch(name).map(|name| (*name, "false".into()));
    }
    let (name, value) = option.split_once('=')?;
    let known = SIZES.iter().chain(PERCENTAGES).chain([&MODE.0]).find(|known| **known == name);
    known.map(|name| (*name, value.to_owned()))
}

pub(super) const INTERPRETED: &str = "Xint";
/// A folder for a file that holds the heap of all but ZGC, whatever pages its file system has.
pub(super) const HEAP_FOLDER: &str = "AllocateHeapAt";
pub(super) const OPENJ9_LARGE_PAGES: &str = "Xlp";
/// `-Xlp:objectheap:pagesize=2M,strict`: without the pages it does not start.
pub(super) const STRICT: &str = "strict";
/// `UseHugeTLBFS` and `UseSHM` are flags up to this release (JDK-8261894).
const LAST_WITH_KINDS: u32 = 21;
/// Up to this release large pages are System V segments (7034464).
const LAST_WITH_SEGMENTS: u32 = 6;

pub(super) fn redact_flag_value(word: &str) -> Option<String> {
    let (name, value) = parse_flag(word)?;
    if word.starts_with("-Xlp") {
        let shown = if value == STRICT { "-Xlp:objectheap:strict" } else { "-Xlp" };
        return Some(shown.to_owned());
    }
    if name == INTERPRETED {
        return Some("-Xint".to_owned());
    }
    let shown = if is_sane(name, &value) { value.as_str() } else { "?" };
    Some(match (SWITCHES.contains(&name), shown) {
        (true, "true") => format!("-XX:+{name}"),
        (true, _) => format!("-XX:-{name}"),
        (false, value) => format!("-XX:{name}={value}"),
    })
}

pub(super) fn has_sane_value(word: &str) -> Option<bool> {
    parse_flag(word).map(|(name, value)| is_sane(name, &value))
}

fn is_sane(name: &str, value: &str) -> bool {
    let switch = SWITCHES.contains(&name) || [INTERPRETED, OPENJ9_LARGE_PAGES].contains(&name);
    switch
        || parse_size(value).is_some()
        || (PERCENTAGES.contains(&name) && parse_percentage(value).is_some())
        || (name == MODE.0 && MODE.1.contains(&value))
        || (name == HEAP_FOLDER && shape::ValueShape::Path.matches_value(value))
}

/// `512m`, `4G`, `1073741824`, `0x40000000`, with one letter at most (`Arguments::atojulong`).
pub(super) fn parse_size(text: &str) -> Option<Bytes> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let end = digits.find(|sign: char| !sign.is_digit(radix)).unwrap_or(digits.len());
    let (digits, unit) = digits.split_at(end);
    let mut letters = unit.chars();
    let shift = match (letters.next(), letters.next()) {
        (None, _) => 0,
        (Some(letter), None) => options::unit_shift(letter)?,
        _ => return None,
    };
    u64::from_str_radix(digits, radix).ok()?.checked_mul(1 << shift).map(Bytes)
}

/// Whether a word can only be the name of what a Java machine runs: `kafka.Kafka`,
/// `shop/shop.Main`, `app-1.2.jar`. Others are not used, so that a server has one name on its host
/// and in a capture.
pub(super) fn is_program_name(word: &str) -> bool {
    let sign = |sign: u8| sign.is_ascii_alphanumeric() || b"._$-/".contains(&sign);
    (1..=128).contains(&word.len())
        && !word.starts_with(['-', '/'])
        && word.bytes().all(sign)
        && shape::is_harmless(word)
}

/// Options of `java` whose value is the next word, no main class (`java --help` of 8 to 25).
pub(super) const JAVA_PAIRS: &[&str] = &[
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-exports",
    "--add-opens",
    "--add-reads",
    "--patch-module",
    "--enable-native-access",
    "--source",
    "-d",
    "--describe-module",
];

/// The main class, the jar's file name, or the module, where a capture keeps that name.
pub fn find_program_name(arguments: &[String]) -> Option<&str> {
    // Other programs that embed a machine have options of their own.
    arguments.first().filter(|first| options::file_name(first) == "java")?;
    let mut words = arguments.iter().skip(1).map(String::as_str);
    let mut named = None;
    while let Some(word) = words.next() {
        named = match word {
            "-jar" => words.next().map(options::file_name),
            "-m" | "--module" => words.next(),
            _ if JAVA_PAIRS.contains(&word) => {
                words.next();
                continue;
            }
            _ if word.starts_with("--module=") => word.strip_prefix("--module="),
            // A capture has `-` for a word that it left out.
            _ if word.starts_with(['-', '@']) || word.is_empty() => continue,
            _ => Some(options::file_name(word)),
        };
        break;
    }
    named.filter(|name| is_program_name(name))
}

/// The words that the virtual machine takes, before the program's own.
pub fn own_words(arguments: &[String]) -> &[String] {
    let mut skip = false;
    let end = arguments.iter().skip(1).position(|word| {
        let value = std::mem::replace(&mut skip, JAVA_PAIRS.contains(&word.as_str()));
        !value
            && (matches!(word.as_str(), "-jar" | "-m" | "--module")
                || !word.starts_with(['-', '@']))
    });
    arguments.get(..end.map_or(arguments.len(), |end| end + 1)).unwrap_or_default()
}

/// The words of an argument file (`java @FILE`), which may be in quotes; `#` begins a comment.
pub fn argument_file(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut words = Vec::new();
    for line in text.lines() {
        let mut word = String::new();
        let mut quote = None;
        for character in line.chars() {
            match (quote, character) {
                (None, '#') if word.is_empty() => break,
                (None, '"' | '\'') => quote = Some(character),
                (None, _) if character.is_whitespace() => {
                    if !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                }
                (Some(open), _) if open == character => quote = None,
                _ => word.push(character),
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {

    use super::*;

    fn split_command(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_name_is_the_class_the_jar_or_the_module() {
        for (command, name) in [
            (
                "java -Xmx1g -cp /opt/a.jar:/opt/b.jar kafka.Kafka /etc/kafka.properties",
                Some("kafka.Kafka"),
            ),
            ("/usr/bin/java -Dpassword=x -jar /srv/app/app-1.2.jar --token=y", Some("app-1.2.jar")),
            (
                "java --add-opens java.base/java.lang=ALL-UNNAMED -p mods -m shop/shop.Main",
                Some("shop/shop.Main"),
            ),
            ("java --module=shop/shop.Main", Some("shop/shop.Main")),
            ("java @/etc/jvm.options org.elasticsearch.Main", Some("org.elasticsearch.Main")),
            ("java --source 17 /tmp/Hog.java x", Some("Hog.java")),
            ("java Hog", Some("Hog")),
            // What a capture could not keep is no name on its host either.
            ("java -jar /srv/a=b.jar", None),
            ("java -Xmx1g - -", None),
            ("/usr/bin/jsvc -user x com.example.Main", None),
            ("java -version", None),
            ("java", None),
        ] {
            assert_eq!(find_program_name(&split_command(command)), name, "{command}");
        }
    }

    #[test]
    fn the_last_flag_counts_and_the_programs_own_arguments_do_not() {
        let command = split_command(
            "java -Xmx1g -XX:+UseLargePages -cp x -XX:-UseLargePages -Xmx2G Main \
             -XX:+UseLargePages -Xmx9g",
        );
        let flags = Flags::read(own_words(&command).iter().map(String::as_str));
        assert_eq!(flags.get("UseLargePages"), Some("false"));
        assert_eq!(flags.size_value("MaxHeapSize"), Some(Bytes::from_gib(2)));
        assert!(!flags.is_on("UseZGC"));
        let secret =
            Flags::read(["-XX:OnError=mail x", "-Dp=1", "-XX:LargePageSizeInBytes=1g"].into_iter());
        assert_eq!(secret.0, [("LargePageSizeInBytes", "1g".to_owned())]);
    }

    #[test]
    fn sizes_have_units_or_none() {
        for (text, bytes) in [
            ("512m", Some(512 << 20)),
            ("1T", Some(1 << 40)),
            ("4096", Some(4096)),
            ("", None),
            ("g", None),
            ("99999999999999999999g", None),
            ("18446744073709551615k", None),
            ("1\u{e9}", None),
            ("0x40000000", Some(1 << 30)),
            ("0X400m", Some(1 << 30)),
            ("010g", Some(10 << 30)),
            ("0x", None),
            ("1gb", None),
            ("+1g", None),
            ("-1g", None),
            ("1.5g", None),
            ("1e9", None),
        ] {
            assert_eq!(parse_size(text), bytes.map(Bytes), "{text}");
        }
    }

    /// java -mx1g -XX:+PrintFlagsFinal of 17: MaxHeapSize is 1073741824.
    #[test]
    fn the_launchers_short_forms_are_read() {
        assert_eq!(parse_flag("-mx1g"), Some(("MaxHeapSize", "1g".to_owned())));
        assert_eq!(parse_flag("-ms512m"), Some(("InitialHeapSize", "512m".to_owned())));
        assert_eq!(parse_flag("-mxbean"), None);
    }

    #[test]
    fn an_argument_file_is_words_with_quotes_and_comments() {
        let file = b"# heap\n-Xmx1g -Xms1g # both\n-cp \"/a b/c\"\n\n'-Dx=y z'\n";
        assert_eq!(argument_file(file), ["-Xmx1g", "-Xms1g", "-cp", "/a b/c", "-Dx=y z"]);
    }
}
