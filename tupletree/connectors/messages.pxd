# What of messages.py is C where it is compiled: docs/adr/0016.
cimport cython

from tupletree._replay cimport Lane, Replay

cdef class _Message:
    cpdef tuple _values(self)

cdef class LogRecord(_Message):
    cdef public object data, position, next, metadata

cdef class SinkMessage(_Message):
    cdef public object data, id, topic, key

cdef class LogEmitter:
    cdef public object refused
    cdef Replay _replay
    cdef object _emit, _has_room, _format, _decode
    cdef list _picked
    cdef bint _is_raw

    @cython.locals(record=LogRecord)
    cpdef bint run(self, lane, records) except -1
    cpdef row(self, LogRecord record)
    cpdef emit(self, Lane lane, LogRecord record, row)
