cimport cython

from tupletree.acker.hash_table cimport Table

ctypedef unsigned long long u64
ctypedef unsigned int u32
ctypedef unsigned char u8

cdef int OPEN, FAILED, COHORT

@cython.final
cdef class Ended:
    cdef object _tasks, _roots
    cdef u32[::1] _task_view
    cdef u64[::1] _root_view
    cdef Py_ssize_t _count

    cdef int add(self, u32 task, u64 root) except -1

@cython.final
cdef class Entries:
    cdef readonly Table table
    cdef readonly Py_ssize_t trees
    cdef readonly dict births
    cdef readonly int cohort
    cdef object _totals, _is_dead, _late
    cdef list _live_cohorts
    cdef long long[::1] _cohort_sizes
    cdef u8[::1] _dead_view
    cdef long long _dead, _change
    cdef u32 _born

    cpdef Py_ssize_t find_one(self, u64 root, u64 mixed) except? -2
    cdef int add_one(self, u64 root, u64 mixed, u64 value, u32 task, u32 born, int flags) except -1
    @cython.locals(old=cython.int, new=cython.int)
    cdef int touch_one(self, Py_ssize_t slot, int flags=*) except -1
    cdef int record_init_one(self, Py_ssize_t slot, u32 task) except -1
    cdef int end_one(self, Py_ssize_t slot, u64 root, u64 mixed, Ended ended) except -1
    cdef int _count_tree(self, u32 born, int change) except -1
    cpdef flush_counts(self)
