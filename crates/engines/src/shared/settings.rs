//! The settings of a server, and whether all of them are known.

use std::collections::BTreeMap;

use hugewise_host::capture::shape::ValueShape;
use hugewise_model::Observed;
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::ServerSetting;

use crate::EngineKind;
use crate::shared::faults::Fault;

/// What the value of a setting can be, by the engine that reads it.
pub fn value_shape(name: &str) -> ValueShape {
    let mut texts = crate::all_kinds().iter().flat_map(|kind| kind.capture.value_shapes);
    // Case matters in an option of one letter.
    let is =
        |text: &str| text == name || (!text.starts_with('-') && text.eq_ignore_ascii_case(name));
    texts.find(|(text, _)| is(text)).map_or(ValueShape::Plain, |(_, shape)| *shape)
}

pub(crate) fn redact_value<'a>(name: &str, value: &'a str) -> &'a str {
    value_shape(name).redact_value(value)
}

pub(crate) fn new_setting(
    name: &str,
    value: impl Into<String>,
    place: Option<FileLocation>,
) -> ServerSetting {
    ServerSetting { name: name.to_owned(), value: value.into(), place }
}

pub(crate) fn redacted_setting(
    name: &str,
    value: &str,
    place: Option<FileLocation>,
) -> ServerSetting {
    ServerSetting { name: name.to_owned(), value: redact_value(name, value).to_owned(), place }
}

/// Settings from a server's files and command line, as far as its kind reads them.
#[derive(Clone)]
pub struct ServerSettings {
    kind: &'static EngineKind,
    /// By name in lower case.
    pub values: BTreeMap<String, ServerSetting>,
    missing: Option<Observed<()>>,
    pub(crate) faults: Vec<Fault>,
}

impl ServerSettings {
    /// No settings yet.
    pub const fn new(kind: &'static EngineKind) -> Self {
        Self { kind, values: BTreeMap::new(), missing: None, faults: Vec::new() }
    }

    pub(crate) fn from_values(
        kind: &'static EngineKind,
        values: BTreeMap<String, ServerSetting>,
    ) -> Self {
        Self { values, ..Self::new(kind) }
    }

    /// A setting; absent where the default holds, or as unknown as a file that may set it.
    pub fn get(&self, name: &str) -> Observed<&ServerSetting> {
        match (self.values.get(name), &self.missing) {
            (Some(setting), None) => Observed::Known(setting),
            // A command line wins over any file.
            (Some(setting), Some(_))
                if setting.place.as_ref().is_some_and(|place| place.line == 0) =>
            {
                Observed::Known(setting)
            }
            (_, Some(missing)) => missing.as_ref().and_then(|()| Observed::Absent),
            (None, None) => Observed::Absent,
        }
    }

    /// A setting's value or its default; unknown where a file that may set it could not be read.
    pub fn value_or(&self, name: &str, default: &str) -> Observed<String> {
        match self.get(name) {
            Observed::Absent if self.missing.is_none() => Observed::Known(default.to_owned()),
            other => other.map(|setting| setting.value.clone()),
        }
    }

    /// Adds the default of a setting that nothing sets, as evidence.
    pub fn fill_in(&mut self, name: &str, default: &str) {
        if self.missing.is_none() && !self.values.contains_key(name) {
            let setting =
                ServerSetting { name: name.to_owned(), value: default.to_owned(), place: None };
            self.values.insert(name.to_owned(), setting);
        }
    }

    /// Adds a setting that the kind reads, over one of that name.
    pub fn set(&mut self, name: &str, value: &str, place: FileLocation) {
        if self.kind.capture.settings.contains(&name) {
            self.values.insert(name.to_owned(), redacted_setting(name, value, Some(place)));
        }
    }

    pub(crate) fn add_fault(&mut self, fault: Fault) {
        const MOST: usize = 100;
        if self.faults.len() < MOST {
            self.faults.push(fault);
        }
    }

    /// Why not all are known.
    pub fn missing_reason(&self) -> Option<&Observed<()>> {
        self.missing.as_ref()
    }

    /// Notes that a file with settings could not be read.
    pub fn mark_incomplete(&mut self, why: Observed<()>) {
        // Absent would read as "the default holds".
        self.missing =
            Some(if why.is_absent() { Observed::Malformed("no such file".into()) } else { why });
    }
}
