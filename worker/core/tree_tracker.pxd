from tupletree.tuples cimport Tuple

ctypedef unsigned long long u64

cdef class TreeTracker:
    cdef public bint is_tracked

    cpdef track(self, u64 root, u64 value, msg_id, counts)
    cpdef settle(self, msg_id, stream, error)
    cpdef add_ack(self, u64 root, u64 value)
    cpdef acked(self, Tuple tup)
    cpdef acked_many(self, tuples)
