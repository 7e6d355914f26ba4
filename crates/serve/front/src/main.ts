// The dashboard. Everything that it shows was decided by the server; this page only draws it.

import { cases } from "./cases";
import { history, prepare as prepareCharts, remember } from "./charts";
import { copying, element, say } from "./dom";
import { glance } from "./glance";
import { instances } from "./instances";
import { listen } from "./line";
import { prepare as prepareSliders, sliders } from "./whatif";

/** Points that a page keeps: a day of one every 15 seconds. */
const MOST_POINTS = 5760;

let reading: number | null = null;

const ask = () => void history().catch(() => {});

copying();
prepareCharts();
prepareSliders();
listen(ask, (event) => {
  // A reading that was missed may have been a point.
  if (reading !== null && event.reading !== reading + 1) ask();
  reading = event.reading;
  say(element("version"), `hugewise ${event.hugewise}`);
  glance(event.check);
  instances(event.check);
  cases(event.check);
  sliders(event.check);
  if (event.point) remember([event.point], MOST_POINTS);
});
