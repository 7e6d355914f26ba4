// The host over time: charts with one cursor over all of them, over the last minutes or all that is known.

import uPlot from "uplot";
import type { History, Point } from "./api";
import { element, put, say } from "./dom";
import { BYTES, COUNT, PART, ticks, type Unit } from "./ticks";
import { clock, pageSize } from "./words";

interface Line {
  name: string;
  of: (point: Point) => number | null;
}

interface Chart {
  key: string;
  title: string;
  unit: Unit;
  lines: () => Line[];
}

let points: Point[] = [];

const CHARTS: Chart[] = [
  { key: "page_tables", title: "Page tables", unit: BYTES, lines: () => [{ name: "all processes", of: (it) => it.page_tables_bytes }] },
  { key: "pools", title: "Pools", unit: BYTES, lines: pools },
  { key: "available", title: "Memory available", unit: BYTES, lines: () => [{ name: "available", of: (it) => it.memory_available_bytes }] },
  { key: "sessions", title: "Sessions", unit: COUNT, lines: () => [{ name: "all instances", of: (it) => it.sessions }] },
  { key: "kernel_cpu", title: "Kernel CPU", unit: PART, lines: () => [{ name: "share of all CPUs", of: (it) => it.kernel_cpu }] },
];

function pools(): Line[] {
  const there = points.flatMap((point) => point.pools.filter((pool) => pool.total_pages));
  const sizes = [...new Set(there.map((pool) => pool.page_bytes))].slice(0, 2);
  const of = (size: number, field: "total_pages" | "committed_pages") => (point: Point) => {
    const pages = point.pools.find((pool) => pool.page_bytes === size)?.[field];
    return pages === null || pages === undefined ? null : pages * size;
  };
  return sizes.flatMap((size) => [
    { name: `${pageSize(size)} pool`, of: of(size, "total_pages") },
    { name: `${pageSize(size)} committed`, of: of(size, "committed_pages") },
  ]);
}

const HEIGHT = 180;
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const FONT = "12px system-ui, sans-serif";

/** One chart on the page. */
interface Drawn {
  chart: Chart;
  figure: HTMLElement;
  box: HTMLElement;
  legend: HTMLElement;
  tip: HTMLElement;
  plot: uPlot | null;
  /** The names of its lines, by which it is made anew. */
  names: string;
  lines: Line[];
}

const drawn: Drawn[] = [];

/** Seconds that are shown; null for all. */
let range: number | null = 3600;

/** The place in the data that the cursor is at; null where nobody points at any. */
let at: number | null = null;
/** Seconds since the epoch and the points then; a hole has a place of its own, without a point. */
let times: number[] = [];
let placed: (Point | null)[] = [];

