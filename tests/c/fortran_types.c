/* Each predefined operation on each predefined datatype, by the table of MPI 5.0, section 6.9.2: where the standard (or Weft, which
 * takes more) defines it the result is right, and everywhere else it is refused. Types that Fortran's kinds are found by. */
#if defined(__GNUC__) && !defined(__clang__)
/* There is much of it, and nothing to gain: with -O3 it takes gcc 13 s. */
#pragma GCC optimize("O0")
#endif
#include "check.h"
#include <stdbool.h>
#include <wchar.h>

enum { N = 19, PAIRS = 12 };

#if defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
#else
typedef long double quad;
#endif

static MPI_Datatype f90_integers[5], f90_reals[4], f90_complexes[4];

static int a_value(int i)
{
    return i % 5 == 4 ? 0 : i % 7 + 1;
}

static int b_value(int i)
{
    return i % 3 == 1 ? 0 : i % 4 + 1;
}

static const struct {
    MPI_Op op;
    const char *name;
} ops[] = {{MPI_MAX, "MPI_MAX"},   {MPI_MIN, "MPI_MIN"},       {MPI_SUM, "MPI_SUM"},      {MPI_PROD, "MPI_PROD"},
           {MPI_LAND, "MPI_LAND"}, {MPI_LOR, "MPI_LOR"},       {MPI_LXOR, "MPI_LXOR"},    {MPI_BAND, "MPI_BAND"},
           {MPI_BOR, "MPI_BOR"},   {MPI_BXOR, "MPI_BXOR"},     {MPI_MAXLOC, "MPI_MAXLOC"}, {MPI_MINLOC, "MPI_MINLOC"}};

/* The operations that a test of a type has done. */
static MPI_Op done[16];
static int done_count, all_done;

