cimport cython

from tupletree.collector cimport BoltCollector, SpoutCollector
from tupletree.tuples cimport Tuple
from tupletree.worker.core.ids cimport RandomIds
from tupletree.worker.core.output_streams cimport Port, OutStream
from tupletree.worker.core.routing cimport One
from tupletree.worker.core.tree_tracker cimport TreeTracker

ctypedef unsigned long long u64

@cython.locals(out=OutStream)
cpdef OutStream find_stream(dict streams, task, stream)

@cython.locals(first=Port)
cpdef tuple receivers(ports)

cpdef tuple stream_and_values(component_id, given)

@cython.final
cdef class TaskSpoutCollector(SpoutCollector):
    cdef public TreeTracker _task  # exchanged while trees are followed (tracing.py)
    cdef dict _streams
    cdef RandomIds _ids
    cdef object _first_stream
    cdef dict _others
    cdef list _staged, _targets
    cdef object _owner
    cdef public long long emits, emits_until

    cpdef bint has_room(self)
    @cython.locals(out=OutStream, chooser=One, port=Port)
    cpdef tuple emit(self, values, msg_id=*, stream=*)
    cpdef emit_tree(self, rows, msg_id=*)
    @cython.locals(out=OutStream, chooser=One)
    cpdef stage(self, stream, values)
    cpdef unstage(self)
    @cython.locals(out=OutStream, port=Port, task=TreeTracker, rows=list, targets=list, at=Py_ssize_t, count=Py_ssize_t,
                   root=u64, value=u64, edge=u64, has_edges=bint)
    cpdef emit_staged(self, msg_id)
    @cython.locals(port=Port, task=TreeTracker, root=u64, value=u64, edge=u64)
    cpdef _send(self, OutStream out, row, msg_id, ports)

@cython.final
cdef class TaskBoltCollector(BoltCollector):
    cdef public TreeTracker _task  # exchanged while trees are followed (tracing.py)
    cdef public object anchor
    cdef dict _streams
    cdef RandomIds _ids

    @cython.locals(out=OutStream, chooser=One, port=Port)
    cpdef tuple emit(self, values, anchors=*, stream=*)
    @cython.locals(anchor=Tuple, edge=u64)
    cpdef _append(self, Port port, row, anchors)
    @cython.locals(out=OutStream, held=list, chooser=One, port=Port, tup=Tuple, is_tracked=bint, root=u64,
                   edge=u64, value=u64, count=Py_ssize_t, edges=Py_ssize_t)
    cpdef emit_combined(self, rows, inputs, stream=*)
    @cython.locals(tup=Tuple, task=TreeTracker, root=u64, value=u64)
    cpdef ack_many(self, tuples)
    @cython.locals(root=u64, value=u64)
    cpdef ack(self, Tuple tup)
    @cython.locals(children=u64, edge=u64)
    cpdef _ack_pairs(self, Tuple tup)
