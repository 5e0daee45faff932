cimport cython

from tupletree.collector cimport BasicCollector, BoltCollector, SpoutCollector
from tupletree.tuples cimport Tuple
from tupletree.worker.ids cimport RandomIds
from tupletree.worker.outbox cimport OutBuffer, OutStream
from tupletree.worker.routing cimport One

ctypedef unsigned long long u64

@cython.locals(out=OutStream)
cpdef OutStream find_stream(dict streams, component, stream)

@cython.final
cdef class TaskSpoutCollector(SpoutCollector):
    cdef readonly object _task
    cdef dict _streams
    cdef RandomIds _ids
    cdef public long long emits

    @cython.locals(out=OutStream, row=list, chooser=One, buffer=OutBuffer)
    cpdef list emit(self, values, msg_id=*, stream=*)
    @cython.locals(buffer=OutBuffer, root=u64, value=u64, edge=u64)
    cpdef _send(self, list row, msg_id, buffers)

@cython.final
cdef class TaskBasicCollector(BasicCollector):
    cdef readonly object _task
    cdef dict _streams
    cdef OutStream _default
    cdef RandomIds _ids
    cdef public u64 root, children
    cdef public object pairs

    @cython.locals(out=OutStream, row=list, chooser=One, buffer=OutBuffer)
    cpdef list emit(self, values, stream=*)
    @cython.locals(buffer=OutBuffer)
    cpdef list _emit_to_many(self, OutStream out, list row)
    @cython.locals(root=u64, edge=u64)
    cpdef _append(self, OutBuffer buffer, list row)

@cython.final
cdef class TaskBoltCollector(BoltCollector):
    cdef readonly object _task
    cdef dict _streams
    cdef RandomIds _ids

    @cython.locals(out=OutStream, row=list, chooser=One, buffer=OutBuffer)
    cpdef list emit(self, values, anchors=*, stream=*)
    @cython.locals(anchor=Tuple, edge=u64)
    cpdef _append(self, OutBuffer buffer, list row, anchors)
    @cython.locals(root=u64, children=u64)
    cpdef ack(self, Tuple tup)
