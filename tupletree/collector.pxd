# The bases of compiled classes are compiled: docs/adr/0016.
cdef class SpoutCollector:
    pass

cdef class BoltCollector:
    pass

cdef class BasicCollector:
    pass
