"""What users are told of a failure in Spark. The texts are what Spark 4.3 says, shortened."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException

from tupletree.attempt import TransactionAttempt
from tupletree.errors import ReportedFailedException, UnavailableError
from tupletree.spark.failures import batch_failed, explain, is_own_fault, is_session_lost

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/lib/site-packages/tupletree/spark/source.py", line 95, in __call__
    yield from record_batches(self._source.read(self._splits[index]), self._schema)
  File "/home/ann/words.py", line 10, in read
    raise ValueError(f"no such thing {split}")
ValueError: no such thing [1]

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""

JAVA = """An error occurred while calling o201.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING] Malformed records are detected: [null].
Parse Mode: FAILFAST.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.malformed(QueryExecutionErrors.scala:1617)
"""


def test_of_a_python_worker_the_users_frames_are_left() -> None:
    sentence, lines = explain(PythonException(WORKER))
    assert sentence == "ValueError: no such thing [1]"
    assert lines.splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/ann/words.py", line 10, in read',
        '    raise ValueError(f"no such thing {split}")',
        "ValueError: no such thing [1]",
    ]


def test_where_no_frame_is_the_users_all_are_shown() -> None:
    sentence, lines = explain(PythonException(WORKER.replace("/home/ann/words.py", "/lib/tupletree/spark/text.py")))
    assert sentence == "ValueError: no such thing [1]"
    assert "source.py" in lines and "text.py" in lines and "scala" not in lines


def test_of_java_the_innermost_cause_is_the_sentence() -> None:
    class Py4JError(Exception):
        __module__ = "py4j.protocol"

    assert explain(Py4JError(JAVA)) == ("[MALFORMED_RECORD_IN_PARSING] Malformed records are detected: [null].", "")


def test_of_sparks_own_errors_the_first_line_is_the_sentence_without_the_plan() -> None:
    error = AnalysisException("[UNRESOLVED_COLUMN] A column with name `zzz` cannot be resolved.\n'Project ['zzz]\n+- R")
    assert explain(error)[0] == "[UNRESOLVED_COLUMN] A column with name `zzz` cannot be resolved."


def test_an_exception_of_this_process_has_its_users_frames() -> None:
    try:
        raise KeyError("word")
    except KeyError as error:
        sentence, lines = explain(error)
    assert sentence == "KeyError: 'word'"
    assert "test_spark_failures.py" in lines


def test_the_report_names_attempt_step_and_splits_and_carries_the_traceback_as_a_note() -> None:
    splits = [[f"file{n}", 0, 10] for n in range(8)]
    failed = batch_failed(TransactionAttempt(7, (2 << 32) + 5), splits, "processing", PythonException(WORKER))
    assert isinstance(failed, ReportedFailedException)
    assert str(failed).startswith(
        "transaction 7 (attempt 2.5), processing: ValueError: no such thing [1]; the batch is"
    )
    assert "['file4', 0, 10], and 3 more]" in str(failed)
    assert "words.py" in failed.__notes__[0]


def test_what_is_away_is_not_the_batchs_fault() -> None:
    assert not is_own_fault(UnavailableError("the database is away"))
    assert is_own_fault(PythonException(WORKER))


def test_what_a_python_worker_finds_away_is_not_the_batchs_fault_either() -> None:
    away = "tupletree.errors.UnavailableError: broker b:9092 does not answer"
    assert not is_own_fault(PythonException(WORKER.replace("ValueError: no such thing [1]", away)))


def refused(*files: str) -> ConnectionError:
    """What a connection raises that code in a file tried to make: in the last one, which those before it called."""
    code = "raise ConnectionRefusedError(111, 'Connection refused')"
    for file in reversed(files):
        code = f"exec(compile({code!r}, {file!r}, 'exec'))"
    try:
        exec(code)
    except ConnectionError as error:
        return error
    raise AssertionError


def test_a_session_is_lost_with_its_jvm_and_not_with_an_error_of_a_job() -> None:
    class Py4JError(Exception):
        __module__ = "py4j.protocol"

    answered = Py4JError(JAVA)
    answered.java_exception = object()  # type: ignore[attr-defined]
    assert is_session_lost(Py4JError("An error occurred while calling o41.range"))
    assert is_session_lost(refused("/lib/site-packages/py4j/clientserver.py"))
    assert not is_session_lost(refused("/home/ann/save.py")), "it was another server that refused"
    assert is_session_lost(refused("/lib/site-packages/pyspark/serializers.py", "/usr/lib/python3.11/socket.py"))
    assert not is_session_lost(refused("/lib/site-packages/pyspark/sql/dataframe.py", "/home/ann/enrich.py"))
    assert not is_session_lost(answered)
    assert not is_session_lost(PythonException(WORKER))


class Py4JJavaError(Exception):
    """What Java raised and PySpark has no exception of its own for."""

    __module__ = "py4j.protocol"
    java_exception = object()


CALLING = "An error occurred while calling o201.collectToPython.\n: "


@pytest.mark.parametrize(
    "error",
    [
        Py4JJavaError(f"{CALLING}java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
        Py4JJavaError(f"{CALLING}org.apache.spark.SparkException: Job 7 cancelled because SparkContext was shut down"),
        Py4JJavaError(
            f"{CALLING}org.apache.spark.SparkException: Exception thrown in awaitResult:\n\tat U.a(U:7)\n"
            "Caused by: org.apache.spark.SparkException: Job 7 cancelled because SparkContext was shut down\n"
        ),
        PySparkException("(org.apache.spark.SparkSQLException) [INVALID_HANDLE.SESSION_NOT_FOUND] Invalid."),
        PySparkException("[NO_ACTIVE_SESSION] No active Spark session found. Please create a new Spark session."),
    ],
)
def test_a_session_is_lost_with_its_context_though_the_jvm_answers(error: Exception) -> None:
    assert is_session_lost(error)


@pytest.mark.parametrize(
    "error",
    [
        PythonException(WORKER.replace("ValueError: no such thing [1]", "ValueError: SparkContext was shut down")),
        PySparkException("[CAST_INVALID_INPUT] The value 'SparkContext was shut down' cannot be cast"),
        PySparkException("[USER_RAISED_EXCEPTION] Cannot call methods on a stopped SparkContext"),
        RuntimeError("no level in the line 'SparkContext was shut down'"),
    ],
)
def test_a_row_that_tells_of_a_lost_session_is_none(error: Exception) -> None:
    assert not is_session_lost(error)


def test_a_call_of_a_method_that_java_does_not_have_is_the_callers_mistake() -> None:
    class Py4JError(Exception):
        __module__ = "py4j.protocol"

    for called in ("o41.limit", "z:org.apache.spark.sql.functions.lit"):
        error = Py4JError(
            f"An error occurred while calling {called}. Trace:\n"
            "py4j.Py4JException: Method limit([class java.lang.String]) does not exist\n"
            "\tat py4j.reflection.ReflectionEngine.getMethod(ReflectionEngine.java:318)\n"
        )
        assert not is_session_lost(error)
        assert explain(error)[0] == "Method limit([class java.lang.String]) does not exist"


def test_a_user_s_code_may_be_in_a_directory_of_our_name() -> None:
    place = "/home/ann/tupletree/examples/words.py"
    assert place in explain(PythonException(WORKER.replace("/home/ann/words.py", place)))[1]
