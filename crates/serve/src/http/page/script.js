"use strict";

// Everything that is shown was decided by the server; this page only draws it. Text is set as text, never as markup.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// What would turn, hide or part the text beside it is spelled out, as in the reports.
function plain(text) {
  const spelled = (it) => it === "\n" ? it : "\\u{" + it.codePointAt(0).toString(16) + "}";
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu, spelled);
}

function put(parent, name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = plain(text);
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}

function say(element, text) {
  const shown = plain(text);
  if (element.textContent !== shown) element.textContent = shown;
}

// Words for numbers, as the reports have them.

function bytes(amount) {
  if (amount === null || amount === undefined) return "unknown";
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"]]) {
    if (amount >= size) return (amount / size).toFixed(1) + " " + unit;
  }
  return amount >= 1024 ? Math.floor(amount / 1024) + " KiB" : amount + " B";
}

function pageSize(amount) {
  if (amount >= 2 ** 30) return amount / 2 ** 30 + " GiB";
  return amount >= 2 ** 20 ? amount / 2 ** 20 + " MiB" : amount / 1024 + " KiB";
}

const count = (number) => (number === null || number === undefined ? "unknown" : number.toLocaleString("en"));
const plural = (number, word) => count(number) + " " + word + (number === 1 ? "" : "s");
const percent = (part) => (part * 100).toFixed(1) + " %";
const hour = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

// The host at a glance.

function glance(check) {
  const host = check.host;
  document.title = verdictOf(check) + " · " + (host.name || "hugewise");
  say($("host"), host.name || "hugewise");
  const about = [host.os, host.kernel && "Linux " + host.kernel, host.architecture];
  say($("about"), about.filter(Boolean).join(" · "));
  say($("verdict"), verdictOf(check));
  $("verdict").className = check.summary.error ? "error" : check.summary.warn ? "warn" : "good";

  const list = document.createElement("dl");
  const fact = (name, value, more) => {
    const box = put(list, "div");
    put(box, "dt", name);
    const said = put(box, "dd", value);
    if (more) {
      said.append(" ");
      put(said, "small", more);
    }
  };
  fact("Memory", bytes(host.memory_bytes), bytes(host.memory_available_bytes) + " available");
  const tables = host.page_tables_bytes;
  const part = tables !== null && host.memory_bytes ? percent(tables / host.memory_bytes) + " of memory" : "";
  fact("Page tables", bytes(tables), part);
  for (const pool of (host.pools || []).filter((pool) => pool.node === null)) {
    if (!pool.total_pages && !pool.overcommit_pages) continue;
    fact("Pool of " + pageSize(pool.page_bytes), count(pool.total_pages) + " pages", count(pool.available_pages) + " available");
  }
  if (!(host.pools || []).some((pool) => pool.total_pages)) fact("Huge pages", host.pools ? "none" : "unknown");
  fact("THP", host.thp.enabled || "unknown");
  fact("Instances", String(check.instances.length));
  if (check.unread.length) fact("Not readable", plural(check.unread.length, "fact"), plural(check.unknown.length, "verdict") + " missing");
  replace($("glance"), list);
}

function verdictOf(check) {
  const { error, warn } = check.summary;
  if (error || warn) return [error && plural(error, "error"), warn && plural(warn, "warning")].filter(Boolean).join(", ");
  const fine = check.unknown.length ? "Nothing wrong in what could be read" : "Nothing wrong";
  return fine + (check.summary.info ? ", " + plural(check.summary.info, "note") : "");
}

// Puts new content in place only where it is other content, and keeps what is open and what has the focus.
function replace(old, made) {
  const open = new Set([...old.querySelectorAll("details[open]")].map((it) => it.dataset.key));
  for (const details of made.querySelectorAll("details")) {
    details.open = open.has(details.dataset.key);
  }
  if (old.innerHTML === made.innerHTML) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.closest("details")?.dataset.key : null;
  old.replaceChildren(...made.childNodes);
  if (focused) {
    const again = [...old.querySelectorAll("details")].find((it) => it.dataset.key === focused);
    again?.querySelector("summary")?.focus();
  }
}

// Instances and findings.

// What check has in its columns.
const MOMENTS = [["now", "Now"], ["restart", "Next restart"], ["reboot", "Next boot"]];
const OUTLOOK = { all: "all", partly: "partly", none: "none", does_not_start: "fails", not_running: "down", unknown: "?", not_counted: "-" };

const STATE = { all: ["good", "on huge pages"], partly: ["warn", "partly on huge pages"], none: ["", "on base pages"], unknown: ["", "not known"] };

