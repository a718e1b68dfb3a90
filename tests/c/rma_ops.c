/* What one-sided operations do with the memory of their target: every predefined operation on every predefined datatype that it is defined
 * for, against MPI_Reduce_local, in windows of every flavor. (Which layouts they take: rma_layouts.c.) */
#include "rma.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 5, WIDEST = 32, OPERATIONS = 14, SLOT = OPERATIONS * N * WIDEST };

/* How elements are made of small numbers. */
enum kind { INTEGER, LOGICAL, FLOATING, LONG_DOUBLE, COMPLEX, LONG_COMPLEX, BYTES, PAIR, LONG_PAIR, TWO };

static const struct type {
    MPI_Datatype type;
    const char *name;
    enum kind kind;
    /* For pairs: of the value. */
    int size;
} types[] = {
#define TYPE(type, kind, ctype) {type, #type, kind, sizeof(ctype)}
    TYPE(MPI_AINT, INTEGER, MPI_Aint),
    TYPE(MPI_COUNT, INTEGER, MPI_Count),
    TYPE(MPI_OFFSET, INTEGER, MPI_Offset),
    TYPE(MPI_CHAR, BYTES, char),
    TYPE(MPI_SIGNED_CHAR, INTEGER, char),
    TYPE(MPI_UNSIGNED_CHAR, INTEGER, char),
    TYPE(MPI_BYTE, BYTES, char),
    TYPE(MPI_SHORT, INTEGER, short),
    TYPE(MPI_UNSIGNED_SHORT, INTEGER, short),
    TYPE(MPI_INT, INTEGER, int),
    TYPE(MPI_UNSIGNED, INTEGER, int),
    TYPE(MPI_LONG, INTEGER, long),
    TYPE(MPI_UNSIGNED_LONG, INTEGER, long),
    TYPE(MPI_LONG_LONG, INTEGER, long long),
    TYPE(MPI_UNSIGNED_LONG_LONG, INTEGER, long long),
    TYPE(MPI_FLOAT, FLOATING, float),
    TYPE(MPI_DOUBLE, FLOATING, double),
    TYPE(MPI_LONG_DOUBLE, LONG_DOUBLE, long double),
    TYPE(MPI_C_BOOL, LOGICAL, bool),
    TYPE(MPI_WCHAR, BYTES, wchar_t),
    TYPE(MPI_C_FLOAT_COMPLEX, COMPLEX, float complex),
    TYPE(MPI_C_DOUBLE_COMPLEX, COMPLEX, double complex),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, LONG_COMPLEX, long double complex),
    TYPE(MPI_INT8_T, INTEGER, int8_t),
    TYPE(MPI_UINT8_T, INTEGER, int8_t),
    TYPE(MPI_INT16_T, INTEGER, int16_t),
    TYPE(MPI_UINT16_T, INTEGER, int16_t),
    TYPE(MPI_INT32_T, INTEGER, int32_t),
    TYPE(MPI_UINT32_T, INTEGER, int32_t),
    TYPE(MPI_INT64_T, INTEGER, int64_t),
    TYPE(MPI_UINT64_T, INTEGER, int64_t),
    TYPE(MPI_CXX_BOOL, LOGICAL, bool),
    TYPE(MPI_CXX_FLOAT_COMPLEX, COMPLEX, float complex),
    TYPE(MPI_CXX_DOUBLE_COMPLEX, COMPLEX, double complex),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, LONG_COMPLEX, long double complex),
    TYPE(MPI_LOGICAL, LOGICAL, int),
    TYPE(MPI_INTEGER, INTEGER, int),
    TYPE(MPI_REAL, FLOATING, float),
    TYPE(MPI_COMPLEX, COMPLEX, float complex),
    TYPE(MPI_DOUBLE_PRECISION, FLOATING, double),
    TYPE(MPI_DOUBLE_COMPLEX, COMPLEX, double complex),
    TYPE(MPI_CHARACTER, BYTES, char),
    TYPE(MPI_LOGICAL1, LOGICAL, char),
    TYPE(MPI_LOGICAL2, LOGICAL, short),
    TYPE(MPI_LOGICAL4, LOGICAL, int),
    TYPE(MPI_LOGICAL8, LOGICAL, int64_t),
    {MPI_LOGICAL16, "MPI_LOGICAL16", LOGICAL, 16},
    TYPE(MPI_INTEGER1, INTEGER, char),
    TYPE(MPI_INTEGER2, INTEGER, short),
    TYPE(MPI_INTEGER4, INTEGER, int),
    TYPE(MPI_INTEGER8, INTEGER, int64_t),
    {MPI_INTEGER16, "MPI_INTEGER16", INTEGER, 16},
    {MPI_REAL2, "MPI_REAL2", FLOATING, 2},
    TYPE(MPI_REAL4, FLOATING, float),
    TYPE(MPI_REAL8, FLOATING, double),
    {MPI_REAL16, "MPI_REAL16", FLOATING, 16},
    {MPI_COMPLEX4, "MPI_COMPLEX4", COMPLEX, 4},
    TYPE(MPI_COMPLEX8, COMPLEX, float complex),
    TYPE(MPI_COMPLEX16, COMPLEX, double complex),
    {MPI_COMPLEX32, "MPI_COMPLEX32", COMPLEX, 32},
    TYPE(MPI_FLOAT_INT, PAIR, float),
    TYPE(MPI_DOUBLE_INT, PAIR, double),
    TYPE(MPI_LONG_INT, PAIR, long),
    TYPE(MPI_2INT, PAIR, int),
    TYPE(MPI_SHORT_INT, PAIR, short),
    TYPE(MPI_LONG_DOUBLE_INT, LONG_PAIR, long double),
    TYPE(MPI_2REAL, TWO, float),
    TYPE(MPI_2DOUBLE_PRECISION, TWO, double),
    TYPE(MPI_2INTEGER, TWO, int),
