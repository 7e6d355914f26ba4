//! `hugewise check`.

use std::path::PathBuf;

use hugewise_advice::Assessment;
use hugewise_model::{Instance, InstanceId, Level};
use hugewise_report::{Answer, Checked};

use crate::also::Also;
use crate::format::PageFormat;
use crate::host_namespaces;
use crate::named;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};

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
    /// In a container with the host's pid namespace: enter the host's other namespaces, except its network, first.
    #[arg(long, conflicts_with = "root")]
    host_namespaces: bool,
    /// Also query the servers over their sockets. Without this option, hugewise connects to nothing.
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

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    host_namespaces::enter(arguments.host_namespaces)?;
    let source = outcome::open(arguments.root.as_deref())?;
    let (host, mut found) = hugewise_engines::gather(source.as_ref());
    if arguments.connect {
        found.unread.append(&mut hugewise_engines::connect::ask(&host, &mut found.instances));
    }
    arguments.also.add(&host, source.as_ref(), &mut found.instances, &mut found.unread)?;
    hugewise_engines::crowd::look(&host, source.as_ref(), &mut found.instances);
    let mut assessment = hugewise_advice::assess(&host, &found.instances);
    if let Some(name) = &arguments.instance {
        narrow(name, &mut found.instances, &mut assessment)?;
    }
    let mut unread = host.unread.clone();
    unread.append(&mut found.unread);
    unread.sort();
    unread.dedup();

    let root = arguments.root.as_deref();
    let checked = Checked { host: &host, instances: &found.instances, assessment: &assessment, unread: &unread, root };
    let mut text = Vec::new();
    let written = match arguments.format {
        PageFormat::Text => checked.write_text(&mut text, terminal::layout(arguments.color, arguments.verbose)),
        PageFormat::Json => checked.write_json(&mut text),
        PageFormat::Html => checked.write_html(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    outcome::print(&text)?;
    Ok(verdict(&checked, arguments.fail_on))
}

fn verdict(checked: &Checked<'_>, fail_on: FailOn) -> Outcome {
    match checked.answer(fail_on.level()) {
        Answer::Fine => Outcome::Fine,
        Answer::Found => Outcome::Found,
        Answer::Incomplete => Outcome::Incomplete,
    }
}

/// Leaves one instance and what is said of it and of the host.
fn narrow(wanted: &str, instances: &mut Vec<Instance>, assessment: &mut Assessment) -> Result<(), Failure> {
    let titles: Vec<String> = instances.iter().map(Instance::title).collect();
    named::narrow(wanted, instances)?;
    if instances.is_empty() {
        let running = if titles.is_empty() { "none runs".into() } else { format!("running: {}", titles.join(", ")) };
        return Err(Failure::new(format!("no instance is called {wanted}; {running}")));
    }
    let stays = |id: &InstanceId| instances.iter().any(|instance| instance.id() == *id);
    assessment.chains.retain(|chain| stays(&chain.instance));
    assessment.findings.retain(|finding| finding.instance.as_ref().is_none_or(stays));
    assessment.unknown.retain(|verdict| verdict.instance.as_ref().is_none_or(stays));
    Ok(())
}

#[cfg(test)]
mod tests {
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

    fn outcome(live: bool, assessment: &Assessment, unread: &[Unread], fail_on: FailOn) -> Outcome {
        let host = Host { live, processes: Observed::Known(Vec::new()), ..Host::default() };
        verdict(&Checked { host: &host, instances: &[], assessment, unread, root: None }, fail_on)
    }

    #[test]
    fn findings_win_over_missing_facts() {
        let unread = [Unread { what: "/proc/1/limits".into(), why: Reason::Denied }];
        let of = |levels: &[Level], missing: &[(&str, Reason)], fail_on| {
            outcome(true, &assessment(levels, missing), &unread, fail_on)
        };
        let denied = [("/proc/1/limits", Reason::Denied)];
        assert_eq!(of(&[Level::Warn], &denied, FailOn::Warn), Outcome::Found);
        assert_eq!(of(&[Level::Warn], &denied, FailOn::Error), Outcome::Incomplete);
        assert_eq!(of(&[Level::Error], &[], FailOn::Never), Outcome::Fine);
        assert_eq!(of(&[Level::Info], &[], FailOn::Warn), Outcome::Fine);
        assert_eq!(of(&[Level::Info], &[], FailOn::Info), Outcome::Found);
    }

    #[test]
    fn what_a_kernel_does_not_have_is_not_missing_but_what_a_torn_capture_does_not_have_is() {
        let lacking = assessment(&[], &[("/proc/meminfo PageTables", Reason::Absent)]);
        let torn = [Unread { what: "host.tar.gz".into(), why: Reason::Malformed("ends too early".into()) }];
        assert_eq!(outcome(true, &lacking, &torn, FailOn::Warn), Outcome::Fine);
        assert_eq!(outcome(false, &lacking, &[], FailOn::Warn), Outcome::Fine);
        assert_eq!(outcome(false, &lacking, &torn, FailOn::Warn), Outcome::Incomplete);
        let no_processes = assessment(&[], &[("processes", Reason::Absent)]);
        let host = Host::default();
        let checked = Checked { host: &host, instances: &[], assessment: &no_processes, unread: &[], root: None };
        assert_eq!(verdict(&checked, FailOn::Warn), Outcome::Incomplete);
        // What a file is called says nothing of why it is not known.
        let odd = assessment(&[], &[("/etc/sysctl.d/x: absent", Reason::Denied)]);
        assert_eq!(outcome(true, &odd, &[], FailOn::Warn), Outcome::Incomplete);
        let mut no_maps = assessment(&[], &[("/proc/9/maps", Reason::Absent)]);
        no_maps.unknown.iter_mut().for_each(|verdict| {
            verdict.instance = Some(InstanceId { engine: hugewise_model::Engine::Oracle, name: "PROD".into() });
        });
        assert_eq!(outcome(false, &no_maps, &[], FailOn::Warn), Outcome::Incomplete);
    }
}
