// A chart of lines over time: uPlot draws, the legend is HTML, so that it can be read aloud and copied.

import { h, useEffect, useRef, useState } from "../preact.js";
import { clock, num } from "../format.js";
import { colour, onTheme } from "../theme.js";

const HEIGHT_PX = 150;
const STEPS_S = [1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600]; // between times of day below a chart: two fit on a phone
const DASHES = [[], [6, 4], [2, 3]]; // lines differ by their dashes too, not by colour alone

/**
 * `times`: Unix seconds, ascending. `lines`: [{label, values, token}], values as long as times, null where unknown.
 * `write(value)`: a figure with its unit. `syncKey`: charts with the same one share their cursor.
 */
export function Chart({ title, times, lines, write, syncKey }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const labels = lines.map((one) => one.label).join("|");
  const latest = useRef(null);
  latest.current = [times, ...lines.map((one) => one.values)];
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      plot.current = new window.uPlot(options(place.current.clientWidth, lines, write, syncKey, setAt), latest.current, place.current);
    };
    make();
    const forget = onTheme(make);
    const resizes = new ResizeObserver(() => plot.current.setSize({ width: place.current.clientWidth, height: HEIGHT_PX }));
    resizes.observe(place.current);
    return () => {
      forget();
      resizes.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [labels]);
  useEffect(() => plot.current?.setData(latest.current), [times, labels, lines.map((one) => one.values.at(-1)).join()]);
  const last = times.length - 1;
  const shown = at !== null && at < last ? at : last;
  const figure = (one) => write(one.values[shown] ?? (shown === last ? one.values[last - 1] : null)); // the last point may lack what is measured by steps
  const said = lines.map((one) => `${one.label} ${figure(one)}`).join(", ");
  return h("figure", { class: "chart" },
    h("figcaption", null,
      h("span", { class: "chart-title" }, title),
      h("span", { class: "chart-at" }, at !== null && times[shown] ? clock(times[shown]).slice(11) : ""),
      h("span", { class: "legend" }, lines.map((one, index) => h("span", { key: one.label, class: "legend-entry" },
        h("svg", { width: 16, height: 6, "aria-hidden": "true" },
          h("line", { x1: 0, x2: 16, y1: 3, y2: 3, class: "legend-line", style: { stroke: `var(${one.token})` }, "stroke-dasharray": DASHES[index % 3].join(" ") })),
        one.label, h("b", null, figure(one)))))),
    h("div", { class: "chart-canvas", ref: place, role: "img", "aria-label": `${title}: ${said}` }),
    times.length < 2 && h("p", { class: "chart-empty" }, "Data appears here within a few seconds."));
}

/** Points of a series, {time in milliseconds, figures by name}, as times in seconds and lines by name. */
export function columns(points) {
  const line = (label, name, token) => ({ label, token, values: points.map((one) => num(one[name])) });
  return { times: points.map((one) => one.time / 1000), line };
}

function options(width, lines, write, syncKey, setAt) {
  const quiet = colour("--text-3");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "11px Inter, system-ui, sans-serif";
  const axis = { stroke: quiet, grid, ticks: { show: false }, font };
  return {
    width, height: HEIGHT_PX, legend: { show: false },
    padding: [8, 28, 0, 0], // half of the last time of day fits on the right
    cursor: { sync: { key: syncKey }, points: { size: 5 }, drag: { x: false, y: false }, y: false },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, splits) => splits.map(hour), space: 70, size: 24, incrs: STEPS_S },
      { ...axis, size: 58, space: 36, values: (_, splits) => splits.map((one) => write(one)) },
    ],
    series: [{}, ...lines.map((one, index) => ({
      label: one.label, stroke: colour(one.token), width: 1.6, dash: DASHES[index % 3], points: { show: false }, spanGaps: false,
    }))],
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
  };
}

function hour(unixS) {
  const at = new Date(unixS * 1000);
  const two = (part) => String(part).padStart(2, "0");
  const seconds = at.getSeconds() ? `:${two(at.getSeconds())}` : "";
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds}`;
}
