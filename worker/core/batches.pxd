cimport cython

@cython.final
cdef class Rows:
    cdef readonly list columns
    cdef readonly object roots, edges, targets, sources
    cdef readonly dict pairs
    cdef readonly long long generation, size

    @cython.locals(columns=list, pairs=dict)
    cpdef Rows _taken(self, list chosen, bint is_of_one_source)

@cython.final
cdef class Batch:
    cdef readonly object origin, target_task
    cdef readonly Rows rows

@cython.locals(found=dict)
cpdef dict _positions(tasks)

@cython.locals(count=Py_ssize_t, step=Py_ssize_t, sampled=Py_ssize_t, total="long long", at=Py_ssize_t, column=list)
cpdef long long weigh(columns, Py_ssize_t count)

cpdef long long weight_of(value, int depth)
