//! What comes of a start of a server that may be given one right or another.

use super::stages::StageForecast;
use crate::ipc_privileges::{PrivilegeAlternatives, PrivilegeDifference};
use crate::wording::one_line;

/// The forecast of the first of these ways, unless one of the others makes a difference.
pub(super) fn settle_alternatives(
    ways: &PrivilegeAlternatives,
    first: StageForecast,
    mut others: impl Iterator<Item = StageForecast>,
) -> StageForecast {
    if others.all(|other| other.coverage == first.coverage) {
        return first;
    }
    match &ways.difference {
        PrivilegeDifference::Open(why) => StageForecast::unknown(why),
        PrivilegeDifference::Noted(note) => {
            let why = first.why.map_or_else(|| note.clone(), |why| format!("{why}; {note}"));
            StageForecast { why: Some(one_line(&why)), ..first }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hugewise_model::configuration::{FileLocation, LimitRule, Loaded, ServiceUnit};
    use hugewise_model::process::SoftHard;
    use hugewise_model::{Bytes, Engine, KernelRelease, Limit, Observed, Remedy};

    use crate::coverage::Coverage;
    use crate::prediction::{StageForecasts, predict_host};
    use crate::testing::{self, Case};

    const DROP_IN: &str = "/etc/systemd/system/oracle.service.d/a.conf";
    const SMALL: Limit = Limit::At(Bytes::from_mib(64));

    /// A server of 2 GiB that its unit starts as root, that runs with one memlock limit and whose
    /// unit's files say another, on a kernel that accepts it for SHM_HUGETLB.
    fn case(runs_with: Limit, files_say: Limit, loaded: Option<Loaded>) -> Case {
        let mut case = testing::quiet();
        case.host.kernel =
            Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
        let instance = case.oracle("PROD", testing::gib(2), 10);
        instance.engine = Engine::Other;
        instance.unit = Some("oracle.service".into());
        if runs_with == Limit::Unlimited {
            testing::all_huge(&mut case.instances[0]);
        }
        case.pool(1100, if runs_with == Limit::Unlimited { 76 } else { 1100 });
        let pid = case.instances[0].pid;
        if let Observed::Known(processes) = &mut case.host.processes {
            for process in processes.iter_mut().filter(|process| process.pid == pid) {
                let process = Arc::make_mut(process);
                process.memlock = Observed::Known(SoftHard { soft: runs_with, hard: runs_with });
                process.ipc_lock = Observed::Known(false);
            }
        }
        let place = FileLocation { file: DROP_IN.into(), line: 2 };
        case.host.configuration.units = vec![ServiceUnit {
            name: "oracle.service".into(),
            memlock: Observed::Known((files_say, files_say, place)),
            loaded: loaded.into(),
            files: vec![DROP_IN.into()],
            ..ServiceUnit::default()
        }];
        case
    }

    fn moments(runs_with: Limit, files_say: Limit, loaded: Option<Loaded>) -> StageForecasts {
        let case = case(runs_with, files_say, loaded);
        predict_host(&case.host, &case.instances).forecasts_for(&case.instances[0]).unwrap().clone()
    }

    /// What a real systemd (252) gave a service at `systemctl restart` after such a change: as it
    /// ran, until a daemon-reload.
    #[test]
    fn a_restart_goes_by_what_systemd_has_loaded_and_a_boot_by_the_files() {
        use Coverage::{All, None as NoPages, Unknown};
        let not_yet = || Some(Loaded::NotYet(DROP_IN.into()));
        let between = || Some(Loaded::Between(DROP_IN.into()));
        for (runs_with, files_say, loaded, restart, boot) in [
            (SMALL, Limit::Unlimited, Some(Loaded::Anew), All, All),
            (SMALL, Limit::Unlimited, not_yet(), NoPages, All),
            (SMALL, Limit::Unlimited, between(), Unknown, All),
            (SMALL, Limit::Unlimited, None, Unknown, All),
            (SMALL, Limit::Unlimited, Some(Loaded::Since), Unknown, All),
            (Limit::Unlimited, SMALL, Some(Loaded::Anew), NoPages, NoPages),
            (Limit::Unlimited, SMALL, not_yet(), All, NoPages),
            (Limit::Unlimited, SMALL, between(), Unknown, NoPages),
            // It has its limit in another way, as by su's, and has it again.
            (Limit::Unlimited, SMALL, Some(Loaded::Unchanged), All, All),
            // What makes no difference is no question.
            (Limit::Unlimited, Limit::Unlimited, None, All, All),
            (SMALL, SMALL, between(), NoPages, NoPages),
        ] {
            let told = format!("{runs_with:?} {files_say:?} {loaded:?}");
            let moments = moments(runs_with, files_say, loaded);
            assert_eq!(
                (&moments.restart.coverage, &moments.boot.coverage),
                (&restart, &boot),
                "{told}: {moments:?}"
            );
        }
    }

    #[test]
    fn what_systemd_has_yet_to_load_is_named() {
        let why = |loaded| moments(SMALL, Limit::Unlimited, loaded).restart.why.unwrap_or_default();
        assert!(
            why(Some(Loaded::NotYet(DROP_IN.into())))
                .ends_with(&format!("systemd has not loaded {DROP_IN} yet (daemon-reload)"))
        );
        assert!(why(Some(Loaded::Between(DROP_IN.into()))).contains(DROP_IN));
        assert!(why(None).contains("systemctl show oracle.service"));
    }

    #[test]
    fn the_remedy_is_to_have_it_loaded() {
        let said = |loaded| {
            let mut case = case(SMALL, Limit::Unlimited, loaded);
            case.host.configuration.limits = Observed::Known(vec![LimitRule {
                domain: "oracle".into(),
                soft: true,
                hard: true,
                value: Limit::Unlimited,
                place: FileLocation { file: "/etc/security/limits.conf".into(), line: 1 },
            }]);
            let assessment = crate::assess_host(&case.host, &case.instances);
            let remedy = Remedy::RaiseMemlock(case.instances[0].id());
            crate::remedy::describe_remedy(&case.host, &case.instances, &assessment, &remedy)
        };
        let text = said(Some(Loaded::NotYet(DROP_IN.into()))).expect("something is left to do");
        assert!(text.starts_with(&format!("make systemd reload {DROP_IN}")), "{text}");
        assert_eq!(said(Some(Loaded::Anew)), None, "a restart is all that is left");
    }
}
