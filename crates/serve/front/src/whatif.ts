// What if: the server reckons, by the same model as `hugewise size --sessions`.

import type { Budget, Check, Failed, Size } from "./api";
import { element, put, replace, say, table } from "./dom";
import { bytes, count, pageSize, plural, seconds } from "./words";

/** Of each power of ten, as the report has them. */
const DIGITS = [1, 2, 3, 4, 5, 6, 8];
const LEAST_TOP = 100;
const MOST_SESSIONS = 4 << 20;

let stops = [1];
let sizes: (number | null)[] = [null];
let asking = 0;
let waiting: ReturnType<typeof setTimeout> | undefined;

const sessions = element<HTMLInputElement>("sessions");
const pages = element<HTMLInputElement>("pages");

export function prepare(): void {
  for (const slider of [sessions, pages]) {
    slider.addEventListener("input", () => {
      labels();
      clearTimeout(waiting);
      waiting = setTimeout(() => void ask(), 150);
    });
  }
  element("what-if").addEventListener("submit", (event) => event.preventDefault());
}

/** From one session up to twice the most that is configured, and those that are there. */
function stopsOf(now: number, most: number): number[] {
  const top = Math.min(Math.max(2 * Math.max(now, most), LEAST_TOP), MOST_SESSIONS);
  const all = new Set([1, top]);
  for (let power = 10; power <= top; power *= 10) for (const digit of DIGITS) all.add(power * digit);
  for (const marked of [now, most]) if (marked > 0) all.add(marked);
  return [...all].filter((it) => it <= top).sort((a, b) => a - b);
}

export function sliders(check: Check): void {
  const sum = (of: (it: Check["instances"][number]) => number | null) =>
    check.instances.reduce((sum, it) => sum + (of(it) ?? 0), 0);
  const now = sum((it) => (it.running ? it.sessions : null));
  const most = sum((it) => it.max_sessions);
  // Once it has been asked, the sliders stay where they are.
  if (asking === 0) {
    stops = stopsOf(now, most);
    sessions.max = String(stops.length - 1);
    sessions.value = String(Math.max(stops.indexOf(now), 0));
  }
  const offered = [...new Set((check.host.pools ?? []).map((pool) => pool.page_bytes))].sort((a, b) => a - b);
  if (offered.length + 1 !== sizes.length) {
    sizes = [null, ...offered];
    pages.max = String(sizes.length - 1);
  }
  labels();
  if (asking === 0) void ask();
}

const chosen = (): [number, number | null] => [stops[sessions.valueAsNumber] ?? 1, sizes[pages.valueAsNumber] ?? null];

function labels(): void {
  const [many, page] = chosen();
  const words = [count(many), page ? pageSize(page) : "as configured"] as const;
  say(element("sessions-said"), words[0]);
  say(element("pages-said"), words[1]);
  sessions.setAttribute("aria-valuetext", words[0]);
  pages.setAttribute("aria-valuetext", words[1]);
}

async function ask(): Promise<void> {
  labels();
  const [many, page] = chosen();
  const asked = new URLSearchParams({ sessions: String(many) });
  if (page) asked.set("page_size", String(page));
  const mine = ++asking;
  let told: Size | Failed;
  try {
    told = (await (await fetch(`api/v1/size?${asked}`)).json()) as Size | Failed;
  } catch {
    return;
  }
  // An answer that comes late is the answer to a question of before.
  if (mine === asking) answer(told, many);
}

/** The parts of the memory; with what is left they come to all of it. */
const PARTS: [string, (budget: Budget) => number | null][] = [
  ["pools", (it) => it.pools_bytes],
  ["private memory", (it) => it.sessions_private_bytes],
  ["managed global area", (it) => it.managed_bytes],
  ["page tables", (it) => it.page_tables_bytes],
  ["other processes", (it) => it.others_bytes],
  ["kernel", (it) => it.kernel_bytes],
  ["watermarks", (it) => it.watermarks_bytes],
  ["page cache reserve", (it) => it.floor_bytes],
];

function answer(told: Size | Failed, many: number): void {
  const made = document.createElement("div");
  if (told.schema === "hugewise.error/1") {
    put(made, "p", told.error, "faint");
  } else {
    headline(made, told, many);
    const beside = put(made, "div", null, "beside");
    dealt(beside, told.budget);
    byPage(beside, told, many);
  }
  replace(element("answer"), made);
}

function headline(made: Element, told: Size, many: number): void {
  const { budget, refusal } = told;
  const carried = plural(many, "session");
  if (refusal) {
    put(made, "p", `Does not fit for ${carried}: ${bytes(refusal.short_bytes)} short.`, "error");
    for (const reason of refusal.reasons) put(made, "p", reason, "why");
    return;
  }
  const on = (node: number | null) => (node === null ? "" : ` on node ${node}`);
  const pools = told.pools.map((pool) => `${count(pool.pages)} pages of ${pageSize(pool.page_bytes)}${on(pool.node)}`);
  put(made, "p", `Fits: ${pools.join(", ")} carry ${carried}; ${left(budget)}.`, "good");
}

const left = (budget: Budget): string =>
  budget.short_bytes ? `${bytes(budget.short_bytes)} short` : `${bytes(budget.left_bytes)} left`;

function dealt(parent: Element, budget: Budget): void {
  const body = table(parent, "Memory budget", ["memory", "amount"]);
  const line = (name: string, value: string, kind?: string) => {
    const row = put(body, "tr", null, kind);
    put(row, "th", name).scope = "row";
    put(row, "td", value);
  };
  line("total", bytes(budget.total_bytes));
  for (const [name, of] of PARTS) {
    const amount = of(budget);
    if (amount !== null) line(name, bytes(amount));
  }
  line(budget.short_bytes ? "short" : "left", bytes(budget.short_bytes || budget.left_bytes), "chosen");
}

/** The same number of sessions on pages of each size. */
function byPage(parent: Element, told: Size, many: number): void {
  const headings = ["page size", "page tables", "time per login", "left"];
  const body = table(parent, "Page tables by page size", headings);
  for (const row of told.forecast.filter((row) => row.sessions === many)) {
    const line = put(body, "tr");
    put(line, "th", pageSize(row.page_bytes)).scope = "row";
    put(line, "td", bytes(row.page_tables_bytes));
    put(line, "td", row.login_seconds === null ? "-" : seconds(row.login_seconds));
    put(line, "td", row.memory_left_bytes === 0 ? "none" : bytes(row.memory_left_bytes));
  }
}
