// Where the boxes and lines of a topology's drawing stand. Pure: nodes and edges in, coordinates out.

import dagre from "../vendor/dagre.esm.js";

export const BOX = { width: 188, height: 78 };

/**
 * `names`: the components. `edges`: [{key, from, to, label}], several between two components allowed.
 * Returns {width, height, boxes: {name: {x, y}}, lines: {key: {points, label: {x, y}}}}; x and y are centres.
 */
export function layout(names, edges, direction = "LR") {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  const apart = names.length > 60 ? { nodesep: 18, ranksep: 90 } : { nodesep: 28, ranksep: direction === "LR" ? 110 : 64 };
  graph.setGraph({ rankdir: direction, ...apart, marginx: 12, marginy: 12, ranker: "longest-path" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { ...BOX });
  for (const edge of edges) {
    if (names.includes(edge.from) && names.includes(edge.to)) {
      graph.setEdge(edge.from, edge.to, { width: 64, height: 26, labelpos: "c" }, edge.key);
    }
  }
  dagre.layout(graph);
  const { width, height } = graph.graph();
  const boxes = Object.fromEntries(names.map((name) => [name, { x: graph.node(name).x, y: graph.node(name).y }]));
  const lines = Object.fromEntries(graph.edges().map((edge) => {
    const { points, x, y } = graph.edge(edge);
    return [edge.name, { points, label: nearestOnCurve(points, { x, y }) }];
  }));
  return { width, height, boxes, lines };
}

/** A smooth line along the points, as SVG's path data. */
export function curve(points) {
  const last = points.at(-1);
  const bends = bendsOf(points).map(({ by, to }) => ` Q${by.x},${by.y} ${to.x},${to.y}`);
  return `M${points[0].x},${points[0].y}${bends.join("")} L${last.x},${last.y}`;
}

/** The bends of the line: each from a point to another, drawn towards a third, which the line itself does not touch. */
function bendsOf(points) {
  let from = points[0];
  return points.slice(1, -1).map((by, at) => {
    const bend = { from, by, to: between(by, points[at + 2], 0.5) };
    from = bend.to;
    return bend;
  });
}

/** The middle of the bend that is nearest to a place: where the line's label stands. */
function nearestOnCurve(points, place) {
  const middles = bendsOf(points).map(({ from, by, to }) => between(between(from, by, 0.5), between(by, to, 0.5), 0.5));
  const far = (one) => Math.hypot(one.x - place.x, one.y - place.y);
  return middles.reduce((best, one) => (far(one) < far(best) ? one : best), middles[0] ?? between(points[0], points.at(-1), 0.5));
}

function between(one, other, share) {
  return { x: one.x + share * (other.x - one.x), y: one.y + share * (other.y - one.y) };
}
