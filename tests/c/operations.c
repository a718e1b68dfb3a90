/* Every predefined operation on every C datatype that it is defined for: Allreduce, Reduce, Scan and Reduce_local
 * against a loop over the ranks' values, done here in the same type. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 23 };

/* Values that stay exact in every type, products and sums of eight included. */
static int value(int rank, int i)
{
    return (rank * 5 + i * 3) % 4 + (i % 3 == 0 ? 1 : 0);
}

static void compare(const char *what, const char *op, const char *type, const void *got, const void *expected,
                    size_t size, int count)
{
    for (int i = 0; i < count; i++)
        if (memcmp((const char *)got + i * size, (const char *)expected + i * size, size) != 0) {
            unsigned long long g = 0, e = 0;
            memcpy(&g, (const char *)got + i * size, size < 8 ? size : 8);
            memcpy(&e, (const char *)expected + i * size, size < 8 ? size : 8);
            FAIL("%s, %s, %s: element %d: expected bytes %#llx, got %#llx", what, op, type, i, e, g);
        }
}

static void reduce(const char *op_name, MPI_Op op, const char *type_name, MPI_Datatype type, size_t size,
                   const void *mine, const void *all, const void *prefix, const void *zeroth, const void *first)
{
    char got[N * 32], both[N * 32];
    int root = ranks / 2;
    memset(got, 0, sizeof got);
    OK(MPI_Allreduce(mine, got, N, type, op, MPI_COMM_WORLD));
    compare("MPI_Allreduce", op_name, type_name, got, all, size, N);
    memcpy(both, mine, N * size);
    OK(MPI_Allreduce(MPI_IN_PLACE, both, N, type, op, MPI_COMM_WORLD));
    compare("MPI_Allreduce in place", op_name, type_name, both, all, size, N);
    memset(got, 0, sizeof got);
    OK(MPI_Reduce(mine, got, N, type, op, root, MPI_COMM_WORLD));
    if (me == root)
        compare("MPI_Reduce", op_name, type_name, got, all, size, N);
    memset(got, 0, sizeof got);
    OK(MPI_Scan(mine, got, N, type, op, MPI_COMM_WORLD));
    compare("MPI_Scan", op_name, type_name, got, prefix, size, N);
    /* inout = in op inout */
    memcpy(both, zeroth, N * size);
    OK(MPI_Reduce_local(zeroth, both, N, type, op));
    compare("MPI_Reduce_local", op_name, type_name, both, first, size, N);
}

/* All ranks' values are computed here, and reduced in rank order with C's own operators: `a` is what there is so far,
 * `b` the next value. A padding of zero keeps memcmp true for long double. */