#define TRY(op, type, ctype, result)                                                                                   \
    do {                                                                                                               \
        ctype in[N], inout[N];                                                                                         \
        for (int i = 0; i < N; i++) {                                                                                  \
            in[i] = (ctype)a_value(i);                                                                                 \
            inout[i] = (ctype)b_value(i);                                                                              \
        }                                                                                                              \
        OK(MPI_Reduce_local(in, inout, N, type, op));                                                                  \
        for (int i = 0; i < N; i++) {                                                                                  \
            ctype a = (ctype)a_value(i), b = (ctype)b_value(i);                                                        \
            CHECK(inout[i] == (ctype)(result), #op " on " #type ", element %d is wrong", i);                           \
        }                                                                                                              \
        done[done_count++] = op;                                                                                       \
    } while (0)

#define ORDER(type, ctype)                                                                                             \
    TRY(MPI_MAX, type, ctype, a > b ? a : b);                                                                          \
    TRY(MPI_MIN, type, ctype, a < b ? a : b)
#define ARITHMETIC(type, ctype)                                                                                        \
    TRY(MPI_SUM, type, ctype, a + b);                                                                                  \
    TRY(MPI_PROD, type, ctype, a *b)
#define TRUTH(type, ctype)                                                                                             \
    TRY(MPI_LAND, type, ctype, a &&b);                                                                                 \
    TRY(MPI_LOR, type, ctype, a || b);                                                                                 \
    TRY(MPI_LXOR, type, ctype, !a != !b)
#define BITS(type, ctype)                                                                                              \
    TRY(MPI_BAND, type, ctype, a &b);                                                                                  \
    TRY(MPI_BOR, type, ctype, a | b);                                                                                  \
    TRY(MPI_BXOR, type, ctype, a ^ b)

/* Real and imaginary part. */
#define COMPLEX(type, part)                                                                                            \
    do {                                                                                                               \
        for (int product = 0; product < 2; product++) {                                                                \
            part in[N][2], inout[N][2];                                                                                \
            for (int i = 0; i < N; i++) {                                                                              \
                in[i][0] = (part)a_value(i), in[i][1] = (part)(i % 3 - 1);                                             \
                inout[i][0] = (part)b_value(i), inout[i][1] = (part)(i % 2);                                           \
            }                                                                                                          \
            OK(MPI_Reduce_local(in, inout, N, type, product ? MPI_PROD : MPI_SUM));                                    \
            for (int i = 0; i < N; i++) {                                                                              \
                int a = a_value(i), ai = i % 3 - 1, b = b_value(i), bi = i % 2;                                        \
                int real = product ? a * b - ai * bi : a + b, imaginary = product ? a * bi + ai * b : ai + bi;         \
                CHECK(inout[i][0] == (part)real && inout[i][1] == (part)imaginary, #type ", element %d is wrong", i);  \
            }                                                                                                          \
        }                                                                                                              \
        done[done_count++] = MPI_SUM;                                                                                  \
        done[done_count++] = MPI_PROD;                                                                                 \
        others(type, #type);                                                                                           \
    } while (0)

/* A value and an index. */
#define PAIR(type, value, index)                                                                                       \
    do {                                                                                                               \
        struct pair {                                                                                                  \
            value v;                                                                                                   \
            index i;                                                                                                   \
        };                                                                                                             \
        for (int max = 0; max < 2; max++) {                                                                            \
            struct pair in[N], inout[N];                                                                               \
            for (int i = 0; i < N; i++) {                                                                              \
                in[i] = (struct pair){(value)a_value(i), (index)(i % 6)};                                              \
                inout[i] = (struct pair){(value)b_value(i), (index)3};                                                 \
            }                                                                                                          \
            OK(MPI_Reduce_local(in, inout, N, type, max ? MPI_MAXLOC : MPI_MINLOC));                                   \
            for (int i = 0; i < N; i++) {                                                                              \
                int a = a_value(i), b = b_value(i), lower = i % 6 < 3 ? i % 6 : 3;                                     \
                int wanted = max ? (a > b ? a : b) : (a < b ? a : b), place = a == b ? lower : wanted == a ? i % 6 : 3; \
                CHECK(inout[i].v == (value)wanted && inout[i].i == (index)place, #type ", element %d is wrong", i);    \
            }                                                                                                          \
        }                                                                                                              \
        done[done_count++] = MPI_MAXLOC;                                                                               \
        done[done_count++] = MPI_MINLOC;                                                                               \
        others(type, #type);                                                                                           \
    } while (0)

/* All operations that were not done are refused, by each kind of reduction. */
static void others(MPI_Datatype type, const char *name)
{
    char in[64] = {0}, inout[64] = {0};
    for (size_t at = 0; at < sizeof ops / sizeof *ops; at++) {
        int was_done = 0;
        for (int i = 0; i < done_count; i++)
            was_done |= done[i] == ops[at].op;
        if (was_done)
            continue;
        ERROR(MPI_ERR_OP, MPI_Reduce_local(in, inout, 1, type, ops[at].op), ops[at].name, name);
        ERROR(MPI_ERR_OP, MPI_Allreduce(in, inout, 1, type, ops[at].op, MPI_COMM_SELF), ops[at].name, name);
    }
    for (int i = 0; i < 64; i++)
        SAME(inout[i], 0, "byte %d after what was refused on %s", i, name);
    all_done += done_count;
    done_count = 0;
}

#define C_INTEGER(type, ctype)                                                                                         \
    do {                                                                                                               \
        ORDER(type, ctype);                                                                                            \
        ARITHMETIC(type, ctype);                                                                                       \
        TRUTH(type, ctype);                                                                                            \
        BITS(type, ctype);                                                                                             \
        others(type, #type);                                                                                           \
    } while (0)
#define F_INTEGER_NAMED(type, ctype, name)                                                                             \
    do {                                                                                                               \
        ORDER(type, ctype);                                                                                            \
        ARITHMETIC(type, ctype);                                                                                       \
        BITS(type, ctype);                                                                                             \
        others(type, name);                                                                                            \
    } while (0)
#define F_INTEGER(type, ctype) F_INTEGER_NAMED(type, ctype, #type)
#define FLOATING_NAMED(type, ctype, name)                                                                              \
    do {                                                                                                               \
        ORDER(type, ctype);                                                                                            \
        ARITHMETIC(type, ctype);                                                                                       \
        others(type, name);                                                                                            \
    } while (0)
#define FLOATING(type, ctype) FLOATING_NAMED(type, ctype, #type)
#define LOGICAL(type, ctype)                                                                                           \
    do {                                                                                                               \
        TRUTH(type, ctype);                                                                                            \
        others(type, #type);                                                                                           \
    } while (0)

static const char UNNAMED[] = "an unnamed predefined datatype";

static void integers(void)
{
    C_INTEGER(MPI_INT, int);
    C_INTEGER(MPI_LONG, long);
    C_INTEGER(MPI_SHORT, short);
    C_INTEGER(MPI_UNSIGNED_SHORT, unsigned short);
    C_INTEGER(MPI_UNSIGNED, unsigned);
    C_INTEGER(MPI_UNSIGNED_LONG, unsigned long);
    C_INTEGER(MPI_LONG_LONG_INT, long long);
    C_INTEGER(MPI_UNSIGNED_LONG_LONG, unsigned long long);
    C_INTEGER(MPI_SIGNED_CHAR, signed char);
    C_INTEGER(MPI_UNSIGNED_CHAR, unsigned char);
    C_INTEGER(MPI_INT8_T, int8_t);
    C_INTEGER(MPI_INT16_T, int16_t);
    C_INTEGER(MPI_INT32_T, int32_t);
    C_INTEGER(MPI_INT64_T, int64_t);
    C_INTEGER(MPI_UINT8_T, uint8_t);
    C_INTEGER(MPI_UINT16_T, uint16_t);
    C_INTEGER(MPI_UINT32_T, uint32_t);
    C_INTEGER(MPI_UINT64_T, uint64_t);
    /* Not by the standard: `char`, and the logical operations on the multi-language types. */
    C_INTEGER(MPI_CHAR, char);
    C_INTEGER(MPI_AINT, MPI_Aint);
    C_INTEGER(MPI_OFFSET, MPI_Offset);
    C_INTEGER(MPI_COUNT, MPI_Count);
    F_INTEGER(MPI_INTEGER, int32_t);
    F_INTEGER(MPI_INTEGER1, int8_t);
    F_INTEGER(MPI_INTEGER2, int16_t);
    F_INTEGER(MPI_INTEGER4, int32_t);
    F_INTEGER(MPI_INTEGER8, int64_t);
    F_INTEGER(MPI_INTEGER16, __int128);
    F_INTEGER_NAMED(f90_integers[0], int8_t, UNNAMED);
    F_INTEGER_NAMED(f90_integers[1], int16_t, UNNAMED);
    F_INTEGER_NAMED(f90_integers[2], int32_t, UNNAMED);
    F_INTEGER_NAMED(f90_integers[3], int64_t, UNNAMED);
    F_INTEGER_NAMED(f90_integers[4], __int128, UNNAMED);
}

static void real_numbers(void)
{
    FLOATING(MPI_FLOAT, float);
    FLOATING(MPI_DOUBLE, double);
    FLOATING(MPI_REAL, float);
    FLOATING(MPI_DOUBLE_PRECISION, double);
    FLOATING(MPI_LONG_DOUBLE, long double);
#if defined(__FLT16_MAX__)
    FLOATING(MPI_REAL2, _Float16);
#endif
    FLOATING(MPI_REAL4, float);
    FLOATING(MPI_REAL8, double);
    FLOATING(MPI_REAL16, quad);
    FLOATING_NAMED(f90_reals[0], float, UNNAMED);
    FLOATING_NAMED(f90_reals[1], double, UNNAMED);
    FLOATING_NAMED(f90_reals[2], long double, UNNAMED);
    FLOATING_NAMED(f90_reals[3], quad, UNNAMED);
}

static void complex_numbers(void)
{
    COMPLEX(MPI_C_COMPLEX, float);
    COMPLEX(MPI_C_DOUBLE_COMPLEX, double);
    COMPLEX(MPI_C_LONG_DOUBLE_COMPLEX, long double);
    COMPLEX(MPI_CXX_FLOAT_COMPLEX, float);
    COMPLEX(MPI_CXX_DOUBLE_COMPLEX, double);
    COMPLEX(MPI_CXX_LONG_DOUBLE_COMPLEX, long double);
    COMPLEX(MPI_COMPLEX, float);
    COMPLEX(MPI_DOUBLE_COMPLEX, double);
#if defined(__FLT16_MAX__)
    COMPLEX(MPI_COMPLEX4, _Float16);
#endif
    COMPLEX(MPI_COMPLEX8, float);
    COMPLEX(MPI_COMPLEX16, double);
    COMPLEX(MPI_COMPLEX32, quad);
#define UNNAMED_COMPLEX(place, part)                                                                                   \
    do {                                                                                                               \
        MPI_Datatype an = f90_complexes[place];                                                                        \
        COMPLEX(an, part);                                                                                             \
    } while (0)
    UNNAMED_COMPLEX(0, float);
    UNNAMED_COMPLEX(1, double);
    UNNAMED_COMPLEX(2, long double);
    UNNAMED_COMPLEX(3, quad);
}

static void other_types(void)
{
    LOGICAL(MPI_LOGICAL, int32_t);
    LOGICAL(MPI_LOGICAL1, int8_t);
    LOGICAL(MPI_LOGICAL2, int16_t);
    LOGICAL(MPI_LOGICAL4, int32_t);
    LOGICAL(MPI_LOGICAL8, int64_t);
    LOGICAL(MPI_LOGICAL16, __int128);
    LOGICAL(MPI_C_BOOL, bool);
    LOGICAL(MPI_CXX_BOOL, bool);
    BITS(MPI_BYTE, unsigned char);
    others(MPI_BYTE, "MPI_BYTE");
    others(MPI_CHARACTER, "MPI_CHARACTER");
    others(MPI_WCHAR, "MPI_WCHAR");
    others(MPI_PACKED, "MPI_PACKED");
    PAIR(MPI_FLOAT_INT, float, int);
    PAIR(MPI_DOUBLE_INT, double, int);
    PAIR(MPI_LONG_INT, long, int);
    PAIR(MPI_2INT, int, int);
    PAIR(MPI_SHORT_INT, short, int);
    PAIR(MPI_LONG_DOUBLE_INT, long double, int);
    PAIR(MPI_2REAL, float, float);
    PAIR(MPI_2DOUBLE_PRECISION, double, double);
    PAIR(MPI_2INTEGER, int32_t, int32_t);
}

/* Section 19.1.9: one handle for one pair of arguments; what the envelope says; not to be freed; the sizes in `external32`. */
static void one_f90(MPI_Datatype type, MPI_Datatype again, int combiner, const int *arguments, int count, int size,
                    int external)
{
    int integers, addresses, datatypes, got_combiner, contents[2], got;
    MPI_Aint external_size, lb, extent;
    CHECK(type == again, "two handles for the same arguments: %s and %s", hex((uintptr_t)type), hex((uintptr_t)again));
    OK(MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &got_combiner));
    SAME(got_combiner, combiner, "the combiner");
    SAME(integers, count, "the number of integers");
    SAME(addresses + datatypes, 0, "the number of addresses and datatypes");
    OK(MPI_Type_get_contents(type, count, 0, 0, contents, NULL, NULL));
    for (int i = 0; i < count; i++)
        SAME(contents[i], arguments[i], "argument %d", i);
    OK(MPI_Type_size(type, &got));
    SAME(got, size, "the size with the argument %d", arguments[0]);
    OK(MPI_Type_get_extent(type, &lb, &extent));
    SAME(extent, size, "the extent with the argument %d", arguments[0]);
    OK(MPI_Pack_external_size("external32", 1, type, &external_size));
    SAME(external_size, external, "the size in external32 with the argument %d", arguments[0]);
    OK(MPI_Type_commit(&again));
    ERROR(MPI_ERR_TYPE, MPI_Type_free(&again), "predefined");
    CHECK(again == type, "a handle changed that could not be freed");
    OK(MPI_Type_dup(type, &again));
    OK(MPI_Type_free(&again));
}

static void f90(void)
{
    static const struct {
        int range, size;
    } integers[] = {{0, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {9, 4}, {10, 8}, {18, 8}, {19, 16}, {38, 16}};
    for (size_t at = 0; at < sizeof integers / sizeof *integers; at++) {
        MPI_Datatype type, again;
        OK(MPI_Type_create_f90_integer(integers[at].range, &type));
        OK(MPI_Type_create_f90_integer(integers[at].range, &again));
        one_f90(type, again, MPI_COMBINER_F90_INTEGER, &integers[at].range, 1, integers[at].size, integers[at].size);
        f90_integers[at / 2] = type;
    }
    static const struct {
        int arguments[2], size, external;
    } reals[] = {{{6, 37}, 4, 4},   {{1, MPI_UNDEFINED}, 4, 4},   {{MPI_UNDEFINED, 37}, 4, 4},   {{3, 4}, 4, 4},
                 {{15, 307}, 8, 8}, {{7, MPI_UNDEFINED}, 8, 8},   {{MPI_UNDEFINED, 38}, 8, 8},   {{0, 307}, 8, 8},
                 {{18, 4931}, sizeof(long double), 16},           {{16, MPI_UNDEFINED}, sizeof(long double), 16},
                 {{MPI_UNDEFINED, 308}, sizeof(long double), 16}, {{33, 4931}, 16, 16},
                 {{19, MPI_UNDEFINED}, 16, 16},                   {{33, 0}, 16, 16}};
    static const int last_of_kind[] = {3, 7, 10, 13};
    for (int at = 0, kind = 0; at < (int)(sizeof reals / sizeof *reals); at++) {
        MPI_Datatype type, again;
        int p = reals[at].arguments[0], r = reals[at].arguments[1];
        OK(MPI_Type_create_f90_real(p, r, &type));
        OK(MPI_Type_create_f90_real(p, r, &again));
        one_f90(type, again, MPI_COMBINER_F90_REAL, reals[at].arguments, 2, reals[at].size, reals[at].external);
        f90_reals[kind] = type;
        OK(MPI_Type_create_f90_complex(p, r, &type));
        OK(MPI_Type_create_f90_complex(p, r, &again));
        CHECK(type != f90_reals[kind], "one handle for a real and a complex number");
        one_f90(type, again, MPI_COMBINER_F90_COMPLEX, reals[at].arguments, 2, 2 * reals[at].size,
                2 * reals[at].external);
        f90_complexes[kind] = type;
        kind += at == last_of_kind[kind];
    }
    MPI_Datatype type;
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_integer(39, &type), "39");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_integer(-1, &type), "-1");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_integer(MPI_UNDEFINED, &type), "range");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_real(34, 0, &type), "34");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_real(MPI_UNDEFINED, 4932, &type), "4932");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_real(-1, 10, &type), "-1");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_complex(MPI_UNDEFINED, MPI_UNDEFINED, &type), "precision", "range");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_complex(34, 0, &type), "34");
}

