// What is wrong, a card a case: its cause, what follows from it, what it costs, and the command that goes on from there.

import type { Case, Check, Finding } from "./api";
import { command, element, put, replace } from "./dom";

export function cases(check: Check): void {
  const all = document.createElement("div");
  for (const one of check.cases) card(all, check, one);
  if (!check.cases.length) put(all, "p", "Nothing.", "good");
  for (const verdict of check.unknown) {
    const undecided = put(all, "article", null, "card");
    put(undecided, "p", `unknown ${verdict.code} ${verdict.name}`, "tag faint");
    const whose = verdict.instance ? `${verdict.instance}: ` : "";
    put(undecided, "p", `${whose}not readable: ${verdict.missing}`, "why");
  }
  replace(element("cases"), all);
}

function card(all: Element, check: Check, one: Case): void {
  const cause = check.findings[one.cause];
  if (!cause) return;
  const made = put(all, "article", null, `card ${cause.level}`);
  put(made, "p", `${cause.level} ${cause.code} ${cause.name}`, `tag ${cause.level}`);
  put(made, "h3", cause.summary);
  if (cause.instance) put(made, "p", cause.instance, "faint");
  put(made, "p", `Cost: ${one.cost}`);
  command(made, one.next, `${cause.code} ${cause.instance ?? ""}`.trim());
  const symptoms = one.symptoms.map((at) => check.findings[at]).filter((it) => it !== undefined);
  if (symptoms.length) {
    const list = put(made, "ul", null, "symptoms");
    list.setAttribute("aria-label", "Consequences");
    for (const symptom of symptoms) {
      const item = put(list, "li");
      put(item, "span", symptom.code, symptom.level);
      item.append(" ");
      put(item, "span", symptom.short);
    }
  }
  why(made, cause, symptoms);
}

function why(card: Element, cause: Finding, symptoms: Finding[]): void {
  const more = put(card, "details");
  more.dataset["key"] = `${cause.code} ${cause.instance ?? ""}`;
  put(more, "summary", cause.fix.length ? "Why, and how to fix it" : "Why");
  const evidence = put(more, "ul", null, "evidence");
  for (const finding of [cause, ...symptoms]) {
    for (const line of finding.evidence) put(evidence, "li", `${finding.code}: ${line}`);
  }
  if (!cause.fix.length) return;
  const fix = put(more, "ol", null, "evidence");
  for (const line of cause.fix) put(fix, "li", line);
}