function instances(check) {
  const all = document.createElement("div");
  for (const instance of check.instances) {
    const title = instance.engine + " " + instance.name;
    const worst = check.findings.filter((it) => it.instance === title).map((it) => it.level);
    const level = ["error", "warn"].find((level) => worst.includes(level));
    const down = instance.moments?.now.state === "not_running";
    const [colour, words] = down ? ["", "down"] : STATE[instance.huge_pages];
    const card = put(all, "article", null, "card " + (level || colour));
    put(card, "h3", title);
    put(card, "p", words, "tag " + (level || colour));
    const facts = put(card, "dl", null, "facts");
    const fact = (name, value) => {
      const box = put(facts, "div");
      put(box, "dt", name);
      put(box, "dd", value);
      return box;
    };
    for (const [moment, name] of MOMENTS) {
      const told = instance.moments?.[moment];
      if (told) fact(name, OUTLOOK[told.state] ?? told.state).title = told.why ?? "";
    }
    fact("Memory", bytes(instance.segments.reduce((sum, segment) => sum + segment.size_bytes, 0)));
    if (instance.demand) fact("Needs", count(instance.demand.needed_pages) + " × " + pageSize(instance.demand.page_bytes));
    fact("Page tables", bytes(instance.page_tables_bytes));
    fact("Sessions", count(instance.sessions) + (instance.max_sessions ? " of " + count(instance.max_sessions) : ""));
    if (instance.version) fact("Version", instance.version);
    if (instance.chain.length) {
      const chain = put(card, "ol", null, "chain");
      chain.setAttribute("aria-label", "From the server to its huge pages");
      for (const link of instance.chain) {
        const item = put(chain, "li", null, link.state);
        item.textContent = { ok: "✓ ", broken: "✗ ", unknown: "? " }[link.state] + link.link;
        put(item, "span", " " + { ok: "holds", broken: "is broken", unknown: "is not known" }[link.state], "hidden");
      }
      const broken = instance.chain.find((link) => link.state === "broken");
      if (broken) put(card, "p", broken.link + ": " + broken.evidence, "why");
    }
  }
  if (!check.instances.length) put(all, "p", "No database server runs here that could use huge pages.", "faint");
  replace($("instances"), all);
}

function findings(check) {
  const all = document.createElement("div");
  for (const finding of check.findings) {
    const card = put(all, "article", null, "card " + finding.level);
    put(card, "p", finding.level + " " + finding.code + " " + finding.name, "tag " + finding.level);
    put(card, "h3", finding.summary);
    if (finding.instance) put(card, "p", finding.instance, "faint");
    if (finding.cost) put(card, "p", finding.cost);
    const more = put(card, "details");
    more.dataset.key = finding.code + " " + (finding.instance || "") + " " + finding.evidence.length;
    put(more, "summary", finding.fix.length ? "Why, and how to fix it" : "Why");
    const evidence = put(more, "ul", null, "evidence");
    for (const line of finding.evidence) put(evidence, "li", line);
    if (finding.fix.length) {
      const fix = put(more, "pre", finding.fix.join("\n"));
      fix.tabIndex = 0;
      fix.setAttribute("role", "region");
      fix.setAttribute("aria-label", "Commands that fix " + finding.code);
    }
  }
  if (!check.findings.length) put(all, "p", "None.", "good");
  for (const verdict of check.unknown) {
    const card = put(all, "article", null, "card");
    put(card, "p", "unknown " + verdict.code + " " + verdict.name, "tag faint");
    put(card, "p", (verdict.instance ? verdict.instance + ": " : "") + "not readable: " + verdict.missing, "why");
  }
  replace($("findings"), all);
}

// Charts.

let points = [];

const CHARTS = {
  page_tables: { title: "Page tables", unit: bytes, lines: () => [["all processes", (point) => point.page_tables_bytes]] },
  pools: {
    title: "Pools",
    unit: bytes,
    lines: () => {
      const sizes = [...new Set(points.flatMap((point) => point.pools.filter((pool) => pool.total_pages).map((pool) => pool.page_bytes)))];
      const of = (size, field) => (point) => {
        const pages = point.pools.find((pool) => pool.page_bytes === size)?.[field];
        return pages === null || pages === undefined ? null : pages * size;
      };
      return sizes.slice(0, 2).flatMap((size) => [
        [pageSize(size) + " pool", of(size, "total_pages")],
        [pageSize(size) + " committed", of(size, "committed_pages")],
      ]);
    },
  },
  sessions: { title: "Sessions", unit: count, lines: () => [["all instances", (point) => point.sessions]] },
  kernel_cpu: { title: "Kernel CPU", unit: percent, lines: () => [["part of all processors", (point) => point.kernel_cpu]] },
};