static void by_size(void)
{
    static const struct {
        int class, size;
        MPI_Datatype type;
    } all[] = {{MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},    {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
               {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},    {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
               {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16},  {MPI_TYPECLASS_REAL, 2, MPI_REAL2},
               {MPI_TYPECLASS_REAL, 4, MPI_REAL4},          {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
               {MPI_TYPECLASS_REAL, 16, MPI_REAL16},        {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
               {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},    {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
               {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},  {MPIX_TYPECLASS_LOGICAL, 1, MPI_LOGICAL1},
               {MPIX_TYPECLASS_LOGICAL, 2, MPI_LOGICAL2},   {MPIX_TYPECLASS_LOGICAL, 4, MPI_LOGICAL4},
               {MPIX_TYPECLASS_LOGICAL, 8, MPI_LOGICAL8},   {MPIX_TYPECLASS_LOGICAL, 16, MPI_LOGICAL16}};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        MPI_Datatype type;
        OK(MPI_Type_match_size(all[at].class, all[at].size, &type));
        CHECK(type == all[at].type, "a type of %d bytes of class %d is not the named one", all[at].size, all[at].class);
        ERROR(MPI_ERR_TYPE, MPI_Type_free(&type), "predefined");
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    f90();
    by_size();
    integers();
    real_numbers();
    complex_numbers();
    other_types();
    CHECK(all_done > 350, "%d pairs of operation and datatype", all_done);
    return end("fortran_types");
}
