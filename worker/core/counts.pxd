cimport cython

cdef double[::1] _BOUNDS_S

@cython.locals(bounds="double[::1]", low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, missing=Py_ssize_t)
cpdef count_in(list counts, double latency_s)

cdef class InputCounts:
    cdef public long long executed, acked, failed, process_samples
    cdef public double execute_s, process_s_sum

    cpdef ran(self, long long executed, double elapsed_s)
    cpdef count_executed(self, long long executed, long long failed, double elapsed_s)
    cpdef processed(self, double latency_s)

cdef class Counters(InputCounts):
    cdef public long long timeouts, unheard, complete_samples
    cdef public double complete_s_sum
    cdef public list process_counts, complete_counts

    cpdef processed(self, double latency_s)
    cpdef completed(self, double latency_s)

@cython.final
cdef class TreeCounts:
    cdef public long long acked, failed, complete_samples
    cdef public double complete_s_sum

    cpdef completed(self, double latency_s)
