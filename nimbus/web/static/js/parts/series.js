// The past of a topology in three charts.

import { h } from "../preact.js";
import { count, millis, rate } from "../format.js";
import { Missing } from "./bits.js";
import { Chart, columns } from "./chart.js";

/** `series`: the answer of topology/{id}/series. `now`: the present figures of the page, with which the charts end. */
export function Series({ series, now, error }) {
  if (!series) return h(Missing, { error, what: "series" });
  const points = series.points ?? [];
  const { times, line } = columns(points.length && series.time ? [...points, { ...now, time: series.time }] : points);
  return h("div", { class: "charts" },
    h(Chart, { title: "Throughput", times, write: rate, syncKey: "topology", lines: [
      line("emitted", "emittedPerSecond", "--line-a"), line("acked", "ackedPerSecond", "--line-b"), line("failed", "failedPerSecond", "--line-c")] }),
    h(Chart, { title: "Complete latency", times, write: millis, syncKey: "topology", lines: [
      line("p50", "latencyP50", "--line-a"), line("p99", "latencyP99", "--line-c")] }),
    h(Chart, { title: "Pending tuple trees", times, write: count, syncKey: "topology", lines: [line("pending", "pending", "--line-a")] }));
}
