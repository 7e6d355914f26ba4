// The host at a glance.

import type { Check } from "./api";
import { element, put, replace, say } from "./dom";
import { bytes, count, pageSize, percent, plural } from "./words";

export function glance(check: Check): void {
  const { host } = check;
  document.title = `${verdict(check)} · ${host.name ?? "hugewise"}`;
  say(element("host"), host.name ?? "hugewise");
  const about = [host.os, host.kernel && `Linux ${host.kernel}`, host.architecture];
  say(element("about"), about.filter(Boolean).join(" · "));
  say(element("verdict"), verdict(check));
  element("verdict").className = check.summary.error ? "error" : check.summary.warn ? "warn" : "good";

  const list = document.createElement("dl");
  const fact = (name: string, value: string, more?: string) => {
    const box = put(list, "div");
    put(box, "dt", name);
    const said = put(box, "dd", value);
    if (more) {
      said.append(" ");
      put(said, "small", more);
    }
  };
  fact("Memory", bytes(host.memory_bytes), `${bytes(host.memory_available_bytes)} available`);
  const tables = host.page_tables_bytes;
  const part = tables !== null && host.memory_bytes ? `${percent(tables / host.memory_bytes)} of memory` : "";
  fact("Page tables", bytes(tables), part);
  const pools = host.pools ?? [];
  for (const pool of pools.filter((pool) => pool.node === null)) {
    if (!pool.total_pages && !pool.overcommit_pages) continue;
    const available = `${count(pool.available_pages)} available`;
    fact(`Pool of ${pageSize(pool.page_bytes)}`, `${count(pool.total_pages)} pages`, available);
  }
  if (!pools.some((pool) => pool.total_pages)) fact("Huge pages", host.pools ? "none" : "unknown");
  fact("THP", host.thp.enabled ?? "unknown");
  fact("Instances", String(check.instances.length));
  if (check.unread.length) {
    fact("Not readable", plural(check.unread.length, "fact"), `${plural(check.unknown.length, "verdict")} missing`);
  }
  replace(element("glance"), list);
}

function verdict(check: Check): string {
  const { error, warn, info } = check.summary;
  if (error || warn) {
    return [error && plural(error, "error"), warn && plural(warn, "warning")].filter(Boolean).join(", ");
  }
  const fine = check.unknown.length ? "Nothing wrong in what could be read" : "Nothing wrong";
  return fine + (info ? `, ${plural(info, "note")}` : "");
}