#define RUN(op, ctype, type, from, combine)                                                                            \
    do {                                                                                                               \
        static ctype mine[N], all[N], prefix[N], zeroth[N], first[N];                                                  \
        for (int i = 0; i < N; i++) {                                                                                  \
            ctype so_far = from(value(0, i));                                                                          \
            zeroth[i] = so_far;                                                                                        \
            mine[i] = from(value(me, i));                                                                              \
            if (me == 0)                                                                                               \
                prefix[i] = so_far;                                                                                    \
            for (int rank = 1; rank < ranks; rank++) {                                                                 \
                ctype a = so_far, b = from(value(rank, i));                                                            \
                so_far = (ctype)(combine);                                                                             \
                if (rank == me)                                                                                        \
                    prefix[i] = so_far;                                                                                \
            }                                                                                                          \
            all[i] = so_far;                                                                                           \
            ctype a = zeroth[i], b = zeroth[i];                                                                        \
            first[i] = (ctype)(combine);                                                                               \
        }                                                                                                              \
        size_t size = sizeof(ctype) == sizeof(long double) && is_long_double(type) ? 10 : sizeof(ctype);               \
        reduce_strided(#op, op, #type, type, sizeof(ctype), size, mine, all, prefix, zeroth, first);                   \
    } while (0)

static int is_long_double(MPI_Datatype type)
{
    return type == MPI_LONG_DOUBLE;
}

/* x86-64's long double has 10 bytes of value in 16: the rest is cleared before comparing. */
static void reduce_strided(const char *op_name, MPI_Op op, const char *type_name, MPI_Datatype type, size_t stride,
                           size_t size, void *mine, void *all, void *prefix, void *zeroth, void *first)
{
    if (size == stride) {
        reduce(op_name, op, type_name, type, stride, mine, all, prefix, zeroth, first);
        return;
    }
    long double got[N], *expected = all;
    OK(MPI_Allreduce(mine, got, N, type, op, MPI_COMM_WORLD));
    for (int i = 0; i < N; i++)
        CHECK(got[i] == expected[i], "MPI_Allreduce, %s, %s: element %d: expected %Lg, got %Lg", op_name, type_name, i,
              expected[i], got[i]);
    OK(MPI_Scan(mine, got, N, type, op, MPI_COMM_WORLD));
    expected = prefix;
    for (int i = 0; i < N; i++)
        CHECK(got[i] == expected[i], "MPI_Scan, %s, %s: element %d: expected %Lg, got %Lg", op_name, type_name, i,
              expected[i], got[i]);
}

#define PLAIN(x) (x)
#define TRUTH(x) ((x) > 1)
#define IMAGINARY(x) ((x) + (((x) % 2) ? I : 0))

#define ORDERED(ctype, type)                                                                                           \
    RUN(MPI_MAX, ctype, type, PLAIN, a > b ? a : b);                                                                   \
    RUN(MPI_MIN, ctype, type, PLAIN, a < b ? a : b)
#define SUMS(ctype, type, from)                                                                                        \
    RUN(MPI_SUM, ctype, type, from, a + b);                                                                            \
    RUN(MPI_PROD, ctype, type, from, a *b)
#define BITS(ctype, type)                                                                                              \
    RUN(MPI_BAND, ctype, type, PLAIN, a &b);                                                                           \
    RUN(MPI_BOR, ctype, type, PLAIN, a | b);                                                                           \
    RUN(MPI_BXOR, ctype, type, PLAIN, a ^ b)
#define LOGIC(ctype, type, from)                                                                                       \
    RUN(MPI_LAND, ctype, type, from, (a && b));                                                                        \
    RUN(MPI_LOR, ctype, type, from, (a || b));                                                                         \
    RUN(MPI_LXOR, ctype, type, from, (!a != !b))
#define INTEGER(ctype, type)                                                                                           \
    ORDERED(ctype, type);                                                                                              \
    SUMS(ctype, type, PLAIN);                                                                                          \
    BITS(ctype, type);                                                                                                 \
    LOGIC(ctype, type, PLAIN)
#define FLOATING(ctype, type)                                                                                          \
    ORDERED(ctype, type);                                                                                              \
    SUMS(ctype, type, PLAIN)

static void integers(void)
{
    /* The standard has no reductions on this one; MPICH and Open MPI do them. */
    INTEGER(char, MPI_CHAR);
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
}

static void others(void)
{
    FLOATING(float, MPI_FLOAT);
    FLOATING(double, MPI_DOUBLE);
    FLOATING(long double, MPI_LONG_DOUBLE);
    SUMS(float complex, MPI_C_FLOAT_COMPLEX, IMAGINARY);
    SUMS(float complex, MPI_C_COMPLEX, IMAGINARY);
    SUMS(double complex, MPI_C_DOUBLE_COMPLEX, IMAGINARY);
    LOGIC(bool, MPI_C_BOOL, TRUTH);
    BITS(unsigned char, MPI_BYTE);
    ORDERED(MPI_Aint, MPI_AINT);
    SUMS(MPI_Aint, MPI_AINT, PLAIN);
    BITS(MPI_Aint, MPI_AINT);
    ORDERED(MPI_Count, MPI_COUNT);
    SUMS(MPI_Count, MPI_COUNT, PLAIN);
    BITS(MPI_Count, MPI_COUNT);
    ORDERED(MPI_Offset, MPI_OFFSET);
    SUMS(MPI_Offset, MPI_OFFSET, PLAIN);
    BITS(MPI_Offset, MPI_OFFSET);
}

/* Places of extremes: equal values give the lowest place. */
#define PLACES(ctype, type)                                                                                            \
    do {                                                                                                               \
        struct {                                                                                                       \
            ctype value;                                                                                               \
            int place;                                                                                                 \
        } mine[N], got[N];                                                                                             \
        memset(mine, 0, sizeof mine);                                                                                  \
        for (int i = 0; i < N; i++) {                                                                                  \
            mine[i].value = (ctype)value(me, i);                                                                       \
            mine[i].place = me * 100 + i;                                                                              \
        }                                                                                                              \
        for (int least = 0; least < 2; least++) {                                                                      \
            memset(got, 0, sizeof got);                                                                                \
            OK(MPI_Allreduce(mine, got, N, type, least ? MPI_MINLOC : MPI_MAXLOC, MPI_COMM_WORLD));                    \
            for (int i = 0; i < N; i++) {                                                                              \
                int best = 0;                                                                                          \
                for (int rank = 1; rank < ranks; rank++)                                                               \
                    if (least ? value(rank, i) < value(best, i) : value(rank, i) > value(best, i))                     \
                        best = rank;                                                                                   \
                CHECK(got[i].value == (ctype)value(best, i), "%s, %s: value of element %d: expected %d, got %Lg",      \
                      least ? "MPI_MINLOC" : "MPI_MAXLOC", #type, i, value(best, i), (long double)got[i].value);       \
                SAME(got[i].place, best * 100 + i, "%s, %s: place of element %d", least ? "MPI_MINLOC" : "MPI_MAXLOC", \
                     #type, i);                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static void places(void)
{
    PLACES(float, MPI_FLOAT_INT);
    PLACES(double, MPI_DOUBLE_INT);
    PLACES(long, MPI_LONG_INT);
    PLACES(int, MPI_2INT);
    PLACES(short, MPI_SHORT_INT);
    PLACES(long double, MPI_LONG_DOUBLE_INT);
}

/* What an operation is not defined for is refused, and changes nothing. */
static void refused(void)
{
    char in[64] = {1}, out[64] = {2};
    const struct {
        MPI_Op op;
        MPI_Datatype type;
        const char *what;
    } cases[] = {
        {MPI_BAND, MPI_DOUBLE, "MPI_BAND on MPI_DOUBLE"},
        {MPI_LAND, MPI_C_DOUBLE_COMPLEX, "MPI_LAND on MPI_C_DOUBLE_COMPLEX"},
        {MPI_MAX, MPI_C_FLOAT_COMPLEX, "MPI_MAX on MPI_C_FLOAT_COMPLEX"},
        {MPI_SUM, MPI_BYTE, "MPI_SUM on MPI_BYTE"},
        {MPI_SUM, MPI_WCHAR, "MPI_SUM on MPI_WCHAR"},
        {MPI_SUM, MPI_CHARACTER, "MPI_SUM on MPI_CHARACTER"},
        {MPI_MAXLOC, MPI_INT, "MPI_MAXLOC on MPI_INT"},
        {MPI_SUM, MPI_DOUBLE_INT, "MPI_SUM on MPI_DOUBLE_INT"},
        {MPI_NO_OP, MPI_INT, "MPI_NO_OP on MPI_INT"},
        {MPI_REPLACE, MPI_INT, "MPI_REPLACE on MPI_INT"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int class = class_of(MPI_Allreduce(in, out, 1, cases[i].type, cases[i].op, MPI_COMM_WORLD));
        SAME(class, MPI_ERR_OP, "class of %s", cases[i].what);
        SAME(out[0], 2, "result of %s", cases[i].what);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    integers();
    others();
    places();
    if (argc < 2)
        refused();
    return end("operations");
}
