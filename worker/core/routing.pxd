cimport cython

from tupletree.worker.core.key_hash cimport KeyHash

ctypedef unsigned long long u64

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

@cython.final
cdef class Shares:
    cdef readonly bint is_even
    cdef readonly list of

cdef class Shuffled(One):
    cdef list _order, _places, _saved
    cdef Py_ssize_t _next
    cdef Shares _shares
    @cython.locals(at=Py_ssize_t)
    cpdef object choose(self, values)
    @cython.locals(of=list, saved=list, places=list, count=Py_ssize_t, share=Py_ssize_t)
    cdef Py_ssize_t _whose_turn(self, Py_ssize_t at)

cdef class ByFields(One):
    cdef list _targets
    cdef object _key_of, _component, _names
    cdef Py_ssize_t _position
    cdef readonly dict _remembered
    cdef KeyHash _hash
    @cython.locals(at=Py_ssize_t, hashed=Py_ssize_t)
    cpdef object choose(self, values)

cdef class ByPartialKey(One):
    cdef list _targets, _positions, _sent
    cdef object _component, _names
    cdef KeyHash _hash
    @cython.locals(count=u64, hashed=Py_ssize_t, mixed=u64, first=u64, second=u64, chosen=Py_ssize_t)
    cpdef object choose(self, values)

cdef u64 _mix(u64 value) noexcept
