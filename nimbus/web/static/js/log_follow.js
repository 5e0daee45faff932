// Follows the logs of several workers: the end of each first, then what is added, while the page can be seen.

import { get, path } from "./api.js";

const PERIOD_MS = 2000;
const FIRST_BYTES = 32 * 1024;
const MAX_BYTES = 512 * 1024;
const MAX_LINES = 4000;
const TIME = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}[.,]?\d*/;

export class LogFollower {
  /** `workers`: [{host, port}]. `changed({lines, problems})` is called with all lines that are kept, oldest first. */
  constructor(topologyId, file, workers, changed) {
    this.places = workers.map((one) => ({ ...one, file: `${topologyId}/${one.port}/${file}`, next: null, rest: "", time: "" }));
    this.changed = changed;
    this.lines = [];
    this.number = 0;
    this.running = true;
    this.paused = false;
    this.timer = null;
    this.look();
  }

  stop() {
    this.running = false;
    clearTimeout(this.timer);
  }

  async look() {
    if (!document.hidden && !this.paused) {
      const problems = (await Promise.all(this.places.map((place) => this.read(place)))).filter(Boolean);
      if (!this.running) return;
      this.lines = this.lines.slice(-MAX_LINES);
      this.changed({ lines: this.lines, problems });
    }
    if (this.running) this.timer = setTimeout(() => this.look(), PERIOD_MS);
  }

  /** Reads what is new of one worker; returns why it could not. */
  async read(place) {
    const query = { file: place.file, host: place.host, length: place.next === null ? FIRST_BYTES : MAX_BYTES };
    try {
      const answer = await get(path(["log"], place.next === null ? query : { ...query, start: place.next }));
      const begins = place.next === null && answer.start > 0;
      if (place.next !== null && answer.start !== place.next && answer.length > 0) place.rest = "";
      place.next = answer.next;
      this.take(place, answer.data, begins);
      return "";
    } catch (error) {
      return `${place.host}:${place.port}: ${error.message}`;
    }
  }

  take(place, text, begins) {
    const parts = (place.rest + text).split("\n");
    place.rest = parts.pop();
    if (begins) parts.shift(); // it began in the middle of a line
    for (const line of parts) {
      place.time = TIME.exec(line)?.[0] ?? place.time; // lines of a traceback belong to the one before
      this.lines.push({ number: (this.number += 1), from: `${place.host}:${place.port}`, time: place.time, line, level: levelOf(line) });
    }
    this.lines.sort((left, right) => (left.time < right.time ? -1 : left.time > right.time ? 1 : left.number - right.number));
  }
}

function levelOf(line) {
  return /\b(CRITICAL|ERROR|WARNING)\b/.exec(line.slice(0, 80))?.[1] ?? "";
}
