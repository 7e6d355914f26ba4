// Axes that end at round numbers.

import { bytes, count, percent } from "./words";

/** What is counted: how it is said, and the steps that are round for it. */
export interface Unit {
  say: (value: number | null | undefined) => string;
  /** The least round step that is no less. */
  step: (least: number) => number;
}

/** Steps between ticks: there are at most so many. */
const MOST_STEPS = 4;

const decimal = (least: number): number => {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9)) ?? 10 * power;
};

export const BYTES: Unit = {
  say: (value) => bytes(value).replace(".0 ", " "),
  step: (least) => 2 ** Math.ceil(Math.log2(Math.max(least, 1))),
};
// Of things that are counted there are no halves.
export const COUNT: Unit = { say: count, step: (least) => Math.max(decimal(least), 1) };
export const PART: Unit = { say: (value) => percent(value).replace(".0 ", " "), step: decimal };

/** From zero to the first round number that is no less than the most. */
export function ticks(most: number, unit: Unit): number[] {
  const highest = most > 0 ? most : 1e-3;
  const step = unit.step(highest / MOST_STEPS);
  const steps = Math.max(Math.ceil(highest / step - 1e-9), 1);
  return Array.from({ length: steps + 1 }, (_, at) => at * step);
}
