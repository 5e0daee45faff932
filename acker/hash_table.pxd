cimport cython

from tupletree.acker.root_hash cimport KeyedHash

ctypedef unsigned long long u64
ctypedef unsigned int u32
ctypedef unsigned char u8

@cython.final
cdef class Table:
    cdef readonly object roots, values, tasks, births, states, _next, _heads
    cdef u64[::1] root_view, value_view
    cdef u32[::1] task_view, birth_view
    cdef u8[::1] state_view
    cdef int[::1] _next_view, _head_view
    cdef readonly Py_ssize_t _buckets, _half, _count
    cdef KeyedHash _hash

    cpdef u64 hash_one(self, u64 root)
    @cython.locals(slot=Py_ssize_t)
    cpdef Py_ssize_t find_one(self, u64 root, u64 mixed) except? -2
    @cython.locals(slot=Py_ssize_t, count=Py_ssize_t, bucket=Py_ssize_t)
    cpdef int insert_one(self, u64 root, u64 mixed, u64 value, u32 task, u32 birth, int state) except -1
    @cython.locals(last=Py_ssize_t)
    cpdef int remove_one(self, Py_ssize_t slot, u64 mixed) except -1
    @cython.locals(bucket=Py_ssize_t, at=Py_ssize_t, after=Py_ssize_t)
    cdef int _redirect(self, Py_ssize_t slot, u64 mixed, Py_ssize_t to) except -1
    @cython.locals(bucket=Py_ssize_t)
    cdef Py_ssize_t _bucket_one(self, u64 mixed)
