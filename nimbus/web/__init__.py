"""REST and the web UI of nimbus: Storm's paths and fields over HTTP. See docs/rest.md."""
