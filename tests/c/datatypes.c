/* What datatypes tell of themselves, in the one process that asks: constructor calls, pairs of a value and an index,
 * Fortran's kinds, elements in a status, packing, `external32`, and what is refused. */
#include "check.h"

#define HEX(handle) hex((uintptr_t)(handle))

/* Attributes of a datatype that were deleted. */
static int deleted;

static int count_deleted(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* `type` was made by `combiner` from these arguments; `large` by the procedure with large counts. `old` are the types that
 * it was made of. */
static void made_by(const char *what, MPI_Datatype type, int combiner, int ints, const int *wanted_ints, int addresses,
                    const MPI_Aint *wanted_addresses, int types, const MPI_Datatype *old)
{
    int ni, na, nd, got;
    OK(MPI_Type_get_envelope(type, &ni, &na, &nd, &got));
    SAME(got, combiner, "combiner of %s", what);
    SAME(ni, ints, "integers of %s", what);
    SAME(na, addresses, "addresses of %s", what);
    SAME(nd, types, "datatypes of %s", what);
    int i[32];
    MPI_Aint a[32];
    MPI_Datatype d[32];
    OK(MPI_Type_get_contents(type, ni, na, nd, i, a, d));
    for (int at = 0; at < ni; at++)
        SAME(i[at], wanted_ints[at], "integer %d of %s", at, what);
    for (int at = 0; at < na; at++)
        SAME(a[at], wanted_addresses[at], "address %d of %s", at, what);
    for (int at = 0; at < nd; at++) {
        int their_combiner, our_combiner, n;
        OK(MPI_Type_get_envelope(d[at], &n, &n, &n, &their_combiner));
        OK(MPI_Type_get_envelope(old[at], &n, &n, &n, &our_combiner));
        SAME(their_combiner, our_combiner, "combiner of datatype %d of %s", at, what);
        MPI_Aint lb, extent, old_lb, old_extent;
        OK(MPI_Type_get_extent(d[at], &lb, &extent));
        OK(MPI_Type_get_extent(old[at], &old_lb, &old_extent));
        SAME(lb, old_lb, "lower bound of datatype %d of %s", at, what);
        SAME(extent, old_extent, "extent of datatype %d of %s", at, what);
        if (their_combiner == MPI_COMBINER_NAMED)
            CHECK(d[at] == old[at], "datatype %d of %s is not the constant", at, what);
        else {
            CHECK(d[at] != old[at], "datatype %d of %s has the handle that the user freed or will free", at, what);
            OK(MPI_Type_free(&d[at]));
        }
    }
    if (ni > 0)
        ERROR(MPI_ERR_ARG, MPI_Type_get_contents(type, ni - 1, na, nd, i, a, d), "max_integers");
    if (na > 0)
        ERROR(MPI_ERR_ARG, MPI_Type_get_contents(type, ni, na - 1, nd, i, a, d), "max_addresses");
    if (nd > 0)
        ERROR(MPI_ERR_ARG, MPI_Type_get_contents(type, ni, na, nd - 1, i, a, d), "max_datatypes");
}

#define INTS(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__}
#define ADDRESSES(...) (int)(sizeof((MPI_Aint[]){__VA_ARGS__}) / sizeof(MPI_Aint)), (const MPI_Aint[]){__VA_ARGS__}
#define NO_INTS 0, NULL
#define NO_ADDRESSES 0, NULL

static void constructors(void)
{
    MPI_Datatype old, type;
    int lengths[2] = {3, 1}, places[2] = {7, -2};
    MPI_Aint bytes[2] = {64, -8};
    OK(MPI_Type_vector(2, 1, 3, MPI_SHORT, &old));
#define MADE(call, ...)                                                                                                \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        made_by(#call, type, __VA_ARGS__);                                                                             \
        OK(MPI_Type_free(&type));                                                                                      \
    } while (0)
    MADE(MPI_Type_dup(old, &type), MPI_COMBINER_DUP, NO_INTS, NO_ADDRESSES, 1, &old);
    MADE(MPI_Type_contiguous(5, old, &type), MPI_COMBINER_CONTIGUOUS, INTS(5), NO_ADDRESSES, 1, &old);
    MADE(MPI_Type_vector(2, 3, -4, old, &type), MPI_COMBINER_VECTOR, INTS(2, 3, -4), NO_ADDRESSES, 1, &old);
    MADE(MPI_Type_create_hvector(2, 3, -4, old, &type), MPI_COMBINER_HVECTOR, INTS(2, 3), ADDRESSES(-4), 1, &old);
    MADE(MPI_Type_indexed(2, lengths, places, old, &type), MPI_COMBINER_INDEXED, INTS(2, 3, 1, 7, -2), NO_ADDRESSES, 1,
         &old);
    MADE(MPI_Type_create_hindexed(2, lengths, bytes, old, &type), MPI_COMBINER_HINDEXED, INTS(2, 3, 1),
         ADDRESSES(64, -8), 1, &old);
    MADE(MPI_Type_create_indexed_block(2, 4, places, old, &type), MPI_COMBINER_INDEXED_BLOCK, INTS(2, 4, 7, -2),
         NO_ADDRESSES, 1, &old);
    MADE(MPI_Type_create_hindexed_block(2, 4, bytes, old, &type), MPI_COMBINER_HINDEXED_BLOCK, INTS(2, 4),
         ADDRESSES(64, -8), 1, &old);
    MPI_Datatype two[2] = {old, MPI_DOUBLE};
    MADE(MPI_Type_create_struct(2, lengths, bytes, two, &type), MPI_COMBINER_STRUCT, INTS(2, 3, 1), ADDRESSES(64, -8),
         2, two);
    int sizes[2] = {6, 8}, subsizes[2] = {2, 3}, starts[2] = {1, 4};
    MADE(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, old, &type), MPI_COMBINER_SUBARRAY,
         INTS(2, 6, 8, 2, 3, 1, 4, MPI_ORDER_FORTRAN), NO_ADDRESSES, 1, &old);
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2},
        psizes[2] = {3, 2};
    MADE(MPI_Type_create_darray(6, 5, 2, sizes, distribs, dargs, psizes, MPI_ORDER_C, old, &type),
         MPI_COMBINER_DARRAY,
         INTS(6, 5, 2, 6, 8, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, 2, 3, 2,
              MPI_ORDER_C),
         NO_ADDRESSES, 1, &old);
    MADE(MPI_Type_create_resized(old, -3, 100, &type), MPI_COMBINER_RESIZED, NO_INTS, ADDRESSES(-3, 100), 1, &old);
    OK(MPI_Type_free(&old));

    int n, combiner;
    OK(MPI_Type_get_envelope(MPI_INT, &n, &n, &n, &combiner));
    SAME(combiner, MPI_COMBINER_NAMED, "combiner of MPI_INT");
    MPI_Datatype none[1];
    ERROR(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, none), "MPI_INT");
}

