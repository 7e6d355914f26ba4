//! `hugewise check`.

use std::path::PathBuf;

use hugewise_diagnose::{Diagnosis, DiagnosisOptions};
use hugewise_model::{Instance, InstanceId, Level};
use hugewise_report::{CheckOutcome, CheckReport, CountedServers};

use crate::failover_instances::Also;
use crate::format::PageFormat;
use crate::host_namespaces;
use crate::instance_selection;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::ColorChoice;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Check a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// Text for people, JSON for programs, or a single HTML page that you can mail.
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
    /// Exit with 1 if there are findings of this level or worse.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = FailOn::Warn)]
    fail_on: FailOn,
    /// Show only this instance and the host: PROD, 15/main, or "oracle PROD".
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    #[command(flatten)]
    also: Also,
    /// In a container with the host's pid namespace: enter the host's other namespaces, except its
    /// network, first.
    #[arg(long, conflicts_with = "root")]
    host_namespaces: bool,
    /// Also query the servers over their sockets. Without this option, hugewise connects to
    /// nothing.
    #[arg(long, conflicts_with = "root")]
    connect: bool,
    /// Show all evidence for every finding. JSON always includes it.
    #[arg(short, long)]
    verbose: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FailOn {
    /// It hurts now, or will at the next start.
    Error,
    /// It will hurt under load.
    Warn,
    /// Worth knowing.
    Info,
    /// Never exit with 1.
    Never,
}

