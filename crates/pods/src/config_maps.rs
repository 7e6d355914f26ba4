//! ConfigMaps and Secrets of a manifest.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::workload::{MountedFile, names_of};
use crate::yaml::YamlNode;

/// What ConfigMaps and Secrets hold, by kind, namespace and name.
#[derive(Debug, Default)]
pub(crate) struct ConfigMaps {
    maps: BTreeMap<(&'static str, String, String), BTreeMap<String, MountedFile>>,
}

/// Keys of a map that are read; each container that names the map has them all.
const MOST_KEYS: usize = 1000;

/// One key.
pub(crate) enum Lookup<'a> {
    Found(&'a MountedFile),
    Missing,
}

impl ConfigMaps {
    pub(crate) fn read(objects: &[Rc<YamlNode>]) -> Self {
        let mut all = Self::default();
        for object in objects {
            // Of a Secret only what is written plainly: the rest may be a password.
            let (kind, section) = match object.text_of("kind") {
                Some("ConfigMap") => ("ConfigMap", "data"),
                Some("Secret") => ("Secret", "stringData"),
                _ => continue,
            };
            let (name, namespace) = names_of(object);
            let data = object.get(section).map(|data| data.entries()).unwrap_or_default();
            if kind == "Secret" && data.is_empty() {
                continue;
            }
            let entries = data.iter().take(MOST_KEYS).filter_map(|(key, value)| {
                let text = value.text()?;
                let file = match &value.template {
                    Some(template) => MountedFile::Open(template.clone()),
                    None => MountedFile::Text(text.into()),
                };
                Some((key.text()?.to_owned(), file))
            });
            all.maps.insert((kind, namespace, name), entries.collect());
        }
        all
    }

    pub(crate) fn find(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Option<&BTreeMap<String, MountedFile>> {
        self.maps.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn find_key(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Lookup<'_> {
        let found = self.find(kind, namespace, name).and_then(|map| map.get(key));
        found.map_or(Lookup::Missing, Lookup::Found)
    }
}