/* Large counts are told by the `_c` forms only. */
static void large_counts(void)
{
    MPI_Datatype type, d[1];
    MPI_Count ni, na, nc, nd, c[4];
    MPI_Aint a[1];
    int n, combiner, i[4];
    OK(MPI_Type_create_hvector_c((MPI_Count)1 << 33, 3, (MPI_Count)1 << 20, MPI_INT, &type));
    ERROR(MPI_ERR_TYPE, MPI_Type_get_envelope(type, &n, &n, &n, &combiner), "MPI_Type_get_envelope_c");
    ERROR(MPI_ERR_TYPE, MPI_Type_get_contents(type, 4, 1, 1, i, a, d), "MPI_Type_get_contents_c");
    OK(MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nd, &combiner));
    CHECK(ni == 0 && na == 0 && nc == 3 && nd == 1, "envelope: %d %d %d %d", (int)ni, (int)na, (int)nc, (int)nd);
    SAME(combiner, MPI_COMBINER_HVECTOR, "combiner");
    ERROR(MPI_ERR_ARG, MPI_Type_get_contents_c(type, 0, 0, 2, 1, i, a, c, d), "max_large_counts");
    OK(MPI_Type_get_contents_c(type, 0, 0, 3, 1, i, a, c, d));
    CHECK(c[0] == (MPI_Count)1 << 33 && c[1] == 3 && c[2] == 1 << 20 && d[0] == MPI_INT, "contents");
    int size;
    MPI_Count size_c;
    OK(MPI_Type_size(type, &size));
    SAME(size, MPI_UNDEFINED, "MPI_Type_size of 96 GiB");
    OK(MPI_Type_size_c(type, &size_c));
    SAME(size_c, (MPI_Count)12 << 33, "MPI_Type_size_c");
    OK(MPI_Type_commit(&type));
    OK(MPI_Pack_size(1, type, MPI_COMM_SELF, &size));
    SAME(size, MPI_UNDEFINED, "MPI_Pack_size of 96 GiB");
    OK(MPI_Pack_size_c(1, type, MPI_COMM_SELF, &size_c));
    SAME(size_c, (MPI_Count)12 << 33, "MPI_Pack_size_c");
    OK(MPI_Type_free(&type));
}

