# What of tuples.py is C where it is compiled: docs/adr/0016.
cimport cython

ctypedef unsigned long long u64

@cython.final
cdef class Origin:
    cdef public object component, task, stream, first
    cdef public tuple fields
    cdef public dict index
    cdef public list siblings
    cdef public Py_ssize_t first_task

    cpdef Origin of_task(self, Py_ssize_t task)
    @cython.locals(tup=Tuple)
    cpdef Tuple new_tuple(self, list values, u64 root, u64 edge, object pairs)
    @cython.locals(tup=Tuple)
    cpdef Tuple tuple_at(self, list columns, Py_ssize_t at, u64 root, u64 edge, object pairs)

cdef class Tuple:
    cdef public list _columns, _values
    cdef public Py_ssize_t _at
    cdef public u64 _root, _edge, _children
    cdef public Origin _origin
    cdef public object _pairs
    cdef public bint _is_settled

    @cython.locals(origin=Origin, position=Py_ssize_t, column=list)
    cpdef _named(self, field)
    @cython.locals(columns=list, column=list, row=list, at=Py_ssize_t, count=Py_ssize_t, position=Py_ssize_t)
    cdef list _row(self)