#undef TYPE
};
enum { TYPES = sizeof types / sizeof *types };

static const struct operation {
    MPI_Op op;
    const char *name;
} operations[OPERATIONS] = {
#define OPERATION(op) {op, #op}
    OPERATION(MPI_SUM),
    OPERATION(MPI_PROD),
    OPERATION(MPI_MAX),
    OPERATION(MPI_MIN),
    OPERATION(MPI_BAND),
    OPERATION(MPI_BOR),
    OPERATION(MPI_BXOR),
    OPERATION(MPI_LAND),
    OPERATION(MPI_LOR),
    OPERATION(MPI_LXOR),
    OPERATION(MPI_MINLOC),
    OPERATION(MPI_MAXLOC),
    OPERATION(MPI_REPLACE),
    OPERATION(MPI_NO_OP),
#undef OPERATION
};

static void put_number(char *at, enum kind kind, int size, int value)
{
    int64_t words[2] = {value, value < 0 ? -1 : 0};
    float single = value;
    double twice = value;
    long double most = value;
    _Float128 four = value;
    switch (kind) {
    case FLOATING:
        if (size == 2) {
            /* 0 to 7, as halves have them. */
            static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
            memcpy(at, &halves[value & 7], 2);
        } else
            memcpy(at, size == 4 ? (void *)&single : size == 8 ? (void *)&twice : (void *)&four, size);
        break;
    case LONG_DOUBLE:
        memcpy(at, &most, size);
        break;
    case LOGICAL:
        words[0] = value > 2;
        memcpy(at, words, size);
        break;
    default:
        memcpy(at, words, size);
    }
}

static int is_float(MPI_Datatype type)
{
    return type == MPI_FLOAT_INT || type == MPI_DOUBLE_INT || type == MPI_2REAL || type == MPI_2DOUBLE_PRECISION;
}

/* An element of small numbers, and bytes of 0 where there is nothing. */
static void element(char *at, const struct type *type, size_t extent, int value, int other)
{
    enum kind kind = is_float(type->type) ? FLOATING : INTEGER;
    int half = type->size / 2;
    memset(at, 0, extent);
    switch (type->kind) {
    case COMPLEX:
        put_number(at, FLOATING, half, value);
        put_number(at + half, FLOATING, half, other);
        break;
    case LONG_COMPLEX:
        put_number(at, LONG_DOUBLE, half, value);
        put_number(at + half, LONG_DOUBLE, half, other);
        break;
    case PAIR:
        put_number(at, kind, type->size, value);
        put_number(at + extent - 4 - (type->type == MPI_DOUBLE_INT || type->type == MPI_LONG_INT ? 4 : 0), INTEGER, 4, other);
        break;
    case LONG_PAIR:
        put_number(at, LONG_DOUBLE, type->size, value);
        put_number(at + type->size, INTEGER, 4, other);
        break;
    case TWO:
        put_number(at, kind, type->size, value);
        put_number(at + type->size, kind, type->size, other);
        break;
    default:
        put_number(at, type->kind, type->size, value);
    }
}

