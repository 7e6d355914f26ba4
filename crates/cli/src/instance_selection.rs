//! The one instance that somebody names.

use hugewise_engines::instance_names;
use hugewise_model::{Instance, InstanceId};

use crate::outcome::CommandFailure;

/// Leaves the named instance, or none; fails if several have the name.
pub(crate) fn narrow_to_named(
    wanted: &str,
    instances: &mut Vec<Instance>,
) -> Result<(), CommandFailure> {
    let meant =
        instance_names::find_unique_instance(instances, wanted).map_err(CommandFailure::new)?;
    let meant: Option<InstanceId> = meant.map(Instance::id);
    instances.retain(|instance| Some(instance.id()) == meant);
    Ok(())
}

/// `none` is said if there are no instances.
pub(crate) fn explain_unknown_name(
    wanted: &str,
    titles: &[String],
    there: &str,
    none: &str,
) -> String {
    match titles {
        [] => format!("no instance is called {wanted}; {none}"),
        titles => format!("no instance is called {wanted}; {there}: {}", titles.join(", ")),
    }
}