/* A datatype that MPI_Type_get_contents gives is a new object: what becomes of it is nothing to the old one. */
static void new_objects(void)
{
    MPI_Datatype old, type, d[2];
    int key, i[2], length, flag;
    MPI_Aint a[1];
    void *value;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_deleted, &key, NULL));
    OK(MPI_Type_vector(2, 1, 3, MPI_SHORT, &old));
    OK(MPI_Type_set_attr(old, key, &key));
    OK(MPI_Type_set_name(old, "pair of shorts"));
    OK(MPI_Type_contiguous(2, old, &type));
    OK(MPI_Type_get_contents(type, 1, 0, 1, i, a, &d[0]));
    OK(MPI_Type_get_contents(type, 1, 0, 1, i, a, &d[1]));
    CHECK(d[0] != old && d[1] != old && d[0] != d[1], "handles: %s %s %s", HEX(old), HEX(d[0]), HEX(d[1]));
    OK(MPI_Type_set_name(d[0], "another"));
    OK(MPI_Type_get_name(old, name, &length));
    CHECK(strcmp(name, "pair of shorts") == 0, "name: %s", name);
    OK(MPI_Type_free(&d[0]));
    SAME(deleted, 0, "attributes deleted with a copy");
    OK(MPI_Type_get_attr(old, key, &value, &flag));
    CHECK(flag && value == &key, "the attribute has gone");
    OK(MPI_Type_free(&old));
    SAME(deleted, 1, "attributes deleted with the type");
    OK(MPI_Type_size(d[1], &length));
    SAME(length, 4, "size of a copy after the type was freed");
    OK(MPI_Type_free(&d[1]));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free_keyval(&key));
}

static void pairs(void)
{
    MPI_Datatype pair;
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    CHECK(pair == MPI_DOUBLE_INT, "pair of double and int: %s", HEX(pair));
    OK(MPI_Type_get_value_index(MPI_REAL, MPI_REAL, &pair));
    CHECK(pair == MPI_2REAL, "pair of reals: %s", HEX(pair));
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_DOUBLE, &pair));
    CHECK(pair == MPI_DATATYPE_NULL, "pair of doubles: %s", HEX(pair));
    /* A pair without a name would be allowed too; MPICH and Open MPI have none either. */
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_UINT64_T, &pair));
    CHECK(pair == MPI_DATATYPE_NULL, "pair of double and uint64_t: %s", HEX(pair));
}

