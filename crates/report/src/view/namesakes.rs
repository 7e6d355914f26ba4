//! What distinguishes servers of the same name.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_engines::instance_names;
use hugewise_model::{Host, Instance};

/// Only so many of a name are told apart: a hundred Java machines are all called `java`.
const MOST_TOLD: usize = 4;

/// What differs between servers of the same name, each with its title.
pub(crate) fn namesake_notes(host: &Host, instances: &[Instance]) -> Vec<(String, String)> {
    let mut namesakes = BTreeMap::<_, Vec<&Instance>>::new();
    for instance in instances.iter().filter(|instance| instance.pid != 0) {
        namesakes
            .entry((instance.engine, instance_names::base_name(instance)))
            .or_default()
            .push(instance);
    }
    let several = namesakes.into_values().filter(|group| group.len() > 1);
    several.flat_map(|group| describe_differences(host, &group)).collect()
}

fn describe_differences(host: &Host, group: &[&Instance]) -> Vec<(String, String)> {
    let facts: Vec<Vec<Option<String>>> =
        group.iter().map(|instance| distinguishing_facts(host, instance)).collect();
    let differs = |at: usize| {
        facts.iter().map(|all| all.get(at).cloned().flatten()).collect::<BTreeSet<_>>().len() > 1
    };
    let rows = group.iter().zip(&facts).take(MOST_TOLD).map(|(instance, all)| {
        let pid = format!("pid {}", instance.pid);
        let pid = (!instance.name.ends_with(&pid)).then_some(pid);
        let told = all
            .iter()
            .enumerate()
            .filter(|(at, _)| differs(*at))
            .filter_map(|(_, fact)| fact.clone());
        (instance.title(), pid.into_iter().chain(told).collect::<Vec<_>>().join(", "))
    });
    rows.filter(|(_, told)| !told.is_empty()).collect()
}

fn distinguishing_facts(host: &Host, instance: &Instance) -> Vec<Option<String>> {
    let program = host.find_process(instance.pid).and_then(|process| process.executable.as_known());
    vec![
        (!instance.owner.is_empty()).then(|| format!("owner {}", instance.owner_in_words())),
        instance.containered.then(|| "in a container".to_owned()),
        instance.unit.clone(),
        instance.data_directory.as_known().map(|folder| format!("data in {folder}")),
        program.map(|program| format!("runs {program}")),
    ]
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use crate::samples;

    #[test]
    fn servers_of_one_name_are_told_apart_at_eighty_columns() {
        let mut sample = samples::prod();
        let first = sample.instances[0].clone();
        let name = "WAREHOUSE_OF_THE_NORTH_2";
        sample.instances = [(4711, "oracle", "/u01/data"), (14712, "oratest", "/u02/data")]
            .map(|(pid, owner, data)| {
                let mut one = first.clone();
                (one.pid, one.name, one.owner) = (pid, format!("{name} pid {pid}"), owner.into());
                one.data_directory = Observed::Known(data.into());
                one
            })
            .into();
        let text = sample.text(80);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("oracle WARE")).collect();
        let first_column = |row: &str| row.split("  ").next().unwrap_or_default().to_owned();
        assert!(rows.len() >= 2 && first_column(rows[0]) != first_column(rows[1]), "{text}");
        assert!(rows[0].contains("pid 4711") && rows[1].contains("pid 14712"), "{text}");
        let said =
            |what: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(what);
        assert!(said("pid 4711: owner oracle, data in /u01/data"), "{text}");
        assert!(said("pid 14712: owner oratest, data in /u02/data"), "{text}");
    }
}
