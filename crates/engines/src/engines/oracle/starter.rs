//! Who starts an Oracle instance: a person in sqlplus, or Clusterware.

use hugewise_model::configuration::{Clusterware, FileLocation};
use hugewise_model::escape::shell::quote_operand;
use hugewise_model::instance::Trait;
use hugewise_model::{Host, Instance, Limit, Observed, Process};

use crate::{ExternalStarter, each_known};

pub(super) const STARTER: ExternalStarter = ExternalStarter {
    whose: "Oracle's own tools have to do it",
    by: "Clusterware",
    how: restart_steps,
    limits: |host, instance| {
        is_clustered(host, instance)
            .then(|| limit_steps(host, host.configuration.clusterware.as_ref()))
    },
    agent: find_agent,
};

fn restart_steps(host: &Host, instance: &Instance) -> Vec<String> {
    let (owner, name) = (&instance.owner, &instance.name);
    if instance.traits.contains(&Trait::Asm) {
        let stack = stack_name(host);
        return match runs_clusterware(host) {
            true => vec![
                format!(
                    "# every database whose disks {name} holds goes down with it: stop those \
                     first. Then, as root:"
                ),
                format!("crsctl stop {stack}"),
                format!("crsctl start {stack}"),
            ],
            false => vec![format!(
                "# as {owner}, once every database whose disks {name} holds is down, in sqlplus / \
                 as sysasm: shutdown immediate, then startup"
            )],
        };
    }
    if runs_clusterware(host) && name.starts_with("-MGMT") {
        return vec![format!("# as {owner}: srvctl stop mgmtdb, then srvctl start mgmtdb")];
    }
    if is_clustered(host, instance) && !name.starts_with(['+', '-']) {
        return vec![format!(
            "# as {owner}: srvctl stop instance and srvctl start instance, -db with its unique \
             name and -instance {name}; sqlplus gives it the limits of your login, srvctl those of \
             Clusterware"
        )];
    }
    // Started from a login it would have that login's limits, and leave its service.
    if let Some(unit) = instance.unit.as_deref().filter(|_| instance.is_run_by_its_service()) {
        return vec![format!("systemctl restart {}", quote_operand(unit))];
    }
    vec![format!(
        "# as {owner}, from a new login (an older shell keeps its old limits), in sqlplus / as \
         sysdba of {name}: shutdown immediate, then startup"
    )]
}

/// Clusterware's process whose limits its databases get: the owner's agent, if that runs.
fn find_agent<'a>(host: &'a Host, instance: &Instance) -> Option<&'a Process> {
    let named = |name: &'static str| {
        let all = each_known(&host.processes).map(AsRef::as_ref);
        all.filter(move |process: &&Process| process.name == name)
    };
    named("oraagent.bin")
        .find(|process| host.accounts.user_name(process.uid) == instance.owner)
        .or_else(|| named("crsd.bin").next())
        .or_else(|| named("ohasd.bin").next())
}

fn limit_steps(host: &Host, clusterware: Option<&Clusterware>) -> Vec<String> {
    const WHOSE: &str = "What Oracle Clusterware starts, by srvctl or at boot, has Clusterware's \
        own limits. Rules in limits.d don't change these, and a drop-in for its unit may not \
        either.";
    let line = |file: &str| match file.ends_with("_env.txt") {
        true => "CRS_LIMIT_MEMLOCK=unlimited",
        false => "ulimit -l unlimited, before it starts the stack",
    };
    let told = match clusterware {
        Some(Clusterware { memlock: Observed::Known((Limit::Unlimited, place)), .. }) => {
            format!("{place} gives it unlimited memlock, but it was started without that.")
        }
        Some(Clusterware { memlock: Observed::Known((Limit::At(bytes), place)), .. }) => {
            let FileLocation { file, .. } = place;
            format!("{place} gives it {bytes} of memlock: make that unlimited ({}).", line(file))
        }
        Some(Clusterware { memlock: Observed::Absent, file: Some(file) }) => {
            format!("None of its files sets memlock: add to {file}: {}.", line(file))
        }
        _ => "Raise memlock to unlimited as the documentation of this Grid Infrastructure says."
            .to_owned(),
    };
    let then = "Then restart Clusterware on this node, as root:";
    let mut lines: Vec<String> =
        [WHOSE, &told, then].iter().map(|line| format!("# {line}")).collect();
    lines.extend(["stop", "start"].map(|verb| format!("crsctl {verb} {}", stack_name(host))));
    lines
}

/// What `crsctl` calls it: Oracle Restart has no cluster, only the high availability services.
fn stack_name(host: &Host) -> &'static str {
    let is_restart = is_process_running(host, "ohasd.bin") && !is_process_running(host, "crsd.bin");
    if is_restart { "has" } else { "crs" }
}

fn is_clustered(host: &Host, instance: &Instance) -> bool {
    instance.unit.as_deref().is_some_and(|unit| unit.contains("ohasd")) || runs_clusterware(host)
}

pub(super) fn runs_clusterware(host: &Host) -> bool {
    ["ohasd.bin", "crsd.bin"].iter().any(|name| is_process_running(host, name))
}

fn is_process_running(host: &Host, name: &str) -> bool {
    each_known(&host.processes).any(|process| process.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn restart_text(name: &str, traits: &[Trait], runs: &[&str]) -> String {
        let process =
            |(pid, name): (u32, &&str)| Process { pid, name: (*name).into(), ..Process::default() };
        let host =
            Host { processes: testing::known((1..).zip(runs).map(process)), ..Host::default() };
        let source = hugewise_host::source::map::MapSource::new();
        let scene = crate::EngineContext::new(&host, &source);
        let main = Process { uid: 54321, ..Process::default() };
        let mut instance =
            scene.new_instance(hugewise_model::Engine::Oracle, name.into(), &main, Vec::new());
        instance.traits = traits.to_vec();
        restart_steps(&host, &instance).join("\n")
    }

    /// ORA-15097: ASM is not shut down under a database that lives on its disks, nor under the
    /// cluster's own files.
    #[test]
    fn asm_goes_with_the_stack_that_it_belongs_to() {
        let cluster = restart_text("+ASM1", &[Trait::Asm], &["ohasd.bin", "crsd.bin"]);
        assert!(cluster.ends_with("crsctl stop crs\ncrsctl start crs"), "{cluster}");
        assert!(
            cluster.starts_with("# every database whose disks +ASM1 holds goes down with it"),
            "{cluster}"
        );
        let restart = restart_text("+ASM", &[Trait::Asm], &["ohasd.bin"]);
        assert!(restart.ends_with("crsctl stop has\ncrsctl start has"), "{restart}");
        let alone = restart_text("+ASM", &[Trait::Asm], &[]);
        assert!(
            alone.contains("in sqlplus / as sysasm") && alone.contains("every database"),
            "{alone}"
        );
    }

    #[test]
    fn the_management_database_has_commands_of_its_own() {
        let told = restart_text("-MGMTDB", &[], &["ohasd.bin", "crsd.bin"]);
        assert!(told.ends_with("srvctl stop mgmtdb, then srvctl start mgmtdb"), "{told}");
    }
}
