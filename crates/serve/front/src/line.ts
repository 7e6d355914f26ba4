// The line to the server. The browser comes back by itself; after an answer that is no stream it does not.

import type { Event } from "./api";
import { element, say } from "./dom";
import { clock } from "./words";

/** The server says something every 15 seconds; a line that is cut somewhere between says nothing at all. */
const SILENCE = 60_000;
const AGAIN = 5_000;
/** Before the title of a page that nobody tells anything: a tab that says "Nothing wrong" would be believed. */
const LOST = "Connection lost · ";

/** When the newest reading was made, by the host's own clock; when it came, where the host does not say. */
let shownAt: Date | null = null;
let silence: ReturnType<typeof setTimeout> | undefined;

function showing(): string {
  return shownAt === null ? "Nothing to show yet" : `Showing data from ${clock(shownAt)}`;
}

function lost(words: string): void {
  element("line").className = "lost";
  say(element("line-text"), words);
  if (!document.title.startsWith(LOST)) document.title = LOST + document.title;
}

function alive(): void {
  element("line").className = "live";
  say(element("line-text"), "live");
  if (document.title.startsWith(LOST)) document.title = document.title.slice(LOST.length);
  say(element("last"), shownAt === null ? "" : `Last reading ${clock(shownAt)}`);
  clearTimeout(silence);
  silence = setTimeout(() => lost(`No data for a minute. ${showing()}`), SILENCE);
}

/** Listens for ever: `opened` is called whenever the line is there anew, `told` of each reading. */
export function listen(opened: () => void, told: (event: Event) => void): void {
  const source = new EventSource("api/v1/events");
  source.addEventListener("open", opened);
  source.addEventListener("reading", (message: MessageEvent<string>) => {
    const event = JSON.parse(message.data) as Event;
    const read = Date.parse(event.check.host.read_at ?? "");
    shownAt = Number.isNaN(read) ? new Date() : new Date(read);
    told(event);
    alive();
  });
  source.addEventListener("alive", alive);
  source.addEventListener("error", () => {
    lost(`Connection lost. ${showing()}; retrying`);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(opened, told), AGAIN);
  });
}
