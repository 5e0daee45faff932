cimport cython

from tupletree.acker.entries cimport Ended, Entries
from tupletree.acker.hash_table cimport Table

ctypedef unsigned long long u64
ctypedef unsigned int u32

cdef int OPEN, FAILED

@cython.locals(
    table=Table, acked=Ended, failed=Ended, at=Py_ssize_t, root=u64, value=u64, mixed=u64, left=u64, task=u32,
    slot=Py_ssize_t, state=cython.int,
)
cpdef init_each(
    Entries pending, totals, const u64[::1] roots, const u64[::1] values, const u32[::1] tasks, u32 born, verdicts
)

@cython.locals(
    table=Table, acked=Ended, at=Py_ssize_t, root=u64, mixed=u64, left=u64, slot=Py_ssize_t, state=cython.int
)
cpdef ack_each(Entries pending, totals, const u64[::1] roots, const u64[::1] values, u32 born, verdicts)

@cython.locals(table=Table, failed=Ended, at=Py_ssize_t, root=u64, mixed=u64, slot=Py_ssize_t, state=cython.int)
cpdef fail_each(Entries pending, totals, const u64[::1] roots, u32 born, verdicts)

@cython.locals(table=Table, reset=Ended, at=Py_ssize_t, root=u64, mixed=u64, slot=Py_ssize_t, state=cython.int)
cpdef reset_each(Entries pending, totals, const u64[::1] roots, u32 born, verdicts)
