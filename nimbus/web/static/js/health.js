// The verdict that nimbus gives (cluster/health), as findings with links: the first thing that a page says. Pure.
//
// Nothing is judged here: what is wrong, and how bad it is, says nimbus, as it does to `tupletree health`. A finding is
// {level: "bad" | "warn" | "note", text, href?, more?}, the worst first.

import { to } from "./routes.js";

const LEVELS = { down: "bad", degraded: "bad", warning: "warn", note: "note" };
const WORDS = { healthy: "Healthy", degraded: "Degraded", down: "Down" };

/**
 * What a page says first: {word, found}, for <Verdict>. `about` says which reasons are meant: of the whole cluster all,
 * of a topology, a component or a daemon its own; the word is then of the worst of these.
 */
export function verdictOf(health, about = () => true) {
  const faults = health.faults.filter(about);
  const status = faults.some((one) => one.severity === "down") ? "down" : faults.length ? "degraded" : "healthy";
  return { word: WORDS[status], found: [...faults, ...health.notes.filter(about)].map(finding) };
}

export const ofTopology = (id) => (one) => one.topologyId === id;
export const ofComponent = (id, component) => (one) => one.topologyId === id && one.component === component;
export const ofDaemon = (id) => (one) => one.subject === id;

function finding(reason) {
  return { level: LEVELS[reason.severity] ?? "warn", text: reason.sentence, href: placeOf(reason), more: reason.command };
}

function placeOf({ kind, subject, topologyId, component }) {
  if (topologyId) return to(component ? ["topology", topologyId, "component", component] : ["topology", topologyId]);
  const daemon = kind.split(".")[0];
  if (daemon === "acker") return subject === "ackers" ? to(["ackers"]) : to(["acker", subject]);
  return daemon === "supervisor" ? to(["supervisors"]) : undefined;
}
