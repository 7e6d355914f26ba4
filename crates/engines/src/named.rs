//! Which instance somebody means.

use hugewise_model::Instance;

/// The instances that a name may mean: `PROD`, `oracle PROD`, and with the pid behind it, `oracle PROD pid 4711`, that one
/// process's alone. Of several that call themselves the same, those that something vouches for are meant.
pub fn meant<'a>(instances: &'a [Instance], name: &str) -> Vec<&'a Instance> {
    let called: Vec<&Instance> = match with_pid(name) {
        Some((rest, pid)) => instances.iter().filter(|it| it.pid == pid && is_called(it, rest)).collect(),
        None => instances.iter().filter(|instance| is_called(instance, name)).collect(),
    };
    let vouched: Vec<&Instance> = called.iter().copied().filter(|instance| instance.is_vouched()).collect();
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
        let handles: Vec<String> = self.handles.iter().map(|handle| format!("\"{handle}\"")).collect();
        write!(f, "several instances are called {}; choose one: {}", self.asked, handles.join(", "))
    }
}

impl std::error::Error for Ambiguous {}

/// The one instance that a name means; none where nobody is called so.
///
/// # Errors
/// Several are.
pub fn one<'a>(instances: &'a [Instance], name: &str) -> Result<Option<&'a Instance>, Ambiguous> {
    match meant(instances, name).as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let handles = several.iter().map(|instance| instance.handle()).collect();
            Err(Ambiguous { asked: name.to_owned(), handles })
        }
    }
}

/// Whether a name has a pid behind it: then it can mean one process and no other that calls itself the same.
pub fn with_pid(name: &str) -> Option<(&str, u32)> {
    let (rest, pid) = name.rsplit_once(" pid ")?;
    let digits = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    Some((rest, pid.parse().ok().filter(|_| digits)?))
}

/// What an instance calls itself: its name without the pid that tells it from others.
pub fn own(instance: &Instance) -> &str {
    let of_pid = format!(" pid {}", instance.pid);
    instance.name.strip_suffix(&of_pid).unwrap_or(&instance.name)
}

fn is_called(instance: &Instance, name: &str) -> bool {
    let own = own(instance);
    let engine = instance.engine.as_str();
    name == own || name.strip_prefix(engine).and_then(|rest| rest.strip_prefix(' ')) == Some(own)
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::vouch::Voucher;
    use hugewise_model::{Engine, Host, Process};

    use super::*;
    use crate::Scene;

    fn instance(name: &str, pid: u32, vouched: bool) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = Scene::new(&host, &source);
        let main = Process { pid, ..Process::default() };
        let mut instance = scene.instance(Engine::PostgreSql, name.into(), &main, Vec::new());
        instance.vouchers = vouched.then_some(Voucher::Account).into_iter().collect();
        instance
    }

    fn pids(instances: &[Instance], name: &str) -> Vec<u32> {
        meant(instances, name).iter().map(|instance| instance.pid).collect()
    }

    #[test]
    fn a_name_means_the_one_that_is_vouched_for() {
        let here = [instance("15/main", 10, true), instance("15/main pid 20", 20, false)];
        for name in ["15/main", "postgresql 15/main", "15/main pid 10", "postgresql 15/main pid 10"] {
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
