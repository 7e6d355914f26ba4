use hugewise_engines::EngineKind;
use hugewise_model::{Bytes, Instance, Level, Remedy, group_thousands};

use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts};

/// What it is where nothing sets it.
const USUAL_PIECE: Bytes = Bytes::from_kib(64);

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW804"),
    name: "larger-pieces",
    level: Level::Info,
    role: CaseRole::Plain,
    docs: Docs {
        what: "An Oracle instance that sets _realfree_heap_pagesize (12.1 and later) or \
               _realfree_heap_pagesize_hint (before that). The parameter is the size of the pieces \
               in which the instance's processes map private memory.",
        why: "Despite its name it gives no larger pages on Linux: private memory never comes from \
              a pool, and Oracle asks the kernel for no larger page there. It makes processes map \
              fewer, larger pieces. That saves system calls in large sorts, and lets a process \
              grow further before vm.max_map_count stops it with ORA-04030. Each heap takes whole \
              pieces, so sessions hold a little more memory.",
        cost: "no larger pages, and each session holds a little more memory",
        fix: "If Oracle Support asked for it, do nothing. If a process ran into vm.max_map_count, \
              raise that limit instead. For the SGA the parameter does nothing either way. It is a \
              hidden parameter: set it only if Oracle Support tells you to.",
        sources: &[
            "_realfree_heap_pagesize_hint - Assessing the impact on Solaris and Linux \
             (dsstos.blogspot.com, 2008): traces of 10g",
            "Linux: Documentation/admin-guide/sysctl/vm.rst, max_map_count",
        ],
    },
    check: |facts| RULE.of_each(facts, check_larger_pieces),
};

fn check_larger_pieces(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some((setting, piece)) =
        (EngineKind::for_engine(instance.engine).memory.private_piece)(instance)
    else {
        return Ok(None);
    };
    let most =
        *crate::require_known(&facts.host.kernel_settings.max_map_count, "vm.max_map_count")?;
    let named = format!("{}={}", setting.name, setting.value);
    let summary = format!(
        "{}: the hidden parameter {named} makes it map private memory in pieces of {piece}; on \
         Linux that gives it no huge pages",
        instance.title()
    );
    let evidence = vec![
        setting.to_string(),
        format!(
            "/proc/sys/vm/max_map_count: {} mappings let a process have {} in such pieces, and {} \
             in the usual ones of {USUAL_PIECE}",
            group_thousands(most),
            piece.saturating_mul(most),
            USUAL_PIECE.saturating_mul(most)
        ),
    ];
    let look = "see hugewise rules _realfree_heap_pagesize; set hidden parameters only if Oracle \
        Support tells you to";
    let short = format!("{named} gives it no huge pages");
    let remedies = vec![Remedy::Consider(look.to_owned())];
    Ok(Some(RULE.new_finding(Level::Info, Some(instance), summary, short, evidence, remedies)))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || with_pieces("_realfree_heap_pagesize_hint"),
    silent: || with_pieces("processes"),
    missing: || {
        let mut case = with_pieces("_realfree_heap_pagesize");
        case.host.kernel_settings.max_map_count = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
fn with_pieces(name: &str) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    let instance = case.oracle("DWH", crate::testing::gib(2), 4);
    let setting = hugewise_model::instance::ServerSetting {
        name: name.into(),
        value: "4M".into(),
        place: None,
    };
    instance.settings.insert(name.into(), setting);
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_pieces_let_a_process_grow_further() {
        let finding = with_pieces("_realfree_heap_pagesize").assess().findings;
        let finding = finding.into_iter().find(|finding| finding.code == RULE.code).unwrap();
        // 65,530 pieces of 4 MiB are 255.98 GiB, of 64 KiB 4.0 GiB.
        let evidence = finding.evidence.join("; ");
        assert!(
            evidence
                .contains("have 256.0 GiB in such pieces, and 4.0 GiB in the usual ones of 64 KiB"),
            "{evidence}"
        );
    }
}
