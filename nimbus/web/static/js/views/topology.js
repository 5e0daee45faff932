// One topology: what is wrong, what it does now, its drawing, its past, its parts; and what can be done to it.

import { h, useState } from "../preact.js";
import { path } from "../api.js";
import { setQuery, to } from "../routes.js";
import { count, duration, millis, num, rate, windowName } from "../format.js";
import { ofTopology, verdictOf } from "../health.js";
import { Choice, Errors, Figures, Missing, Pill, Section, Verdict } from "../parts/bits.js";
import { Graph } from "../parts/graph.js";
import { Keys } from "../parts/keys.js";
import { drawing } from "../drawing.js";
import { Series } from "../parts/series.js";
import { Actions, canRollBack, versionName } from "./topology_actions.js";
import { Bolts, Spouts, Windows, Workers } from "./topology_tables.js";
import { Observation } from "./topology_observation.js";

const WINDOWS = ["600", "10800", "86400", ":all-time"];

const SHAPE_S = 10; // which streams there are never changes, and how they share out what is emitted, slowly

export function requests({ params, query }) {
  const window = query.window || "600";
  return {
    topology: path(["topology", params.id], { window, sys: query.sys }),
    now: path(["topology", params.id], { window: "600", sys: query.sys }),
    picture: [path(["topology", params.id, "visualization"], { window: "600", sys: query.sys }), SHAPE_S],
    series: path(["topology", params.id, "series"]),
    health: "cluster/health",
    levels: path(["topology", params.id, "logconfig"]),
  };
}

export const title = ({ params }, data) => data.topology?.name ?? params.id;

