// What an operator can do to dead letters: replay and drop one, or all that were there when the page was read.

import { h, useState } from "../preact.js";
import { path, post } from "../api.js";
import { exact } from "../format.js";
import { Ask } from "../parts/dialog.js";

/** The buttons, and the dialog of the one that was pressed. `letter`: one, or all of the store, or of a topology, until then. */
export function Actions({ store, letter, topology, until, say, gone }) {
  const [asked, setAsked] = useState(null);
  const all = { topology, until };
  const button = (name, text, classes) => h("button", { type: "button", class: classes, onClick: () => setAsked(DIALOGS[name](store, letter, all)) }, text);
  const what = letter ? "" : " all";
  const done = (letters) => {
    if (asked.danger) gone?.();
    say(`${asked.said}: ${exact(letters)}.`);
  };
  return h("div", { class: "buttons", role: "group", "aria-label": "Actions on letters" },
    !letter?.isReplayed && button("replay", `Replay${what}…`), button("drop", `Drop${what}…`, "warns"),
    asked && h(Ask, { ...asked, close: () => setAsked(null), done }));
}

const DIALOGS = { replay, drop };

function replay(store, letter, all) {
  return {
    title: `Replay ${subject(store, letter, all)}?`, verb: "Replay", said: "Letters to be replayed",
    text: "The DeadLetterSpout of the topology emits the rows. A letter leaves the store when its row is processed.",
    act: () => change(store, letter, "replay", all),
  };
}

function drop(store, letter, all) {
  return {
    title: `Drop ${subject(store, letter, all)}?`, danger: true, verb: "Drop", said: "Letters dropped",
    text: letter ? "The letter is deleted for good." : "The letters are deleted for good, other than those that were stored after this page was read.",
    act: () => change(store, letter, "drop", all),
  };
}

function subject(store, letter, { topology }) {
  if (letter) return `letter ${letter.id.slice(0, 8)} of ${store}`;
  return topology ? `all letters of ${topology} in ${store}` : `all letters in ${store}`;
}

/** The number of letters that were changed. Nimbus changes some thousand at a time. */
async function change(store, letter, verb, all) {
  if (letter) return (await post(path(["dead-letters", store, letter.id, verb]))).letters;
  let changed = 0;
  for (;;) {
    const { letters, isComplete } = await post(path(["dead-letters", store, verb], all));
    changed += letters;
    if (isComplete) return changed;
  }
}
