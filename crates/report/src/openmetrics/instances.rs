//! Metrics of each instance.

use std::collections::BTreeSet;

use hugewise_advice::demand;
use hugewise_advice::forecast::{at_max, per_session};
use hugewise_advice::situation::Moment;
use hugewise_model::escape::plain;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Asked, Bytes, Demand, HugePageUse, Instance, Limit, LinkName, LinkState, PageCount};

use super::families::{Families, Kind, Labels, Value};
use super::number;
use crate::Checked;

/// No more instances than this have series of their own; a host with more of them is told by `hugewise_instances`.
pub(super) const MOST_INSTANCES: usize = 200;

/// An instance with the labels that name it.
struct Named<'a> {
    instance: &'a Instance,
    labels: Labels,
}

pub(super) fn write(out: &mut Families, checked: &Checked<'_>) {
    out.family("hugewise_instances", Kind::Gauge, "Running database servers.");
    let running: Vec<&Instance> = checked.instances.iter().filter(|instance| !instance.is_asleep()).collect();
    out.sample(&Labels::none(), number(running.len()));
    out.family("hugewise_instances_down", Kind::Gauge, "Database servers that belong to the host but are not running.");
    out.sample(&Labels::none(), number(checked.instances.len().saturating_sub(running.len())));
    let named = named(running);
    about(out, &named);
    states(out, checked, &named);
    moments(out, checked, &named);
    amounts(out, checked, &named);
    forecasts(out, checked, &named);
    pages(out, checked, &named);
}

/// What a label cannot hold is written out before names are told apart: two that were the same series would take the
/// whole exposition with them. Names are cut where they are very long; what then bears the name of another is numbered.
fn named(instances: Vec<&Instance>) -> Vec<Named<'_>> {
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for instance in instances.into_iter().take(MOST_INSTANCES) {
        let name: String = plain::clean(&instance.name).chars().take(80).collect();
        let numbered = (2_u64..).map(|number| format!("{name} {number}"));
        let name =
            std::iter::once(name.clone()).chain(numbered).find(|name| taken.insert((instance.engine, name.clone())));
        let name = name.unwrap_or_default();
        let labels = Labels::of([("engine", instance.engine.as_str()), ("instance_name", &name)]);
        all.push(Named { instance, labels });
    }
    all
}

fn about(out: &mut Families, named: &[Named<'_>]) {
    out.family("hugewise_instance_info", Kind::Info, "A running database server.");
    for Named { instance, labels } in named {
        let version = instance.version.known().map_or("", String::as_str);
        out.sample(&labels.and("version", version), 1_u64);
    }
}

fn states(out: &mut Families, checked: &Checked<'_>, named: &[Named<'_>]) {
    use HugePageUse::{All, None, Partly, Unknown};
    out.family(
        "hugewise_instance_huge_page_state",
        Kind::Gauge,
        "How much of its memory is on huge pages: 1 for the current state.",
    );
    for Named { instance, labels } in named {
        for state in [All, Partly, None, Unknown] {
            out.sample(&labels.and("state", state.as_str()), instance.huge_pages == state);
        }
    }
    out.family(
        "hugewise_instance_broken_link",
        Kind::Gauge,
        "The chain between the server and its huge pages: 1 for the link that is broken first.",
    );
    for Named { instance, labels } in named {
        let id = instance.id();
        let chain = checked.assessment.chains.iter().find(|chain| chain.instance == id);
        let broken = chain.and_then(|chain| chain.links.iter().find(|link| link.state == LinkState::Broken));
        for link in
            [LinkName::Asked, LinkName::Pool, LinkName::Room, LinkName::Permission, LinkName::Cgroup, LinkName::Mapped]
        {
            out.sample(&labels.and("link", link.as_str()), broken.is_some_and(|broken| broken.name == link));
        }
    }
}

type Amount<'a> = (&'static str, &'static str, &'a dyn Fn(&Instance) -> Option<Value>);

