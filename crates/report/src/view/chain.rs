//! The words of the chain between an instance and its huge pages.

use hugewise_model::{Chain, Link, LinkName, LinkState};

use crate::palette::Role;

/// What a link is called.
pub const fn name(link: LinkName) -> &'static str {
    match link {
        LinkName::Asked => "asked for",
        LinkName::Pool => "pool",
        LinkName::Room => "room",
        LinkName::Permission => "permission",
        LinkName::Cgroup => "cgroup",
        LinkName::Mapped => "mapped",
    }
}

/// Whether a link holds: the cause stands out; what is broken behind it may be so because of it.
pub fn state(chain: &Chain, link: &Link) -> &'static str {
    match link.state {
        LinkState::Ok => "yes",
        LinkState::Broken if chain.broken().is_some_and(|cause| cause.name == link.name) => "NO",
        LinkState::Broken => "no",
        LinkState::Unknown => "?",
    }
}

/// What the state of a link means to its reader.
pub const fn role(state: LinkState) -> Role {
    match state {
        LinkState::Ok => Role::Good,
        LinkState::Broken => Role::Error,
        LinkState::Unknown => Role::Quiet,
    }
}
