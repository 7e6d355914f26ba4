//! The vocabulary of hugewise as types: a [`Host`] is a machine's memory set-up at one moment, an
//! [`Instance`] a database server on it, a [`Finding`] a rule's verdict. Nothing here reads or
//! writes.

pub mod calendar;
pub mod configuration;
pub mod engine;
pub mod escape;
pub mod finding;
pub mod host;
pub mod instance;
mod named_enum;
pub mod observed;
pub mod obtainable;
pub mod page_tables;
pub mod process;
pub mod remedy;
pub mod stopped;
pub mod trusted_by;
pub mod units;

pub use configuration::Configuration;
pub use engine::Engine;
pub use finding::{
    Finding, HugePageChain, Level, Link, LinkName, LinkState, RuleId, UnknownVerdict,
};
pub use host::{Host, KernelRelease, Pool};
pub use instance::{
    Demand, DemandSource, HugePageMode, HugePageUse, Instance, NextStart, Segment, Trait,
};
pub use observed::{Lack, Observed, Reason, Unread};
pub use process::{Limit, Mapping, Process};
pub use remedy::{ByHand, InstanceId, Remedy};
pub use stopped::{AtBoot, StoppedInstance};
pub use units::{Bytes, NoSize, PageCount, PageSize, group_thousands};
