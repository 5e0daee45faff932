ctypedef unsigned long long u64

cdef class TreeTracker:
    cdef public bint is_tracked

    cpdef track(self, u64 root, u64 value, msg_id)
