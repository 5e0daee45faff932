// Light, dark, or what the system prefers; kept in this browser.

const KEY = "tupletree.theme";
const ORDER = ["auto", "light", "dark"];
const listeners = new Set();

/** The chosen theme: auto, light or dark. */
export function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

/** Goes on to the next of auto, light, dark and returns it. */
export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // storage is denied: the choice holds for this page only
  }
  tell();
  return next;
}

/** Calls `listener` whenever colours have changed; returns what ends that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The colour that a token such as "--accent" has now, as the browser computes it. */
export function colour(token) {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function tell() {
  for (const listener of listeners) listener();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
