// A dialog of the browser's own: it holds the focus, Esc closes it, and the focus goes back to where it was.

import { h, useEffect, useRef, useState } from "../preact.js";

/**
 * Asks before something is done. `act(form)` does it and may throw, which is shown and keeps the dialog open.
 * `fields` stand inside the form; `done(result)` is called after it was done, `close()` in any case.
 */
export function Ask({ title, text, fields, verb, danger, act, done, close }) {
  const dialog = useRef(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      done(await act(new FormData(event.target)));
      close();
    } catch (error) {
      setProblem(error.message);
      setBusy(false);
    }
  };
  return h("dialog", { ref: dialog, class: "ask", "aria-labelledby": "ask-title", onClose: close },
    h("form", { onSubmit: submit },
      h("h2", { id: "ask-title" }, title),
      h("p", null, text),
      fields,
      problem && h("p", { class: "problem", role: "alert" }, problem),
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "plain", autofocus: danger, onClick: () => dialog.current.close() }, "Cancel"),
        h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: busy }, busy ? "Asking…" : verb))));
}

/** A labelled field of a form; `hint` stands below it. */
export function Field({ label, name, value, type = "number", hint, ...more }) {
  const hintId = hint ? `hint-${name}` : null;
  return h("label", { class: "field" },
    h("span", null, label),
    h("input", { name, type, defaultValue: value, "aria-describedby": hintId, ...more }),
    hint && h("small", { id: hintId }, hint));
}
