// Figures as people read them. Pure; every function takes what JSON may hold, and says "–" for what is not known.

const NONE = "–";
const THIN = "\u202f"; // narrow space that does not break, between figure and unit

/** A number out of a number or a decimal string; null for anything else. */
export function num(value) {
  if (value === null || value === undefined || value === "") return null;
  const found = Number(value);
  return Number.isFinite(found) ? found : null;
}

/** Three significant digits and a unit: 12, 1.23 k, 45.6 M. */
export function count(value) {
  const found = num(value);
  if (found === null) return NONE;
  const size = Math.abs(found);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return three(found / (unit === "k" ? 1e3 : limit)) + THIN + unit;
  }
  return Number.isInteger(found) ? String(found) : three(found);
}

/** The whole number, in groups of three. */
export function exact(value) {
  const found = num(value);
  return found === null ? NONE : Math.round(found).toString().replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** Tuples a second: 0/s, 0.4/s, 1.2 k/s. */
export function rate(value) {
  const found = num(value);
  if (found === null) return NONE;
  if (found >= 1e4) return `${count(found)}/s`;
  return `${found >= 100 || found === 0 ? Math.round(found) : three(found)}/s`;
}

/** Milliseconds as µs, ms or s. */
export function millis(value) {
  const found = num(value);
  if (found === null) return NONE;
  if (found === 0) return `0${THIN}ms`;
  if (found < 1) return three(found * 1000) + THIN + "µs";
  if (found < 1000) return three(found) + THIN + "ms";
  return duration(found / 1000);
}

/** A mean latency in milliseconds; Storm's "0.000" stands for nothing measured. */
export function latency(value) {
  return num(value) === 0 ? NONE : millis(value);
}

/** Seconds in at most two units: 8.1 s, 4 min 5 s, 3 d 4 h. */
export function duration(value) {
  const found = num(value);
  if (found === null) return NONE;
  if (found < 60) return (found < 10 ? Number(found.toFixed(1)) : Math.floor(found)) + THIN + "s";
  const whole = Math.floor(found);
  for (const [size, unit, below, lower] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / below);
    return `${Math.floor(whole / size)}${THIN}${unit}` + (rest ? ` ${rest}${THIN}${lower}` : "");
  }
  return NONE;
}

/** Bytes in binary units. */
export function bytes(value) {
  let found = num(value);
  if (found === null) return NONE;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (found < 1024 || unit === "GiB") return (unit === "B" ? String(found) : three(found)) + THIN + unit;
    found /= 1024;
  }
  return NONE;
}

/** Keys and bytes of a state, which may be known in part: 33, about 1.23 M, at least 10 k. */
export const sized = {
  keys: (one) => inPart(one, count(one.keys)),
  bytes: (one) => inPart(one, bytes(one.bytes)),
};

function inPart(one, text) {
  return one.precision && one.precision !== "exact" ? `${one.precision} ${text}` : text;
}

/** A share of 1 with two decimals, as capacity is given. */
export function share(value) {
  const found = num(value);
  return found === null ? NONE : found.toFixed(2);
}

/** How long before `nowS` something was, both Unix seconds. */
export function ago(unixS, nowS) {
  const found = num(unixS);
  if (!found) return NONE;
  return passed(nowS - found);
}

/** How long ago something was that was so many seconds ago. */
export function passed(seconds) {
  return seconds < 2 ? "just now" : `${duration(Math.floor(seconds))} ago`;
}

/** The local date and time of Unix seconds, to the second. */
export function clock(unixS) {
  const found = num(unixS);
  if (!found) return NONE;
  const at = new Date(found * 1000);
  const two = (part) => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

const WINDOWS = { 600: "10 min", 10800: "3 h", 86400: "1 day", ":all-time": "All time" };

/** A window of statistics, by its name in the API. */
export function windowName(window) {
  return WINDOWS[window] ?? window;
}

/** "1 worker", "2 workers". */
export function plural(number, noun, many = `${noun}s`) {
  return `${number} ${number === 1 ? noun : many}`;
}

function three(found) {
  const size = Math.abs(found);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return String(Number(found.toFixed(digits)));
}
