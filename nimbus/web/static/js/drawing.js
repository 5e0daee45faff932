// What a topology's page and its visualization say, as boxes and lines for the drawing. Pure.

import { count, num } from "./format.js";
import { to } from "./routes.js";

const JUST_NOW_S = 120;
const FAILING_SHARE = 0.01; // of the verdicts of ten minutes

/**
 * `page`: topology/{id} of ten minutes. `picture`: topology/{id}/visualization, by component, with the streams that each
 * receives. A line's rate is what its source emits a second, shared out as the streams were in the last ten minutes.
 */
export function drawing(page, picture, nowS) {
  const spouts = (page.spouts ?? []).map((one) => box(page, one, one.spoutId, "spout", nowS));
  const bolts = (page.bolts ?? []).map((one) => box(page, one, one.boltId, "bolt", nowS));
  const boxes = [...spouts, ...bolts];
  const byName = new Map(boxes.map((one) => [one.name, one]));
  const lines = [];
  for (const one of boxes) {
    for (const input of picture[one.name]?.[":inputs"] ?? []) {
      const from = byName.get(input[":component"]);
      if (!from) continue;
      const stream = input[":stream"];
      lines.push({ key: `${from.name}\n${stream}\n${one.name}`, from: from.name, to: one.name, stream, grouping: input[":grouping"] });
    }
  }
  for (const line of lines) {
    const siblings = lines.filter((one) => one.from === line.from);
    line.perS = byName.get(line.from).emittedPerS * streamShare(picture[line.from], line.stream, siblings);
  }
  return { boxes, lines };
}

function box(page, one, name, kind, nowS) {
  return {
    name, kind, href: to(["topology", page.id, "component", name]),
    executors: num(one.executors) ?? 0,
    emittedPerS: num(one.emittedPerSecond) ?? 0,
    perS: num(kind === "spout" ? one.emittedPerSecond : one.executedPerSecond),
    capacity: kind === "spout" ? null : num(one.capacity),
    failing: kind === "spout" && page.bolts?.some(isFaulty) ? "" : failing(one, nowS),
  };
}

/** Whether a component has a remark that is more than advice. */
const isFaulty = (one) => Boolean(one.remark) && one.remarkKind !== "component.blocks";

/** Whether a component fails now, in words for its box; empty where it does not. Figures of ten minutes. */
function failing(one, nowS) {
  if (isFaulty(one)) return "see health";
  if (one.errorTime && nowS - one.errorTime < JUST_NOW_S) return "error";
  const failed = num(one.failed) ?? 0;
  const verdicts = failed + (num(one.acked) ?? 0);
  return failed > 0 && failed >= FAILING_SHARE * verdicts ? `${count(failed)} failed` : "";
}

/** Which share of what a component emitted went to a stream: a tuple counts as transferred for each that takes it. */
function streamShare(component, stream, siblings) {
  const streams = new Set([stream, ...siblings.map((one) => one.stream)]);
  if (streams.size === 1) return 1;
  const emitted = (name) => (num(component?.[":transferred"]?.[name]) ?? 0) / siblings.filter((one) => one.stream === name).length;
  const all = [...streams].reduce((total, name) => total + emitted(name), 0);
  return all > 0 ? emitted(stream) / all : 0;
}
