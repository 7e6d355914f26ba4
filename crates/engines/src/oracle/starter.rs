//! Who starts an Oracle instance: a person in sqlplus, or Clusterware.

use hugewise_model::configuration::{Clusterware, Place};
use hugewise_model::{Host, Instance, Limit, Observed, Process};

use crate::Starter;

pub(super) const STARTER: Starter = Starter {
    whose: "Oracle's own tools have to do it",
    how,
    limits: |host, instance| is_clustered(host, instance).then(|| limits(host.configuration.clusterware.as_ref())),
    agent,
};

fn how(host: &Host, instance: &Instance) -> Vec<String> {
    let (owner, name) = (&instance.owner, &instance.name);
    if is_clustered(host, instance) && !name.starts_with(['+', '-']) {
        return vec![format!(
            "# as {owner}: srvctl stop instance and srvctl start instance, -db with its unique name and -instance {name}; \
             sqlplus gives it the limits of your log-in, srvctl those of Clusterware"
        )];
    }
    vec![format!(
        "# as {owner}, from a new log-in (an older shell keeps its old limits), in sqlplus / as sysdba of {name}: shutdown \
         immediate, then startup"
    )]
}

/// The process of Clusterware whose limits a database has that it starts: its agent for the owner, which it starts itself.
fn agent<'a>(host: &'a Host, instance: &Instance) -> Option<&'a Process> {
    let owner = |process: &Process| host.accounts.user_name(process.uid) == instance.owner;
    let named = |name: &str, is_his: bool| {
        let all = host.processes.known().into_iter().flatten().map(|it| &**it);
        let mut those = all.filter(|it| it.name == name && (!is_his || owner(it)));
        those.next()
    };
    named("oraagent.bin", true).or_else(|| named("crsd.bin", false)).or_else(|| named("ohasd.bin", false))
}

/// What a person does about the limit that Clusterware gives: `#` lines and commands.
fn limits(clusterware: Option<&Clusterware>) -> Vec<String> {
    const WHOSE: &str = "Oracle Clusterware starts this database, with the limits that Clusterware has itself: a rule in \
                         limits.d or a drop-in for its unit may not reach it.";
    let line = |file: &str| match file.ends_with("_env.txt") {
        true => "CRS_LIMIT_MEMLOCK=unlimited",
        false => "ulimit -l unlimited, before it starts the stack",
    };
    let told = match clusterware {
        Some(Clusterware { memlock: Observed::Known((Limit::Unlimited, place)), .. }) => {
            format!("{place} gives it unlimited memlock, and it was started otherwise.")
        }
        Some(Clusterware { memlock: Observed::Known((Limit::At(bytes), place)), .. }) => {
            let Place { file, .. } = place;
            format!("{place} gives it {bytes} of memlock: make that unlimited ({}).", line(file))
        }
        Some(Clusterware { memlock: Observed::Absent, file: Some(file) }) => {
            format!("No file of it sets memlock: add to {file}: {}.", line(file))
        }
        _ => "Raise memlock to unlimited as the documentation of this Grid Infrastructure says.".to_owned(),
    };
    let then = "Then start Clusterware anew on this node, as root:";
    let mut lines: Vec<String> = [WHOSE, &told, then].iter().map(|line| format!("# {line}")).collect();
    lines.extend(["crsctl stop crs".to_owned(), "crsctl start crs".to_owned()]);
    lines
}

/// Oracle Clusterware starts its databases itself, with limits of its own.
fn is_clustered(host: &Host, instance: &Instance) -> bool {
    instance.unit.as_deref().is_some_and(|unit| unit.contains("ohasd")) || runs_clusterware(host)
}

/// Whether Oracle Clusterware runs.
pub(super) fn runs_clusterware(host: &Host) -> bool {
    let of_the_cluster = ["ohasd.bin", "crsd.bin"];
    host.processes.known().into_iter().flatten().any(|it| of_the_cluster.contains(&it.name.as_str()))
}
