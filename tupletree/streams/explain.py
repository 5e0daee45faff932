"""The plan of a program, for people."""

from __future__ import annotations  # pure

from tupletree.streams.plan import Component, Plan


def explained(plan: Plan) -> str:
    """Return one paragraph for each component: its operators in order, and where its input comes from, and how."""
    return "\n".join(_paragraph(one) for one in plan.components) + "\n"


def _paragraph(component: Component) -> str:
    executors = f"{component.parallelism} executor" + ("s" if component.parallelism > 1 else "")
    lines = [f"{component.id}: {component.kind}, {executors}"]
    lines += [f"    from {edge.component}, stream {edge.stream}, {component.way(edge)}" for edge in component.inputs]
    titles = [one.title if not one.name else f"{one.title} '{one.name}'" for one in component.operators]
    lines.append(f"    runs {', '.join(titles)}")
    return "\n".join(lines)
