cimport cython

from tupletree.collector cimport SpoutCollector
from tupletree.worker.core.collectors cimport TaskSpoutCollector
from tupletree.worker.core.output_streams cimport OutStream

@cython.final
cdef class ChainedCollector(SpoutCollector):
    cdef object _chain, _context, _run
    cdef TaskSpoutCollector _collector
    cdef OutStream _input

    @cython.locals(collector=TaskSpoutCollector)
    cpdef tuple emit(self, values, msg_id=*, stream=*)
    cpdef bint _pass(self, values, msg_id) except -1
