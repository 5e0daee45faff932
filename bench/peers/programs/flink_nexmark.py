"""Queries of Nexmark in Flink SQL, over events in a file. Prints the seconds that each job took, as a line of JSON.

    python -m bench.peers.programs.flink_nexmark WARM-UP.csv EVENTS.csv 2 q5 q7

The queries are those of the Nexmark suite for Flink. Query 6 is not among them: Flink has no OVER window on a stream
of updates. The results are thrown away. The time is from the start of the job until it is done with the last event.
"""

# pyflink is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call"

from __future__ import annotations

import json
import sys

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

EVENTS = """
CREATE TABLE events (
    kind STRING, id BIGINT, other BIGINT, price BIGINT, name STRING, city STRING, us_state STRING, category INT,
    expires_ms BIGINT, ts_ms BIGINT,
    expires AS TO_TIMESTAMP_LTZ(expires_ms, 3), ts AS TO_TIMESTAMP_LTZ(ts_ms, 3), arrival AS PROCTIME(),
    WATERMARK FOR ts AS ts - INTERVAL '0.5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'file://{file}', 'format' = 'csv')
"""
VIEWS = {
    "person": "SELECT id, name, city, us_state, ts FROM events WHERE kind = 'Person'",
    "auction": "SELECT id, other AS seller, category, expires, ts FROM events WHERE kind = 'Auction'",
    "bid": "SELECT id AS auction, other AS bidder, price, name AS channel, ts, arrival FROM events WHERE kind = 'Bid'",
}
TUMBLE = "TUMBLE(TABLE {table}, DESCRIPTOR({time}), INTERVAL '10' SECOND)"
HOP = "HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
COUNTS = (
    f"SELECT auction, COUNT(*) AS num, window_start, window_end FROM TABLE({HOP}) "
    "GROUP BY auction, window_start, window_end"
)
NEW = "SELECT {fields}, window_start, window_end FROM TABLE({window}) GROUP BY {fields}, window_start, window_end"
QUERIES = {
    "q0": "SELECT auction, bidder, price, channel, ts FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, channel, ts FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.us_state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND P.us_state IN ('OR', 'ID', 'CA')
    """,
    "q4": """
        SELECT category, AVG(highest) AS average FROM (
            SELECT MAX(B.price) AS highest, A.category FROM auction AS A, bid AS B
            WHERE A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires GROUP BY A.id, A.category
        ) GROUP BY category
    """,
    "q5": f"""
        SELECT A.auction, A.num FROM ({COUNTS}) AS A JOIN (
            SELECT MAX(num) AS most, window_start, window_end FROM ({COUNTS}) GROUP BY window_start, window_end
        ) AS M ON A.window_start = M.window_start AND A.window_end = M.window_end AND A.num >= M.most
    """,
    "q7": f"""
        SELECT B.auction, B.price, B.bidder, B.ts FROM bid AS B JOIN (
            SELECT MAX(price) AS highest, window_time AS closed
            FROM TABLE({TUMBLE.format(table="bid", time="ts")}) GROUP BY window_start, window_end, window_time
        ) AS H ON B.price = H.highest AND B.ts BETWEEN H.closed - INTERVAL '10' SECOND AND H.closed
    """,
    "q8": f"""
        SELECT P.id, P.name, P.window_start
        FROM ({NEW.format(fields="id, name", window=TUMBLE.format(table="person", time="ts"))}) AS P
        JOIN ({NEW.format(fields="seller", window=TUMBLE.format(table="auction", time="ts"))}) AS A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end
    """,
    "q11": """
        SELECT bidder, COUNT(*) AS bids, SESSION_START(ts, INTERVAL '10' SECOND) AS opened FROM bid
        GROUP BY bidder, SESSION(ts, INTERVAL '10' SECOND)
    """,
    "q12": f"""
        SELECT bidder, COUNT(*) AS bids, window_start FROM TABLE({TUMBLE.format(table="bid", time="arrival")})
        GROUP BY bidder, window_start, window_end
    """,
}


def seconds(file: str, query: str, parallelism: str) -> float:
    """Run the query over a file, and return the run time of the job."""
    configuration = Configuration()
    for key, value in {"parallelism.default": parallelism, "pipeline.object-reuse": "true"}.items():
        configuration.set_string(key, value)
    flink = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    flink.execute_sql(EVENTS.format(file=file))
    for name, view in VIEWS.items():
        flink.execute_sql(f"CREATE TEMPORARY VIEW {name} AS {view}")
    job = flink.sql_query(QUERIES[query]).execute_insert(TableDescriptor.for_connector("blackhole").build())
    return job.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000


def main(warm_up: str, file: str, parallelism: str, *queries: str) -> int:
    """Run each query twice: over the file ``warm_up``, so that the JVM has what it needs, then over ``file``."""
    for query in queries:
        seconds(warm_up, query, parallelism)
        print(json.dumps({"query": query, "seconds": seconds(file, query, parallelism)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