/* Fortran's kinds: one handle for each request, which is nobody's to free. */
static void kinds(void)
{
    MPI_Datatype type, again;
    OK(MPI_Type_create_f90_real(10, MPI_UNDEFINED, &type));
    OK(MPI_Type_create_f90_real(10, MPI_UNDEFINED, &again));
    CHECK(type == again, "MPI_Type_create_f90_real gave %s and %s", HEX(type), HEX(again));
    made_by("a real", type, MPI_COMBINER_F90_REAL, INTS(10, MPI_UNDEFINED), NO_ADDRESSES, 0, NULL);
    ERROR(MPI_ERR_TYPE, MPI_Type_free(&again), "predefined");
    double in = 1.5, inout = 2;
    OK(MPI_Reduce_local(&in, &inout, 1, type, MPI_SUM));
    CHECK(inout == 3.5, "sum of reals: %g", inout);
    OK(MPI_Type_create_f90_complex(6, 30, &type));
    made_by("a complex number", type, MPI_COMBINER_F90_COMPLEX, INTS(6, 30), NO_ADDRESSES, 0, NULL);
    OK(MPI_Type_create_f90_integer(5, &type));
    made_by("an integer", type, MPI_COMBINER_F90_INTEGER, INTS(5), NO_ADDRESSES, 0, NULL);
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &type), "precision");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_real(34, 0, &type), "34");
    ERROR(MPI_ERR_ARG, MPI_Type_create_f90_integer(39, &type), "39");

    OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, sizeof(long), &type));
    CHECK(type == MPI_INTEGER8, "integer of 8 bytes: %s", HEX(type));
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, sizeof(float), &type));
    CHECK(type == MPI_REAL4, "real of 4 bytes: %s", HEX(type));
    OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &type));
    CHECK(type == MPI_COMPLEX16, "complex number of 16 bytes: %s", HEX(type));
    ERROR(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &type), "size", "5");
    ERROR(MPI_ERR_ARG, MPI_Type_match_size(77, 4, &type), "typeclass", "77");
}

/* What a status of so many ints tells. */
static void elements(void)
{
    MPI_Status status;
    memset(&status, 0, sizeof status);
    MPI_Datatype three, empty;
    OK(MPI_Type_contiguous(3, MPI_INT, &three));
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    static const MPI_Count numbers[] = {0, 1, 3, 2147483646, 2147483647, 2147483648, 6442450941, 6442450944,
                                        (MPI_Count)1 << 40};
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++) {
        MPI_Count number = numbers[at], got, in_threes = number % 3 ? MPI_UNDEFINED : number / 3;
        int small;
        OK(MPI_Status_set_elements_x(&status, MPI_INT, number));
        OK(MPI_Get_elements(&status, MPI_INT, &small));
        SAME(small, number > INT32_MAX ? MPI_UNDEFINED : number, "MPI_Get_elements of %lld", (long long)number);
        OK(MPI_Get_elements_x(&status, MPI_INT, &got));
        SAME(got, number, "MPI_Get_elements_x");
        OK(MPI_Get_elements_c(&status, three, &got));
        SAME(got, number, "MPI_Get_elements_c in threes");
        OK(MPI_Get_count(&status, three, &small));
        SAME(small, in_threes > INT32_MAX ? MPI_UNDEFINED : in_threes, "MPI_Get_count in threes of %lld",
             (long long)number);
        OK(MPI_Get_count_c(&status, three, &got));
        SAME(got, in_threes, "MPI_Get_count_c in threes of %lld", (long long)number);
        OK(MPI_Get_count_c(&status, empty, &got));
        SAME(got, number == 0 ? 0 : MPI_UNDEFINED, "MPI_Get_count_c in nothings");
        OK(MPI_Get_elements_c(&status, MPI_DOUBLE, &got));
        SAME(got, number % 2 ? MPI_UNDEFINED : number / 2, "MPI_Get_elements_c in doubles");
        OK(MPI_Get_elements_c(&status, MPI_SHORT_INT, &got));
        /* A short, an int, a short, an int: 6 bytes. */
        MPI_Count bytes = number * 4, rest = bytes % 6;
        SAME(got, rest == 4 ? MPI_UNDEFINED : bytes / 6 * 2 + rest / 2, "MPI_Get_elements_c in shorts and ints");
    }
    ERROR(MPI_ERR_COUNT, MPI_Status_set_elements_x(&status, empty, 1), "count");
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&empty));
}

