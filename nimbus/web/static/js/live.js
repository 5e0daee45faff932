// Keeps one view's set of answers fresh: asks all of it, waits two seconds, asks again; only while the page can be seen.
//
//   ok -----(nobody answers)------> lost        what was known stays on the page, and is said to be old
//   ok -----(503: nobody leads)---> no leader   likewise
//   lost, no leader --(answers)---> ok          by itself, without a reload

import { get, getLong, Refusal, Unreachable } from "./api.js";

export const PERIOD_MS = 2000;

export class Live {
  /** `changed` is called with {data, errors, connection, reason, atS, sinceS} after every round. */
  constructor(changed) {
    this.changed = changed;
    this.requests = {};
    this.round = 0;
    this.askedS = {}; // when each was answered last
    this.timer = null;
    this.state = { data: {}, errors: {}, connection: "starting", reason: "", atS: null, sinceS: null };
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.now()));
    addEventListener("online", () => this.now());
  }

  /**
   * Follow other requests: by name a path, or [path, seconds] for what need not be asked so often, or with a third item
   * "long" for keys of users, which may be long numbers. Answers to requests that are gone are forgotten, the others are
   * kept.
   */
  follow(requests) {
    const { data, errors } = this.state;
    const same = (name) => JSON.stringify(this.requests[name]) === JSON.stringify(requests[name]);
    const kept = (all) => Object.fromEntries(Object.entries(all).filter(([name]) => same(name)));
    this.state = { ...this.state, data: kept(data), errors: kept(errors) };
    this.requests = requests;
    if (Object.keys(this.state.data).length < Object.keys(data).length) this.changed(this.state); // no view shows another's data
    this.now();
  }

  /** Ask for everything at once, for example after an action. */
  now() {
    this.askedS = {};
    this.again();
  }

  again() {
    this.pause();
    if (!document.hidden) this.ask(this.round);
  }

  pause() {
    clearTimeout(this.timer);
    this.round += 1; // whatever is under way comes too late
  }

  async ask(round) {
    const nowS = Date.now() / 1000;
    const names = Object.keys(this.requests).filter((name) => this.isDue(name, nowS));
    const answers = new Map(); // by path: two names may have the same one
    for (const name of names) {
      const where = pathOf(this.requests[name]);
      if (!answers.has(where)) answers.set(where, this.requests[name][2] === "long" ? getLong(where) : get(where));
    }
    const results = await Promise.allSettled(names.map((name) => answers.get(pathOf(this.requests[name]))));
    if (round !== this.round) return;
    for (const [at, name] of names.entries()) if (results[at].status === "fulfilled") this.askedS[name] = nowS;
    this.take(names, results);
    this.timer = setTimeout(() => this.again(), PERIOD_MS);
  }

  isDue(name, nowS) {
    const request = this.requests[name];
    return typeof request === "string" || !(nowS - (this.askedS[name] ?? 0) < request[1]);
  }

  take(names, results) {
    const nowS = Date.now() / 1000;
    const failures = results.filter((one) => one.status === "rejected").map((one) => one.reason);
    const lost = failures.find((one) => one instanceof Unreachable);
    const leaderless = failures.find((one) => one instanceof Refusal && one.status === 503);
    const connection = lost ? "lost" : leaderless ? "no leader" : "ok";
    const reason = (lost ?? leaderless)?.message ?? "";
    const sinceS = connection === this.state.connection ? this.state.sinceS : nowS;
    const data = { ...this.state.data };
    const errors = {};
    for (const [at, name] of names.entries()) {
      if (results[at].status === "fulfilled") data[name] = results[at].value;
      else errors[name] = results[at].reason;
      if (results[at].reason instanceof Refusal && connection === "ok") delete data[name];
    }
    this.state = { data, errors, connection, reason, sinceS, atS: connection === "ok" ? nowS : this.state.atS };
    this.changed(this.state);
  }
}

/** Every how many seconds a view's answers are new: the shortest pause of its requests. */
export function periodS(requests) {
  return Math.min(...Object.values(requests).map((one) => (typeof one === "string" ? PERIOD_MS / 1000 : one[1])), Infinity);
}

function pathOf(request) {
  return typeof request === "string" ? request : request[0];
}
