//! What the settings of servers may be set to, whoever sets them.

use hugewise_advice::target::Insist;
use hugewise_model::Instance;

use super::draft::Draft;
use super::{Ask, pools_at_boot};

/// Whether a server may be told to refuse a start without huge pages: the target's answer, with the pools as the steps
/// leave them.
///
/// # Errors
/// Why not, or not yet.
pub(super) fn may_insist(
    ask: &Ask<'_>,
    draft: &Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
) -> Result<(), String> {
    if ask.options.keep_partial {
        return Err("its pool may fall short, and the rest is done all the same".into());
    }
    insist.may(instance, |page| pools_at_boot::is_secured(draft, page)).map_err(|why| why.to_string())
}