static void packing(void)
{
    int values[4] = {1, 2, 3, 4}, position, size;
    char buffer[16];
    OK(MPI_Pack_size(3, MPI_INT, MPI_COMM_SELF, &size));
    CHECK(size >= 12, "MPI_Pack_size: %d", size);
    position = 0;
    OK(MPI_Pack(values, 3, MPI_INT, buffer, 16, &position, MPI_COMM_SELF));
    SAME(position, 12, "position after three ints");
    ERROR(MPI_ERR_TRUNCATE, MPI_Pack(values, 2, MPI_INT, buffer, 16, &position, MPI_COMM_SELF), "outbuf", "8", "4");
    SAME(position, 12, "position after a failure");
    OK(MPI_Pack(values + 3, 1, MPI_INT, buffer, 16, &position, MPI_COMM_SELF));
    position = 17;
    ERROR(MPI_ERR_ARG, MPI_Pack(values, 1, MPI_INT, buffer, 16, &position, MPI_COMM_SELF), "position", "17");
    position = -1;
    ERROR(MPI_ERR_ARG, MPI_Unpack(buffer, 16, &position, values, 1, MPI_INT, MPI_COMM_SELF), "position", "-1");
    position = 4;
    int got[4] = {0};
    ERROR(MPI_ERR_TRUNCATE, MPI_Unpack(buffer, 16, &position, got, 4, MPI_INT, MPI_COMM_SELF), "inbuf", "16", "12");
    OK(MPI_Unpack(buffer, 16, &position, got, 3, MPI_INT, MPI_COMM_SELF));
    CHECK(got[0] == 2 && got[1] == 3 && got[2] == 4, "unpacked: %d %d %d", got[0], got[1], got[2]);
    MPI_Datatype fresh;
    OK(MPI_Type_contiguous(1, MPI_INT, &fresh));
    position = 0;
    ERROR(MPI_ERR_TYPE, MPI_Pack(values, 1, fresh, buffer, 16, &position, MPI_COMM_SELF), "commit");
    OK(MPI_Type_free(&fresh));
    /* The position goes on by what is packed, whatever the elements' extent is. */
    MPI_Datatype spread;
    OK(MPI_Type_create_resized(MPI_INT, 0, 12, &spread));
    OK(MPI_Type_commit(&spread));
    int apart[4] = {5, 0, 0, 6};
    position = 0;
    OK(MPI_Pack(apart, 2, spread, buffer, 16, &position, MPI_COMM_SELF));
    SAME(position, 8, "position after packing two ints that are apart");
    OK(MPI_Pack(values, 1, MPI_INT, buffer, 16, &position, MPI_COMM_SELF));
    memset(apart, 0, sizeof apart);
    position = 0;
    OK(MPI_Unpack(buffer, 16, &position, apart, 2, spread, MPI_COMM_SELF));
    SAME(position, 8, "position after unpacking two ints that are apart");
    OK(MPI_Unpack(buffer, 16, &position, got, 1, MPI_INT, MPI_COMM_SELF));
    CHECK(apart[0] == 5 && apart[3] == 6 && got[0] == 1, "unpacked: %d %d %d", apart[0], apart[3], got[0]);
    MPI_Count long_position = 4;
    OK(MPI_Unpack_c(buffer, 16, &long_position, apart, 1, spread, MPI_COMM_SELF));
    SAME(long_position, 8, "position after unpacking with a large count");
    OK(MPI_Type_free(&spread));
    MPI_Datatype two;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &two));
    OK(MPI_Type_commit(&two));
    ERROR(MPI_ERR_COUNT, MPI_Send_c(values, (MPI_Count)1 << 60, two, 0, 0, MPI_COMM_SELF), "63 bits");
    ERROR(MPI_ERR_COUNT, MPI_Send_c(values, (MPI_Count)1 << 61, MPI_INT, 0, 0, MPI_COMM_SELF), "63 bits");
    ERROR(MPI_ERR_COUNT, MPI_Send_c(values, (MPI_Count)1 << 62, MPI_INT, 0, 0, MPI_COMM_SELF), "63 bits");
    OK(MPI_Type_free(&two));
    MPI_Aint at = 0;
    ERROR(MPI_ERR_TRUNCATE, MPI_Pack_external("external32", values, 5, MPI_INT, buffer, 16, &at), "20", "16");
    ERROR(MPI_ERR_ARG, MPI_Pack_external("native", values, 1, MPI_INT, buffer, 16, &at), "native");
}

