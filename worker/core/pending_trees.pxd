cimport cython

ctypedef unsigned long long u64

@cython.final
cdef class PackedTrees:
    cdef Py_ssize_t _live, _end, _old
    cdef readonly Py_ssize_t room
    cdef u64 _mask
    cdef u64[::1] _roots
    cdef unsigned int[::1] _index
    cdef list _entries

    @cython.locals(at=Py_ssize_t, slot=u64)
    cpdef add(self, u64 root, entry)
    @cython.locals(at=Py_ssize_t)
    cpdef pop(self, u64 root)
    @cython.locals(at=Py_ssize_t)
    cpdef get(self, u64 root)
    @cython.locals(words=cython.ulonglong[::1], places=cython.longlong[::1], entries=list, found=list, at=Py_ssize_t, place=Py_ssize_t)
    cpdef list pop_many(self, roots)
    cpdef put(self, u64 root, entry)
    @cython.locals(at=Py_ssize_t, slot=u64)
    cdef Py_ssize_t _place(self, u64 root) except -2
    cpdef _make_room(self)
    @cython.locals(fresh_roots=cython.ulonglong[::1], fresh_index=cython.uint[::1], fresh_entries=list, roots=cython.ulonglong[::1],
                   entries=list, at=Py_ssize_t, end=Py_ssize_t, old=Py_ssize_t, room=Py_ssize_t)
    cpdef _move_together(self)
