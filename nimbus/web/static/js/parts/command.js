// A command to type, with a button that copies it.

import { h, useState } from "../preact.js";

export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  };
  return h("div", { class: "command" }, h("code", { tabIndex: 0 }, text),
    navigator.clipboard && h("button", { type: "button", class: "small", onClick: copy }, copied ? "Copied" : "Copy"));
}
