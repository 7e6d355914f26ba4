//! The words of hugewise as types.
//!
//! Every other crate speaks in these: a [`Host`] is one machine's memory set-up at one
//! moment, an [`Instance`] one running database server on it, a [`Finding`] one rule's
//! verdict. Nothing here reads or writes anything.

pub mod asleep;
pub mod configuration;
pub mod engine;
pub mod escape;
pub mod finding;
pub mod host;
pub mod instance;
pub mod observed;
pub mod obtainable;
pub mod page_tables;
pub mod process;
pub mod remedy;
pub mod units;
pub mod vouch;

pub use asleep::{Asleep, AtBoot};
pub use configuration::Configuration;
pub use engine::Engine;
pub use finding::{Chain, Finding, Level, Link, LinkName, LinkState, RuleId, UnknownVerdict};
pub use host::{Host, KernelRelease, Pool};
pub use instance::{Asked, Demand, DemandSource, HugePageUse, Instance, NextStart, Segment, Trait};
pub use observed::{Lack, Observed, Reason, Unread};
pub use process::{Limit, Mapping, Process};
pub use remedy::{ByHand, InstanceId, Remedy};
pub use units::{Bytes, NoSize, PageCount, PageSize};
