cimport cython

from tupletree.collector cimport BasicCollector
from tupletree.worker.core.collectors cimport find_stream, receivers
from tupletree.worker.core.ids cimport RandomIds
from tupletree.worker.core.output_streams cimport Port, OutStream
from tupletree.worker.core.routing cimport One

ctypedef unsigned long long u64

@cython.final
cdef class TaskBasicCollector(BasicCollector):
    cdef readonly object _task
    cdef dict _streams
    cdef OutStream _default
    cdef RandomIds _ids
    cdef public u64 root, children
    cdef public object pairs

    @cython.locals(out=OutStream, chooser=One, port=Port)
    cpdef tuple emit(self, values, stream=*)
    @cython.locals(out=OutStream, chooser=One, count=Py_ssize_t)
    cpdef emit_many(self, rows, stream=*)
    @cython.locals(port=Port)
    cpdef tuple _emit_to_many(self, OutStream out, row)
    @cython.locals(root=u64, edge=u64)
    cpdef _append(self, Port port, row)