/* `external32`: how long each predefined type is there, in which order its bytes are, and that they come back. */
static void external(void)
{
#define ONE(type, bytes) {type, #type, bytes, 1}
#define TWO(type, bytes) {type, #type, bytes, 2}
    static const struct {
        MPI_Datatype type;
        const char *name;
        int bytes, parts;
    } all[] = {
        ONE(MPI_PACKED, 1), ONE(MPI_BYTE, 1), ONE(MPI_CHAR, 1), ONE(MPI_UNSIGNED_CHAR, 1), ONE(MPI_SIGNED_CHAR, 1),
        ONE(MPI_WCHAR, 2), ONE(MPI_SHORT, 2), ONE(MPI_UNSIGNED_SHORT, 2), ONE(MPI_INT, 4), ONE(MPI_LONG, 4),
        ONE(MPI_UNSIGNED, 4), ONE(MPI_UNSIGNED_LONG, 4), ONE(MPI_LONG_LONG_INT, 8), ONE(MPI_UNSIGNED_LONG_LONG, 8),
        ONE(MPI_FLOAT, 4), ONE(MPI_DOUBLE, 8), ONE(MPI_LONG_DOUBLE, 16), ONE(MPI_C_BOOL, 1), ONE(MPI_INT8_T, 1),
        ONE(MPI_INT16_T, 2), ONE(MPI_INT32_T, 4), ONE(MPI_INT64_T, 8), ONE(MPI_UINT8_T, 1), ONE(MPI_UINT16_T, 2),
        ONE(MPI_UINT32_T, 4), ONE(MPI_UINT64_T, 8), ONE(MPI_AINT, 8), ONE(MPI_COUNT, 8), ONE(MPI_OFFSET, 8),
        TWO(MPI_C_COMPLEX, 4), TWO(MPI_C_DOUBLE_COMPLEX, 8), TWO(MPI_C_LONG_DOUBLE_COMPLEX, 16),
        ONE(MPI_CHARACTER, 1), ONE(MPI_LOGICAL, 4), ONE(MPI_INTEGER, 4), ONE(MPI_REAL, 4),
        ONE(MPI_DOUBLE_PRECISION, 8), TWO(MPI_COMPLEX, 4), TWO(MPI_DOUBLE_COMPLEX, 8), ONE(MPI_INTEGER1, 1),
        ONE(MPI_INTEGER2, 2), ONE(MPI_INTEGER4, 4), ONE(MPI_INTEGER8, 8), ONE(MPI_INTEGER16, 16),
        ONE(MPI_LOGICAL1, 1), ONE(MPI_LOGICAL2, 2), ONE(MPI_LOGICAL4, 4), ONE(MPI_LOGICAL8, 8), ONE(MPI_LOGICAL16, 16),
        ONE(MPI_REAL2, 2), ONE(MPI_REAL4, 4), ONE(MPI_REAL8, 8), ONE(MPI_REAL16, 16), TWO(MPI_COMPLEX4, 2),
        TWO(MPI_COMPLEX8, 4), TWO(MPI_COMPLEX16, 8), TWO(MPI_COMPLEX32, 16), ONE(MPI_CXX_BOOL, 1),
        TWO(MPI_CXX_FLOAT_COMPLEX, 4), TWO(MPI_CXX_DOUBLE_COMPLEX, 8), TWO(MPI_CXX_LONG_DOUBLE_COMPLEX, 16)};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        MPI_Datatype type = all[at].type;
        const char *name = all[at].name;
        int native, bytes = all[at].bytes * all[at].parts;
        MPI_Aint size, position = 0;
        OK(MPI_Type_size(type, &native));
        OK(MPI_Pack_external_size("external32", 3, type, &size));
        SAME(size, 3 * bytes, "external size of three %s", name);
        unsigned char in[96] = {0}, packed[96], out[96];
        memset(out, 0, sizeof out);
        /* Small numbers, so that they fit wherever the external form is shorter; for real numbers just bytes. An 80-bit
         * number must have its integer bit, and a truth value must be 0 or 1. */
        int extended = type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX || type == MPI_CXX_LONG_DOUBLE_COMPLEX;
        int part = native / all[at].parts;
        for (int i = 0; i < 3 * all[at].parts; i++) {
            if (extended) {
                long double value = -1.25L * (i + 1);
                memcpy(in + i * part, &value, 10);
            } else {
                in[i * part] = type == MPI_C_BOOL || type == MPI_CXX_BOOL ? i & 1 : (unsigned char)(i + 1);
                if (part > 1)
                    in[i * part + 1] = (unsigned char)(i + 11);
            }
        }
        OK(MPI_Pack_external("external32", in, 3, type, packed, sizeof packed, &position));
        SAME(position, size, "position after three %s", name);
        for (int i = 0; i < 3 * all[at].parts && !extended; i++)
            for (int byte = 0; byte < all[at].bytes; byte++)
                SAME(packed[i * all[at].bytes + byte], in[i * part + all[at].bytes - 1 - byte], "byte %d of %s", byte,
                     name);
        if (extended)
            SAME(packed[0] << 8 | packed[1], 0xbfff, "sign and exponent of %s", name);
        position = 0;
        OK(MPI_Unpack_external("external32", packed, size, &position, out, 3, type));
        CHECK(memcmp(in, out, sizeof in) == 0, "three %s did not come back", name);
    }
}

