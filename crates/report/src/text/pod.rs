//! `hugewise pod` for a terminal.

use std::io;

use hugewise_model::{Level, group_thousands};
use hugewise_pods::{ContainerReport, Fate, PodDemand, PodFinding, PodReport, WorkloadReport};

use crate::palette::Role;
use crate::plain::escape_line;
use crate::screen::{Screen, Spans};

pub(crate) fn write(screen: &mut Screen<'_>, report: &PodReport) -> io::Result<()> {
    if let Some(node_pool) = &report.node_pool {
        return node_pool.lines().try_for_each(|line| screen.write_line(&line.into()));
    }
    for workload in &report.workloads {
        write_workload(screen, report, workload)?;
    }
    for (line, question) in &report.questions {
        screen.write_labeled(2, Role::Warn, &format!("line {line}: "), question)?;
    }
    if !report.questions.is_empty() {
        let tip = "This is a template. Render it first: helm template CHART | hugewise pod -";
        screen.write_paragraph(0, &tip.into())?;
    }
    screen.write_paragraph(0, &summarize(report))?;
    write_diff(screen, report)
}

fn write_workload(
    screen: &mut Screen<'_>,
    report: &PodReport,
    workload: &WorkloadReport,
) -> io::Result<()> {
    let mut title = Spans::new()
        .add(Role::Strong, &format!("{} {}", workload.kind, workload.name))
        .add(Role::Quiet, &format!(" ({}:{})", report.file, workload.line));
    if let Some(name) = report.node.as_ref().and_then(|node| node.name.as_deref()) {
        title.push(Role::Quiet, &format!(" on {name}"));
    }
    screen.write_paragraph(2, &title)?;
    write_findings(screen, 2, &workload.findings)?;
    for container in &workload.containers {
        write_container(screen, container)?;
    }
    screen.write_blank()
}

fn write_container(screen: &mut Screen<'_>, container: &ContainerReport) -> io::Result<()> {
    let mut title = Spans::new().add(Role::Text, "  ").add(Role::Strong, &container.name);
    match &container.server {
        Some(server) => {
            let version =
                server.version.as_deref().map_or_else(String::new, |text| format!(" {text}"));
            let setting =
                server.setting.as_deref().map_or_else(String::new, |text| format!(", {text}"));
            title.push(Role::Text, &format!(": {}{version}{setting}", server.engine));
            let demands: Vec<String> = server.demands.iter().map(describe_demand).collect();
            if !demands.is_empty() && container.fate != Fate::AsksForNone {
                title.push(Role::Text, &format!(", needs {}", demands.join(" and ")));
            }
        }
        None if container.fate == Fate::NoServer => {
            title.push(Role::Quiet, ": no server that hugewise knows");
        }
        None => {}
    }
    screen.write_paragraph(4, &title)?;
    if container.fate != Fate::NoServer {
        let (role, words) = fate_in_words(container.fate);
        screen.write_paragraph(4, &Spans::new().add(Role::Text, "    ").add(role, words))?;
    }
    write_findings(screen, 4, &container.findings)?;
    let lines = container.why.iter().chain(&container.notes);
    for line in lines {
        screen.write_paragraph(4, &Spans::new().add(Role::Text, "    ").add(Role::Text, line))?;
    }
    for question in &container.questions {
        let label = "    To be told: ";
        screen.write_labeled(6, Role::Warn, label, question)?;
    }
    Ok(())
}

fn write_findings(
    screen: &mut Screen<'_>,
    indent: usize,
    findings: &[PodFinding],
) -> io::Result<()> {
    for finding in findings {
        let level = match finding.level {
            Level::Info => "info",
            Level::Warn => "warning",
            Level::Error => "error",
        };
        let label = format!("{}{level}, line {}: ", " ".repeat(indent), finding.line);
        screen.write_labeled(indent + 2, Role::from(finding.level), &label, &finding.what)?;
    }
    Ok(())
}

/// `556 pages of 2 MiB`, or `541 to 677 pages of 2 MiB`.
fn describe_demand(demand: &PodDemand) -> String {
    let most = group_thousands(demand.most);
    match group_thousands(demand.least) {
        least if least == most => format!("{most} pages of {}", demand.page_size),
        least => format!("{least} to {most} pages of {}", demand.page_size),
    }
}

const fn fate_in_words(fate: Fate) -> (Role, &'static str) {
    match fate {
        Fate::NoServer => (Role::Quiet, ""),
        Fate::AsksForNone => (Role::Quiet, "asks for no huge pages"),
        Fate::CannotUse => (Role::Quiet, "cannot use huge pages of a pool"),
        Fate::Maps => (Role::Good, "runs on huge pages"),
        Fate::FallsBack => (Role::Error, "silently falls back to small pages"),
        Fate::RefusesStart => (Role::Error, "refuses to start"),
        Fate::Dies => (Role::Error, "starts, and dies by SIGBUS as it touches its memory"),
        Fate::NotStarted => (Role::Error, "is not started"),
        Fate::Unknown => (Role::Warn, "cannot be told"),
    }
}

fn summarize(report: &PodReport) -> Spans {
    let wrong = report.all_findings().filter(|finding| finding.level >= Level::Warn).count();
    let text = match (report.workloads.is_empty(), wrong) {
        (true, _) => "There is no pod in this manifest, and nothing that makes one.".to_owned(),
        (false, 0) if report.has_questions() => "Some answers are missing; see above.".to_owned(),
        (false, 0) => "Nothing is wrong with this manifest's huge pages.".to_owned(),
        (false, 1) => "One thing will not be as wished.".to_owned(),
        (false, wrong) => format!("{wrong} things will not be as wished."),
    };
    text.into()
}

/// The diff as it is, so that `patch` takes it, unless it could harm a terminal.
fn write_diff(screen: &mut Screen<'_>, report: &PodReport) -> io::Result<()> {
    let Some(diff) = &report.diff else { return Ok(()) };
    let is_harmless = |line: &str| {
        let line = line.trim_end_matches(['\r', '\n']).replace('\t', " ");
        escape_line(&line) == line
    };
    if !diff.split_inclusive('\n').all(is_harmless) {
        let text = "The correction is not shown: the file has characters that no terminal should \
                    get. --format json has it.";
        return screen.write_paragraph(0, &text.into());
    }
    screen.write_paragraph(0, &"The correction, for patch -p0 or git apply -p0:".into())?;
    screen.write_blank()?;
    screen.write_verbatim(diff)
}
