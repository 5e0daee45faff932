// One dead letter: what was given up, where it failed last, and why.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { clock } from "../format.js";
import { Missing, Pill, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { Actions } from "./letter_actions.js";

export const requests = ({ params }) => ({ letter: [path(["dead-letters", params.store, params.letter]), 10] });
export const title = ({ params }) => `Letter ${params.letter.slice(0, 8)}`;

export function View({ route, data, errors, say }) {
  const { store, letter: id } = route.params;
  const letter = data.letter;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to(["dead-letters"]) }, "Dead letters"), " / ", h("a", { href: to(["dead-letters", store]) }, store), " / ", h("span", { class: "mono" }, id)),
      h("h1", null, `Letter ${id.slice(0, 8)}`),
      letter?.isReplayed && h(Pill, { text: "replay requested", level: "warn" }),
      letter && h(Actions, { store, letter, say, gone: () => location.assign(to(["dead-letters", store])) })),
    letter ? h(Content, { letter })
      : errors.letter?.status === 404
        ? h("p", null, "Letter not found: it was dropped, or replayed and processed. ", h("a", { href: to(["dead-letters", store]) }, "See all"), ".")
        : h(Missing, { error: errors.letter, what: "letter" }));
}

function Content({ letter }) {
  const rows = [
    ["Topology", letter.topology], ["Stored", clock(letter.storedUnixSeconds)], ["Message", letter.message], ["Values", letter.values],
    ["Stream", letter.stream], ["Failed attempts", String(letter.attempts)],
    ["Failed in", letter.component ? `${letter.component}, task ${letter.task}` : "no component"],
    ["Error", letter.error || "no reason was given"],
  ].map(([key, value]) => ({ key, value }));
  const columns = [
    { id: "key", label: "Field", cell: (one) => one.key },
    { id: "value", label: "Value", cell: (one) => one.value },
  ];
  return [
    h(Section, { title: "Letter" }, h("div", { class: "keys" }, h(Table, { caption: "Letter", columns, rows, rowKey: (one) => one.key }))),
    h(Section, { title: "Traceback" }, letter.traceback ? h("pre", { tabIndex: 0 }, letter.traceback)
      : h("p", { class: "none" }, "The failure came with no traceback.")),
  ];
}
