"""`make demo`: word count on a whole cluster of this machine, with crashes on the way, compared with the truth.

In two acts: tuples through the workers, at least once; and the same text through Spark, exactly once.
"""
