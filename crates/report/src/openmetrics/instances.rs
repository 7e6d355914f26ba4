use std::collections::BTreeSet;

use hugewise_diagnose::demand;
use hugewise_diagnose::forecast::{at_max, per_session};
use hugewise_diagnose::prediction::PredictionStage;
use hugewise_model::escape::plain;
use hugewise_model::instance::SessionModel;
use hugewise_model::{
    Bytes, Demand, HugePageMode, HugePageUse, Instance, Limit, LinkName, LinkState, PageCount,
};

use super::count_to_u64;
use super::families::{Families, Labels, MetricKind, Value};
use crate::CheckReport;

/// Only so many instances have series of their own; `hugewise_instances` counts all.
pub(super) const MOST_INSTANCES: usize = 200;

struct LabeledInstance<'a> {
    instance: &'a Instance,
    labels: Labels,
}

pub(super) fn write(out: &mut Families, checked: &CheckReport<'_>) {
    let running: Vec<&Instance> =
        checked.instances.iter().filter(|instance| !instance.is_stopped()).collect();
    let stopped = checked.instances.len().saturating_sub(running.len());
    out.add_gauge(
        "hugewise_instances",
        "Running database servers.",
        Some(count_to_u64(running.len())),
    );
    out.add_gauge(
        "hugewise_instances_down",
        "Database servers that belong to the host but are not running.",
        Some(count_to_u64(stopped)),
    );
    let named = label_instances(running);
    write_instance_info(out, &named);
    write_states(out, checked, &named);
    write_stages(out, checked, &named);
    write_amounts(out, checked, &named);
    write_forecasts(out, checked, &named);
    write_page_demand(out, checked, &named);
}

/// Escapes and cuts names before it numbers equal ones: two equal series are invalid.
fn label_instances(instances: Vec<&Instance>) -> Vec<LabeledInstance<'_>> {
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for instance in instances.into_iter().take(MOST_INSTANCES) {
        let name: String = plain::escape_line(&instance.name).chars().take(80).collect();
        let numbered = (2_u64..).map(|number| format!("{name} {number}"));
        let name = std::iter::once(name.clone())
            .chain(numbered)
            .find(|name| taken.insert((instance.engine, name.clone())));
        let name = name.unwrap_or_default();
        let labels =
            Labels::from_pairs([("engine", instance.engine.as_str()), ("instance_name", &name)]);
        all.push(LabeledInstance { instance, labels });
    }
    all
}

fn write_instance_info(out: &mut Families, named: &[LabeledInstance<'_>]) {
    out.begin_family("hugewise_instance_info", MetricKind::Info, "A running database server.");
    for LabeledInstance { instance, labels } in named {
        let version = instance.version.as_known().map_or("", String::as_str);
        out.add_sample(&labels.with_label("version", version), 1_u64);
    }
}

fn write_states(out: &mut Families, checked: &CheckReport<'_>, named: &[LabeledInstance<'_>]) {
    use HugePageUse::{All, None, Partly, Unknown};
    out.begin_family(
        "hugewise_instance_huge_page_state",
        MetricKind::Gauge,
        "How much of its memory is on huge pages: 1 for the current state.",
    );
    for LabeledInstance { instance, labels } in named {
        for state in [All, Partly, None, Unknown] {
            out.add_sample(
                &labels.with_label("state", state.as_str()),
                instance.huge_pages == state,
            );
        }
    }
    out.begin_family(
        "hugewise_instance_broken_link",
        MetricKind::Gauge,
        "The chain between the server and its huge pages: 1 for the link that is broken first.",
    );
    for LabeledInstance { instance, labels } in named {
        let id = instance.id();
        let chain = checked.assessment.chains.iter().find(|chain| chain.instance == id);
        let broken =
            chain.and_then(|chain| chain.links.iter().find(|link| link.state == LinkState::Broken));
        for link in [
            LinkName::Asked,
            LinkName::Pool,
            LinkName::Room,
            LinkName::Permission,
            LinkName::Cgroup,
            LinkName::Mapped,
        ] {
            out.add_sample(
                &labels.with_label("link", link.as_str()),
                broken.is_some_and(|broken| broken.name == link),
            );
        }
    }
}

type Amount<'a> = (&'static str, &'static str, &'a dyn Fn(&Instance) -> Option<Value>);

