// The state of one component: its size by task, the value of a key, and its entries a page at a time.

import { h, useState } from "../preact.js";
import { getExact, jsonText, path } from "../api.js";
import { to } from "../routes.js";
import { bytes, count, exact, num, passed, share, sized } from "../format.js";
import { Bar, Figures, Missing, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { EntryActions, Put } from "./state_actions.js";
import { checkpointOf, isUneven, MEASURED_S, SKEW } from "./states.js";

const PAGE = 50;
const MAX_SHOWN = 300;

export const requests = ({ params }) => ({
  states: [path(["topology", params.id, "states"], { component: params.component }), MEASURED_S, "long"],
});

export const title = ({ params }) => `State of ${params.component}`;

export function View({ data, errors, route, say }) {
  const { id, component } = route.params;
  const found = data.states?.components[0];
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["topology", id]) }, data.states?.topologyName ?? id), " / ",
        h("a", { href: to(["topology", id, "states"]) }, "states"), " / ", h("a", { href: to(["topology", id, "component", component]) }, component)),
      h("h1", null, `State of ${component}`)),
    found ? h(Content, { found, id, say }) : h(Missing, { error: errors.states, what: "state" }));
}

function Content({ found, id, say }) {
  const target = ["topology", id, "component", found.component, "state"];
  const actions = found.writeRefusal ? null : { target, say };
  const skew = (label, value) => [label, share(value), SKEW, isUneven(value, found.tasks.length) ? "warn" : null];
  return [
    h(Figures, { figures: [
      ["Keys", sized.keys(found)], ["Size", sized.bytes(found), "Encoded keys and values"],
      skew("Skew by keys", found.keySkew), skew("Skew by size", found.byteSkew),
      ["Tasks", count(found.tasks.length)], ["Provider", found.provider || "–"], ["Checkpoint", exact(checkpointOf(found)), "The last one that is committed"]] }),
    h(Section, { title: "Tasks" }, h(Tasks, { found })),
    found.largest.length > 0 && h(Section, { title: "Largest entries", aside: h("span", { class: "sub" }, "of those that were counted") }, h(Largest, { largest: found.largest })),
    h(Section, { title: "Look up a key", aside: actions && h(Put, actions) },
      found.writeRefusal && h("p", { class: "padded sub" }, `Read only: ${found.writeRefusal}.`),
      h(Lookup, { target, actions })),
    h(Section, { title: "Entries" }, h(Entries, { target, actions })),
  ];
}

function Tasks({ found }) {
  const part = (value) => h(Bar, { value, text: share(value), level: "ok" });
  const columns = [
    { id: "index", label: "Task", sort: (one) => one.index, cell: (one) => String(one.index) },
    { id: "keys", label: "Keys", figure: true, sort: (one) => num(one.keys), cell: (one) => sized.keys(one) },
    { id: "keyShare", label: "Share of keys", figure: true, sort: (one) => num(one.keyShare), cell: (one) => part(one.keyShare) },
    { id: "bytes", label: "Size", figure: true, sort: (one) => num(one.bytes), cell: (one) => sized.bytes(one) },
    { id: "byteShare", label: "Share of size", figure: true, sort: (one) => num(one.byteShare), cell: (one) => part(one.byteShare) },
    { id: "checkpoint", label: "Checkpoint", figure: true, sort: (one) => num(one.committedTxid), cell: (one) => exact(one.committedTxid) },
    { id: "measured", label: "Measured", cell: (one) => (one.failure ? h("span", { class: "wrap level-warn" }, one.failure) : passed(one.ageSeconds)) },
  ];
  return h(Table, { caption: "Tasks with a state", columns, rows: found.tasks, rowKey: (one) => one.index, sortBy: "index" });
}

function Largest({ largest }) {
  const columns = [
    { id: "key", label: "Key", cell: (one) => h("span", { class: "wrap mono" }, short(jsonText(one.key))) },
    { id: "bytes", label: "Key and value", figure: true, cell: (one) => bytes(one.bytes) },
    { id: "task", label: "Task", cell: (one) => String(one.task) },
  ];
  return h(Table, { caption: "Largest entries", columns, rows: largest, rowKey: (one) => `${one.task} ${jsonText(one.key)}`, narrow: true });
}

/** What is asked for once, when somebody wants to know: [the answer, the problem, ask(query)]. */
function useAnswer(target) {
  const [answer, setAnswer] = useState({ page: null, problem: "" });
  const ask = async (query) => {
    try {
      setAnswer({ page: await getExact(path(target, query)), problem: "" });
    } catch (error) {
      setAnswer({ page: null, problem: error.message });
    }
  };
  return [answer.page, answer.problem, ask];
}

function Lookup({ target, actions }) {
  const [page, problem, ask] = useAnswer(target);
  const [query, setQuery] = useState(null);
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const key = form.get("key");
    const asked = { ...(form.get("form") === "json" ? { keys: `[${key}]` } : { keys: JSON.stringify([key]) }), live: form.get("which") === "live" ? "true" : "" };
    setQuery(asked);
    ask(asked);
  };
  return [
    h("form", { class: "padded inline-form", onSubmit: submit },
      h("label", { class: "field" }, h("span", null, "Key"), h("input", { name: "key", type: "text", autocomplete: "off" })),
      h("label", { class: "field" }, h("span", null, "Written as"), h("select", { name: "form" }, h("option", { value: "text" }, "a text"), h("option", { value: "json" }, "JSON: 5, [\"a\", 1]"))),
      h("label", { class: "field" }, h("span", null, "Value"), h("select", { name: "which" }, h("option", { value: "committed" }, "of the last checkpoint"), h("option", { value: "live" }, "live, as the bolt has it now"))),
      h("button", { type: "submit" }, "Look up")),
    problem && h("p", { class: "problem", role: "alert" }, problem),
    page && h(Rows, { caption: "Value of the key", page, actions, again: () => ask(query), empty: "No task has this key." }),
  ];
}

function Entries({ target, actions }) {
  const [page, problem, ask] = useAnswer(target);
  const [after, setAfter] = useState("");
  const turn = (position) => {
    setAfter(position);
    ask({ limit: PAGE, after: position });
  };
  return [
    h("nav", { class: "padded tools", "aria-label": "Entries" },
      h("button", { type: "button", class: "small", onClick: () => turn("") }, page ? "From the start" : "Show entries"),
      page?.next && h("button", { type: "button", class: "small", onClick: () => turn(page.next) }, "Next entries"),
      h("span", { class: "sub" }, "of the last checkpoint, by task")),
    problem && h("p", { class: "problem", role: "alert" }, problem),
    page && h(Rows, { caption: "Entries", page, actions, again: () => turn(after), empty: "No entries." }),
  ];
}

function Rows({ caption, page, actions, again, empty }) {
  const columns = [
    { id: "task", label: "Task", cell: (one) => String(one.task) },
    { id: "key", label: "Key", cell: (one) => h("span", { class: "wrap mono" }, short(jsonText(one.key))) },
    { id: "value", label: "Value", cell: (one) => h("span", { class: "wrap mono" }, one.leftOut ? `left out: ${bytes(one.bytes)}` : short(jsonText(one.value))) },
    { id: "bytes", label: "Size of the value", figure: true, cell: (one) => bytes(one.bytes) },
    actions && { id: "actions", label: h("span", { class: "hidden" }, "Actions"), cell: (one) => h(EntryActions, { ...actions, entry: one, done: again }) },
  ].filter(Boolean);
  return h(Table, { caption, columns, rows: page.entries, rowKey: (one) => `${one.task} ${jsonText(one.key)}`, empty });
}

const short = (text) => (text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);