export function prepare(): void {
  const all = element("charts");
  for (const chart of CHARTS) {
    const figure = put(all, "figure");
    figure.dataset["chart"] = chart.key;
    const caption = put(figure, "figcaption");
    put(caption, "strong", chart.title);
    const legend = put(caption, "span", null, "legend");
    const box = put(figure, "div", null, "plot");
    box.setAttribute("role", "img");
    const tip = put(figure, "div", null, "tip");
    tip.hidden = true;
    tip.setAttribute("aria-hidden", "true");
    drawn.push({ chart, figure, box, legend, tip, plot: null, names: "", lines: [] });
  }
  for (const button of element("ranges").querySelectorAll<HTMLButtonElement>("button")) {
    button.addEventListener("click", () => {
      range = Number(button.dataset["seconds"]) || null;
      for (const other of element("ranges").querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      point(null);
      draw();
    });
  }
  const moment = element<HTMLInputElement>("moment");
  moment.addEventListener("input", () => {
    const [first] = shown();
    point(first + moment.valueAsNumber);
  });
  new ResizeObserver(() => drawn.forEach((it) => it.plot?.setSize(size(it)))).observe(all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
}

/** After a restart the server knows nothing of the hours before; this page does, as long as it is open. */
export function remember(more: Point[], most: number): void {
  const known = new Map([...points, ...more].map((point) => [point.at ?? "", point]));
  known.delete("");
  points = [...known.values()].sort((a, b) => ((a.at ?? "") < (b.at ?? "") ? -1 : 1)).slice(-most);
  lay();
  draw();
}

export async function history(): Promise<void> {
  const answer = await fetch("api/v1/history");
  if (!answer.ok) return;
  const told = (await answer.json()) as History;
  remember(told.points, told.most_points);
}

/** Lays the points out, with a place for each hole: one of more than three usual steps is one, nobody was there to look. */
function lay(): void {
  const moments = points.map((point) => Date.parse(point.at ?? "") / 1000);
  const steps = moments.slice(1).map((time, it) => time - (moments[it] ?? time)).filter((step) => step > 0);
  const usual = steps.sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? Infinity;
  times = [];
  placed = [];
  moments.forEach((time, it) => {
    const before = times.at(-1);
    if (before !== undefined && time - before > 3.5 * usual) {
      times.push((before + time) / 2);
      placed.push(null);
    }
    times.push(time);
    placed.push(points[it] ?? null);
  });
}

/** The first and the last place that are shown. */
function shown(): [number, number] {
  const last = times.length - 1;
  const from = range === null ? -Infinity : (times[last] ?? 0) - range;
  const first = times.findIndex((time) => time >= from);
  return [Math.max(first, 0), last];
}

function draw(): void {
  const [first, last] = shown();
  const moment = element<HTMLInputElement>("moment");
  moment.max = String(Math.max(last - first, 0));
  if (at === null) moment.value = moment.max;
  const from = times[first] ?? 0;
  const to = Math.max(times[last] ?? 0, from + 1);
  for (const it of drawn) {
    it.lines = it.chart.lines();
    const data: uPlot.AlignedData = [times, ...it.lines.map((line) => placed.map((point) => (point ? line.of(point) : null)))];
    const names = it.lines.map((line) => line.name).join("\n");
    if (!it.plot || names !== it.names) {
      it.plot?.destroy();
      it.box.replaceChildren();
      it.plot = names ? new uPlot(options(it), data, it.box) : null;
      it.names = names;
    } else {
      it.plot.setData(data, false);
    }
    it.plot?.setScale("x", { min: from, max: to });
    describe(it, first, last);
  }
  tell();
}

function size(it: Drawn): { width: number; height: number } {
  return { width: Math.max(it.box.clientWidth, 120), height: HEIGHT };
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function options(it: Drawn): uPlot.Options {
  const { unit } = it.chart;
  const axis: uPlot.Axis = {
    stroke: colour("--faint"),
    font: FONT,
    grid: { stroke: colour("--rule"), width: 1 },
    ticks: { show: false },
  };
  const rounded = (plot: uPlot) => ticks(plot.scales["y"]?.max ?? 1, unit);
  return {
    ...size(it),
    padding: [10, 12, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, drag: { x: false, y: false }, y: false },
    scales: {
      x: { time: true },
      y: { range: (_plot, _least, most) => [0, ticks(most ?? 0, unit).at(-1) ?? 1] },
    },
    axes: [
      { ...axis, size: 28, space: 60, values: (_plot, places) => places.map((place) => clock(new Date(place * 1000)).replace(/:00$/, "")) },
      {
        ...axis,
        size: 72,
        splits: rounded,
        values: (_plot, places) => {
          const words = places.map((place) => unit.say(place));
          it.figure.dataset["ticks"] = words.join(", ");
          return words;
        },
      },
    ],
    series: [
      {},
      ...it.lines.map((line, number) => ({
        label: line.name,
        stroke: colour(`--line-${number + 1}`),
        width: 1.75,
        dash: DASHES[number] ?? [],
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(plot) => follow(it, plot)] },
  };
}

/** The pointer is over a chart: all are told, and that one shows what it points at. */
function follow(it: Drawn, plot: uPlot): void {
  const place = plot.cursor.idx;
  const isOver = place !== null && place !== undefined && (plot.cursor.left ?? -1) >= 0;
  at = isOver ? place : null;
  it.tip.hidden = !isOver || !it.box.matches(":hover");
  if (isOver && !it.tip.hidden) tip(it, plot, place);
  tell();
}

function tip(it: Drawn, plot: uPlot, place: number): void {
  it.tip.replaceChildren();
  put(it.tip, "strong", clock(new Date((times[place] ?? 0) * 1000)));
  it.lines.forEach((line, number) => put(it.tip, "span", `${line.name} ${value(it, line, place)}`, `line-${number + 1}`));
  const left = plot.over.offsetLeft + (plot.cursor.left ?? 0);
  const right = left > it.box.clientWidth / 2;
  it.tip.style.left = right ? "" : `${left + 24}px`;
  it.tip.style.right = right ? `${it.box.clientWidth - left + 24}px` : "";
}

function value(it: Drawn, line: Line, place: number): string {
  const point = placed[place];
  const known = point ? line.of(point) : null;
  return known === null ? "unknown" : it.chart.unit.say(known);
}

/** Moves the cursor of all charts to a place; away from all of them where there is none. */
function point(place: number | null): void {
  at = place;
  for (const { plot } of drawn) {
    if (!plot) continue;
    const left = place === null ? -10 : plot.valToPos(times[place] ?? 0, "x");
    plot.setCursor({ left, top: place === null ? -10 : 1 }, false);
  }
  tell();
}

/** Says above each chart what it has at the cursor, or last. */
function tell(): void {
  const place = at ?? times.length - 1;
  const [first] = shown();
  const when = times.length ? clock(new Date((times[place] ?? 0) * 1000)) : "";
  const words = !when ? "no readings yet" : at === null ? `last reading, ${when}` : when;
  say(element("moment-said"), words);
  const moment = element<HTMLInputElement>("moment");
  if (at !== null) moment.value = String(at - first);
  moment.setAttribute("aria-valuetext", words);
  for (const it of drawn) {
    it.legend.replaceChildren();
    it.lines.forEach((line, number) => {
      put(it.legend, "span", `${line.name} ${times.length ? value(it, line, place) : "unknown"}`, `now line-${number + 1}`);
    });
    if (!it.lines.length) put(it.legend, "span", it.chart.key === "pools" ? "no huge pages yet" : "no data yet", "faint");
  }
}

/** The chart in words, for those who do not see it. */
function describe(it: Drawn, first: number, last: number): void {
  const between = `from ${clock(new Date((times[first] ?? 0) * 1000))} to ${clock(new Date((times[last] ?? 0) * 1000))}`;
  const said = it.lines.map((line) => {
    const values = placed.slice(first, last + 1).map((point) => (point ? line.of(point) : null)).filter((value) => value !== null);
    if (!values.length) return `${line.name}: unknown`;
    const say = it.chart.unit.say;
    return `${line.name}: last ${say(values.at(-1))}, least ${say(Math.min(...values))}, most ${say(Math.max(...values))}`;
  });
  it.box.setAttribute("aria-label", `${it.chart.title} ${between}. ${said.join(". ")}`);
}

/** Colours are those of the style at the time a chart is made. */
function anew(): void {
  for (const it of drawn) it.names = "\0";
  draw();
}

/** Charts are pictures: on paper they have the colours of paper. */
function paper(on: boolean): void {
  document.documentElement.classList.toggle("paper", on);
  anew();
}
