"""Metrics of all processes of a cluster, read as Prometheus reads them and sent to a receiver that cannot scrape.

nimbus: targets --> /metrics of each process --> Reading --> OTLP over HTTP, or statsd over UDP
"""
