//! A plan's steps, each with what it changes.

use std::path::Path;

use hugewise_change::plan::{Change, Instruction, Step};
use hugewise_model::escape::shell;
use maud::{Markup, html};

use super::super::parts::{class, clean, command, commands};
use crate::Planned;
use crate::formats::{shown_words, whose};
use crate::view::plan as view;

/// A plan; of a captured host, which `root` names, with what makes a script of it.
pub(super) fn plan(planned: &Planned<'_>, root: Option<&Path>) -> Markup {
    let plan = planned.plan;
    let not_here = view::not_here(planned.host);
    html! {
        @if let Some(why) = &not_here { p { span.error { "not here" } " " (clean(why)) "." } }
        p { (clean(&view::extent(plan))) "." }
        @for (at, step) in plan.steps.iter().enumerate() { (one(at + 1, step)) }
        @for instruction in &plan.instructions { (by_hand(instruction)) }
        @for warning in view::warnings(planned) { p { span.warn { "note" } " " (clean(warning)) } }
        @if let Some(memory) = view::memory(plan) { p.faint { "Memory " (clean(&memory)) "." } }
        @if let Some(refusal) = &plan.refusal {
            @for reason in &refusal.reasons { p { span.error { "refused" } " " (clean(reason)) } }
        }
        @if !plan.steps.is_empty() && plan.refusal.is_none() && not_here.is_none() {
            @match root {
                None => {
                    p { "To apply it, and to reverse it:" }
                    (command("sudo hugewise apply"))
                    (command("sudo hugewise undo"))
                }
                Some(root) => {
                    p { "As a script for the host itself:" }
                    (command(&format!("hugewise plan --root {} --format shell", shell::word(&root.to_string_lossy()))))
                }
            }
        }
    }
}

fn one(number: usize, step: &Step) -> Markup {
    html! {
        article.step {
            p.head {
                span.strong { (number) } span.faint { (clean(&step.id)) }
                span class=(class(view::role(step.risk))) { (step.risk.as_str()) }
            }
            h3 { (clean(&step.title)) }
            dl {
                @if !step.why.is_empty() { dt { "why" } dd { (clean(&step.why)) } }
                @if !step.expects.is_empty() {
                    dt { "ends" } dd { @for expected in &step.expects { p { (clean(&view::ends(expected))) } } }
                }
            }
            @for change in &step.changes { (changed(change)) }
        }
    }
}

fn changed(change: &Change) -> Markup {
    html! {
        @match change {
            Change::Command(change) => {
                pre { span.strong { "$ " } (clean(&shown_words(change))) }
                p.faint { (clean(&view::reason(change))) }
            }
            _ => {
                pre.diff {
                    @for line in view::changed_lines(change).lines() {
                        span class=(class(view::role_of_line(line))) { (clean(line)) } "\n"
                    }
                }
            }
        }
    }
}

fn by_hand(instruction: &Instruction) -> Markup {
    html! {
        article.step.by-hand {
            p.head {
                span.strong { "by hand" }
                span class=(class(view::role(instruction.risk))) { (instruction.risk.as_str()) }
                @if let Some(instance) = whose(instruction) { span.faint { (clean(instance)) } }
            }
            h3 { (clean(&instruction.title)) }
            (commands(&instruction.text))
        }
    }
}
