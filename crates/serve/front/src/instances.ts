// The instances: how each stands at each moment, and a card each with its chain.

import type { Check, Instance, Outlook, State } from "./api";
import { element, put, replace, table } from "./dom";
import { bytes, count, pageSize } from "./words";

const MOMENTS = [["now", "now"], ["restart", "after its next restart"], ["reboot", "after the next reboot"]] as const;

const STANDS: Record<State, [string, string]> = {
  all: ["good", "all on huge pages"],
  partly: ["warn", "partly on huge pages"],
  none: ["error", "on base pages"],
  does_not_start: ["error", "does not start"],
  not_running: ["faint", "not running"],
  unknown: ["faint", "unknown"],
  not_counted: ["faint", "not counted"],
};

export function instances(check: Check): void {
  moments(check);
  const all = document.createElement("div");
  for (const instance of check.instances) card(all, check, instance);
  if (!check.instances.length) put(all, "p", "No database server runs here that could use huge pages.", "faint");
  replace(element("instances"), all);
}

const title = (instance: Instance): string => `${instance.engine} ${instance.name}`;

function moments(check: Check): void {
  const all = document.createElement("div");
  const known = check.instances.filter((instance) => instance.moments);
  if (known.length) {
    const body = table(all, "Moments", ["instance", ...MOMENTS.map(([, name]) => name)]);
    for (const instance of known) {
      const row = put(body, "tr");
      put(row, "th", title(instance)).scope = "row";
      for (const [moment] of MOMENTS) {
        const cell = put(row, "td");
        const told = instance.moments?.[moment];
        if (told) outlook(cell, told);
      }
    }
  }
  replace(element("moments"), all);
}

function outlook(cell: Element, told: Outlook): void {
  const [colour, words] = STANDS[told.state];
  put(cell, "span", words, colour);
  if (told.why) put(cell, "span", told.why, "why");
}

function card(all: Element, check: Check, instance: Instance): void {
  const levels = check.findings.filter((it) => it.instance === title(instance)).map((it) => it.level);
  const level = (["error", "warn"] as const).find((level) => levels.includes(level));
  const state: State = instance.moments?.now.state === "not_running" ? "not_running" : instance.huge_pages;
  const [colour, words] = STANDS[state];
  const made = put(all, "article", null, `card ${level ?? colour}`);
  put(made, "h3", title(instance));
  put(made, "p", words, `tag ${level ?? colour}`);
  const facts = put(made, "dl", null, "facts");
  const fact = (name: string, value: string) => {
    const box = put(facts, "div");
    put(box, "dt", name);
    put(box, "dd", value);
  };
  const runs = state !== "not_running";
  if (runs) fact("Memory", bytes(instance.segments.reduce((sum, segment) => sum + segment.size_bytes, 0)));
  const { demand } = instance;
  if (demand) fact("Needs", `${count(demand.needed_pages)} × ${pageSize(demand.page_bytes)}`);
  if (runs) fact("Page tables", bytes(instance.page_tables_bytes));
  const most = instance.max_sessions ? count(instance.max_sessions) : null;
  if (runs) fact("Sessions", count(instance.sessions) + (most ? ` of ${most}` : ""));
  else if (most) fact("Sessions", `at most ${most}`);
  if (instance.version) fact("Version", instance.version);
  if (instance.chain.length) chain(made, instance);
}

const LINK = { ok: ["✓ ", " holds"], broken: ["✗ ", " is broken"], unknown: ["? ", " is unknown"] } as const;

function chain(card: Element, instance: Instance): void {
  const list = put(card, "ol", null, "chain");
  list.setAttribute("aria-label", "From the server to its huge pages, link by link");
  for (const link of instance.chain) {
    const [sign, words] = LINK[link.state];
    const item = put(list, "li", sign + link.link, link.state);
    put(item, "span", words, "hidden");
  }
  const broken = instance.chain.find((link) => link.state === "broken");
  if (broken) put(card, "p", `${broken.link}: ${broken.evidence}`, "why");
}
