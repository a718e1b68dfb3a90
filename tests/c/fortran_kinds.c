/* What the library is told of the Fortran compiler (MPI 5.0, section 20.4.1), which can be done once, so the argument says what is told:
 * nothing, the kinds of a usual compiler, wide ones (-fdefault-integer-8 -fdefault-real-8), narrow ones, those of a compiler that lacks some
 * and has -1 for .TRUE., what cannot be, or several threads tell at once. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#if defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
#else
typedef long double quad;
#endif

static MPI_Info info_of(const char *const *entries)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    for (; *entries != NULL; entries += 2)
        OK(MPI_Info_set(info, entries[0], entries[1]));
    return info;
}

#define INFO(...) info_of((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Before MPI_Init, where any error that goes to a handler ends the program. */
static void tell(MPI_Info info)
{
    MPI_Info known;
    OK(MPI_Abi_get_fortran_info(&known));
    CHECK(known == MPI_INFO_NULL, "something is known before it was told");
    OK(MPI_Abi_set_fortran_info(info));
    SAME(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "MPI_Abi_set_fortran_info again");
    OK(MPI_Info_free(&info));
}

static void told(const char *const *entries, int keys)
{
    MPI_Info info, again;
    int count;
    OK(MPI_Abi_get_fortran_info(&info));
    OK(MPI_Info_get_nkeys(info, &count));
    SAME(count, keys, "the number of keys");
    for (; *entries != NULL; entries += 2)
        info_says(info, entries[0], entries[1]);
    /* It is the user's own copy. */
    OK(MPI_Info_set(info, "mpi_integer_size", "3"));
    OK(MPI_Abi_get_fortran_info(&again));
    int length = 0, flag;
    char value[2] = "";
    OK(MPI_Info_get_string(again, "mpi_integer_size", &length, value, &flag));
    SAME(flag, 1, "flag of the key mpi_integer_size");
    OK(MPI_Info_get_string(again, "mpi_integer_size", &length, value, &flag));
    CHECK(value[0] != '3', "what was told has changed");
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&again));
}

#define TOLD(keys, ...) told((const char *const[]){__VA_ARGS__, NULL}, keys)

static void has_size(MPI_Datatype type, const char *name, int size)
{
    int got;
    MPI_Count large;
    OK(MPI_Type_size(type, &got));
    SAME(got, size, "the size of %s", name);
    OK(MPI_Type_size_c(type, &large));
    SAME(large, size, "the size of %s", name);
    OK(MPI_Type_size_x(type, &large));
    SAME(large, size, "the size of %s", name);
    char is_named[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_get_name(type, is_named, &got));
    CHECK(strcmp(is_named, name) == 0, "%s has the name %s", name, is_named);
    if (size == MPI_UNDEFINED)
        return;
    MPI_Aint lb, extent, true_extent;
    OK(MPI_Type_get_extent(type, &lb, &extent));
    SAME(lb, 0, "the lower bound of %s", name);
    SAME(extent, size, "the extent of %s", name);
    OK(MPI_Type_get_true_extent(type, &lb, &true_extent));
    SAME(true_extent, size, "the true extent of %s", name);
}

