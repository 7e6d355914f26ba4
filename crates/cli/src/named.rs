//! The one instance that somebody names.

use hugewise_engines::named;
use hugewise_model::{Instance, InstanceId};

use crate::outcome::Failure;

/// Leaves the instance that a name means; none where nobody is called so.
///
/// # Errors
/// Several are called so: whoever asked is told how to name one of them.
pub(crate) fn narrow(wanted: &str, instances: &mut Vec<Instance>) -> Result<(), Failure> {
    let meant = named::one(instances, wanted).map_err(|several| Failure::new(several.to_string()))?;
    let meant: Option<InstanceId> = meant.map(Instance::id);
    instances.retain(|instance| Some(instance.id()) == meant);
    Ok(())
}
