"""The service: one process that observes clusters, decides, acts, and says why it waits.

`trimtab.decide` decides. This package brings it events, writes every state and decision down before it takes
effect, and carries the decisions out by `trimtab.executions`. It starts no JVM and no Spark.
"""
