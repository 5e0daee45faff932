cimport cython

@cython.final
cdef class Rows:
    cdef readonly list columns
    cdef readonly object roots, edges
    cdef readonly dict pairs
    cdef readonly long long generation

@cython.final
cdef class Batch:
    cdef readonly object origin, target_task
    cdef readonly Rows rows
