// Words for numbers, as the reports have them.

/** What would turn, hide or part the text beside it is spelled out, as in the reports. */
export function plain(text: string): string {
  const spelled = (it: string) => (it === "\n" ? it : `\\u{${(it.codePointAt(0) ?? 0).toString(16)}}`);
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu, spelled);
}

type Known = number | null | undefined;

export function bytes(amount: Known): string {
  if (amount === null || amount === undefined) return "unknown";
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"]] as const) {
    if (amount >= size) return `${(amount / size).toFixed(1)} ${unit}`;
  }
  return amount >= 1024 ? `${Math.floor(amount / 1024)} KiB` : `${amount} B`;
}

export function pageSize(amount: number): string {
  if (amount >= 2 ** 30) return `${amount / 2 ** 30} GiB`;
  return amount >= 2 ** 20 ? `${amount / 2 ** 20} MiB` : `${amount / 1024} KiB`;
}

export const count = (number: Known): string =>
  number === null || number === undefined ? "unknown" : number.toLocaleString("en");
export const plural = (number: number, word: string): string => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
export const percent = (part: Known): string =>
  part === null || part === undefined ? "unknown" : `${(part * 100).toFixed(1)} %`;

/** The host's clock and the reader's may be in two zones: times are the reader's, with seconds where there are any. */
export const clock = (time: Date): string => time.toLocaleTimeString("en-GB");

export function seconds(time: number): string {
  if (time >= 1) return `${time.toFixed(1)} s`;
  return time >= 0.001 ? `${(time * 1000).toFixed(0)} ms` : "under 1 ms";
}
