// What is wrong, in sentences with links: the first thing that a page says. Pure.
//
// A finding is {level: "bad" | "warn" | "note", text, href?, more?}. bad: something does not work now. warn: it works,
// and somebody should look. note: as somebody wanted it, and good to know. "Lately" is the last ten minutes.

import { ago, count, num, plural, share } from "./format.js";
import { to } from "./routes.js";

const LATELY_S = 600;
const JUST_NOW_S = 120;
const SATURATED = 0.9;
const FAILING_SHARE = 0.01; // of the verdicts of ten minutes
const STARTING_S = 20; // as for `tupletree health`
const ORDER = { bad: 0, warn: 1, note: 2 };

/** Findings about the whole cluster, worst first. */
export function cluster({ nimbuses = [], supervisors = [], ackers = [], topologies = [], nowS }) {
  const found = [
    ...nimbusFindings(nimbuses),
    ...supervisorFindings(supervisors, topologies),
    ...ackerFindings(ackers, topologies),
    ...topologies.flatMap((one) => topologyFindings(one, nowS, `Topology ${one.name}`, to(["topology", one.id]))),
  ];
  return worstFirst(found);
}

/** Findings about one topology, its workers and components, worst first. `page` is of the window of ten minutes. */
export function topology(page, nowS) {
  const components = [...(page.spouts ?? []), ...(page.bolts ?? [])];
  return worstFirst([...topologyFindings({ ...page, ...totals(page), errorsLately: 0, failedLately: 0, capacity: null }, nowS, "It", undefined),
    ...components.flatMap((one) => componentFindings(one, nowS, nameOf(one), to(["topology", page.id, "component", nameOf(one)])))]);
}

/** Findings about one component; `now` are its figures in the window of ten minutes. */
export function component(page, now, nowS) {
  const errors = page.componentErrors ?? [];
  const congested = (page.executorStats ?? []).some((one) => one.congested);
  const found = componentFindings({ ...now, congested }, nowS, "It");
  const last = errors[0];
  if (last && secondsOf(last) > nowS - LATELY_S) {
    found.push({ level: "warn", text: "It reported an error", more: `${ago(secondsOf(last), nowS)}: ${last.message ?? ""}` });
  }
  return worstFirst(found);
}

/** What a topology's page says in all: of its spouts, bolts and workers. */
export function totals(page) {
  const sum = (rows, field) => (rows ?? []).reduce((total, one) => total + (num(one[field]) ?? 0), 0);
  return {
    emittedPerSecond: sum(page.spouts, "emittedPerSecond") + sum(page.bolts, "emittedPerSecond"),
    ackedPerSecond: sum(page.spouts, "ackedPerSecond"),
    pending: sum(page.spouts, "pending"),
    workersReady: page.workers ? page.workers.filter((one) => one.ready).length : null,
  };
}

/** Whether a component fails now, in words for its box; empty where it does not. Figures of ten minutes. */
export function failing(one, nowS) {
  if (one.errorTime && nowS - one.errorTime < JUST_NOW_S) return "error";
  const failed = num(one.failed) ?? 0;
  const verdicts = failed + (num(one.acked) ?? 0);
  return failed > 0 && failed >= FAILING_SHARE * verdicts ? `${count(failed)} failed` : "";
}

/** The Unix seconds of an error as the API gives it: lists say milliseconds. */
export function secondsOf(error) {
  return (num(error.errorTime) ?? 0) / 1000;
}

function nameOf(one) {
  return one.spoutId ?? one.boltId;
}

function nimbusFindings(nimbuses) {
  const found = [];
  if (nimbuses.length && !nimbuses.some((one) => one.status === "Leader")) {
    found.push({ level: "bad", text: "No nimbus leads", more: "topologies run on; nothing is scheduled" });
  }
  for (const one of nimbuses.filter((each) => each.status === "Offline")) {
    found.push({ level: "warn", text: `Nimbus ${one.host}:${one.port} does not answer` });
  }
  return found;
}

function supervisorFindings(supervisors, topologies) {
  if (supervisors.length) return [];
  return [{ level: topologies.length ? "bad" : "warn", text: "No supervisor is registered", href: to(["supervisors"]), more: "workers have nowhere to run" }];
}

function ackerFindings(ackers, topologies) {
  if (!ackers.length) return [{ level: topologies.length ? "bad" : "warn", text: "No acker is registered", href: to(["ackers"]), more: "spouts wait for one" }];
  return ackers.flatMap((one) => {
    const href = to(["acker", one.id]);
    const name = `Acker ${one.host}:${one.port}`;
    if (one.reachable === false) return [{ level: "bad", text: `${name} does not answer`, href }];
    if (one.draining) return [{ level: "note", text: `${name} is draining`, href }];
    if (one.ready === false && one.status !== "Unknown") return [{ level: "bad", text: `${name} is not ready`, href, more: (one.reasons ?? []).join("; ") }];
    return [];
  });
}

function topologyFindings(one, nowS, name, href) {
  const found = [];
  const say = (level, text, more) => found.push({ level, text: `${name} ${text}`, href, more });
  const wanted = num(one.workersTotal) ?? 0;
  const ready = num(one.workersReady);
  const starting = num(one.uptimeSeconds) < STARTING_S;
  if (one.status !== "KILLED" && one.schedulerInfo) say("bad", "is not scheduled", one.schedulerInfo);
  else if (one.status !== "KILLED" && ready !== null && ready < wanted) {
    say(starting ? "warn" : "bad", `has ${ready} of ${plural(wanted, "worker")} ready`, starting ? "it was just submitted" : "");
  }
  if (num(one.failedLately) > 0) say("warn", `failed ${plural(num(one.failedLately), "tuple tree")} lately`, num(one.timeoutsLately) > 0 ? `${count(one.timeoutsLately)} by timeout` : "");
  if (num(one.errorsLately) > 0) say("warn", `reported ${plural(num(one.errorsLately), "error")} lately`, one.lastErrors?.[0]?.message);
  if ((num(one.capacity) ?? 0) >= SATURATED) say("warn", "is saturated", `${one.busiest ?? "a bolt"} has capacity ${share(one.capacity)}`);
  if (one.status === "INACTIVE") say("note", "is not active", "its spouts emit nothing");
  if (one.status === "REBALANCING") say("note", "is being rebalanced", due(one, nowS));
  if (one.status === "KILLED") say("note", "is being killed", due(one, nowS));
  return found;
}

function due(one, nowS) {
  const left = Math.ceil((num(one.pendingDueUnixSeconds) ?? 0) - nowS);
  return left > 0 ? `in ${plural(left, "second")}` : "";
}

function componentFindings(one, nowS, name, href) {
  const found = [];
  const say = (level, text, more) => found.push({ level, text: `${name} ${text}`, href, more });
  const failed = num(one.failed) ?? 0;
  if (failed > 0) say("warn", `failed ${plural(failed, "tuple")} lately`, num(one.timeouts) > 0 ? `${count(one.timeouts)} by timeout` : "");
  if (one.errorTime && nowS - one.errorTime < LATELY_S) say("warn", "reported an error", `${ago(one.errorTime, nowS)}: ${one.lastError ?? ""}`);
  if ((num(one.capacity) ?? 0) >= SATURATED) say("warn", "is saturated", `capacity ${share(one.capacity)}: more executors would help`);
  if (one.congested) say("warn", "is congested", "what feeds it waits");
  return found;
}

function worstFirst(found) {
  return found.sort((left, right) => ORDER[left.level] - ORDER[right.level]);
}
