cimport cython

from tupletree.worker.core.chained_collector cimport ChainedCollector
from tupletree.worker.core.collectors cimport TaskSpoutCollector
from tupletree.worker.core.counts cimport Counters, TreeCounts
from tupletree.worker.core.task cimport Task
from tupletree.worker.core.pending_trees cimport PackedTrees

ctypedef unsigned long long u64

@cython.final
cdef class PendingTree:
    cdef readonly object msg_id
    cdef readonly double emitted_s
    cdef readonly TreeCounts counts

cdef class SpoutTask(Task):
    cdef public object spout, max_pending, _clock, tell_acked, tell_failed, rows, reasons, fail_because
    cdef public TaskSpoutCollector collector
    cdef public long long tracked, uncommitted
    cdef long long _sample_every
    cdef readonly PackedTrees pending
    cdef public bint is_dry
    cdef bint _is_deaf
    cdef ChainedCollector _chain
    cdef object _output
    cdef list _unsettled
    cdef readonly dict trees
    cdef readonly object first_stream
    cdef TreeCounts _first

    cpdef track(self, u64 root, u64 value, msg_id, counts)
    @cython.locals(counts=TreeCounts)
    cpdef acked_untracked(self, msg_id, stream)
    @cython.locals(is_fatal=bint)
    cpdef settle(self, msg_id, stream, error)
    @cython.locals(counters=Counters, unsettled=list, first=TreeCounts, counts=TreeCounts)
    cpdef _settle_all(self)
    @cython.locals(counters=Counters, tree=PendingTree, counts=TreeCounts)
    cpdef on_acked(self, roots)
    @cython.locals(collector=TaskSpoutCollector, first=cython.longlong, emits=cython.longlong,
                   left=cython.longlong, enough=cython.double)
    cpdef bint poll(self, Py_ssize_t most) except -1
