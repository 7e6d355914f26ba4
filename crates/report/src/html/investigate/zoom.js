(() => {
'use strict';
const WIDE = 1e5, TALL = 2000;
const drawn = name => document.createElementNS(document.querySelector('svg').namespaceURI, name);
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
  864000, 1728000, 2592000, 7776000, 15552000, 31536000, 315360000].map(seconds => seconds * 1000);
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
const two = number => String(number).padStart(2, '0');

function label(at, seconds) {
  const time = new Date(at);
  if (at % 864e5 === 0) return time.getUTCDate() + ' ' + MONTHS[time.getUTCMonth()];
  return two(time.getUTCHours()) + ':' + two(time.getUTCMinutes()) + (seconds ? ':' + two(time.getUTCSeconds()) : '');
}
function full(at) {
  const time = new Date(at);
  return time.getUTCDate() + ' ' + MONTHS[time.getUTCMonth()] + ' ' + two(time.getUTCHours()) + ':' +
    two(time.getUTCMinutes()) + (time.getUTCSeconds() ? ':' + two(time.getUTCSeconds()) : '');
}
function digits(value) {
  const size = Math.abs(value);
  const places = size >= 99.95 || size < 1e-12 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  const text = value.toFixed(places);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
function show(value, unit) {
  if (unit === 'percent') return digits(value) + ' %';
  const [base, units] = unit === 'bytes' ? [1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB']] : [1000, ['', ' k', ' M', ' G', ' T']];
  let at = 0;
  while (+digits(value) >= base && at < units.length - 1) { value /= base; at += 1; }
  const end = unit === 'per-second' ? '/s' : '';
  return digits(value) + (end && !units[at] ? '' : units[at]) + end;
}
// The stretches of a path, as they are drawn: places across and up.
function stretches(path, area) {
  const all = [];
  let points = null, x = 0, y = 0, numbers;
  for (const [, command, rest] of path.getAttribute('d').matchAll(/([MVlZ])([^MVlZ]*)/g)) {
    numbers = (rest.match(/-?\d+/g) || []).map(Number);
    if (command === 'M') { [x, y] = numbers; all.push(points = area ? [] : [[x, y]]); }
    if (command === 'V' && points && !points.length) { y = numbers[0]; points.push([x, y]); }
    if (command === 'l') for (let i = 0; i + 1 < numbers.length; i += 2) points.push([x += numbers[i], y += numbers[i + 1]]);
  }
  return all;
}
// The height of the point of a line that is nearest to a place; nothing in holes.
function height(lines, x) {
  for (const points of lines) {
    const last = points[points.length - 1];
    if (!last || x < points[0][0] || x > last[0]) continue;
    let low = 0, high = points.length - 1;
    while (high - low > 1) { const middle = low + high >> 1; if (points[middle][0] <= x) low = middle; else high = middle; }
    return (x - points[low][0] < points[high][0] - x ? points[low] : points[high])[1];
  }
  return null;
}

for (const box of document.querySelectorAll('.charts')) {
  const first = +box.dataset.from, last = +box.dataset.to, offset = box.dataset.offset * 1000;
  const tools = box.querySelector('.tools'), told = tools.querySelector('output');
  const charts = [...box.querySelectorAll('figure')].map(figure => {
    const svg = figure.querySelector('svg.time'), area = 'stacked' in figure.dataset;
    const paths = [...svg.querySelectorAll('.plot > path:not(.mark)')];
    if (area) paths.reverse();
    const cursor = svg.appendChild(drawn('line'));
    const chosen = svg.appendChild(drawn('rect'));
    cursor.setAttribute('class', 'cursor'); chosen.setAttribute('class', 'chosen');
    for (const [name, value] of Object.entries({y1: 16, y2: 166})) cursor.setAttribute(name, value);
    chosen.setAttribute('y', 16); chosen.setAttribute('height', 150);
    cursor.setAttribute('visibility', 'hidden');
    return {svg, area, cursor, chosen, paths, lines: null, unit: figure.dataset.unit, top: +svg.dataset.top,
      plot: svg.querySelector('.plot'), ticks: svg.querySelector('.ticks'), numbers: [...svg.querySelectorAll('.number')],
      values: [...figure.querySelectorAll('.value')].map(value => {
        // What is said of a moment stands over what is said of all, whose place is kept: a legend that is read never wraps anew.
        const all = document.createElement('span'), then = document.createElement('span');
        all.textContent = value.textContent;
        value.replaceChildren(all, then);
        return [value, then];
      })};
  });
  if (!charts.length) continue;
  let from = first, to = last, queued = false;

  function draw() {
    queued = false;
    const length = to - from, whole = last - first;
    const left = (from - first) / whole * WIDE, wide = length / whole * WIDE;
    const most = Math.max(2, Math.min(10, Math.floor(charts[0].svg.clientWidth / 80)));
    const step = STEPS.find(step => length / step <= most) || STEPS[STEPS.length - 1];
    const place = at => (at - from) / length * 100 + '%';
    const at = [];
    for (let tick = Math.ceil((from + offset) / step) * step; tick <= to + offset; tick += step) at.push(tick);
    for (const chart of charts) {
      chart.plot.setAttribute('viewBox', left + ' 0 ' + wide + ' ' + TALL);
      chart.ticks.replaceChildren(...at.flatMap(tick => {
        const line = drawn('line'), text = drawn('text');
        for (const [name, value] of Object.entries({class: 'tick', x1: place(tick - offset), x2: place(tick - offset), y1: 16, y2: 166})) line.setAttribute(name, value);
        text.textContent = label(tick, step < 6e4);
        // A label at an edge stands beside its place, so that none of it is cut.
        const half = text.textContent.length * 4, x = (tick - offset - from) / length * chart.svg.clientWidth;
        const anchor = x < half ? 'start' : x > chart.svg.clientWidth - half ? 'end' : 'mid';
        for (const [name, value] of Object.entries({class: 'faint ' + anchor, x: place(tick - offset), y: 182})) text.setAttribute(name, value);
        return [line, text];
      }));
      for (const number of chart.numbers) number.setAttribute('x', place(+number.dataset.at));
    }
    told.textContent = full(from + offset) + ' to ' + full(to + offset);
    box.classList.toggle('zoomed', from > first || to < last);
    point(null);
  }
  function zoom(a, b) {
    const least = Math.max(10000, (last - first) / 5000), length = Math.min(last - first, Math.max(least, b - a));
    let start = (a + b - length) / 2;
    start = Math.max(first, Math.min(last - length, start));
    from = start; to = start + length;
    if (!queued) { queued = true; requestAnimationFrame(draw); }
  }
  const scale = (by, around) => zoom(around - (around - from) * by, around + (to - around) * by);
  const move = by => { const length = to - from, start = Math.max(first, Math.min(last - length, from + by * length)); zoom(start, start + length); };
  const middle = () => (from + to) / 2;
  const actions = {in: () => scale(.5, middle()), out: () => scale(2, middle()), left: () => move(-.25), right: () => move(.25), all: () => zoom(first, last)};

  // Shows the values of a moment in the legends; of none, what stood there.
  function point(part) {
    for (const chart of charts) {
      chart.cursor.setAttribute('visibility', part === null ? 'hidden' : 'visible');
      for (const [value, then] of chart.values) {
        value.classList.toggle('then', part !== null);
        if (part === null) then.textContent = '';
      }
      if (part === null) continue;
      chart.cursor.setAttribute('x1', part * 100 + '%'); chart.cursor.setAttribute('x2', part * 100 + '%');
      chart.lines = chart.lines || chart.paths.map(path => stretches(path, chart.area));
      const x = (from + part * (to - from) - first) / (last - first) * WIDE;
      let below = TALL;
      chart.lines.forEach((lines, at) => {
        const y = height(lines, x), value = chart.values[at];
        if (!value) return;
        value[1].textContent = y === null ? 'not known' : show((below - y) / TALL * chart.top, chart.unit);
        if (chart.area && y !== null) below = y;
      });
    }
    told.textContent = part === null ? full(from + offset) + ' to ' + full(to + offset) : full(from + part * (to - from) + offset);
  }

  const fingers = new Map();
  let drag = null, pinch = null;
  for (const chart of charts) {
    const part = event => {
      const edge = chart.svg.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - edge.left) / edge.width));
    };
    const time = part => from + part * (to - from);
    const forget = () => { drag = null; chart.chosen.setAttribute('width', 0); };
    chart.svg.addEventListener('pointerdown', event => {
      if (event.button) return;
      box.focus({preventScroll: true, focusVisible: false});
      fingers.set(event.pointerId, part(event));
      try { chart.svg.setPointerCapture(event.pointerId); } catch { /* a pointer of a script */ }
      forget();
      if (fingers.size === 2) {
        const [a, b] = [...fingers.values()].map(time);
        pinch = [a, b];
      } else if (event.pointerType === 'mouse' || event.pointerType === 'pen') drag = {at: part(event)};
      else if (from > first || to < last) drag = {at: part(event), pan: from};
    });
    chart.svg.addEventListener('pointermove', event => {
      const here = part(event);
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, here);
      if (pinch && fingers.size === 2) {
        const [a, b] = [...fingers.values()];
        if (Math.abs(b - a) > .02) {
          const length = (pinch[1] - pinch[0]) / (b - a);
          if (length > 0) { const start = pinch[0] - a * length; zoom(start, start + length); }
        }
        return;
      }
      if (drag && 'pan' in drag) {
        const length = to - from, start = Math.max(first, Math.min(last - length, drag.pan + (drag.at - here) * length));
        zoom(start, start + length);
      } else if (drag) {
        chart.chosen.setAttribute('x', Math.min(drag.at, here) * 100 + '%');
        chart.chosen.setAttribute('width', Math.abs(here - drag.at) * 100 + '%');
      }
      point(here);
    });
    const up = event => {
      fingers.delete(event.pointerId);
      if (fingers.size < 2) pinch = null;
      const here = part(event);
      if (drag && !('pan' in drag) && event.type === 'pointerup' && Math.abs(here - drag.at) > .01) {
        const [a, b] = [time(Math.min(drag.at, here)), time(Math.max(drag.at, here))];
        zoom(a, b);
      }
      forget();
    };
    chart.svg.addEventListener('pointerup', up);
    chart.svg.addEventListener('pointercancel', up);
    chart.svg.addEventListener('pointerleave', () => { if (!drag) point(null); });
    chart.svg.addEventListener('dblclick', () => zoom(first, last));
    chart.svg.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.metaKey && !box.contains(document.activeElement)) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / 1000);
      else scale(event.deltaY > 0 ? 1.25 : .8, time(part(event)));
    }, {passive: false});
  }
  box.tabIndex = 0;
  box.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = {'+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'all', Escape: 'all'}[event.key];
    if (name) { event.preventDefault(); actions[name](); }
  });
  tools.addEventListener('click', event => { const name = event.target.dataset.do; if (name) actions[name](); });
  tools.hidden = box.querySelector('.help').hidden = false;
  for (const button of box.closest('.host').querySelectorAll('.incident button')) {
    button.hidden = false;
    button.addEventListener('click', () => {
      const a = +button.dataset.from, b = +button.dataset.to, around = Math.max(b - a, 6e4);
      zoom(a - around, b + around);
      box.focus({preventScroll: true});
      // To the first chart, unless it is all there to be seen already.
      const {top, bottom} = charts[0].svg.getBoundingClientRect();
      if (top < tools.offsetHeight || bottom > innerHeight) box.scrollIntoView({block: 'start'});
    });
  }
  // Words that are longer than the window stick to their end.
  const words = box.parentElement.querySelector('.words');
  const stick = () => { words.style.top = Math.min(8, innerHeight - words.offsetHeight - 8) + 'px'; };
  addEventListener('resize', () => { stick(); zoom(from, to); });
  stick();
  draw();
}
})();
