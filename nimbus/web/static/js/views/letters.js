// The letters of one store, newest first, a page at a time.

import { h, useEffect, useState } from "../preact.js";
import { path } from "../api.js";
import { setQuery, to } from "../routes.js";
import { count, exact, plural } from "../format.js";
import { Missing, Pill, Section, When } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { Actions } from "./letter_actions.js";

export const requests = ({ params, query }) => ({
  letters: [path(["dead-letters", params.store], { topology: query.topology, after: query.after }), 10],
});
export const title = ({ params }) => `Dead letters in ${params.store}`;

export function View({ route, data, errors, nowS, say }) {
  const { params, query } = route;
  const page = data.letters;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to(["dead-letters"]) }, "Dead letters"), " / ", h("span", { class: "mono" }, page?.address ?? params.store)),
      h("h1", null, params.store),
      page && h("span", { class: "sub" }, page.count === null ? "no file yet on nimbus's machine" : `${exact(page.count)} ${page.count === 1 ? "letter" : "letters"}`),
      page?.letters.length > 0 && h(Actions, { store: params.store, topology: query.topology, until: page.readUnixSeconds, say })),
    h(Section, { title: "Letters", aside: h(Filter, { topology: query.topology }) },
      page ? h(Letters, { store: params.store, page, nowS, topology: query.topology })
        : h("div", { class: "padded" }, h(Missing, { error: errors.letters, what: "letters" })),
      page?.damaged.length > 0 && h("p", { class: "padded" }, `${plural(page.damaged.length, "damaged entry", "damaged entries")} skipped: ${page.damaged.join(", ")}. 'tupletree dead-letters drop' deletes them.`),
      page && (query.after || page.next) && h(Pages, { store: params.store, query, page })));
}

/** The text is kept here until it is entered: the page is drawn anew meanwhile. */
function Filter({ topology = "" }) {
  const [text, setText] = useState(topology);
  useEffect(() => setText(topology), [topology]);
  return h("input", { type: "search", placeholder: "Topology", "aria-label": "Only letters of the topology", value: text,
    onInput: (event) => setText(event.target.value), onChange: (event) => setQuery({ topology: event.target.value.trim(), after: "" }) });
}

function Pages({ store, query, page }) {
  const { topology } = query;
  return h("nav", { class: "padded tools", "aria-label": "Letters" },
    query.after && h("a", { href: to(["dead-letters", store], { topology }) }, "Newest letters"),
    page.next && h("a", { href: to(["dead-letters", store], { topology, after: page.next }) }, "Older letters"));
}

function Letters({ store, page, nowS, topology }) {
  const columns = [
    { id: "id", label: "Id", cell: (one) => h("a", { href: to(["dead-letters", store, one.id]), class: "mono" }, one.id.slice(0, 8)) },
    { id: "stored", label: "Stored", cell: (one) => h(When, { at: one.storedUnixSeconds, now: nowS }) },
    { id: "topology", label: "Topology", cell: (one) => one.topology },
    { id: "message", label: "Message", cell: (one) => h("span", { class: "wrap" }, one.message) },
    { id: "values", label: "Values", cell: (one) => h("span", { class: "wrap" }, one.values) },
    { id: "attempts", label: "Attempts", figure: true, cell: (one) => count(one.attempts) },
    { id: "component", label: "Failed in", cell: (one) => one.component || "–" },
    { id: "error", label: "Error", cell: (one) => h("span", { class: "wrap" }, one.error || "–") },
    { id: "replay", label: "Replay", cell: (one) => (one.isReplayed ? h(Pill, { text: "requested", level: "warn" }) : "–") },
  ];
  const empty = topology ? `There is no letter of ${topology} here.` : "There is no letter here.";
  return h(Table, { caption: `Letters, ${plural(page.letters.length, "letter")} shown`, columns, rows: page.letters, rowKey: (one) => one.id, empty });
}
