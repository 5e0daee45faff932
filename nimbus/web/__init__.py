"""The REST API and web UI of nimbus, with Storm's paths and fields. See docs/rest.md."""
