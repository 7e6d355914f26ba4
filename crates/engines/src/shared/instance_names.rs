//! Which instance somebody means.

use hugewise_model::Instance;

use crate::shared::options;

/// The instances that a name may mean: `PROD`, `oracle PROD`, or with a pid, `oracle PROD pid
/// 4711`. Where several have one name, those that are vouched for.
pub fn find_matching_instances<'a>(instances: &'a [Instance], name: &str) -> Vec<&'a Instance> {
    let called: Vec<&Instance> = match with_pid(name) {
        Some((rest, pid)) => instances
            .iter()
            .filter(|instance| instance.pid == pid && is_called(instance, rest))
            .collect(),
        None => instances.iter().filter(|instance| is_called(instance, name)).collect(),
    };
    let vouched: Vec<&Instance> =
        called.iter().copied().filter(|instance| instance.is_trusted()).collect();
    if vouched.is_empty() { called } else { vouched }
}

/// A name that several instances have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguous {
    /// What was asked for.
    pub asked: String,
    /// Names that each mean one of them.
    pub handles: Vec<String>,
}

impl std::fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let handles: Vec<String> =
            self.handles.iter().map(|handle| format!("\"{handle}\"")).collect();
        write!(f, "several instances are called {}; choose one: {}", self.asked, handles.join(", "))
    }
}

impl std::error::Error for Ambiguous {}

/// The one instance that a name means, if any.
/// # Errors
/// Several are.
pub fn find_unique_instance<'a>(
    instances: &'a [Instance],
    name: &str,
) -> Result<Option<&'a Instance>, Ambiguous> {
    match find_matching_instances(instances, name).as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let handles = several.iter().map(|instance| instance.unique_title()).collect();
            Err(Ambiguous { asked: name.to_owned(), handles })
        }
    }
}

/// The parts of a name with a pid behind it.
pub fn with_pid(name: &str) -> Option<(&str, u32)> {
    let (rest, pid) = name.rsplit_once(" pid ")?;
    Some((rest, pid.parse().ok().filter(|_| options::is_number(pid))?))
}

/// A name, with a number where it is taken.
pub(crate) fn unused_name(name: &str, taken: &[&str]) -> String {
    let numbered = (2_u64..).map(|number| format!("{name} {number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(&name.as_str())).unwrap_or_default()
}

/// An instance's name without the pid that tells it from others.
pub fn base_name(instance: &Instance) -> &str {
    let of_pid = format!(" pid {}", instance.pid);
    instance.name.strip_suffix(&of_pid).unwrap_or(&instance.name)
}

fn is_called(instance: &Instance, name: &str) -> bool {
    let own = base_name(instance);
    let engine = instance.engine.as_str();
    name == own || name.strip_prefix(engine).and_then(|rest| rest.strip_prefix(' ')) == Some(own)
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::trusted_by::TrustReason;
    use hugewise_model::{Engine, Host, Process};

    use super::*;
    use crate::EngineContext;

    fn instance(name: &str, pid: u32, vouched: bool) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let main = Process { pid, ..Process::default() };
        let mut instance = scene.new_instance(Engine::PostgreSql, name.into(), &main, Vec::new());
        instance.trusted_by = vouched.then_some(TrustReason::Account).into_iter().collect();
        instance
    }

    fn pids(instances: &[Instance], name: &str) -> Vec<u32> {
        find_matching_instances(instances, name).iter().map(|instance| instance.pid).collect()
    }

    #[test]
    fn a_name_means_the_one_that_is_vouched_for() {
        let here = [instance("15/main", 10, true), instance("15/main pid 20", 20, false)];
        for name in ["15/main", "postgresql 15/main", "15/main pid 10", "postgresql 15/main pid 10"]
        {
            assert_eq!(pids(&here, name), [10], "{name}");
        }
        assert_eq!(pids(&here, "postgresql 15/main pid 20"), [20]);
        assert!(pids(&here, "15/main pid 30").is_empty());
        assert!(pids(&here, "oracle 15/main").is_empty());
    }

    #[test]
    fn a_pid_in_a_name_is_the_pid_of_nobody_else() {
        // It calls itself what the first one is called by its handle.
        let here = [instance("15/main", 10, true), instance("15/main pid 10 pid 20", 20, false)];
        assert_eq!(pids(&here, "15/main pid 10"), [10]);
        assert_eq!(pids(&here, "15/main pid 10 pid 20"), [20]);
    }

    #[test]
    fn several_of_one_name_are_all_meant() {
        let here = [instance("PROD pid 10", 10, true), instance("PROD pid 20", 20, true)];
        assert_eq!(pids(&here, "PROD"), [10, 20]);
        assert_eq!(pids(&here, "PROD pid 20"), [20]);
        let strangers = [instance("PROD", 10, false)];
        assert_eq!(pids(&strangers, "PROD"), [10]);
    }
}