function charts() {
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const chart = CHARTS[figure.dataset.chart];
    const made = document.createElement("figure");
    draw(made, chart);
    replace(figure, made);
  }
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function draw(figure, chart) {
  const known = (value) => value !== null && value !== undefined;
  const caption = put(figure, "figcaption");
  put(caption, "strong", chart.title);
  const times = points.map((point) => Date.parse(point.at)).filter((time) => !Number.isNaN(time));
  const lines = chart.lines().map(([name, of]) => [
    name,
    points.map((point) => [Date.parse(point.at), of(point)]).filter(([time]) => !Number.isNaN(time)),
  ]);
  const values = lines.flatMap(([, line]) => line.map(([, value]) => value)).filter(known);
  if (!values.length) {
    put(caption, "span", chart.title === "Pools" ? "no huge pages yet" : "nothing known yet", "faint");
    return;
  }
  const [width, height, left, bottom] = [480, 150, 62, 18];
  // Of things that are counted there are no halves, at the line in the middle neither.
  const highest = Math.max(...values);
  const most = (chart.unit === count ? Math.max(2 * Math.ceil(highest / 2), 2) : highest) * 1.05 || 1;
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const x = (time) => left + ((time - from) / (to - from || 1)) * (width - left - 6);
  const y = (value) => height - bottom - (value / most) * (height - bottom - 8);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const said = [];
  for (const part of [0, 0.5, 1]) {
    const value = (most / 1.05) * part;
    const at = y(value);
    svg.append(shape("line", { class: "grid", x1: left, x2: width - 6, y1: at, y2: at }));
    const label = shape("text", { x: left - 6, y: at + 4, "text-anchor": "end" });
    label.textContent = chart.unit(chart.unit === count ? Math.round(value) : value);
    svg.append(label);
  }
  for (const [time, anchor] of from === to ? [[to, "end"]] : [[from, "start"], [to, "end"]]) {
    const label = shape("text", { x: anchor === "start" ? left : width - 6, y: height - 3, "text-anchor": anchor });
    label.textContent = hour(time);
    svg.append(label);
  }
  // A hole of more than three usual steps is a hole: nobody was there to look.
  const hole = 3.5 * step(times);
  lines.forEach(([name, line], number) => {
    let path = "";
    let before = null;
    for (const [time, value] of line) {
      if (!known(value)) {
        before = null;
        continue;
      }
      path += (before !== null && time - before <= hole ? "L" : "M") + x(time).toFixed(1) + " " + y(value).toFixed(1);
      if (before === null || time - before > hole) path += "h0.01";
      before = time;
    }
    svg.append(shape("path", { d: path, class: "line-" + (number + 1), "stroke-linecap": "round" }));
    const seen = line.map(([, value]) => value).filter(known);
    if (!seen.length) return;
    const last = line[line.length - 1][1];
    const now = known(last) ? chart.unit(last) : "unknown now";
    put(caption, "span", name + " " + now, "now line-" + (number + 1));
    said.push(`${name}: now ${now}, least ${chart.unit(Math.min(...seen))}, most ${chart.unit(Math.max(...seen))}`);
  });
  svg.setAttribute("aria-label", `${chart.title} from ${hour(from)} to ${hour(to)}. ${said.join(". ")}`);
  figure.append(svg);
}

function step(times) {
  const steps = times.slice(1).map((time, at) => time - times[at]).filter((step) => step > 0).sort((a, b) => a - b);
  return steps.length ? steps[Math.floor(steps.length / 2)] : Infinity;
}

// After a restart the server knows nothing of the hours before; this page does, as long as it is open.
function remember(more, most) {
  const known = new Map([...points, ...more].map((point) => [point.at, point]));
  points = [...known.values()].sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-most);
}

async function history() {
  const answer = await fetch("api/v1/history");
  if (!answer.ok) return;
  const told = await answer.json();
  remember(told.points, told.most_points);
  charts();
}

// What if: the server reckons, by the same model as `hugewise size`.

const SESSIONS = [null, 1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10000];
let sizes = [null];
let asking = 0;

function sliders(check) {
  const offered = [...new Set((check.host.pools || []).map((pool) => pool.page_bytes))].sort((a, b) => a - b);
  if (offered.length + 1 !== sizes.length) {
    sizes = [null, ...offered];
    $("pages").max = sizes.length - 1;
  }
  $("sessions").max = SESSIONS.length - 1;
  labels();
}

