//! The causes of one trouble, ranked: each is proven or only consistent with what was seen, and
//! [`EXPLAINS`] says which of them is another's effect. What no other cause explains is told.

use std::cmp::Reverse;

use crate::IncidentVerdict::{
    CgroupLimit, CompactionStall, DiskStall, ForkStorm, Hang, HugePagesLost, HungTasks, KernelCpu,
    KernelCrash, LoginStorm, OutOfMemory, ReclaimByPageTables, ReclaimStorm, ServerFailed, Starved,
    Steal, SwapStorm, UserCpu,
};
use crate::{Confidence, IncidentVerdict, SignatureKind};

/// One cause that the signatures of a trouble allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) verdict: IncidentVerdict,
    pub(super) confidence: Confidence,
    /// Whether the mechanism was counted, or the rest is only consistent with it.
    pub(super) proven: bool,
}

/// All verdicts of moments, the gravest first: how the host ended, then what it lost, then what was
/// counted of memory, processors and disks, and last what only says that something was wrong.
const RANKS: [IncidentVerdict; 18] = [
    KernelCrash,
    Hang,
    OutOfMemory,
    HugePagesLost,
    ServerFailed,
    ReclaimByPageTables,
    SwapStorm,
    ReclaimStorm,
    CgroupLimit,
    CompactionStall,
    Steal,
    DiskStall,
    LoginStorm,
    ForkStorm,
    UserCpu,
    HungTasks,
    KernelCpu,
    Starved,
];

/// What a host without memory for its work shows besides: it waits for disks that page and swap,
/// sessions and runnable tasks pile up, and whoever asks for memory is stuck in the kernel.
const SHORT_OF_MEMORY: &[IncidentVerdict] =
    &[CompactionStall, DiskStall, LoginStorm, ForkStorm, UserCpu, HungTasks, KernelCpu, Starved];

/// A cause, and the verdicts that are its effects: only these may it hide. A kill and a pool that
/// was lost are the effects of nothing, and a hang that of a crash alone, as they are what remains of the trouble; one kill
/// stands for the reclaim before it.
const EXPLAINS: [(IncidentVerdict, &[IncidentVerdict]); 18] = [
    (KernelCrash, &[Hang, HungTasks, KernelCpu, Starved]),
    (Hang, &[KernelCpu, Starved, HungTasks]),
    (
        OutOfMemory,
        &[
            ServerFailed,
            ReclaimByPageTables,
            SwapStorm,
            ReclaimStorm,
            CompactionStall,
            DiskStall,
            LoginStorm,
            ForkStorm,
            HungTasks,
            KernelCpu,
            Starved,
        ],
    ),
    (HugePagesLost, &[]),
    (ServerFailed, &[]),
    (ReclaimByPageTables, SHORT_OF_MEMORY),
    (SwapStorm, SHORT_OF_MEMORY),
    (ReclaimStorm, SHORT_OF_MEMORY),
    (CgroupLimit, &[ServerFailed, DiskStall, LoginStorm, HungTasks, KernelCpu, Starved]),
    (CompactionStall, &[LoginStorm, ForkStorm, HungTasks, KernelCpu, Starved]),
    (Steal, &[LoginStorm, UserCpu, HungTasks, KernelCpu, Starved]),
    (DiskStall, &[LoginStorm, HungTasks, KernelCpu, Starved]),
    (LoginStorm, &[ForkStorm, UserCpu, KernelCpu, Starved]),
    (ForkStorm, &[UserCpu, KernelCpu, Starved]),
    (UserCpu, &[Starved]),
    (HungTasks, &[KernelCpu, Starved]),
    (KernelCpu, &[Starved]),
    (Starved, &[]),
];

/// Whether one verdict may hide another, which is then its effect.
pub(super) fn may_hide(cause: IncidentVerdict, effect: IncidentVerdict) -> bool {
    EXPLAINS.iter().any(|(verdict, effects)| *verdict == cause && effects.contains(&effect))
}

/// The place of a verdict among others, the gravest first.
pub(super) fn rank_of(verdict: IncidentVerdict) -> usize {
    RANKS.iter().position(|ranked| *ranked == verdict).unwrap_or(RANKS.len())
}

/// The causes that no other explains: outcomes first, then what is proven, each the gravest first.
///
/// What is not proven hides nothing that is.
pub(super) fn keep_leading_causes(causes: &[Cause]) -> Vec<Cause> {
    let hides = |one: &Cause, other: &Cause| {
        may_hide(one.verdict, other.verdict) && (one.proven || !other.proven)
    };
    let mut leading: Vec<Cause> = Vec::new();
    for cause in causes {
        let known = leading.iter().any(|one| one.verdict == cause.verdict);
        if !known && !causes.iter().any(|other| hides(other, cause)) {
            leading.push(*cause);
        }
    }
    leading.sort_by_key(|cause| {
        (!cause.verdict.is_outcome(), Reverse(cause.proven), rank_of(cause.verdict))
    });
    leading
}

