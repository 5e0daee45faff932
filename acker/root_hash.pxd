cimport cython

ctypedef unsigned long long u64

cdef u64 _WORD

@cython.final
cdef class KeyedHash:
    cdef u64 _xor, _first, _second
    cdef object _keys

    @cython.locals(mixed=u64)
    cpdef u64 one(self, u64 root) noexcept