/* x86-64's long double has 10 bytes of value in 16. */
static size_t valued(size_t size)
{
#ifdef __x86_64__
    return size == 16 ? 10 : size;
#else
    return size;
#endif
}

static void one_same(const struct type *type, size_t extent, const char *got, const char *expected, const char *what,
                     const char *op, int i)
{
    struct { size_t at, length; } parts[2] = {{0, type->size}, {0, 0}};
    switch (type->kind) {
    case LONG_DOUBLE:
        parts[0].length = valued(type->size);
        break;
    case LONG_COMPLEX:
        parts[0].length = parts[1].length = valued(type->size / 2);
        parts[1].at = type->size / 2;
        break;
    case PAIR:
        parts[1].at = extent - 4 - (type->type == MPI_DOUBLE_INT || type->type == MPI_LONG_INT ? 4 : 0);
        parts[1].length = 4;
        break;
    case LONG_PAIR:
        parts[0].length = valued(type->size);
        parts[1].at = type->size;
        parts[1].length = 4;
        break;
    case TWO:
        parts[0].length = 2 * type->size;
        break;
    default:
        break;
    }
    for (int part = 0; part < 2; part++)
        if (memcmp(got + parts[part].at, expected + parts[part].at, parts[part].length) != 0) {
            uint64_t g = 0, e = 0;
            size_t length = parts[part].length < 8 ? parts[part].length : 8;
            memcpy(&g, got + parts[part].at, length);
            memcpy(&e, expected + parts[part].at, length);
            FAIL("%s, %s, %s: element %d, part %d: expected bytes %#llx, got %#llx", what, op, type->name, i, part,
                 (unsigned long long)e, (unsigned long long)g);
        }
}

static void all_same(const struct type *type, size_t extent, const char *got, const char *expected, int count,
                     const char *what, const char *op)
{
    for (int i = 0; i < count; i++)
        one_same(type, extent, got + i * extent, expected + i * extent, what, op, i);
}

/* What the operation makes of the target's elements: false if it is not defined for the type. */
static int reduced(const struct operation *operation, const struct type *type, size_t extent, const char *origin,
                   char *target, int count)
{
    if (operation->op == MPI_REPLACE)
        memcpy(target, origin, count * extent);
    else if (operation->op != MPI_NO_OP)
        return MPI_Reduce_local(origin, target, count, type->type, operation->op) == MPI_SUCCESS;
    return 1;
}

static MPI_Aint extent_of(const struct type *type)
{
    MPI_Aint lb, extent;
    int size = 0;
    /* MPICH 5.0.2 takes these for others. */
    if (!of_weft() && (type->type == MPI_INTEGER16 || type->type == MPI_REAL2 || type->type == MPI_COMPLEX4))
        return 0;
    if (MPI_Type_size(type->type, &size) != MPI_SUCCESS || size <= 0)
        return 0;
    OK(MPI_Type_get_extent(type->type, &lb, &extent));
    SAME(size, type->kind == PAIR || type->kind == LONG_PAIR ? type->size + 4 : type->kind == TWO ? 2 * type->size : type->size,
         "size of %s", type->name);
    return extent;
}