export function View(props) {
  const { data, errors, route } = props;
  const gone = errors.topology?.status === 404;
  if (data.topology && data.now && data.health) return h(Content, { ...props, topology: data.topology });
  return h("div", null,
    h("div", { class: "title" }, h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster")), h("h1", null, route.params.id)),
    gone ? h("p", null, "Topology not found; it may have been killed: ", h("a", { href: to(["history", route.params.id]) }, "show its history"), " or ", h("a", { href: to([]) }, "all topologies"), ".")
      : h(Missing, { error: errors.topology, what: "topology" }));
}

function Content({ topology, data, errors, route, nowS, say }) {
  const { query } = route;
  const window = query.window || "600";
  return h("div", null,
    h(Title, { topology, say }),
    h(Verdict, verdictOf(data.health, ofTopology(topology.id))),
    h(Figures, { figures: figures(data.now) }),
    h(Section, { title: "Components and streams", aside: h("span", { class: "sub" }, "capacity of the last ten minutes, rates of the last seconds") },
      data.picture ? h(Graph, drawing(data.now, data.picture, nowS)) : h(Missing, { error: errors.picture, what: "drawing" })),
    h(Section, { title: "Over time", aside: h("span", { class: "sub" }, "the last ten minutes, in steps of five seconds") }, h(Series, { series: data.series, now: totals(data.now), error: errors.series })),
    h(Section, { title: "Spouts", aside: h(WindowChoice, { window, sys: query.sys }) }, h(Spouts, { topology, nowS })),
    h(Section, { title: "Bolts", aside: h("span", { class: "sub" }, windowName(window)) }, h(Bolts, { topology, nowS })),
    h("div", { class: "columns" },
      h(Section, { title: "Workers", aside: h("a", { href: to(["topology", topology.id, "logs"]) }, "All logs together") }, h(Workers, { topology, say })),
      h(Section, { title: "Windows" }, h(Windows, { topology }))),
    h(Section, { title: "Errors" }, h(Errors, { errors: topology.topologyErrors ?? [], now: nowS, where: (error) => whereOf(topology, error), empty: "No errors reported." })),
    h(Section, { title: "Debugging and logging" }, h(Observation, { topology, levels: data.levels, error: errors.levels, say })),
    h(Configuration, { values: topology.configuration ?? {} }));
}

function Configuration({ values }) {
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState(false);
  const field = h("input", { type: "search", placeholder: "Search keys and values", "aria-label": "Search the configuration", value: search, onInput: (event) => setSearch(event.target.value) });
  const button = h("button", { type: "button", class: "small", "aria-expanded": String(open), onClick: () => setOpen(!open) }, open ? "Hide" : `Show all ${Object.keys(values).length}`);
  return h(Section, { title: "Configuration", aside: h("div", { class: "tools" }, field, button) },
    (open || search) && h(Keys, { values, search, caption: "Configuration of the topology" }));
}

function Title({ topology, say }) {
  return h("div", { class: "title" },
    h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / topology ", h("span", { class: "mono" }, topology.id)),
    h("h1", null, topology.name), h(Pill, { text: topology.status }),
    canRollBack(topology) && h("span", { class: "sub" }, `runs ${versionName(num(topology.updateNumber))}${topology.updateIsStarting ? ", which is starting" : ""}`),
    h("div", { class: "buttons" },
      h("a", { href: to(["topology", topology.id, "transactions"]) }, "Batches and checkpoints"),
      h("a", { href: to(["topology", topology.id, "states"]) }, "States"),
      h("a", { href: to(["topology", topology.id, "logs"]) }, "Logs"),
      h(Actions, { topology, say })));
}

/** The window of tables and charts; system components on or off. */
export function WindowChoice({ window, sys }) {
  return h("div", { class: "tools" },
    h("label", { class: "sub" }, h("input", { type: "checkbox", checked: sys === "true", onChange: (event) => setQuery({ sys: event.target.checked ? "true" : "" }) }), "system streams"),
    h(Choice, { label: "Window", name: "window", options: WINDOWS.map((one) => [one, windowName(one)]), value: window, choose: (value) => setQuery({ window: value === "600" ? "" : value }) }));
}

/** What a topology's page says in all: of its spouts, bolts and workers. System components are left out, as in the series. */
function totals(page) {
  const shown = (rows) => (rows ?? []).filter((one) => !isSystem(one.spoutId ?? one.boltId));
  const sum = (rows, field) => shown(rows).reduce((total, one) => total + (num(one[field]) ?? 0), 0);
  return {
    emittedPerSecond: sum(page.spouts, "emittedPerSecond") + sum(page.bolts, "emittedPerSecond"),
    ackedPerSecond: sum(page.spouts, "ackedPerSecond"),
    pending: sum(page.spouts, "pending"),
    workersReady: page.workers ? page.workers.filter((one) => one.ready).length : null,
  };
}

/** True of components of the system, as in nimbus. */
function isSystem(name) {
  return name.startsWith("__") || name.startsWith("$");
}

function figures(topology) {
  const all = totals(topology);
  const lately = topology.topologyStats?.find((one) => one.window === "600") ?? {};
  return [
    ["Emitted", rate(all.emittedPerSecond), "Tuples emitted per second by spouts and bolts"],
    ["Acked", rate(all.ackedPerSecond), "Tuple trees acked per second"],
    ["Failed, 10 min", count(lately.failed), "Tuple trees that failed in the last ten minutes", num(lately.failed) > 0 ? "bad" : null],
    ["Latency p50, 10 min", millis(lately.completeLatencyPercentiles?.p50), "Median of the last ten minutes"],
    ["Latency p99, 10 min", millis(lately.completeLatencyPercentiles?.p99), "99th percentile of the last ten minutes"],
    ["Pending trees", count(all.pending), "Tuple trees that the spouts wait for now"],
    ["Workers ready", `${all.workersReady ?? "–"} of ${topology.workersTotal}`, "", all.workersReady < num(topology.workersTotal) ? "bad" : null],
    ["Uptime", duration(topology.uptimeSeconds)],
  ];
}

function whereOf(topology, error) {
  return h("a", { href: to(["topology", topology.id, "component", error.component]) }, error.component);
}
