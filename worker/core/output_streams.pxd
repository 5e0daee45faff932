cimport cython

from tupletree.tuples cimport Origin
from tupletree.worker.core.id_columns cimport IdColumns
from tupletree.worker.core.routing cimport One

ctypedef unsigned long long u64

@cython.final
cdef class OutBuffer:
    cdef readonly OutStream stream
    cdef readonly Origin origin
    cdef readonly object task
    cdef readonly tuple receivers
    cdef readonly bint ignores_gate
    cdef list _full, _columns
    cdef dict _pairs
    cdef Py_ssize_t _size
    cdef long long _sealed
    cdef IdColumns _ids

    @cython.locals(position=Py_ssize_t, column=list)
    cpdef append(self, values, u64 root, u64 edge)
    cpdef append_multi(self, values, pairs)

@cython.final
cdef class OutStream:
    cdef readonly Origin origin
    cdef readonly Py_ssize_t batch_size, arity
    cdef readonly bint is_direct, is_report
    cdef public dict buffers
    cdef public object direct_tasks
    cdef public One choose_one
    cdef public object choose_many, observe
    cdef public long long emitted, transferred, generation

    cpdef checked(self, values)
