// The page's parts. Text is set as text, never as markup.

import { plain } from "./words";

export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as T;
}

export function put<K extends keyof HTMLElementTagNameMap>(
  parent: Element,
  name: K,
  text?: string | null,
  kind?: string,
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = plain(text);
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}

export function say(where: Element, text: string): void {
  const shown = plain(text);
  if (where.textContent !== shown) where.textContent = shown;
}

/** A table that scrolls by itself, and its body. */
export function table(parent: Element, label: string, headings: readonly string[]): HTMLTableSectionElement {
  const scroll = put(parent, "div", null, "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", label);
  const made = put(scroll, "table");
  const head = put(put(made, "thead"), "tr");
  for (const heading of headings) put(head, "th", heading).scope = "col";
  return put(made, "tbody");
}

/** A command that a click copies. */
export function command(parent: Element, text: string, label: string): void {
  const box = put(parent, "div", null, "copied");
  put(box, "code", text);
  const button = put(box, "button", "Copy");
  button.type = "button";
  button.dataset["copy"] = text;
  button.dataset["key"] = `copy ${label}`;
  button.setAttribute("aria-label", `Copy the command for ${plain(label)}`);
}

/** Clicks on all such buttons, those that are made later among them. */
export function copying(): void {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("button[data-copy]") : null;
    if (button) void copy(button);
  });
}

async function copy(button: HTMLElement): Promise<void> {
  let done = true;
  try {
    await navigator.clipboard.writeText(button.dataset["copy"] ?? "");
  } catch {
    // A page from an insecure origin may not write to the clipboard; what is selected can be copied.
    const text = button.previousElementSibling;
    if (text) getSelection()?.selectAllChildren(text);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Press Ctrl+C";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

/** Puts new content in place only where it is other content, and keeps what is open and what has the focus. */
export function replace(old: Element, made: Element): void {
  const open = new Set([...old.querySelectorAll<HTMLElement>("details[open]")].map((it) => it.dataset["key"]));
  for (const details of made.querySelectorAll("details")) details.open = open.has(details.dataset["key"]);
  if (old.innerHTML === made.innerHTML) return;
  const active = document.activeElement;
  const focused = active && old.contains(active) ? active.closest<HTMLElement>("[data-key]")?.dataset["key"] : null;
  old.replaceChildren(...made.childNodes);
  if (!focused) return;
  const again = [...old.querySelectorAll<HTMLElement>("[data-key]")].find((it) => it.dataset["key"] === focused);
  (again?.querySelector<HTMLElement>("summary") ?? again)?.focus();
}