/* All operations on one type, each in elements of its own; `form` says by which calls. */
static void operations_on(const struct type *type, const struct window *w, int target, int form)
{
    static char before[SLOT], origin[SLOT], expected[SLOT], result[SLOT], after[SLOT];
    MPI_Request requests[OPERATIONS];
    int allowed[OPERATIONS], bytes, n = 0, slot = me * SLOT;
    MPI_Aint extent = extent_of(type);
    if (extent == 0)
        return;
    size_t part = N * extent;
    for (int o = 0; o < OPERATIONS; o++)
        for (int i = 0; i < N; i++) {
            /* Sums and products stay exact, also as bytes and halves: at most 7 * 7. */
            element(before + o * part + i * extent, type, extent, (i + o + me) % 5, (i * 3 + me) % 4);
            element(origin + o * part + i * extent, type, extent, (i * 2 + me) % 5, (i + target) % 4);
        }
    bytes = OPERATIONS * part;
    memcpy(expected, before, bytes);
    memset(result, 0, sizeof result);
    OK(MPI_Put(before, bytes, MPI_BYTE, target, place(w, target, slot), bytes, MPI_BYTE, w->win));
    OK(MPI_Win_flush(target, w->win));
    for (int o = 0; o < OPERATIONS; o++) {
        const struct operation *operation = &operations[o];
        char *from = origin + o * part, *to = result + o * part;
        MPI_Aint disp = place(w, target, slot + o * part);
        int count = form == 2 ? 1 : N;
        allowed[o] = reduced(operation, type, extent, from, expected + o * part, count);
        if (!allowed[o])
            continue;
        /* MPI_NO_OP does not look at the origin, which may be nothing. */
        if (operation->op == MPI_NO_OP && form == 0)
            continue;
        int nothing = operation->op == MPI_NO_OP;
        switch (form) {
        case 0:
            OK(MPI_Accumulate(from, N, type->type, target, disp, N, type->type, operation->op, w->win));
            break;
        case 1:
            OK(MPI_Get_accumulate(nothing ? NULL : from, nothing ? 0 : N, nothing ? MPI_BYTE : type->type, to, N, type->type,
                                  target, disp, N, type->type, operation->op, w->win));
            break;
        case 2:
            OK(MPI_Fetch_and_op(nothing ? NULL : from, to, type->type, target, disp, operation->op, w->win));
            break;
        case 3:
            if (operation->op == MPI_NO_OP)
                OK(MPI_Rget_accumulate(NULL, 0, MPI_DATATYPE_NULL, to, N, type->type, target, disp, N, type->type,
                                       operation->op, w->win, &requests[n++]));
            else if (o % 2 == 0)
                OK(MPI_Rget_accumulate(from, N, type->type, to, N, type->type, target, disp, N, type->type,
                                       operation->op, w->win, &requests[n++]));
            else
                OK(MPI_Raccumulate(from, N, type->type, target, disp, N, type->type, operation->op, w->win,
                                   &requests[n++]));
        }
    }
    OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Win_flush(target, w->win));
    OK(MPI_Get(after, bytes, MPI_BYTE, target, place(w, target, slot), bytes, MPI_BYTE, w->win));
    OK(MPI_Win_flush(target, w->win));
    for (int o = 0; o < OPERATIONS; o++) {
        const char *name = operations[o].name;
        static const char *const calls[] = {"MPI_Accumulate", "MPI_Get_accumulate", "MPI_Fetch_and_op", "with a request"};
        all_same(type, extent, after + o * part, expected + o * part, N, calls[form], name);
        int fetched = !allowed[o] ? 0 : form == 1 ? N : form == 2 ? 1 : form == 3 && (o % 2 == 0 || operations[o].op == MPI_NO_OP) ? N : 0;
        all_same(type, extent, result + o * part, before + o * part, fetched, calls[form], name);
    }
}

static void every_operation_on_every_type(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * SLOT, 1, MPI_COMM_WORLD);
    OK(MPI_Win_lock_all(0, w.win));
    for (int t = 0; t < TYPES; t++)
        for (int form = 0; form < 4; form++)
            /* To another process, and to this one. */
            if (!brief() || t % 4 == form)
                operations_on(&types[t], &w, (me + (t + form) % 2) % ranks, form);
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* Operations that a type does not have are refused, and change nothing. */
static void undefined_operations(void)
{
    /* MPICH 5.0.2 takes or aborts at most of these. */
    if (!of_weft())
        return;
    struct window w = open_window(ALLOCATED, 64, 1, MPI_COMM_WORLD);
    char in[64] = {1}, out[64] = {2};
    OK(MPI_Win_lock_all(0, w.win));
    for (int t = 0; t < TYPES; t++) {
        if (extent_of(&types[t]) == 0)
            continue;
        for (int o = 0; o < OPERATIONS; o++) {
            char there[64] = {2};
            if (reduced(&operations[o], &types[t], 0, in, there, 0))
                continue;
            MPI_Datatype type = types[t].type;
            MPI_Op op = operations[o].op;
            REFUSED(MPI_ERR_OP, MPI_Accumulate(in, 1, type, 0, place(&w, 0, 0), 1, type, op, w.win));
            REFUSED(MPI_ERR_OP,
                    MPI_Get_accumulate(in, 1, type, out, 1, type, 0, place(&w, 0, 0), 1, type, op, w.win));
            REFUSED(MPI_ERR_OP, MPI_Fetch_and_op(in, out, type, 0, place(&w, 0, 0), op, w.win));
        }
    }
    OK(MPI_Win_unlock_all(w.win));
    SAME(out[0], 2, "result of an operation that is not defined");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 64; i++)
        SAME(w.mine[i], 0, "byte %d of the target of operations that are not defined", i);
    close_window(&w);
}