/* The default kinds have these sizes in bytes. */
static void have_sizes(int logical, int integer, int real, int double_precision)
{
    has_size(MPI_LOGICAL, "MPI_LOGICAL", logical);
    has_size(MPI_INTEGER, "MPI_INTEGER", integer);
    has_size(MPI_REAL, "MPI_REAL", real);
    has_size(MPI_COMPLEX, "MPI_COMPLEX", 2 * real);
    has_size(MPI_DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", double_precision);
    has_size(MPI_2INTEGER, "MPI_2INTEGER", 2 * integer);
    has_size(MPI_2REAL, "MPI_2REAL", 2 * real);
    has_size(MPI_2DOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION", 2 * double_precision);
    /* The others stay as they are. */
    has_size(MPI_INT, "MPI_INT", 4);
    has_size(MPI_DOUBLE, "MPI_DOUBLE", 8);
    has_size(MPI_2INT, "MPI_2INT", 8);
    has_size(MPI_CHARACTER, "MPI_CHARACTER", 1);
    has_size(MPI_LOGICAL8, "MPI_LOGICAL8", 8);
    has_size(MPI_REAL4, "MPI_REAL4", 4);
    has_size(MPI_INTEGER2, "MPI_INTEGER2", 2);
    /* `external32` does not depend on the compiler (section 14.5.2). */
    static const struct {
        MPI_Datatype type;
        int size;
    } external[] = {{MPI_LOGICAL, 4},      {MPI_INTEGER, 4}, {MPI_REAL, 4},  {MPI_DOUBLE_PRECISION, 8}, {MPI_COMPLEX, 8},
                    {MPI_2INTEGER, 8},     {MPI_2REAL, 8},   {MPI_REAL8, 8}, {MPI_2DOUBLE_PRECISION, 16}};
    for (size_t at = 0; at < sizeof external / sizeof *external; at++) {
        MPI_Aint size;
        OK(MPI_Pack_external_size("external32", 1, external[at].type, &size));
        SAME(size, external[at].size, "type %zu in external32", at);
    }
}

/* One element there and back: its bytes in `external32`, the first ones. */
static void external(MPI_Datatype type, const void *value, size_t bytes, int external_bytes, const char *expected)
{
    unsigned char packed[32], back[32] = {0};
    char text[65];
    MPI_Aint position = 0, size = external_bytes;
    OK(MPI_Pack_external("external32", value, 1, type, packed, sizeof packed, &position));
    SAME(position, size, "the position");
    for (int i = 0; i < external_bytes; i++)
        sprintf(text + 2 * i, "%02x", packed[i]);
    CHECK(strcmp(text, expected) == 0, "external32: expected %s, got %s", expected, text);
    position = 0;
    OK(MPI_Unpack_external("external32", packed, size, &position, back, 1, type));
    CHECK(memcmp(value, back, bytes) == 0, "%s did not come back", expected);
}

#define EXTERNAL(type, ctype, value, bytes, expected)                                                                  \
    do {                                                                                                               \
        ctype number = (value);                                                                                        \
        external(type, &number, sizeof number, bytes, expected);                                                       \
    } while (0)

/* Does not fit. */
#define TOO_LARGE(type, ctype, value)                                                                                  \
    do {                                                                                                               \
        ctype number = (value);                                                                                        \
        unsigned char packed[32];                                                                                      \
        MPI_Aint position = 0;                                                                                         \
        ERROR(MPI_ERR_CONVERSION, MPI_Pack_external("external32", &number, 1, type, packed, 32, &position), "fit");    \
    } while (0)

/* The sum over all ranks of numbers that need all of their bytes, and that a message of them arrives. */
#define SUM(type, ctype, unit)                                                                                         \
    do {                                                                                                               \
        ctype mine[3], sum[3], from_left[3];                                                                           \
        for (int i = 0; i < 3; i++)                                                                                    \
            mine[i] = (ctype)(unit) * (ctype)(me + i + 1);                                                             \
        OK(MPI_Allreduce(mine, sum, 3, type, MPI_SUM, MPI_COMM_WORLD));                                                \
        for (int i = 0; i < 3; i++)                                                                                    \
            CHECK(sum[i] == (ctype)(unit) * (ctype)(ranks * (ranks + 1) / 2 + i * ranks), "the sum of " #type);        \
        MPI_Status status;                                                                                             \
        int count, left = (me + ranks - 1) % ranks;                                                                    \
        OK(MPI_Sendrecv(mine, 3, type, (me + 1) % ranks, 7, from_left, 3, type, left, 7, MPI_COMM_WORLD, &status));    \
        OK(MPI_Get_count(&status, type, &count));                                                                      \
        SAME(count, 3, "the number of received " #type);                                                               \
        for (int i = 0; i < 3; i++)                                                                                    \
            CHECK(from_left[i] == (ctype)(unit) * (ctype)(left + i + 1), "a received " #type);                         \
    } while (0)

/* The largest value over all ranks, which all but the first have, and where the first of them is. */
#define WHERE(type, ctype, unit)                                                                                       \
    do {                                                                                                               \
        ctype mine[2] = {(ctype)(unit) * (ctype)(me > 0 ? 5 : 3), (ctype)me}, most[2], least[2];                       \
        OK(MPI_Allreduce(mine, most, 1, type, MPI_MAXLOC, MPI_COMM_WORLD));                                            \
        CHECK(most[0] == (ctype)(unit) * (ctype)(ranks > 1 ? 5 : 3) && most[1] == (ctype)(ranks > 1), "the most " #type); \
        OK(MPI_Allreduce(mine, least, 1, type, MPI_MINLOC, MPI_COMM_WORLD));                                           \
        CHECK(least[0] == (ctype)(unit)*3 && least[1] == 0, "the least " #type);                                       \
    } while (0)

/* The three operations, over all ranks, of `LOGICAL`s with these literals; 2 is true as well. */
#define TRUTH(type, ctype, yes, no)                                                                                    \
    do {                                                                                                               \
        ctype mine[4] = {me % 2 ? (ctype)(yes) : (ctype)(no), (ctype)(yes), (ctype)(no), (ctype)2}, got[4];            \
        static const MPI_Op ops[] = {MPI_LAND, MPI_LOR, MPI_LXOR};                                                     \
        int odd = ranks / 2, many = ranks > 1;                                                                         \
        int wanted[3][4] = {{0, 1, 0, 1}, {odd > 0, 1, 0, 1}, {odd % 2, ranks % 2, 0, ranks % 2}};                     \
        for (int op = 0; op < 3; op++) {                                                                               \
            OK(MPI_Allreduce(mine, got, 4, type, ops[op], MPI_COMM_WORLD));                                            \
            for (int i = 0; i < 3 + many; i++)                                                                         \
                CHECK(got[i] == (wanted[op][i] ? (ctype)(yes) : (ctype)(no)), #type ": operation %d, element %d", op, i); \
        }                                                                                                              \
        ctype in[70], inout[70];                                                                                       \
        for (int i = 0; i < 70; i++) {                                                                                 \
            in[i] = i % 3 ? (ctype)(yes) : (ctype)(no);                                                                \
            inout[i] = i % 2 ? (ctype)(yes) : (ctype)(no);                                                             \
        }                                                                                                              \
        OK(MPI_Reduce_local(in, inout, 70, type, MPI_LXOR));                                                           \
        for (int i = 0; i < 70; i++)                                                                                   \
            CHECK(inout[i] == ((i % 3 > 0) != (i % 2 > 0) ? (ctype)(yes) : (ctype)(no)), #type ": element %d of 70", i); \
    } while (0)

static void all_truths(long yes, long no)
{
    TRUTH(MPI_LOGICAL1, int8_t, yes, no);
    TRUTH(MPI_LOGICAL2, int16_t, yes, no);
    TRUTH(MPI_LOGICAL4, int32_t, yes, no);
    TRUTH(MPI_LOGICAL8, int64_t, yes, no);
    TRUTH(MPI_LOGICAL16, __int128, yes, no);
    TRUTH(MPI_C_BOOL, bool, true, false);
    TRUTH(MPI_CXX_BOOL, bool, true, false);
}

/* What the library says the literals are. */
static void literals(int is_known, long yes, long no)
{
    for (int size = 1; size <= 64; size *= 2) {
        __int128 got_yes = 77, got_no = 78;
        int is_set = 77;
        OK(MPI_Abi_get_fortran_booleans(size, &got_yes, &got_no, &is_set));
        SAME(is_set, is_known && size <= 16, "is_set for %d bytes", size);
        if (!is_set)
            CHECK(got_yes == 77 && got_no == 78, "literals of %d bytes that are not known were written", size);
        else
            for (int byte = 0; byte < 16; byte++) {
                SAME((signed char)(got_yes >> 8 * byte), byte < size ? (signed char)(yes >> 8 * (byte < 8 ? byte : 7)) : byte ? 0 : 77,
                     "byte %d of .TRUE. of %d bytes", byte, size);
                SAME((signed char)(got_no >> 8 * byte), byte < size ? (signed char)(no >> 8 * (byte < 8 ? byte : 7)) : byte ? 0 : 78,
                     "byte %d of .FALSE. of %d bytes", byte, size);
            }
    }
}

static void sizes_of_the_abi(void)
{
    MPI_Info info;
    OK(MPI_Abi_get_info(&info));
    info_says(info, "mpi_aint_size", sizeof(MPI_Aint) == 8 ? "8" : "4");
    info_says(info, "mpi_count_size", "8");
    info_says(info, "mpi_offset_size", "8");
    OK(MPI_Info_free(&info));
}

static void start(int *argc, char ***argv)
{
    sizes_of_the_abi();
    begin(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

static void nothing(int argc, char **argv)
{
    literals(0, 0, 0);
    start(&argc, &argv);
    MPI_Info info;
    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL, "something is known that was not told");
    have_sizes(4, 4, 4, 8);
    has_size(MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 16);
    all_truths(1, 0);
    TRUTH(MPI_LOGICAL, int32_t, 1, 0);
    EXTERNAL(MPI_LOGICAL, int32_t, 5, 4, "00000005");
}

/* Also what a Fortran compiler says of itself that is as the library takes it to be in any case. */
static void usual(int argc, char **argv)
{
    tell(INFO("mpi_logical_size", "4", "mpi_integer_size", "4", "mpi_real_size", "4", "mpi_double_precision_size", "8",
              "mpi_character_size", "1", "mpi_integer16_supported", "true"));
    int yes = 1, no = 0;
    OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    SAME(MPI_Abi_set_fortran_booleans(4, &yes, &no), MPI_ERR_ABI, "MPI_Abi_set_fortran_booleans again");
    literals(1, 1, 0);
    start(&argc, &argv);
    TOLD(24, "mpi_logical_size", "4", "mpi_integer_size", "4", "mpi_real_size", "4", "mpi_double_precision_size", "8",
         "mpi_integer16_supported", "true", "mpi_complex32_supported", "true", "mpi_character_size", NULL);
    have_sizes(4, 4, 4, 8);
    all_truths(1, 0);
    EXTERNAL(MPI_LOGICAL, int32_t, 1, 4, "00000001");
    SUM(MPI_INTEGER, int32_t, 1 << 20);
    WHERE(MPI_2INTEGER, int32_t, 1 << 20);
}

static void wide(int argc, char **argv)
{
    tell(INFO("mpi_logical_size", "8", "mpi_integer_size", "8", "mpi_real_size", "8", "mpi_double_precision_size", "16"));
    start(&argc, &argv);
    have_sizes(8, 8, 8, 16);
    has_size(MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 32);
    SUM(MPI_INTEGER, int64_t, 1LL << 40);
    SUM(MPI_REAL, double, 1e200);
    SUM(MPI_DOUBLE_PRECISION, quad, 1 + (quad)1 / (1LL << 60));
    WHERE(MPI_2INTEGER, int64_t, 1LL << 40);
    WHERE(MPI_2REAL, double, 1e200);
    WHERE(MPI_2DOUBLE_PRECISION, quad, 1 + (quad)1 / (1LL << 60));
    TRUTH(MPI_LOGICAL, int64_t, 1, 0);
    EXTERNAL(MPI_INTEGER, int64_t, -5, 4, "fffffffb");
    TOO_LARGE(MPI_INTEGER, int64_t, 1LL << 31);
    EXTERNAL(MPI_REAL, double, -1.5, 4, "bfc00000");
    EXTERNAL(MPI_REAL, double, 1.0 / 0.0, 4, "7f800000");
    TOO_LARGE(MPI_REAL, double, 1e39);
    EXTERNAL(MPI_DOUBLE_PRECISION, quad, 1.5, 8, "3ff8000000000000");
    EXTERNAL(MPI_INTEGER8, int64_t, 1LL << 40, 8, "0000010000000000");
    double complex_number[2] = {1, -2};
    external(MPI_COMPLEX, complex_number, sizeof complex_number, 8, "3f800000c0000000");
    int64_t pair[2] = {7, -8};
    external(MPI_2INTEGER, pair, sizeof pair, 8, "00000007fffffff8");
    MPI_Datatype three, found;
    MPI_Aint lb, extent;
    OK(MPI_Type_contiguous(3, MPI_INTEGER, &three));
    OK(MPI_Type_get_extent(three, &lb, &extent));
    SAME(extent, 24, "the extent of three MPI_INTEGERs");
    OK(MPI_Type_free(&three));
    OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 8, &found));
    CHECK(found == MPI_INTEGER8, "MPI_Type_match_size");
    OK(MPI_Type_get_value_index(MPI_INTEGER, MPI_INTEGER, &found));
    CHECK(found == MPI_2INTEGER, "MPI_Type_get_value_index");
}

static void narrow(int argc, char **argv)
{
    tell(INFO("mpi_logical_size", "1", "mpi_integer_size", "2", "mpi_double_precision_size", "4", "mpi_real2_supported",
              "true"));
    start(&argc, &argv);
    have_sizes(1, 2, 4, 4);
    has_size(MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 8);
    SUM(MPI_INTEGER, int16_t, 300);
    WHERE(MPI_2INTEGER, int16_t, 300);
    TRUTH(MPI_LOGICAL, int8_t, 1, 0);
    EXTERNAL(MPI_INTEGER, int16_t, -2, 4, "fffffffe");
    EXTERNAL(MPI_DOUBLE_PRECISION, float, 0.1f, 8, "3fb99999a0000000");
    /* selected_real_kind finds a kind of two bytes, and `external32` has four for it (section 19.1.9). */
    MPI_Datatype half;
    unsigned char number_of_two[2];
    int size;
    OK(MPI_Type_create_f90_real(3, 4, &half));
    OK(MPI_Type_size(half, &size));
    SAME(size, 2, "the size of the kind with three digits");
    memcpy(number_of_two, &(uint16_t){0xc100}, 2);
    external(half, number_of_two, 2, 4, "c0200000");
    /* 65536 does not fit in memory. */
    unsigned char packed[4] = {0, 1, 0, 0};
    MPI_Aint position = 0;
    int16_t number = 5;
    ERROR(MPI_ERR_CONVERSION, MPI_Unpack_external("external32", packed, 4, &position, &number, 1, MPI_INTEGER), "fit");
    SAME(number, 5, "a number that was not unpacked");
}

#define LACKS(call) ERROR(MPI_ERR_TYPE, call, "the Fortran compiler does not have", "MPI_INTEGER16")

/* ifx, which has no INTEGER*16, no REAL of 10 bytes, and -1 for .TRUE.. */
static void lacking(int argc, char **argv)
{
    tell(INFO("mpi_integer16_supported", "false", "mpi_real2_supported", "false", "mpi_complex4_supported", "false",
              "weft_real10_supported", "false", "mpi_double_complex_supported", "false"));
    int64_t yes = -1, no = 0;
    OK(MPI_Abi_set_fortran_booleans(8, &yes, &no));
    SAME(MPI_Abi_set_fortran_booleans(4, &yes, &no), MPI_ERR_ABI, "MPI_Abi_set_fortran_booleans again");
    start(&argc, &argv);
    literals(1, -1, 0);
    TOLD(24, "mpi_integer_size", "4", "mpi_integer16_supported", "false", "mpi_integer8_supported", "true",
         "weft_real10_supported", "false");
    have_sizes(4, 4, 4, 8);
    has_size(MPI_INTEGER16, "MPI_INTEGER16", MPI_UNDEFINED);
    has_size(MPI_REAL2, "MPI_REAL2", MPI_UNDEFINED);
    has_size(MPI_COMPLEX4, "MPI_COMPLEX4", MPI_UNDEFINED);
    has_size(MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", MPI_UNDEFINED);
    has_size(MPI_COMPLEX8, "MPI_COMPLEX8", 8);

    char in[32] = {0}, out[32] = {0};
    MPI_Datatype type;
    MPI_Aint lb, extent, position = 0;
    LACKS(MPI_Send(in, 1, MPI_INTEGER16, me, 0, MPI_COMM_WORLD));
    LACKS(MPI_Bcast(in, 1, MPI_INTEGER16, 0, MPI_COMM_SELF));
    LACKS(MPI_Allreduce(in, out, 1, MPI_INTEGER16, MPI_SUM, MPI_COMM_SELF));
    LACKS(MPI_Reduce_local(in, out, 1, MPI_INTEGER16, MPI_SUM));
    LACKS(MPI_Type_contiguous(2, MPI_INTEGER16, &type));
    LACKS(MPI_Type_get_extent(MPI_INTEGER16, &lb, &extent));
    LACKS(MPI_Pack_external("external32", in, 1, MPI_INTEGER16, out, 32, &position));
    ERROR(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 16, &type), "16");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_integer(19, &type), "19");
    OK(MPI_Type_create_f90_integer(18, &type));
    /* The next kind after REAL*8 is REAL*16. */
    quad half[2] = {1.25, 1 + (quad)1 / ((__int128)1 << 100)};
    OK(MPI_Type_create_f90_real(18, MPI_UNDEFINED, &type));
    OK(MPI_Reduce_local(half, half + 1, 1, type, MPI_SUM));
    CHECK(half[1] == 2.25 + (quad)1 / ((__int128)1 << 100), "the sum of two REAL(16)");

    all_truths(-1, 0);
    TRUTH(MPI_LOGICAL, int32_t, -1, 0);
    EXTERNAL(MPI_LOGICAL, int32_t, -1, 4, "00000001");
    EXTERNAL(MPI_LOGICAL16, __int128, -1, 16, "00000000000000000000000000000001");
    EXTERNAL(MPI_LOGICAL1, int8_t, 0, 1, "00");
    EXTERNAL(MPI_C_BOOL, bool, true, 1, "01");
    /* Any bit makes it true. */
    unsigned char packed[4] = {1, 0, 0, 0};
    int32_t logical = 5;
    position = 0;
    OK(MPI_Unpack_external("external32", packed, 4, &position, &logical, 1, MPI_LOGICAL));
    SAME(logical, -1, "a LOGICAL from external32");
}

#define REFUSED(key, value)                                                                                            \
    do {                                                                                                               \
        MPI_Info info = INFO(key, value);                                                                              \
        ERROR(MPI_ERR_INFO_VALUE, MPI_Abi_set_fortran_info(info), key, value);                                         \
        OK(MPI_Info_free(&info));                                                                                      \
    } while (0)

static void refused(int argc, char **argv)
{
    start(&argc, &argv);
    REFUSED("mpi_integer_size", "3");
    REFUSED("mpi_integer_size", "eight");
    REFUSED("mpi_logical_size", "0");
    REFUSED("mpi_real_size", "2");
    REFUSED("mpi_double_precision_size", "-8");
    REFUSED("mpi_logical4_supported", "maybe");
    MPI_Info none = MPI_INFO_NULL;
    ERROR(MPI_ERR_INFO, MPI_Abi_set_fortran_info(none), "MPI_INFO_NULL");
    ERROR(MPI_ERR_ARG, MPI_Abi_get_fortran_info(NULL), "info", "null");
    ERROR(MPI_ERR_ARG, MPI_Abi_get_info(NULL), "info", "null");
    int yes = 1, no = 0, is_set;
    for (int at = 0; at < 5; at++) {
        int size = (int[]){0, 3, -4, 12, INT32_MIN}[at];
        char text[16];
        snprintf(text, sizeof text, "%d", size);
        ERROR(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(size, &yes, &no), "logical_size", text);
        ERROR(MPI_ERR_ARG, MPI_Abi_get_fortran_booleans(size, &yes, &no, &is_set), "logical_size", text);
    }
    ERROR(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(32, &yes, &no), "logical_size", "32");
    ERROR(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(4, NULL, &no), "logical_true", "null");
    ERROR(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(4, &yes, NULL), "logical_false", "null");
    ERROR(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(4, &yes, &yes), "logical_true", "differ");
    ERROR(MPI_ERR_ARG, MPI_Abi_get_fortran_booleans(4, &yes, &no, NULL), "is_set", "null");
    /* None of it has been taken. */
    literals(0, 0, 0);
    MPI_Info info;
    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL, "something is known that was refused");
    have_sizes(4, 4, 4, 8);
    info = INFO("mpi_integer_size", "8");
    OK(MPI_Abi_set_fortran_info(info));
    OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    ERROR(MPI_ERR_ARG, MPI_Abi_get_fortran_booleans(4, NULL, &no, &is_set), "logical_true", "null");
    have_sizes(4, 8, 4, 8);
    OK(MPI_Info_free(&info));
}

enum { THREADS = 4 };
static atomic_int begun, kinds_taken, literals_taken;

/* Each has its own opinion; that of one is taken as a whole, and all see the same. */
static void *opinion(void *number)
{
    int thread = (int)(intptr_t)number, yes = thread + 1, no = 0, is_set, size;
    MPI_Info info = thread % 2 ? INFO("mpi_integer_size", "8", "mpi_real_size", "8")
                               : INFO("mpi_integer_size", "2", "mpi_real_size", "16");
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&begun) < THREADS)
        ;
    int code = MPI_Abi_set_fortran_info(info);
    CHECK(code == MPI_SUCCESS || code == MPI_ERR_ABI, "MPI_Abi_set_fortran_info returned %d", code);
    atomic_fetch_add(&kinds_taken, code == MPI_SUCCESS);
    OK(MPI_Info_free(&info));
    code = MPI_Abi_set_fortran_booleans(4, &yes, &no);
    CHECK(code == MPI_SUCCESS || code == MPI_ERR_ABI, "MPI_Abi_set_fortran_booleans returned %d", code);
    atomic_fetch_add(&literals_taken, code == MPI_SUCCESS);
    OK(MPI_Abi_get_fortran_booleans(4, &yes, &no, &is_set));
    SAME(is_set, 1, "is_set in a thread");
    OK(MPI_Abi_get_fortran_info(&info));
    char value[8];
    int length = sizeof value, flag;
    OK(MPI_Info_get_string(info, "mpi_integer_size", &length, value, &flag));
    size = atoi(value);
    info_says(info, "mpi_real_size", size == 8 ? "8" : "16");
    OK(MPI_Info_free(&info));
    return (void *)(intptr_t)(size * 16 + yes);
}

static void threads(int argc, char **argv)
{
    pthread_t all[THREADS];
    intptr_t first = 0;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i], NULL, opinion, (void *)(intptr_t)i) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) {
        void *result;
        CHECK(pthread_join(all[i], &result) == 0, "a thread is lost");
        if (i == 0)
            first = (intptr_t)result;
        SAME((intptr_t)result, first, "what thread %d sees", i);
    }
    SAME(kinds_taken, 1, "the number of threads whose kinds were taken");
    SAME(literals_taken, 1, "the number of threads whose literals were taken");
    start(&argc, &argv);
    int integer = (int)first / 16;
    have_sizes(4, integer, integer == 8 ? 8 : 16, 8);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int, char **);
    } all[] = {{"nothing", nothing}, {"usual", usual},     {"wide", wide},      {"narrow", narrow},
               {"lacking", lacking}, {"refused", refused}, {"threads", threads}};
    CHECK(argc == 2, "which one?");
    const char *name = argv[1];
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (strcmp(name, all[at].name) == 0) {
            all[at].run(argc, argv);
            int code = end("fortran_kinds");
            /* After MPI_Finalize, too. */
            sizes_of_the_abi();
            MPI_Info info;
            OK(MPI_Abi_get_fortran_info(&info));
            SAME(info == MPI_INFO_NULL, strcmp(name, "nothing") == 0, "whether something is known at the end");
            return code;
        }
    FAIL("there is no '%s'", name);
}
