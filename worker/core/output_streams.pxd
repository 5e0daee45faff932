cimport cython

from tupletree.tuples cimport Origin
from tupletree.worker.core.batches cimport Rows
from tupletree.worker.core.id_columns cimport IdColumns
from tupletree.worker.core.routing cimport One

ctypedef unsigned long long u64

@cython.final
cdef class OutBuffer:
    cdef readonly OutStream stream
    cdef readonly Origin origin
    cdef readonly object tasks
    cdef readonly unsigned int target, source
    cdef readonly bint ignores_gate
    cdef list _full, _columns
    cdef dict _pairs, _by_source
    cdef list _streams
    cdef Py_ssize_t _first_source
    cdef Py_ssize_t _size, _room
    cdef long long _sealed
    cdef IdColumns _ids
    cdef object _targets, _sources
    cdef unsigned int[::1] _target_at, _source_at

    @cython.locals(position=Py_ssize_t, column=list, count=Py_ssize_t)
    cpdef append(self, unsigned int source, unsigned int target, values, u64 root, u64 edge)
    cpdef append_multi(self, unsigned int source, unsigned int target, values, pairs)
    @cython.locals(stream=OutStream, sources=cython.uint[::1], at=Py_ssize_t)
    cpdef count_out(self, Rows rows)

@cython.final
cdef class Port:
    cdef public OutBuffer buffer
    cdef readonly OutStream stream
    cdef readonly unsigned int task, source
    cdef readonly object place
    cdef readonly bint ignores_gate
    cdef readonly tuple receivers
    cdef public long long sent

    cpdef append(self, values, u64 root, u64 edge)
    cpdef append_multi(self, values, pairs)

@cython.final
cdef class OutStream:
    cdef readonly Origin origin
    cdef readonly Py_ssize_t batch_size, arity
    cdef readonly bint is_direct, is_report
    cdef public dict ports
    cdef public list shuffles
    cdef public object direct_tasks
    cdef public One choose_one
    cdef public object choose_many, observe
    cdef public long long emitted, appended, transferred, generation

    cpdef checked(self, values)
