//! A plan made by hand.

use hugewise_change::plan::{
    Change, CommandChange, EffectTime, FileChange, FileContent, HostIdentity, Instruction,
    PlanBudget, PoolRef, ValueChange,
};
use hugewise_change::{Plan, Risk, Step};
use hugewise_model::PageSize;

pub(crate) fn plan() -> Plan {
    let host =
        HostIdentity { name: "db7".into(), kernel: "6.1.0".into(), ..HostIdentity::default() };
    let mut plan = Plan::new(host, "2026-03-01T12:00:00Z");
    let pool = PoolRef { page_size: PageSize::MIB_2, node: None };
    plan.steps = vec![
        Step::new(
            "pool-2M-now",
            "600 pages of 2 MiB",
            Risk::Safe,
            "postgresql 15/main needs 596 pages",
        )
        .for_instance("postgresql 15/main")
        .expect_resolution("HW201", "no-pool", EffectTime::Restart)
        .with_change(ValueChange::for_pool(pool, 600)),
        Step::new("boot-loader", "pages at boot", Risk::Reboot, "memory fragments")
            .with_change(FileChange::write(
                "/etc/default/grub.d/zz-it's.cfg",
                "A=\"$A hugepages=1\"\n\n# {{ it's }}\n",
            ))
            .with_change(CommandChange::new(
                ["/usr/sbin/update-grub"],
                "the boot loader's own file is made anew",
            ))
            .with_change(FileChange::remove("/etc/old.conf")),
        Step::new("ask", "huge_pages=on", Risk::Restart, "it falls back without a word")
            .for_instance("postgresql 15/main")
            .with_change(
                FileChange::write("/srv/pg/conf.d/huge.conf", "huge_pages = on")
                    .owned_by(105, 113, 0o640),
            )
            .with_change(
                CommandChange::new(
                    ["/usr/bin/psql", "-c", "ALTER SYSTEM SET huge_pages = 'on'"],
                    "the server's word",
                )
                .as_user("postgres")
                .unless_file_holds("/srv/pg/postgresql.auto.conf", "huge_pages = 'on'"),
            ),
    ];
    plan.instructions = vec![Instruction {
        title: "restart it".into(),
        text: "# now\nsystemctl restart postgresql\n".into(),
        risk: Risk::Restart,
        instance: Some("postgresql 15/main".into()),
    }];
    plan.budget = PlanBudget {
        total_bytes: Some(16 << 30),
        pools_bytes: 1200 << 20,
        needs_bytes: 3 << 30,
        floor_bytes: 820 << 20,
        left_bytes: Some(11 << 30),
        ..PlanBudget::default()
    };
    plan.warnings = vec!["golden images copy /etc".into()];
    (plan.hugewise, plan.checksum) = ("1.2.3".into(), "0123456789abcdef0123456789abcdef".into());
    plan
}

/// Puts a text wherever a change has one.
pub(crate) fn taint(change: &mut Change, odd: &str) {
    match change {
        Change::Value(change) => {
            (change.path, change.after, change.before) = (odd.into(), odd.into(), Some(odd.into()));
        }
        Change::File(change) => {
            change.path = odd.into();
            if let Some(after) = &mut change.after {
                after.content = FileContent::Text(odd.into());
            }
        }
        Change::Command(change) => {
            change.command.push(odd.into());
            (change.why, change.user, change.files) =
                (odd.into(), Some(odd.into()), vec![odd.into()]);
        }
    }
}
