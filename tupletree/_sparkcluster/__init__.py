"""Supervisors and ackers as the tasks of a Spark application: ``tupletree cluster``.

    application (this machine)                                executor of Spark, one a machine
    +----------------------------------------+                +------------------------------------+
    | Spark's driver, a job for each machine | -- task -----> | the task: starts, watches, ends    |
    | ZooKeeper and nimbus, if none is named | <-- session -- |   supervisor (+ its workers)       |
    +----------------------------------------+                |   acker, on the first machines     |
                                                              +------------------------------------+

A task that ends takes its daemons along, however it ends. Its job is started again by the application, on an executor
that Spark chooses, and its daemons register under new ids (ADR 0047).
"""
