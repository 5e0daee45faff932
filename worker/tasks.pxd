cimport cython

from tupletree.tuples cimport Origin, Tuple
from tupletree.worker.batches cimport Rows
from tupletree.worker.collectors cimport TaskBasicCollector, TaskBoltCollector, TaskSpoutCollector

ctypedef unsigned long long u64

cdef class Task:
    cdef public object component_id, task_id, context, counters, updates, _env
    cdef public dict streams
    cdef public bint is_open, is_declared_blocking, must_yield

cdef class BasicBoltTask(Task):
    cdef public object bolt
    cdef public TaskBasicCollector collector

    @cython.locals(
        collector=TaskBasicCollector, values=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict,
        acks=dict, failed=Py_ssize_t, at=Py_ssize_t, tree=u64, ack=u64, root=u64, edge=u64, tup=Tuple,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)

cdef class BoltTask(Task):
    cdef public object bolt
    cdef public TaskBoltCollector collector
    cdef object _sampled
    cdef double _sampled_s
    cdef long long _sample_every, _sample_at, _give_up_at

    @cython.locals(
        values=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, at=Py_ssize_t, tup=Tuple,
        executed=cython.longlong, sample_at=cython.longlong,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)

cdef class SpoutTask(Task):
    cdef public object spout, max_pending, pending, _clock
    cdef public TaskSpoutCollector collector
    cdef public bint is_tracked
    cdef public long long tracked

    cpdef track(self, u64 root, u64 value, msg_id)
    @cython.locals(collector=TaskSpoutCollector, first=cython.longlong, emits=cython.longlong)
    cpdef bint poll(self, Py_ssize_t times) except -1
