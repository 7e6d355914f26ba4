use std::path::Path;

use hugewise_change::plan::{Change, Instruction, Step};
use hugewise_model::escape::shell;
use maud::{Markup, html};

use super::super::parts::{clean_text, render_command, render_command_lines, role_class};
use crate::PlanReport;
use crate::formats::{shown_words, unnamed_instance};
use crate::view::plan as view;

/// `root` is where a captured host stands: its plan is only for a script.
pub(super) fn render_plan(planned: &PlanReport<'_>, root: Option<&Path>) -> Markup {
    let plan = planned.plan;
    let not_here = view::not_here(planned.host);
    html! {
        @if let Some(why) = &not_here { p { span.error { "not here" } " " (clean_text(why)) "." } }
        p { (clean_text(&view::describe_extent(plan))) "." }
        @for (at, step) in plan.steps.iter().enumerate() { (render_step(at + 1, step)) }
        @for instruction in &plan.instructions { (by_hand(instruction)) }
        @for warning in view::plan_warnings(planned) { p { span.warn { "note" } " " (clean_text(warning)) } }
        @if let Some(memory) = view::describe_plan_memory(plan) { p.faint { "Memory " (clean_text(&memory)) "." } }
        @if let Some(refusal) = &plan.refusal {
            @for reason in &refusal.reasons { p { span.error { "refused" } " " (clean_text(reason)) } }
        }
        @if !plan.steps.is_empty() && plan.refusal.is_none() && not_here.is_none() {
            @match root {
                None => {
                    p { "To apply it, and to reverse it:" }
                    (render_command("sudo hugewise apply"))
                    (render_command("sudo hugewise undo"))
                }
                Some(root) => {
                    p { "As a script for the host itself:" }
                    (render_command(&format!("hugewise plan --root {} --format shell", shell::quote_word(&root.to_string_lossy()))))
                }
            }
        }
    }
}

fn render_step(number: usize, step: &Step) -> Markup {
    html! {
        article.step {
            p.head {
                span.strong { (number) } span.faint { (clean_text(&step.id)) }
                span class=(role_class(view::risk_role(step.risk))) { (step.risk.as_str()) }
            }
            h3 { (clean_text(&step.title)) }
            dl {
                @if !step.why.is_empty() { dt { "why" } dd { (clean_text(&step.why)) } }
                @if !step.expects.is_empty() {
                    dt { "ends" } dd { @for expected in &step.expects { p { (clean_text(&view::describe_expected_end(expected))) } } }
                }
            }
            @for change in &step.changes { (render_change(change)) }
        }
    }
}

fn render_change(change: &Change) -> Markup {
    html! {
        @match change {
            Change::Command(change) => {
                pre { span.strong { "$ " } (clean_text(&shown_words(change))) }
                p.faint { (clean_text(&view::describe_command_reason(change))) }
            }
            _ => {
                pre.diff {
                    @for line in view::changed_lines(change).lines() {
                        span class=(role_class(view::role_of_line(line))) { (clean_text(line)) } "\n"
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
                span class=(role_class(view::risk_role(instruction.risk))) { (instruction.risk.as_str()) }
                @if let Some(instance) = unnamed_instance(instruction) { span.faint { (clean_text(instance)) } }
            }
            h3 { (clean_text(&instruction.title)) }
            (render_command_lines(&instruction.text))
        }
    }
}