/* Each constructor, with arguments whose type no 64 bits can describe. */
static void overflow(void)
{
    const MPI_Count most = INT64_MAX, half = (MPI_Count)1 << 62;
    MPI_Count lengths[2] = {half, half}, places[2] = {0, most};
    MPI_Datatype type, large, two[2];
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_contiguous_c(most, MPI_INT, &type), "63 bits");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_vector_c(2, most, 1, MPI_INT, &type), "63 bits");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_vector_c(2, 1, most, MPI_INT, &type), "stride");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_create_hvector_c(3, 1, most, MPI_INT, &type), "64 bits");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_indexed_c(2, lengths, places, MPI_BYTE, &type), "63 bits");
    lengths[0] = lengths[1] = 1;
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_indexed_c(2, lengths, places, MPI_INT, &type), "displacement");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_create_hindexed_c(2, lengths, places, MPI_INT, &type), "64 bits");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_create_indexed_block_c(2, 1, places, MPI_INT, &type), "displacement");
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_create_hindexed_block_c(2, 1, places, MPI_INT, &type), "64 bits");
    OK(MPI_Type_contiguous_c(half, MPI_BYTE, &large));
    two[0] = two[1] = large;
    places[1] = 0;
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_create_struct_c(2, lengths, places, two, &type), "63 bits");
    OK(MPI_Type_free(&large));
    MPI_Count sizes[2] = {(MPI_Count)1 << 40, (MPI_Count)1 << 40}, ones[2] = {1, 1}, zeros[2] = {0, 0};
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_create_subarray_c(2, sizes, ones, zeros, MPI_ORDER_C, MPI_INT, &type),
          "sizes");
    int none[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_NONE}, one[2] = {1, 1};
    ERROR(MPI_ERR_VALUE_TOO_LARGE,
          MPI_Type_create_darray_c(1, 0, 2, sizes, none, one, one, MPI_ORDER_C, MPI_INT, &type), "sizes");
    ERROR(MPI_ERR_ARG, MPI_Type_create_resized_c(MPI_INT, most, 1, &type), "upper bound");
    /* Ten of these touch: their sum is too long for 64 bits as well. */
    MPI_Count many[10], at[10];
    for (int i = 0; i < 10; i++) {
        many[i] = half;
        at[i] = 0;
    }
    at[1] = half;
    ERROR(MPI_ERR_VALUE_TOO_LARGE, MPI_Type_indexed_c(10, many, at, MPI_BYTE, &type), "63 bits");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    constructors();
    large_counts();
    new_objects();
    pairs();
    kinds();
    elements();
    packing();
    external();
    overflow();
    return end("datatypes");
}
