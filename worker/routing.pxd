cimport cython

cdef class One:
    cpdef object choose(self, values)

cdef class Watched(One):
    cdef One _inner
    cdef object _see
    cdef long long _passed_over
    cpdef object choose(self, values)

cdef class Fixed(One):
    cdef object _target
    cpdef object choose(self, values)

cdef class Shuffled(One):
    cdef list _order
    cdef Py_ssize_t _next
    @cython.locals(at=Py_ssize_t)
    cpdef object choose(self, values)

cdef class ByFields(One):
    cdef object _targets, _key_of, _component, _names
    cdef Py_ssize_t _position
    cdef readonly dict _remembered
    @cython.locals(at=Py_ssize_t)
    cpdef object choose(self, values)