fn amounts(out: &mut Families, checked: &Checked<'_>, named: &[Named<'_>]) {
    let bytes = |bytes: Bytes| Value::from(bytes.get());
    let memlock = |instance: &Instance| match checked.host.process(instance.pid)?.memlock.get()?.soft {
        Limit::At(limit) => Some(bytes(limit)),
        Limit::Unlimited => Some(f64::INFINITY.into()),
    };
    let each = |instance: &Instance| match instance.session_model {
        SessionModel::Processes => per_session(checked.host, instance).map(bytes),
        SessionModel::Threads => None,
    };
    let facts: [Amount<'_>; 8] = [
        ("hugewise_instance_segment_bytes", "The part of its memory that huge pages could back.", &|instance| {
            Some(bytes(instance.segment_bytes()))
        }),
        ("hugewise_instance_huge_bytes", "Of that, memory on huge pages.", &|instance| {
            (instance.huge_pages != HugePageUse::Unknown).then(|| bytes(instance.huge_bytes()))
        }),
        ("hugewise_instance_page_tables_bytes", "Page tables of all its processes.", &|instance| {
            instance.page_tables.get().map(bytes)
        }),
        ("hugewise_instance_session_page_tables_bytes", "Page tables of one process, on average.", &each),
        ("hugewise_instance_processes", "Its processes.", &|instance| Some(number(instance.pids.len()).into())),
        ("hugewise_instance_sessions", "Client sessions.", &|instance| instance.sessions.get().map(Value::from)),
        ("hugewise_instance_sessions_limit", "Sessions that its settings allow.", &|instance| {
            instance.max_sessions.get().map(Value::from)
        }),
        ("hugewise_instance_memlock_bytes", "Soft limit of locked memory of its main process.", &memlock),
    ];
    for (name, help, fact) in facts {
        out.family(name, Kind::Gauge, help);
        for Named { instance, labels } in named {
            out.known(labels, fact(instance));
        }
    }
}

/// What is forecast of each: the numbers of `hugewise size`.
fn forecasts(out: &mut Families, checked: &Checked<'_>, named: &[Named<'_>]) {
    let help = "Page tables of all its processes at the largest number of sessions its settings allow, by page size.";
    out.family("hugewise_instance_page_tables_at_max_bytes", Kind::Gauge, help);
    for Named { instance, labels } in named {
        for forecast in at_max(checked.host, instance).into_iter().flat_map(|at_max| at_max.by_page) {
            let labels = labels.and("page_bytes", &u64::from(forecast.page_size).to_string());
            out.sample(&labels, forecast.total.get());
        }
    }
}

/// Pages that it asks for and cannot have. Nothing for one that does not ask.
fn shortfall(checked: &Checked<'_>, instance: &Instance, demand: &Demand) -> Option<PageCount> {
    if !matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises) {
        return None;
    }
    let more = demand::lacking(instance, demand)?;
    if demand::of(checked.host, instance).is_none_or(|first| first.page_size != demand.page_size) {
        let available = demand::obtainable_for(checked.host, instance, demand.page_size).unwrap_or_default();
        return Some(more.saturating_sub(available));
    }
    let left = checked.assessment.situation.share(instance).map(|share| share.left).unwrap_or_default();
    Some(more.saturating_sub(left))
}

/// How each stands now, after its restart, and after the next boot.
fn moments(out: &mut Families, checked: &Checked<'_>, named: &[Named<'_>]) {
    let help = "How much of it is on huge pages at each moment: 1 for the state that it is in.";
    out.family("hugewise_instance_moment", Kind::Gauge, help);
    for Named { instance, labels } in named {
        let Some(moments) = checked.assessment.situation.of(instance) else { continue };
        for moment in Moment::ALL {
            let state = moments.at(moment).standing.as_str();
            out.sample(&labels.and("moment", moment.as_str()).and("state", state), 1_u64);
        }
    }
}

fn pages(out: &mut Families, checked: &Checked<'_>, named: &[Named<'_>]) {
    let sized: Vec<_> = named
        .iter()
        .flat_map(|Named { instance, labels }| {
            let demands = demand::of(checked.host, instance).into_iter().chain(demand::beside(checked.host, instance));
            let labelled = demands.map(|demand| {
                let labels = labels.and("page_bytes", &u64::from(demand.page_size).to_string());
                (*instance, demand, labels)
            });
            labelled.collect::<Vec<_>>()
        })
        .collect();
    out.family("hugewise_instance_demand_pages", Kind::Gauge, "Pages that it needs to be wholly on huge pages.");
    for (_, demand, labels) in &sized {
        out.sample(labels, demand.pages.get());
    }
    out.family("hugewise_instance_mapped_pages", Kind::Gauge, "Huge pages of that size that it maps.");
    for (instance, demand, labels) in &sized {
        if instance.huge_pages != HugePageUse::Unknown {
            out.sample(labels, demand::held(instance, demand.page_size).get());
        }
    }
    out.family("hugewise_instance_missing_pages", Kind::Gauge, "Pages that it needs beyond those that it maps.");
    for (instance, demand, labels) in &sized {
        out.known(labels, demand::lacking(instance, demand).map(PageCount::get));
    }
    out.family(
        "hugewise_instance_shortfall_pages",
        Kind::Gauge,
        "Pages that its settings ask for but the pool does not have for it.",
    );
    for (instance, demand, labels) in &sized {
        out.known(labels, shortfall(checked, instance, demand).map(PageCount::get));
    }
}