impl FailOn {
    pub(crate) const fn level(self) -> Option<Level> {
        match self {
            Self::Error => Some(Level::Error),
            Self::Warn => Some(Level::Warn),
            Self::Info => Some(Level::Info),
            Self::Never => None,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    host_namespaces::enter_host_namespaces(arguments.host_namespaces)?;
    let source = outcome::open_source(arguments.root.as_deref())?;
    let options = DiagnosisOptions { connect: arguments.connect, ..DiagnosisOptions::default() };
    let mut diagnosis = arguments.also.diagnose(source.as_ref(), &options)?;
    if let Some(name) = &arguments.instance {
        narrow_to_instance(name, &mut diagnosis)?;
    }
    let checked = CheckReport::from_diagnosis(&diagnosis, arguments.root.as_deref());
    let text = arguments.format.render(&checked, arguments.color, arguments.verbose)?;
    outcome::print_output(&text)?;
    let counted = match arguments.instance {
        Some(_) => CountedServers::Named,
        None => CountedServers::VouchedFor,
    };
    Ok(check_outcome(&checked, arguments.fail_on, counted))
}

fn check_outcome(
    checked: &CheckReport<'_>,
    fail_on: FailOn,
    counted: CountedServers,
) -> CommandOutcome {
    match checked.decide_outcome(fail_on.level(), counted) {
        CheckOutcome::Fine => CommandOutcome::Fine,
        CheckOutcome::Found => CommandOutcome::Found,
        CheckOutcome::Incomplete => CommandOutcome::Incomplete,
    }
}

fn narrow_to_instance(wanted: &str, diagnosis: &mut Diagnosis) -> Result<(), CommandFailure> {
    let Diagnosis { instances, assessment, .. } = diagnosis;
    let titles: Vec<String> = instances.iter().map(Instance::title).collect();
    instance_selection::narrow_to_named(wanted, instances)?;
    if instances.is_empty() {
        return Err(CommandFailure::new(instance_selection::explain_unknown_name(
            wanted,
            &titles,
            "running",
            "none runs",
        )));
    }
    let stays = |id: &InstanceId| instances.iter().any(|instance| instance.id() == *id);
    assessment.chains.retain(|chain| stays(&chain.instance));
    assessment.findings.retain(|finding| finding.instance.as_ref().is_none_or(stays));
    assessment.unknown.retain(|verdict| verdict.instance.as_ref().is_none_or(stays));
    Ok(())
}

#[cfg(test)]
mod tests {
    use hugewise_diagnose::Assessment;
    use hugewise_model::{Finding, Host, Observed, Reason, UnknownVerdict, Unread};

    use super::*;

    fn assessment(levels: &[Level], missing: &[(&str, Reason)]) -> Assessment {
        let finding = |level: &Level| Finding {
            code: hugewise_model::RuleId::new("HW201"),
            name: "no-pool",
            level: *level,
            instance: None,
            summary: String::new(),
            short: String::new(),
            evidence: Vec::new(),
            cost: None,
            remedies: Vec::new(),
            fix: Vec::new(),
        };
        let unknown = |(what, why): &(&str, Reason)| UnknownVerdict {
            code: hugewise_model::RuleId::new("HW301"),
            name: "memlock",
            instance: None,
            missing: format!("{what}: {why}"),
            why: why.clone(),
        };
        Assessment {
            findings: levels.iter().map(finding).collect(),
            unknown: missing.iter().map(unknown).collect(),
            ..Assessment::default()
        }
    }

    fn outcome(
        live: bool,
        assessment: &Assessment,
        unread: &[Unread],
        fail_on: FailOn,
    ) -> CommandOutcome {
        let host = Host { live, processes: Observed::Known(Vec::new()), ..Host::default() };
        check_outcome(
            &CheckReport { host: &host, instances: &[], assessment, unread, root: None },
            fail_on,
            CountedServers::VouchedFor,
        )
    }

    #[test]
    fn findings_win_over_missing_facts() {
        let unread = [Unread { what: "/proc/1/limits".into(), why: Reason::Denied }];
        let command_outcome_of = |levels: &[Level], missing: &[(&str, Reason)], fail_on| {
            outcome(true, &assessment(levels, missing), &unread, fail_on)
        };
        let denied = [("/proc/1/limits", Reason::Denied)];
        assert_eq!(
            command_outcome_of(&[Level::Warn], &denied, FailOn::Warn),
            CommandOutcome::Found
        );
        assert_eq!(
            command_outcome_of(&[Level::Warn], &denied, FailOn::Error),
            CommandOutcome::Incomplete
        );
        assert_eq!(command_outcome_of(&[Level::Error], &[], FailOn::Never), CommandOutcome::Fine);
        assert_eq!(command_outcome_of(&[Level::Info], &[], FailOn::Warn), CommandOutcome::Fine);
        assert_eq!(command_outcome_of(&[Level::Info], &[], FailOn::Info), CommandOutcome::Found);
    }

    #[test]
    fn what_a_kernel_does_not_have_is_not_missing_but_what_a_torn_capture_does_not_have_is() {
        let lacking = assessment(&[], &[("/proc/meminfo PageTables", Reason::Absent)]);
        let torn = [Unread {
            what: "host.tar.gz".into(),
            why: Reason::Malformed("ends too early".into()),
        }];
        assert_eq!(outcome(true, &lacking, &torn, FailOn::Warn), CommandOutcome::Fine);
        assert_eq!(outcome(false, &lacking, &[], FailOn::Warn), CommandOutcome::Fine);
        assert_eq!(outcome(false, &lacking, &torn, FailOn::Warn), CommandOutcome::Incomplete);
        let no_processes = assessment(&[], &[("processes", Reason::Absent)]);
        let host = Host::default();
        let checked = CheckReport {
            host: &host,
            instances: &[],
            assessment: &no_processes,
            unread: &[],
            root: None,
        };
        assert_eq!(
            check_outcome(&checked, FailOn::Warn, CountedServers::VouchedFor),
            CommandOutcome::Incomplete
        );
        // What a file is called says nothing of why it is not known.
        let odd = assessment(&[], &[("/etc/sysctl.d/x: absent", Reason::Denied)]);
        assert_eq!(outcome(true, &odd, &[], FailOn::Warn), CommandOutcome::Incomplete);
        let mut no_maps = assessment(&[], &[("/proc/9/maps", Reason::Absent)]);
        no_maps.unknown.iter_mut().for_each(|verdict| {
            verdict.instance =
                Some(InstanceId { engine: hugewise_model::Engine::Oracle, name: "PROD".into() });
        });
        assert_eq!(outcome(false, &no_maps, &[], FailOn::Warn), CommandOutcome::Incomplete);
    }

    /// Anybody can start a program under a server's name of which nothing can be read.
    #[test]
    fn what_is_not_known_of_a_stranger_counts_where_he_is_asked_for() {
        let mut stranger = Instance { name: "15/main".into(), ..Instance::default() };
        let mut hidden = assessment(&[], &[("/proc/9/maps", Reason::Denied)]);
        hidden.unknown.iter_mut().for_each(|verdict| verdict.instance = Some(stranger.id()));
        let host = Host { live: true, processes: Observed::Known(Vec::new()), ..Host::default() };
        let outcome_of = |stranger: &Instance, counted| {
            let instances = std::slice::from_ref(stranger);
            let checked = CheckReport {
                host: &host,
                instances,
                assessment: &hidden,
                unread: &[],
                root: None,
            };
            check_outcome(&checked, FailOn::Warn, counted)
        };
        let (vouched, named) = (CountedServers::VouchedFor, CountedServers::Named);
        assert_eq!(outcome_of(&stranger, vouched), CommandOutcome::Fine);
        assert_eq!(outcome_of(&stranger, named), CommandOutcome::Incomplete);
        stranger.trusted_by = vec![hugewise_model::trusted_by::TrustReason::Unit];
        assert_eq!(outcome_of(&stranger, vouched), CommandOutcome::Incomplete);
    }
}
