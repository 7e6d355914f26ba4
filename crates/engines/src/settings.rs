//! The settings of a server, and whether all of them are known.

use std::collections::BTreeMap;

use hugewise_host::capture::shape::Shape;
use hugewise_model::Observed;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;

use crate::Kind;
use crate::faults::Fault;

/// What the value of a setting can be, by the engine that reads it.
pub fn shape(name: &str) -> Shape {
    let mut texts = crate::kinds().iter().flat_map(|kind| kind.texts);
    // Case matters in an option of one letter.
    let is = |text: &str| text == name || (!text.starts_with('-') && text.eq_ignore_ascii_case(name));
    texts.find(|(text, _)| is(text)).map_or(Shape::Plain, |(_, shape)| *shape)
}

/// A setting's value as it may be shown: what is none of its kind is left out, as it may be anything.
pub(crate) fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    shape(name).shown(value)
}

/// What a server's files and command line say, as far as its [`Kind`] reads it.
#[derive(Clone)]
pub struct Settings {
    kind: &'static Kind,
    /// By name in lower case.
    pub values: BTreeMap<String, Setting>,
    /// Why a file with settings is not among them.
    missing: Option<Observed<()>>,
    /// What in them the server refuses, or nobody knows what it comes to.
    pub(crate) faults: Vec<Fault>,
}

impl Settings {
    /// No settings yet.
    pub const fn of(kind: &'static Kind) -> Self {
        Self { kind, values: BTreeMap::new(), missing: None, faults: Vec::new() }
    }

    /// Settings that an instance was found to have, all of them.
    pub(crate) const fn all(kind: &'static Kind, values: BTreeMap<String, Setting>) -> Self {
        Self { kind, values, missing: None, faults: Vec::new() }
    }

    /// A setting; absent where nothing sets it and the default holds, or as unknown as the file
    /// that may set it.
    pub fn get(&self, name: &str) -> Observed<&Setting> {
        match (self.values.get(name), &self.missing) {
            (Some(setting), None) => Observed::Known(setting),
            // A command line wins over any file.
            (Some(setting), Some(_)) if setting.place.as_ref().is_some_and(|place| place.line == 0) => {
                Observed::Known(setting)
            }
            (_, Some(missing)) => missing.as_ref().and_then(|()| Observed::Absent),
            (None, None) => Observed::Absent,
        }
    }

    /// A setting's value or its default; unknown where a file could not be read that may set it.
    pub fn value_or(&self, name: &str, default: &str) -> Observed<String> {
        match self.get(name) {
            Observed::Absent if self.missing.is_none() => Observed::Known(default.to_owned()),
            other => other.map(|setting| setting.value.clone()),
        }
    }

    /// Notes the default of a setting that nothing sets, as evidence.
    pub fn fill_in(&mut self, name: &str, default: &str) {
        if self.missing.is_none() && !self.values.contains_key(name) {
            let setting = Setting { name: name.to_owned(), value: default.to_owned(), place: None };
            self.values.insert(name.to_owned(), setting);
        }
    }

    /// Nothing is known, for lack of the folder that the files are in.
    pub fn unknown(kind: &'static Kind, why: Observed<()>) -> Self {
        let mut settings = Self::of(kind);
        settings.miss(why);
        settings
    }

    /// Takes a setting in that the kind reads; it replaces one of that name.
    pub fn set(&mut self, name: &str, value: &str, place: Place) {
        if self.kind.settings.contains(&name) {
            let value = shown(name, value).to_owned();
            let setting = Setting { name: name.to_owned(), value, place: Some(place) };
            self.values.insert(name.to_owned(), setting);
        }
    }

    /// A setting is not as the server would have it, or nobody knows; the first ones do: a file can be made to have any number.
    pub(crate) fn fault(&mut self, fault: Fault) {
        const MOST: usize = 100;
        if self.faults.len() < MOST {
            self.faults.push(fault);
        }
    }

    /// Why they are not all known, where they are not.
    pub fn missing(&self) -> Option<&Observed<()>> {
        self.missing.as_ref()
    }

    /// A file with settings could not be read.
    pub fn miss(&mut self, why: Observed<()>) {
        // Absent would read as "the default holds".
        self.missing = Some(if why.is_absent() { Observed::Malformed("no such file".into()) } else { why });
    }
}