/* MPI_Compare_and_swap: integers, logicals, MPI's own and bytes. */
static void compare_and_swap(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * 64, 1, MPI_COMM_WORLD);
    int target = (me + 1) % ranks;
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    for (int t = 0; t < TYPES; t++) {
        const struct type *type = &types[t];
        MPI_Aint extent = extent_of(type);
        MPI_Aint disp = place(&w, target, me * 64);
        char there[32], other[32], new[32], result[32], after[32];
        /* MPICH 5.0.2 refuses Fortran's logicals, and takes some of its integers for others. */
        int unknown = !of_weft() && (strncmp(type->name, "MPI_LOGICAL", 11) == 0 || strncmp(type->name, "MPI_INTEGER", 11) == 0);
        if (extent == 0 || extent > 16 || unknown)
            continue;
        element(there, type, extent, 3, 0);
        element(other, type, extent, 1, 0);
        element(new, type, extent, 4, 0);
        new[0] ^= type->kind == LOGICAL;
        int bytes = type->type == MPI_BYTE;
        if (type->kind != INTEGER && type->kind != LOGICAL && !bytes) {
            if (type->type == MPI_CHAR || type->type == MPI_WCHAR)
                continue;       /* Other libraries, and users, take these for integers. */
            REFUSED(MPI_ERR_TYPE, MPI_Compare_and_swap(new, there, result, type->type, target, disp, w.win), "MPI_Compare_and_swap");
            continue;
        }
        OK(MPI_Put(there, 1, type->type, target, disp, 1, type->type, w.win));
        OK(MPI_Win_flush(target, w.win));
        /* It is not equal; it is equal. */
        OK(MPI_Compare_and_swap(new, other, result, type->type, target, disp, w.win));
        OK(MPI_Win_flush(target, w.win));
        CHECK(memcmp(result, there, extent) == 0, "MPI_Compare_and_swap of %s, not equal: another result", type->name);
        OK(MPI_Compare_and_swap(new, there, result, type->type, target, disp, w.win));
        OK(MPI_Win_flush_local(target, w.win));
        CHECK(memcmp(result, there, extent) == 0, "MPI_Compare_and_swap of %s, equal: another result", type->name);
        OK(MPI_Win_flush(target, w.win));
        OK(MPI_Get(after, 1, type->type, target, disp, 1, type->type, w.win));
        OK(MPI_Win_flush(target, w.win));
        CHECK(memcmp(after, new, extent) == 0, "MPI_Compare_and_swap of %s: the new value is not there", type->name);
    }
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* By the twins with large counts, and all that have a request. */
static void large_counts_and_requests(int flavor)
{
    enum { M = 40 };
    struct window w = open_window(flavor, M * sizeof(int), sizeof(int), MPI_COMM_WORLD);
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks, values[M], result[M], old[M], *mine = (int *)w.mine;
    MPI_Request request[4];
    MPI_Status status;
    MPI_Count count = M;
    MPI_Aint at = place(&w, target, 0);
    for (int i = 0; i < M; i++)
        values[i] = 1000 * me + i;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
    OK(MPI_Put_c(values, count, MPI_INT, target, at, count, MPI_INT, w.win));
    OK(MPI_Win_flush(target, w.win));
    OK(MPI_Get_c(result, count, MPI_INT, target, at, count, MPI_INT, w.win));
    OK(MPI_Win_flush_local(target, w.win));
    for (int i = 0; i < M; i++)
        SAME(result[i], 1000 * me + i, "element %d of MPI_Get_c", i);
    OK(MPI_Accumulate_c(values, count, MPI_INT, target, at, count, MPI_INT, MPI_SUM, w.win));
    OK(MPI_Get_accumulate_c(values, count, MPI_INT, result, count, MPI_INT, target, at, count, MPI_INT, MPI_SUM, w.win));
    OK(MPI_Win_unlock(target, w.win));
    for (int i = 0; i < M; i++)
        SAME(result[i], 2 * (1000 * me + i), "element %d of MPI_Get_accumulate_c", i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    for (int i = 0; i < M; i++)
        SAME(mine[i], 3 * (1000 * from + i), "element %d at the target", i);
    OK(MPI_Win_unlock(me, w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* MPI_Rput's request tells of its own buffer only; that of a get brings the data. */
    OK(MPI_Win_lock_all(0, w.win));
    for (int large = 0; large < 2; large++) {
        memcpy(old, values, sizeof old);
        if (large)
            OK(MPI_Rput_c(old, count, MPI_INT, target, at, count, MPI_INT, w.win, &request[0]));
        else
            OK(MPI_Rput(old, M, MPI_INT, target, at, M, MPI_INT, w.win, &request[0]));
        OK(MPI_Wait(&request[0], &status));
        CHECK(request[0] == MPI_REQUEST_NULL, "a request that has completed");
        memset(old, 0xff, sizeof old);
        OK(MPI_Win_flush(target, w.win));
        memset(result, 0, sizeof result);
        if (large)
            OK(MPI_Rget_c(result, count, MPI_INT, target, at, count, MPI_INT, w.win, &request[0]));
        else
            OK(MPI_Rget(result, M, MPI_INT, target, at, M, MPI_INT, w.win, &request[0]));
        int done = 0;
        while (!done)
            OK(MPI_Test(&request[0], &done, &status));
        for (int i = 0; i < M; i++)
            SAME(result[i], 1000 * me + i, "element %d of MPI_Rget", i);
        if (large) {
            OK(MPI_Raccumulate_c(values, count, MPI_INT, target, at, count, MPI_INT, MPI_SUM, w.win, &request[0]));
            OK(MPI_Rget_accumulate_c(values, count, MPI_INT, result, count, MPI_INT, target, at, count, MPI_INT, MPI_SUM,
                                     w.win, &request[1]));
        } else {
            OK(MPI_Raccumulate(values, M, MPI_INT, target, at, M, MPI_INT, MPI_SUM, w.win, &request[0]));
            OK(MPI_Rget_accumulate(values, M, MPI_INT, result, M, MPI_INT, target, at, M, MPI_INT, MPI_SUM, w.win,
                                   &request[1]));
        }
        OK(MPI_Waitall(2, request, MPI_STATUSES_IGNORE));
        for (int i = 0; i < M; i++)
            SAME(result[i], 2 * (1000 * me + i), "element %d of MPI_Rget_accumulate", i);
        OK(MPI_Win_flush_all(w.win));
    }
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* MPI_PROC_NULL is a target of every operation and of nothing else; none of it changes anything. */
static void nobody(int flavor)
{
    struct window w = open_window(flavor, 64, 1, MPI_COMM_WORLD);
    int in = 1, compare = 0, out = 7;
    MPI_Request request[4];
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(&in, 1, MPI_INT, MPI_PROC_NULL, 1 << 20, 1, MPI_INT, w.win));
    OK(MPI_Get(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win));
    OK(MPI_Accumulate(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, w.win));
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Get_accumulate(&in, 1, MPI_INT, &out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, w.win));
    OK(MPI_Fetch_and_op(&in, &out, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, w.win));
    OK(MPI_Compare_and_swap(&in, &compare, &out, MPI_INT, MPI_PROC_NULL, 0, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Rput(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win, &request[0]));
    OK(MPI_Rget(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win, &request[1]));
    OK(MPI_Raccumulate(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, w.win, &request[2]));
    OK(MPI_Rget_accumulate(&in, 1, MPI_INT, &out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, w.win, &request[3]));
    OK(MPI_Waitall(4, request, MPI_STATUSES_IGNORE));
    OK(MPI_Win_flush_all(w.win));
    OK(MPI_Win_unlock_all(w.win));
    SAME(out, 7, "what was got from nobody");
    for (int i = 0; i < 64; i++)
        SAME(w.mine[i], 0, "byte %d of the window", i);
    close_window(&w);
}

/* No elements: nothing is touched, and displacements at the end of the memory are in it. */
static void nothing(int flavor)
{
    struct window w = open_window(flavor, 64, 1, MPI_COMM_WORLD);
    int target = (me + 1) % ranks;
    MPI_Datatype empty;
    MPI_Request request[4];
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    OK(MPI_Win_lock_all(0, w.win));
    for (int at = 0; at <= 64; at += 64) {
        MPI_Aint disp = place(&w, target, at);
        OK(MPI_Put(NULL, 0, MPI_INT, target, disp, 0, MPI_INT, w.win));
        OK(MPI_Get(NULL, 0, MPI_INT, target, disp, 0, MPI_INT, w.win));
        OK(MPI_Put(NULL, 3, empty, target, disp, 0, MPI_INT, w.win));
        OK(MPI_Get(NULL, 0, MPI_DOUBLE, target, disp, 5, empty, w.win));
        OK(MPI_Accumulate(NULL, 0, MPI_INT, target, disp, 0, MPI_INT, MPI_SUM, w.win));
        OK(MPI_Get_accumulate(NULL, 0, MPI_INT, NULL, 0, MPI_INT, target, disp, 0, MPI_INT, MPI_REPLACE, w.win));
        OK(MPI_Rput(NULL, 0, MPI_INT, target, disp, 0, MPI_INT, w.win, &request[0]));
        OK(MPI_Rget(NULL, 0, MPI_INT, target, disp, 0, MPI_INT, w.win, &request[1]));
        OK(MPI_Raccumulate(NULL, 0, MPI_INT, target, disp, 0, MPI_INT, MPI_SUM, w.win, &request[2]));
        OK(MPI_Rget_accumulate(NULL, 0, MPI_INT, NULL, 0, MPI_INT, target, disp, 0, MPI_INT, MPI_NO_OP, w.win, &request[3]));
        OK(MPI_Waitall(4, request, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Type_free(&empty));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 64; i++)
        SAME(w.mine[i], 0, "byte %d of the window", i);
    close_window(&w);
}

/* Displacements count in the target's own unit, which each process chooses. */
static void units(int flavor)
{
    enum { M = 48 };
    struct window w = open_window(flavor, M * ranks * 16, 1 << me % 4, MPI_COMM_WORLD);
    int64_t value, got;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    for (int rank = 0; rank < ranks; rank++) {
        value = 100 * me + rank;
        OK(MPI_Put(&value, 1, MPI_INT64_T, rank, place(&w, rank, me * 16 + 8), 1, MPI_INT64_T, w.win));
        OK(MPI_Win_fence(0, w.win));
    }
    for (int rank = 0; rank < ranks; rank++)
        SAME(((int64_t *)w.mine)[2 * rank + 1], 100 * rank + me, "from rank %d by a unit of %d", rank, w.units[me]);
    for (int rank = 0; rank < ranks; rank++) {
        OK(MPI_Get(&got, 1, MPI_INT64_T, rank, place(&w, rank, ((me + 1) % ranks) * 16 + 8), 1, MPI_INT64_T, w.win));
        OK(MPI_Win_fence(0, w.win));
        SAME(got, 100 * ((me + 1) % ranks) + rank, "of rank %d by a unit of %d", rank, w.units[rank]);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    close_window(&w);
    /* A unit that divides nothing. */
    MPI_Win win;
    char *base;
    OK(MPI_Win_allocate(100, 7, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0, 100);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put("abc", 3, MPI_CHAR, (me + 1) % ranks, 13, 3, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    CHECK(memcmp(base + 91, "abc", 3) == 0 && base[90] == 0 && base[94] == 0, "a displacement of 13 times 7");
    OK(MPI_Win_free(&win));
}

/* Calls and plain loads and stores in the same shared memory, also atomic ones. */
static void shared_by_loads(void)
{
    if (!one_node())
        return;
    struct window w = open_window(SHARED, 64, 8, MPI_COMM_WORLD);
    int target = (me + 1) % ranks, unit;
    MPI_Aint size;
    int64_t *theirs, value = 10 + me, got, one = 1;
    OK(MPI_Win_shared_query(w.win, target, &size, &unit, &theirs));
    SAME(size, 64, "size of the memory of rank %d", target);
    OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Put(&value, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, w.win));
    OK(MPI_Win_flush(target, w.win));
    OK(MPI_Win_sync(w.win));
    SAME(theirs[0], value, "what was put, by a load");
    theirs[1] = 20 + me;
    OK(MPI_Win_sync(w.win));
    OK(MPI_Get(&got, 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, w.win));
    OK(MPI_Win_flush(target, w.win));
    SAME(got, 20 + me, "what was stored, by MPI_Get");
    OK(MPI_Win_sync(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(w.win));
    int from = (me + ranks - 1) % ranks;
    SAME(((int64_t *)w.mine)[0], 10 + from, "what was put here");
    SAME(((int64_t *)w.mine)[1], 20 + from, "what was stored here");
    for (int i = 0; i < 100; i++)
        OK(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 5, 1, MPI_INT64_T, MPI_SUM, w.win));
    OK(MPI_Win_flush(0, w.win));
    OK(MPI_Win_sync(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(w.win));
    if (me == 0)
        SAME(((int64_t *)w.mine)[5], 100 * ranks, "sum by all, by a load");
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* Pieces of memory that come and go in a dynamic window; a process tells others where they are. */
static void dynamic_pieces(void)
{
    enum { PIECES = 6 };
    MPI_Win win;
    int *piece[PIECES], target = (me + 1) % ranks, value, got;
    MPI_Aint address[PIECES], theirs[PIECES];
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PIECES; i++) {
            piece[i] = calloc(1000, sizeof(int));
            /* In the second round a part of the memory only. */
            OK(MPI_Win_attach(win, piece[i] + 100 * round, (1000 - 200 * round) * sizeof(int)));
            OK(MPI_Get_address(piece[i], &address[i]));
        }
        OK(MPI_Sendrecv(address, PIECES, MPI_AINT, (me + ranks - 1) % ranks, 1, theirs, PIECES, MPI_AINT, target, 1,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < PIECES; i++) {
            value = 1000 * round + 10 * me + i;
            OK(MPI_Put(&value, 1, MPI_INT, target, MPI_Aint_add(theirs[i], 400), 1, MPI_INT, win));
            OK(MPI_Win_flush(target, win));
            OK(MPI_Fetch_and_op(&value, &got, MPI_INT, target, MPI_Aint_add(theirs[i], 400), MPI_SUM, win));
            OK(MPI_Win_flush(target, win));
            SAME(got, value, "what was put into piece %d", i);
        }
        OK(MPI_Win_sync(win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_sync(win));
        for (int i = 0; i < PIECES; i++) {
            SAME(piece[i][100], 2 * (1000 * round + 10 * ((me + ranks - 1) % ranks) + i), "piece %d", i);
            OK(MPI_Win_detach(win, piece[i] + 100 * round));
            free(piece[i]);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

/* The window is on a stack, in static memory, in memory of MPI_Alloc_mem; and it is the same memory as of another window. */
static void memories(void)
{
    static int fixed[4];
    int automatic[4] = {0}, *allocated;
    MPI_Win win, twin;
    OK(MPI_Alloc_mem(4 * sizeof(int), MPI_INFO_NULL, &allocated));
    memset(allocated, 0, 4 * sizeof(int));
    int *places[] = {fixed, automatic, allocated};
    for (int i = 0; i < 3; i++) {
        int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks, value = 10 * me + i;
        /* Not all have memory. */
        OK(MPI_Win_create(places[i], me % 2 == 0 || ranks % 2 == 1 ? 4 * sizeof(int) : 0, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_create(places[i], 4 * sizeof(int), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &twin));
        int usable = target % 2 == 0 || ranks % 2 == 1;
        OK(MPI_Win_fence(0, win));
        if (usable)
            OK(MPI_Put(&value, 1, MPI_INT, target, 1, 1, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
        OK(MPI_Win_fence(0, twin));
        OK(MPI_Put(&value, 1, MPI_INT, target, 2, 1, MPI_INT, twin));
        OK(MPI_Win_fence(0, twin));
        if (me % 2 == 0 || ranks % 2 == 1)
            SAME(places[i][1], 10 * from + i, "place %d, by one window", i);
        SAME(places[i][2], 10 * from + i, "place %d, by the other", i);
        OK(MPI_Win_free(&twin));
        OK(MPI_Win_free(&win));
    }
    OK(MPI_Free_mem(allocated));
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        if (!brief() || flavor % 2 == 0)
            every_operation_on_every_type(flavor);
        compare_and_swap(flavor);
        large_counts_and_requests(flavor);
        nobody(flavor);
        nothing(flavor);
        units(flavor);
    }
    undefined_operations();
    shared_by_loads();
    dynamic_pieces();
    memories();
    return end("rma_ops");
}
