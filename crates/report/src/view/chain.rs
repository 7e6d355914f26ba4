//! The words of the chain between an instance and its huge pages.

use hugewise_model::{HugePageChain, Link, LinkName, LinkState};

use crate::palette::Role;

/// What a link is called.
pub const fn link_title(link: LinkName) -> &'static str {
    match link {
        LinkName::Asked => "asked for",
        LinkName::Pool => "pool",
        LinkName::Room => "room",
        LinkName::Permission => "permission",
        LinkName::Cgroup => "cgroup",
        LinkName::Mapped => "mapped",
    }
}

/// Whether a link holds. The cause is in capitals: links behind it may be broken because of it.
pub fn link_state_label(chain: &HugePageChain, link: &Link) -> &'static str {
    match link.state {
        LinkState::Ok => "yes",
        LinkState::Broken
            if chain.first_broken_link().is_some_and(|cause| cause.name == link.name) =>
        {
            "NO"
        }
        LinkState::Broken => "no",
        LinkState::Unknown => "?",
    }
}

/// The colour of a link's state.
pub const fn link_state_role(state: LinkState) -> Role {
    match state {
        LinkState::Ok => Role::Good,
        LinkState::Broken => Role::Error,
        LinkState::Unknown => Role::Quiet,
    }
}