/// The signatures that are a verdict's own where a trouble has several causes.
pub(super) const fn own_signatures(verdict: IncidentVerdict) -> &'static [SignatureKind] {
    match verdict {
        KernelCrash => &[SignatureKind::KernelLog],
        Hang => &[SignatureKind::Silence, SignatureKind::Restart],
        OutOfMemory => &[SignatureKind::Oom],
        HugePagesLost => &[SignatureKind::HugePagesLost],
        ServerFailed => &[SignatureKind::ServerLog],
        ReclaimByPageTables | SwapStorm | ReclaimStorm => &[
            SignatureKind::Reclaim,
            SignatureKind::Swap,
            SignatureKind::MemoryGrowth,
            SignatureKind::FreeMemory,
            SignatureKind::MemoryStall,
        ],
        CgroupLimit => &[
            SignatureKind::CgroupOom,
            SignatureKind::Oom,
            SignatureKind::MemoryStall,
            SignatureKind::Swap,
        ],
        CompactionStall => &[SignatureKind::Compaction, SignatureKind::MemoryStall],
        Steal => &[SignatureKind::Steal],
        DiskStall => &[SignatureKind::Disk],
        LoginStorm => &[SignatureKind::Logins],
        ForkStorm => &[SignatureKind::Forks],
        UserCpu => &[SignatureKind::UserCpu],
        HungTasks => &[SignatureKind::KernelLog],
        KernelCpu => &[SignatureKind::KernelCpu],
        Starved => &[SignatureKind::Starved],
        IncidentVerdict::PageTablesStanding
        | IncidentVerdict::PageTablesGrowing
        | IncidentVerdict::PoolUnused => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(verdict: IncidentVerdict, proven: bool) -> Cause {
        Cause { verdict, confidence: Confidence::Medium, proven }
    }

    fn leading(causes: &[Cause]) -> Vec<IncidentVerdict> {
        keep_leading_causes(causes).into_iter().map(|one| one.verdict).collect()
    }

    /// A row for each cause, a column for each effect, in the order of `RANKS`: `x` where the cause
    /// hides the effect, `.` where both are told.
    const PAIRS: [(&str, IncidentVerdict); 18] = [
        // Kc Ha Oo Hu Sf Rt Sw Re Cg Co St Di Lo Fo Us Hu Ke St
        ("- x . . . . . . . . . . . . . x x x", KernelCrash),
        (". - . . . . . . . . . . . . . x x x", Hang),
        (". . - . x x x x . x . x x x . x x x", OutOfMemory),
        (". . . - . . . . . . . . . . . . . .", HugePagesLost),
        (". . . . - . . . . . . . . . . . . .", ServerFailed),
        (". . . . . - . . . x . x x x x x x x", ReclaimByPageTables),
        (". . . . . . - . . x . x x x x x x x", SwapStorm),
        (". . . . . . . - . x . x x x x x x x", ReclaimStorm),
        (". . . . x . . . - . . x x . . x x x", CgroupLimit),
        (". . . . . . . . . - . . x x . x x x", CompactionStall),
        (". . . . . . . . . . - . x . x x x x", Steal),
        (". . . . . . . . . . . - x . . x x x", DiskStall),
        (". . . . . . . . . . . . - x x . x x", LoginStorm),
        (". . . . . . . . . . . . . - x . x x", ForkStorm),
        (". . . . . . . . . . . . . . - . . x", UserCpu),
        (". . . . . . . . . . . . . . . - x x", HungTasks),
        (". . . . . . . . . . . . . . . . - x", KernelCpu),
        (". . . . . . . . . . . . . . . . . -", Starved),
    ];

    /// Each pair of verdicts, both proven: either one is the other's effect, or both are told.
    #[test]
    fn each_pair_is_told_as_the_table_says() {
        for ((row, one), first) in PAIRS.iter().zip(RANKS) {
            assert_eq!(*one, first, "rows go by rank");
            for (mark, other) in row.split(' ').zip(RANKS) {
                let both = [cause(first, true), cause(other, true)];
                let backwards = [both[1], both[0]];
                let expected = match mark {
                    "-" => vec![first],
                    "x" => vec![first],
                    _ if may_hide(other, first) => vec![other],
                    _ if rank_of(first) < rank_of(other) => vec![first, other],
                    _ => vec![other, first],
                };
                assert_eq!(leading(&both), expected, "{first:?} and {other:?}");
                assert_eq!(leading(&backwards), expected, "{other:?} and {first:?}");
            }
        }
    }

    #[test]
    fn nothing_hides_what_hides_it() {
        for one in RANKS {
            for other in RANKS {
                assert!(!(may_hide(one, other) && may_hide(other, one)), "{one:?}, {other:?}");
                let is_end = (one, other) == (KernelCrash, Hang);
                let is_outcome = other.is_outcome() && !is_end;
                assert!(!(may_hide(one, other) && is_outcome), "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn what_is_only_consistent_hides_nothing_that_was_counted() {
        let reclaim = |proven| cause(ReclaimStorm, proven);
        assert_eq!(leading(&[reclaim(true), cause(DiskStall, true)]), [ReclaimStorm]);
        assert_eq!(leading(&[reclaim(false), cause(DiskStall, false)]), [ReclaimStorm]);
        assert_eq!(leading(&[reclaim(false), cause(DiskStall, true)]), [DiskStall, ReclaimStorm]);
    }

    #[test]
    fn a_silence_comes_before_the_loudest() {
        let all = RANKS.map(|verdict| cause(verdict, true));
        assert_eq!(leading(&all)[..3], [KernelCrash, OutOfMemory, HugePagesLost]);
        assert_eq!(leading(&[cause(UserCpu, true), cause(Hang, true)]), [Hang, UserCpu]);
    }
}
