cimport cython

from tupletree.worker.core.id_columns cimport IdColumns

ctypedef unsigned long long u64

@cython.final
cdef class AckUpdates:
    cdef public IdColumns acks, inits
    cdef public list init_tasks
    cdef public set fails, resets
    cdef public dict reasons
    cdef unsigned short[::1] _newest
    cdef Py_ssize_t _at

    @cython.locals(fresh=AckUpdates)
    cpdef AckUpdates successor(self)
    @cython.locals(acks=IdColumns, inits=IdColumns, at=Py_ssize_t)
    cpdef add_ack(self, u64 root, u64 value)
    @cython.locals(roots=cython.ulonglong[::1], values=cython.ulonglong[::1], at=Py_ssize_t)
    cpdef add_acks(self, AckUpdates other)
    cpdef add_init(self, u64 root, u64 value, task)
    cpdef add_lone_init(self, u64 root, u64 value, task)

@cython.locals(parts=list, part=AckUpdates, roots=cython.ulonglong[::1], values=cython.ulonglong[::1], at=Py_ssize_t)
cpdef dict split(AckUpdates updates, Py_ssize_t shards)
