// The live drawing of a topology: boxes are components, lines are streams. Where things stand is computed only when
// the topology's shape changes; what they say changes with every answer.

import { h, useEffect, useMemo, useRef, useState } from "../preact.js";
import { BOX, curve, layout } from "../layout.js";
import { plural, rate, share } from "../format.js";
import { capacityLevel } from "./bits.js";

const NAME_LETTERS = 22;
const ZOOM_STEP = 1.3;
const NARROW_PX = 640; // a window this narrow shows the drawing from top to bottom
const MIN_SCALE = 0.75; // below, names cannot be read: the drawing is then wider than its frame, and is moved

/**
 * `boxes`: [{name, href, kind, executors, perS, capacity, failed, errors}]; capacity and failures are of the last minutes.
 * `lines`: [{key, from, to, stream, grouping, perS}].
 */
export function Graph({ boxes, lines }) {
  const direction = window.innerWidth < NARROW_PX ? "TB" : "LR";
  const shape = JSON.stringify([direction, boxes.map((one) => one.name), lines.map((one) => one.key)]);
  const places = useMemo(() => layout(boxes.map((one) => one.name), lines, direction), [shape]);
  const frame = useRef(null);
  const [scale, setScale] = useState(null);
  useEffect(() => setScale(fitting(frame.current, places)), [shape]);
  const zoom = (factor) => setScale((now) => Math.min(2, Math.max(0.1, (now ?? 1) * factor)));
  const used = scale ?? 1;
  const most = Math.max(1, ...lines.map((one) => one.perS ?? 0));
  return h("div", { class: "graph" },
    h("div", { class: "graph-bar" },
      h(Legend),
      h("span", { class: "graph-zoom" },
        h("button", { type: "button", class: "plain small", onClick: () => zoom(1 / ZOOM_STEP), "aria-label": "Smaller" }, "−"),
        h("button", { type: "button", class: "plain small", onClick: () => zoom(ZOOM_STEP), "aria-label": "Larger" }, "+"),
        h("button", { type: "button", class: "plain small", onClick: () => setScale(whole(frame.current, places)) }, "Fit"))),
    h("div", { class: "graph-frame", ref: frame, tabIndex: 0, role: "region", "aria-label": "Drawing of the topology", ...drag(frame) },
      h("svg", { width: places.width * used, height: places.height * used, viewBox: `0 0 ${places.width} ${places.height}`,
        role: "group", "aria-label": `${plural(boxes.length, "component")}, ${plural(lines.length, "stream")}` },
      h("defs", null, h("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 9, markerHeight: 9, orient: "auto" },
        h("path", { d: "M0,0 L8,4 L0,8 z", class: "arrow-head" }))),
      lines.map((one) => h(Line, { key: one.key, line: one, place: places.lines[one.key], most })),
      boxes.map((one) => h(Box, { key: one.name, box: one, place: places.boxes[one.name] })))));
}

function Line({ line, place, most }) {
  if (!place) return null;
  const flows = (line.perS ?? 0) > 0;
  const thickness = flows ? 1.25 + 2.25 * Math.log1p(line.perS) / Math.log1p(most) : 1.25;
  const label = line.stream === "default" ? rate(line.perS) : `${short(line.stream, 14)} ${rate(line.perS)}`;
  return h("g", { class: `stream ${flows ? "flows" : "still"}` },
    h("title", null, `${line.from} → ${line.to}, stream ${line.stream}${line.grouping ? `, ${line.grouping} grouping` : ""}: ${rate(line.perS)}`),
    h("path", { d: curve(place.points), "stroke-width": thickness, "marker-end": "url(#arrow)" }),
    h("text", { x: place.label.x, y: place.label.y, "text-anchor": "middle" }, label));
}

function Box({ box, place }) {
  const level = box.failing ? "failing" : capacityLevel(box.capacity);
  const left = place.x - BOX.width / 2;
  const top = place.y - BOX.height / 2;
  const words = box.failing ? `failing: ${box.failing}` : box.capacity === null ? "" : `capacity ${share(box.capacity)}`;
  const said = `${box.kind} ${box.name}, ${plural(box.executors, "executor")}, ${rate(box.perS)}, ${words || "no capacity"}`;
  const filled = Math.max(0, Math.min(1, box.capacity ?? 0)) * (BOX.width - 20);
  return h("a", { href: box.href, class: `box ${level} ${box.kind}`, "aria-label": said },
    h("title", null, `${box.name} – ${words || box.kind}`),
    h("rect", { class: "box-frame", x: left, y: top, width: BOX.width, height: BOX.height, rx: box.kind === "spout" ? 20 : 7 }),
    h("text", { class: "box-name", x: left + 14, y: top + 23 }, short(box.name, NAME_LETTERS)),
    h("text", { class: "box-more", x: left + 14, y: top + 42 }, `${box.kind} · ${plural(box.executors, "executor")} · ${rate(box.perS)}`),
    h("text", { class: "box-state", x: left + 14, y: top + 60 }, box.failing ? `✕ ${words}` : words),
    box.capacity !== null && h("rect", { class: "box-track", x: left + 14, y: top + 66, width: BOX.width - 28, height: 4, rx: 2 }),
    box.capacity !== null && h("rect", { class: "box-fill", x: left + 14, y: top + 66, width: Math.min(filled, BOX.width - 28), height: 4, rx: 2 }));
}

function Legend() {
  const entries = [["idle", "capacity below 0.05"], ["ok", "below 0.7"], ["warn", "0.7 to 0.9"], ["bad", "0.9 and more"], ["failing", "✕ failing"]];
  return h("ul", { class: "graph-legend", "aria-label": "Legend" },
    entries.map(([level, text]) => h("li", { key: level }, h("span", { class: `swatch ${level}`, "aria-hidden": "true" }), text)),
    h("li", null, h("span", { class: "swatch round", "aria-hidden": "true" }), "spout"));
}

function fitting(frame, places) {
  return Math.max(MIN_SCALE, whole(frame, places));
}

function whole(frame, places) {
  if (!frame) return 1;
  return Math.min(1, (frame.clientWidth - 2) / places.width, places.height > 560 ? 560 / places.height : 1);
}

/** Moves what is in the frame with the mouse; links inside stay links unless the mouse was moved. */
function drag(frame) {
  let from = null;
  let moved = false;
  return {
    onPointerDown: (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      from = { x: event.clientX + frame.current.scrollLeft, y: event.clientY + frame.current.scrollTop };
      moved = false;
    },
    onPointerMove: (event) => {
      if (!from || !(event.buttons & 1)) return;
      const x = from.x - event.clientX;
      const y = from.y - event.clientY;
      if (Math.abs(x - frame.current.scrollLeft) + Math.abs(y - frame.current.scrollTop) > 6) moved = true;
      if (moved) frame.current.scrollTo(x, y);
    },
    onPointerUp: () => (from = null),
    onClickCapture: (event) => {
      if (moved) event.preventDefault();
      moved = false;
    },
    onDragStart: (event) => event.preventDefault(),
  };
}

function short(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}
