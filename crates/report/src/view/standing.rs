//! What a standing means to its reader.

use hugewise_advice::standing::Standing;

use crate::palette::Role;

/// Good, bad, or nothing to look at.
pub(crate) const fn role(standing: &Standing) -> Role {
    match standing {
        Standing::All => Role::Good,
        Standing::Partly => Role::Warn,
        Standing::None | Standing::DoesNotStart => Role::Error,
        Standing::Unknown | Standing::NotRunning | Standing::NotCounted(_) => Role::Quiet,
    }
}
