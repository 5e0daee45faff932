"""Topologies as YAML, in the format of Storm's Flux, with Python classes. See docs/guides/flux.md.

    tupletree submit topology.yaml --filter production.properties

Source: https://storm.apache.org/releases/current/flux.html
"""

from tupletree.flux.build import FluxTopology, load_flux
from tupletree.flux.documents import read_properties
from tupletree.flux.schema import flux_schema, render_flux_schema

__all__ = ["FluxTopology", "flux_schema", "load_flux", "read_properties", "render_flux_schema"]
