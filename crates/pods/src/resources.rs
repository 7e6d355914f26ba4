//! The resources of a container, and what the API server makes of its huge pages.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hugewise_model::PageSize;

use crate::quantity::Quantity;
use crate::yaml::YamlNode;

/// Names of the resources of huge pages begin so.
pub(crate) const HUGE_PAGES: &str = "hugepages-";

/// One side of `resources`.
pub(crate) type ResourceAmounts = BTreeMap<String, ResourceAmount>;

#[derive(Clone, Debug)]
pub(crate) struct ResourceAmount {
    pub(crate) amount: Quantity,
    pub(crate) line: u64,
}

/// `resources` of a container, or of an operator's resource in its place.
#[derive(Clone, Debug)]
pub(crate) struct ContainerResources {
    /// The mapping that has `resources`, or where it belongs.
    pub(crate) parent: Rc<YamlNode>,
    pub(crate) limits: ResourceAmounts,
    pub(crate) requests: ResourceAmounts,
    /// Amounts that are no quantities, and templates, by line.
    pub(crate) unclear: Vec<(u64, UnclearAmount)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnclearAmount {
    /// What a template leaves open, with the resource's name.
    Open(String),
    /// What no API server takes.
    Wrong(String),
}

impl ContainerResources {
    pub(crate) fn read(parent: &Rc<YamlNode>) -> Self {
        let mut read = Self {
            parent: Rc::clone(parent),
            limits: ResourceAmounts::new(),
            requests: ResourceAmounts::new(),
            unclear: Vec::new(),
        };
        let Some(node) = parent.get("resources") else { return read };
        if let Some(template) = &node.template {
            read.unclear.push((node.line, UnclearAmount::Open(template.clone())));
        }
        let sides = ["limits", "requests"].map(|side| read.read_amounts(node, side));
        [read.limits, read.requests] = sides;
        // What is not requested is requested as its limit.
        for (name, limit) in &read.limits {
            read.requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
        read
    }

    fn read_amounts(&mut self, node: &YamlNode, side: &str) -> ResourceAmounts {
        let mut amounts = ResourceAmounts::new();
        let Some(section) = node.get(side) else { return amounts };
        if let Some(template) = &section.template {
            self.unclear.push((section.line, UnclearAmount::Open(template.clone())));
        }
        for (name, value) in section.entries() {
            let Some(name) = name.text() else { continue };
            match (&value.template, value.text().and_then(Quantity::parse)) {
                (Some(template), _) => {
                    let open = format!("{template} ({side}.{name})");
                    self.unclear.push((value.line, UnclearAmount::Open(open)));
                }
                (None, Some(amount)) => {
                    let amount = ResourceAmount { amount, line: value.line };
                    amounts.insert(name.to_owned(), amount);
                }
                (None, None) => {
                    let text = value.text().unwrap_or("a list or mapping");
                    let wrong = format!("{side}.{name}: {text:?} is no quantity");
                    self.unclear.push((value.line, UnclearAmount::Wrong(wrong)));
                }
            }
        }
        amounts
    }

    /// Page sizes that either side names as nodes name them.
    pub(crate) fn page_sizes(&self) -> BTreeSet<PageSize> {
        let names = self.limits.keys().chain(self.requests.keys());
        let sizes = names.filter_map(|name| Some((name, page_size_of(name)?)));
        sizes.filter(|(name, page)| **name == resource_name(*page)).map(|(_, page)| page).collect()
    }

    /// The limit on pages of a size, in bytes; none allows none.
    pub(crate) fn limit_bytes(&self, page: PageSize) -> u64 {
        self.limits.get(&resource_name(page)).map_or(0, |limit| limit.amount.round_up())
    }

    pub(crate) fn memory_limit(&self) -> Option<u64> {
        self.limits.get("memory").map(|limit| limit.amount.round_up()).filter(|bytes| *bytes > 0)
    }

    pub(crate) fn cpu_limit(&self) -> Option<u64> {
        self.limits.get("cpu").map(|limit| limit.amount.round_up()).filter(|count| *count > 0)
    }

    /// What of it the API server refuses, by line.
    pub(crate) fn find_refusals(&self) -> Vec<(u64, String)> {
        let mut refusals = Vec::new();
        for (line, unclear) in &self.unclear {
            if let UnclearAmount::Wrong(what) = unclear {
                refusals.push((*line, what.clone()));
            }
        }
        let huge = |amounts: &ResourceAmounts| {
            let all = amounts.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES));
            all.map(|(name, one)| (name.clone(), one.clone())).collect::<Vec<_>>()
        };
        for (name, request) in huge(&self.requests) {
            let Some(page) = page_size_of(&name) else {
                let what =
                    format!("{name} names no page size; write hugepages-2Mi or hugepages-1Gi");
                refusals.push((request.line, what));
                continue;
            };
            if name != resource_name(page) {
                let what = format!("no node offers {name}: its name is {}", resource_name(page));
                refusals.push((request.line, what));
                continue;
            }
            let what = match self.limits.get(&name) {
                None => format!("{name} has a request and no limit; both must be there and equal"),
                Some(limit) if limit.amount != request.amount => {
                    format!("{name}: request and limit differ; they must be equal")
                }
                Some(limit) if limit.amount.round_up() % page.bytes().get() != 0 => {
                    format!("{name}: no whole number of pages of {page}")
                }
                Some(_) => continue,
            };
            refusals.push((request.line, what));
        }
        refusals
    }

    pub(crate) fn asks_for_cpu_or_memory(&self) -> bool {
        ["cpu", "memory"].iter().any(|name| self.requests.contains_key(*name))
    }

    pub(crate) fn has_huge_pages(&self) -> bool {
        self.requests.keys().any(|name| name.starts_with(HUGE_PAGES))
    }
}

/// The page size that `hugepages-2Mi` names.
pub(crate) fn page_size_of(name: &str) -> Option<PageSize> {
    let size = Quantity::parse(name.strip_prefix(HUGE_PAGES)?)?.round_up();
    PageSize::new(size)
}

/// `hugepages-2Mi`: in the largest unit that divides it.
pub(crate) fn resource_name(page: PageSize) -> String {
    format!("{HUGE_PAGES}{}", crate::quantity::format_bytes(page.bytes().get()))
}