fn write_amounts(out: &mut Families, checked: &CheckReport<'_>, named: &[LabeledInstance<'_>]) {
    let bytes = |bytes: Bytes| Value::from(bytes.get());
    let memlock =
        |instance: &Instance| match checked.host.find_process(instance.pid)?.memlock.get()?.soft {
            Limit::At(limit) => Some(bytes(limit)),
            Limit::Unlimited => Some(f64::INFINITY.into()),
        };
    let each = |instance: &Instance| match instance.session_model {
        SessionModel::Processes => per_session(checked.host, instance).map(bytes),
        SessionModel::Threads => None,
    };
    let facts: [Amount<'_>; 8] = [
        (
            "hugewise_instance_segment_bytes",
            "The part of its memory that huge pages could back.",
            &|instance| Some(bytes(instance.segment_bytes())),
        ),
        ("hugewise_instance_huge_bytes", "Of that, memory on huge pages.", &|instance| {
            (instance.huge_pages != HugePageUse::Unknown).then(|| bytes(instance.huge_bytes()))
        }),
        ("hugewise_instance_page_tables_bytes", "Page tables of all its processes.", &|instance| {
            instance.page_tables.get().map(bytes)
        }),
        (
            "hugewise_instance_session_page_tables_bytes",
            "Page tables of one process, on average.",
            &each,
        ),
        ("hugewise_instance_processes", "Its processes.", &|instance| {
            Some(count_to_u64(instance.pids.len()).into())
        }),
        ("hugewise_instance_sessions", "Client sessions.", &|instance| {
            instance.sessions.get().map(Value::from)
        }),
        ("hugewise_instance_sessions_limit", "Sessions that its settings allow.", &|instance| {
            instance.max_sessions.get().map(Value::from)
        }),
        (
            "hugewise_instance_memlock_bytes",
            "Soft limit of locked memory of its main process.",
            &memlock,
        ),
    ];
    for (name, help, fact) in facts {
        out.begin_family(name, MetricKind::Gauge, help);
        for LabeledInstance { instance, labels } in named {
            out.add_known_sample(labels, fact(instance));
        }
    }
}

fn write_forecasts(out: &mut Families, checked: &CheckReport<'_>, named: &[LabeledInstance<'_>]) {
    let help = "Page tables of all its processes at the largest number of sessions its settings \
         allow, by page size.";
    out.begin_family("hugewise_instance_page_tables_at_max_bytes", MetricKind::Gauge, help);
    for LabeledInstance { instance, labels } in named {
        for forecast in at_max(checked.host, instance).into_iter().flat_map(|at_max| at_max.by_page)
        {
            let labels =
                labels.with_label("page_bytes", &u64::from(forecast.page_size).to_string());
            out.add_sample(&labels, forecast.total.get());
        }
    }
}

/// Pages that it asks for and cannot have; `None` if it does not ask.
fn instance_shortfall(
    checked: &CheckReport<'_>,
    instance: &Instance,
    demand: &Demand,
) -> Option<PageCount> {
    if !matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises) {
        return None;
    }
    let more = demand::pages_lacking(instance, demand)?;
    if demand::find_demand(checked.host, instance)
        .is_none_or(|first| first.page_size != demand.page_size)
    {
        let available =
            demand::obtainable_for(checked.host, instance, demand.page_size).unwrap_or_default();
        return Some(more.saturating_sub(available));
    }
    let left =
        checked.assessment.situation.share(instance).map(|share| share.left).unwrap_or_default();
    Some(more.saturating_sub(left))
}

fn write_stages(out: &mut Families, checked: &CheckReport<'_>, named: &[LabeledInstance<'_>]) {
    let help = "How much of it is on huge pages at each moment: 1 for the state that it is in.";
    out.begin_family("hugewise_instance_moment", MetricKind::Gauge, help);
    for LabeledInstance { instance, labels } in named {
        let Some(moments) = checked.assessment.situation.forecasts_for(instance) else { continue };
        for moment in PredictionStage::ALL {
            let state = moments.at_stage(moment).coverage.as_str();
            out.add_sample(
                &labels.with_label("moment", moment.as_str()).with_label("state", state),
                1_u64,
            );
        }
    }
}

type DemandFact<'a> =
    (&'static str, &'static str, &'a dyn Fn(&Instance, &Demand) -> Option<PageCount>);

fn write_page_demand(out: &mut Families, checked: &CheckReport<'_>, named: &[LabeledInstance<'_>]) {
    let sized: Vec<_> = named
        .iter()
        .flat_map(|LabeledInstance { instance, labels }| {
            let demands = demand::find_demand(checked.host, instance)
                .into_iter()
                .chain(demand::other_size_demands(checked.host, instance));
            let labelled = demands.map(|demand| {
                let labels =
                    labels.with_label("page_bytes", &u64::from(demand.page_size).to_string());
                (*instance, demand, labels)
            });
            labelled.collect::<Vec<_>>()
        })
        .collect();
    let mapped = |instance: &Instance, demand: &Demand| {
        (instance.huge_pages != HugePageUse::Unknown)
            .then(|| demand::pages_held(instance, demand.page_size))
    };
    let facts: [DemandFact<'_>; 4] = [
        (
            "hugewise_instance_demand_pages",
            "Pages that it needs to be wholly on huge pages.",
            &|_, demand| Some(demand.pages),
        ),
        ("hugewise_instance_mapped_pages", "Huge pages of that size that it maps.", &mapped),
        (
            "hugewise_instance_missing_pages",
            "Pages that it needs beyond those that it maps.",
            &demand::pages_lacking,
        ),
        (
            "hugewise_instance_shortfall_pages",
            "Pages that its settings ask for but the pool does not have for it.",
            &|instance, demand| instance_shortfall(checked, instance, demand),
        ),
    ];
    for (name, help, fact) in facts {
        out.begin_family(name, MetricKind::Gauge, help);
        for (instance, demand, labels) in &sized {
            out.add_known_sample(labels, fact(instance, demand).map(PageCount::get));
        }
    }
}
