cimport cython

ctypedef unsigned int u32

cdef u32 _ASCII_END, _MASK

@cython.final
cdef class KeyHash:
    cdef u32[::1] _of_texts, _table
    cdef u32 _begun

    cpdef Py_ssize_t of(self, key) except? -1

    @cython.locals(crc=u32, code=u32, character=Py_UCS4)
    cdef Py_ssize_t _of_text(self, str text) except? -1

    @cython.locals(crc=u32, power=int, shift=int)
    cdef Py_ssize_t _of_number(self, Py_ssize_t number) noexcept
