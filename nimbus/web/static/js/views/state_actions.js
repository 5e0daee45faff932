// What an operator can do to the entries of a state. The tasks make the change, and it is done when a checkpoint has it.

import { h, useState } from "../preact.js";
import { jsonText, path, post } from "../api.js";
import { exact } from "../format.js";
import { Ask, Field } from "../parts/dialog.js";

const WAIT_S = 60;
const LATER = "The task makes the change between two batches; this takes until a checkpoint has it.";

/** The button that asks for a new entry. */
export function Put({ target, say }) {
  const [isAsked, setAsked] = useState(false);
  return h("div", { class: "buttons" },
    h("button", { type: "button", class: "small", onClick: () => setAsked(true) }, "Put…"),
    isAsked && h(Ask, {
      title: "Put a value?", text: LATER, verb: "Put", close: () => setAsked(false), done: (done) => say(`The value is put, ${committed(done)}.`),
      fields: [
        h(Field, { label: "Key, as JSON", name: "key", type: "text", required: true, hint: 'A text has quotes: "apple", 5, ["a", 1]' }),
        h(Field, { label: "Value, as JSON", name: "value", type: "text", required: true }),
        h(Field, { label: "Task", name: "task", min: 0, hint: "Only where the fields grouping does not say which task has the key." })],
      act: (form) => put(target, { key: checked("key", form), value: checked("value", form), task: form.get("task") || "null" }),
    }));
}

/** The buttons of an entry that is shown. `done` is called after a change. */
export function EntryActions({ target, entry, say, done }) {
  const [asked, setAsked] = useState(null);
  const key = jsonText(entry.key);
  const button = (dialog, text, classes) => h("button", { type: "button", class: `small ${classes}`, "aria-label": `${text} ${key}`, onClick: () => setAsked(() => dialog) }, text);
  const finish = (said) => (result) => {
    say(`${said}, ${committed(result)}.`);
    done();
  };
  const dialog = asked?.(target, entry, key);
  return h("span", { class: "buttons" }, button(change, "Change…", ""), button(remove, "Delete…", "warns"),
    dialog && h(Ask, { ...dialog, close: () => setAsked(null), done: finish(dialog.said) }));
}

function change(target, entry, key) {
  const before = entry.leftOut ? "" : jsonText(entry.value);
  return {
    title: `Change the value of ${key}?`, text: LATER, verb: "Change", said: `${key} is changed`,
    fields: [
      h(Field, { label: "Value, as JSON", name: "value", type: "text", value: before, required: true }),
      !entry.leftOut && h("label", { class: "tools" }, h("input", { type: "checkbox", name: "checked", defaultChecked: true }), "Only if the bolt still has the value that is shown")],
    act: (form) => put(target, { key, value: checked("value", form), task: String(entry.task), ...(form.get("checked") ? { expected: before } : {}) }),
  };
}

function remove(target, entry, key) {
  return {
    title: `Delete ${key}?`, text: `Task ${entry.task} deletes the key. Tuples that come later make it anew.`, danger: true, verb: "Delete", said: `${key} is deleted`,
    act: () => send(target, "delete", `{"keys": [${key}], "task": ${entry.task}}`),
  };
}

/** Every part is a text of JSON, which keeps long numbers as they were typed. */
function put(target, entry) {
  const parts = Object.entries(entry).map(([name, json]) => `${JSON.stringify(name)}: ${json}`);
  return send(target, "put", `{"entries": [{${parts.join(", ")}}], "waitSeconds": ${WAIT_S}}`);
}

const send = (target, verb, body) => post(path([...target, verb]), body, (WAIT_S + 20) * 1000);

/** The text of a field, which must be JSON. */
function checked(name, form) {
  const text = form.get(name).trim();
  try {
    JSON.parse(text);
  } catch {
    throw new Error(`The ${name} is not JSON; a text has quotes: "apple".`);
  }
  return text;
}

function committed({ tasks }) {
  const txids = tasks.map((one) => one.committedTxid);
  return txids.length ? `committed with checkpoint ${exact(Math.max(...txids))}` : "and nothing had to be changed";
}
