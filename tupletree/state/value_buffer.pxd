cdef class ValueBuffer:
    cdef public object default_factory, _namespace
    cdef public dict _values, _live
    cdef public bint _is_whole

    cdef object _find(self, key)
    cdef object _change(self, key, value)