function labels() {
  const sessions = SESSIONS[$("sessions").valueAsNumber];
  const page = sizes[$("pages").valueAsNumber];
  const words = [sessions ? count(sessions) : "as now", page ? pageSize(page) : "as asked for"];
  say($("sessions-said"), words[0]);
  say($("pages-said"), words[1]);
  $("sessions").setAttribute("aria-valuetext", words[0]);
  $("pages").setAttribute("aria-valuetext", words[1]);
}

async function ask() {
  labels();
  const asked = new URLSearchParams();
  const sessions = SESSIONS[$("sessions").valueAsNumber];
  const page = sizes[$("pages").valueAsNumber];
  if (sessions) asked.set("sessions", sessions);
  if (page) asked.set("page_size", page);
  const mine = ++asking;
  let told;
  try {
    told = await (await fetch("api/v1/size?" + asked)).json();
  } catch {
    return;
  }
  // An answer that comes late is the answer to a question of before.
  if (mine === asking) answer(told);
}

function answer(told) {
  const made = document.createElement("div");
  if (told.schema === "hugewise.error/1") {
    put(made, "p", told.error, "faint");
    replace($("answer"), made);
    return;
  }
  const budget = told.budget;
  // Servers that are not used by anybody now, or don't tell: the forecast's first lines say what one more costs.
  const at = Math.max(...told.forecast.map((row) => row.sessions).filter((sessions) => sessions <= Math.max(budget.sessions, 1)), 1);
  const sessions = budget.sessions ? plural(budget.sessions, "session") : "what runs now";
  if (told.fits) {
    const pools = told.pools.map((pool) => `${count(pool.pages)} pages of ${pageSize(pool.page_bytes)}` + (pool.node === null ? "" : ` on node ${pool.node}`));
    put(made, "p", `Fits: ${pools.join(", ")} carry ${sessions}; ${bytes(budget.left_bytes)} are left.`, "good");
  } else {
    put(made, "p", `Does not fit, for ${sessions}: ${bytes(told.refusal.short_bytes)} are missing.`, "error");
    for (const reason of told.refusal.reasons) put(made, "p", reason, "why");
  }
  const scroll = put(made, "div", null, "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Page tables by page size");
  const table = put(scroll, "table");
  const head = put(put(table, "thead"), "tr");
  for (const name of ["pages", "sessions", "page tables", "a login takes", "memory left"]) put(head, "th", name).scope = "col";
  const body = put(table, "tbody");
  for (const row of told.forecast.filter((row) => row.sessions === at)) {
    const line = put(body, "tr");
    put(line, "td", pageSize(row.page_bytes));
    put(line, "td", count(row.sessions));
    put(line, "td", bytes(row.page_tables_bytes));
    put(line, "td", row.login_seconds === null ? "threads" : seconds(row.login_seconds));
    put(line, "td", bytes(row.memory_left_bytes));
  }
  replace($("answer"), made);
}

function seconds(time) {
  return time >= 1 ? time.toFixed(1) + " s" : time >= 0.001 ? (time * 1000).toFixed(0) + " ms" : "under 1 ms";
}

// The line to the server. The browser comes back by itself; after an answer that is no stream it does not.

let reading = null;
// When the newest reading came.
let shownAt = null;
let silence = null;

// What the page shows while it hears nothing.
function showing() {
  return shownAt === null ? "Nothing to show yet" : "Showing data from " + shownAt.toLocaleTimeString();
}

function lost(words) {
  $("line").className = "lost";
  say($("line-text"), words);
}

// The server says something every 15 seconds; a line that is cut somewhere between says nothing at all.
function alive() {
  $("line").className = "live";
  say($("line-text"), "live");
  clearTimeout(silence);
  silence = setTimeout(() => lost("No data for a minute. " + showing()), 60000);
}

function listen() {
  const source = new EventSource("api/v1/events");
  source.addEventListener("open", () => history().catch(() => {}));
  source.addEventListener("reading", (event) => {
    const told = JSON.parse(event.data);
    // A reading that was missed may have been a point.
    if (reading !== null && told.reading !== reading + 1) history().catch(() => {});
    reading = told.reading;
    shownAt = new Date();
    glance(told.check);
    instances(told.check);
    findings(told.check);
    sliders(told.check);
    if (told.point) {
      remember([told.point], 5760);
      charts();
    }
    if (asking === 0) ask();
    alive();
  });
  source.addEventListener("alive", alive);
  source.addEventListener("error", () => {
    lost("Connection lost. " + showing() + "; retrying");
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(listen, 5000);
    }
  });
}

let waiting = null;
for (const id of ["sessions", "pages"]) {
  $(id).addEventListener("input", () => {
    labels();
    clearTimeout(waiting);
    waiting = setTimeout(ask, 150);
  });
}
$("what-if").addEventListener("submit", (event) => event.preventDefault());
listen();
