//! Who starts an Oracle instance: a person in sqlplus, or Clusterware.

use hugewise_model::{Host, Instance};

use crate::Starter;

pub(super) const STARTER: Starter = Starter {
    whose: "Oracle's own tools have to do it",
    how: |instance| {
        vec![format!(
            "# as {}, in sqlplus / as sysdba of {}: shutdown immediate, then startup",
            instance.owner, instance.name
        )]
    },
    limits: |host, instance| is_clustered(host, instance).then(|| LIMITS.map(str::to_owned).to_vec()),
};

const LIMITS: [&str; 3] = [
    "# Oracle Clusterware starts this database, with the limits that Clusterware has itself: a rule in limits.d or a drop-in \
     for its unit may not reach it. Raise memlock to unlimited as the documentation of this Grid Infrastructure says, and \
     start it anew on this node, as root:",
    "crsctl stop crs",
    "crsctl start crs",
];

/// Oracle Clusterware starts its databases itself, with limits of its own.
fn is_clustered(host: &Host, instance: &Instance) -> bool {
    instance.unit.as_deref().is_some_and(|unit| unit.contains("ohasd")) || runs_clusterware(host)
}

/// Whether Oracle Clusterware runs.
pub(super) fn runs_clusterware(host: &Host) -> bool {
    let of_the_cluster = ["ohasd.bin", "crsd.bin"];
    host.processes.known().into_iter().flatten().any(|it| of_the_cluster.contains(&it.name.as_str()))
}
