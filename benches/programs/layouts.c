/* Messages of derived types, and packing them.
   usage: layouts send MILLISECONDS KIND...   prints: layouts KIND MICROSECONDS   one way between ranks 0 and 1: half the
                                              round trip
          layouts pack MILLISECONDS KIND...   prints: layouts KIND RATIO   MPI_Pack's time by that of a loop in C
   KIND: column   a column of a 4096 x 4096 matrix of doubles
         x, y, z  a face of a 128^3 array of doubles, without its halo, across the slowest, the middle, the fastest index
         indexed  10,000 blocks of 1 to 4 doubles
         records  10,000 structures of a char, a double and three ints
         rows     1024 rows of 4 KiB, 8 KiB apart */
#include <stddef.h>

#include "../loops/datatype.c"
#include "bench.h"

enum { MATRIX = 4096, CUBE = 128, BLOCKS = 10000, ROWS = 1024, ROW = 4096 };

static int rank, count;
static MPI_Datatype type;
static char *buffer, *packed;
static const char *kind;
/* What the loops need to know of the type. */
static long face[3];
static int64_t lengths[BLOCKS], places[BLOCKS];

/* Makes the type, and says in how many bytes lie so many elements of it. */
static size_t layout(void)
{
    size_t bytes;
    count = 1;
    if (strcmp(kind, "column") == 0) {
        MPI_Type_vector(MATRIX, 1, MATRIX, MPI_DOUBLE, &type);
        bytes = (size_t)MATRIX * MATRIX * sizeof(double);
    } else if (strlen(kind) == 1 && strchr("xyz", kind[0])) {
        int sizes[3] = {CUBE, CUBE, CUBE}, subsizes[3], starts[3] = {1, 1, 1}, i;
        for (i = 0; i < 3; i++)
            face[i] = subsizes[i] = i == kind[0] - 'x' ? 1 : CUBE - 2;
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
        bytes = (size_t)CUBE * CUBE * CUBE * sizeof(double);
    } else if (strcmp(kind, "indexed") == 0) {
        static int counts[BLOCKS], offsets[BLOCKS];
        unsigned random = 1, at = 0;
        int i;
        for (i = 0; i < BLOCKS; i++) {
            random = random * 1103515245u + 12345u;
            lengths[i] = counts[i] = 1 + (int)(random >> 16) % 4;
            places[i] = offsets[i] = (int)at;
            at += (unsigned)counts[i] + 1 + (random >> 20) % 8;
        }
        MPI_Type_indexed(BLOCKS, counts, offsets, MPI_DOUBLE, &type);
        bytes = at * sizeof(double);
    } else if (strcmp(kind, "records") == 0) {
        int counts[3] = {1, 1, 3};
        MPI_Aint offsets[3] = {offsetof(struct record, tag), offsetof(struct record, value),
                               offsetof(struct record, id)};
        MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, plain;
        MPI_Type_create_struct(3, counts, offsets, types, &plain);
        MPI_Type_create_resized(plain, 0, sizeof(struct record), &type);
        MPI_Type_free(&plain);
        count = BLOCKS;
        bytes = BLOCKS * sizeof(struct record);
    } else if (strcmp(kind, "rows") == 0) {
        MPI_Type_vector(ROWS, ROW, 2 * ROW, MPI_CHAR, &type);
        bytes = (size_t)ROWS * 2 * ROW;
    } else {
        fprintf(stderr, "layouts: %s is none of column, x, y, z, indexed, records, rows\n", kind);
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    MPI_Type_commit(&type);
    return bytes;
}

static void exchange(long times)
{
    for (; times > 0; times--) {
        if (rank == 0) {
            MPI_Send(buffer, count, type, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, count, type, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, count, type, 0, 2, MPI_COMM_WORLD);
        }
    }
}

static void packs(long times)
{
    int bytes, position;
    MPI_Pack_size(count, type, MPI_COMM_WORLD, &bytes);
    for (; times > 0; times--) {
        position = 0;
        MPI_Pack(buffer, count, type, packed, bytes, &position, MPI_COMM_WORLD);
    }
}

/* The same bytes, as a programmer would gather them. */
static void loops(long times)
{
    const double *array = (const double *)buffer;
    int i;
    for (; times > 0; times--) {
        if (strcmp(kind, "column") == 0)
            pack_strided(array, MATRIX, MATRIX, (double *)packed);
        else if (strcmp(kind, "indexed") == 0)
            pack_indexed(array, BLOCKS, lengths, places, (double *)packed);
        else if (strcmp(kind, "records") == 0)
            pack_records((const struct record *)buffer, BLOCKS, packed);
        else if (strcmp(kind, "rows") == 0)
            for (i = 0; i < ROWS; i++)
                memcpy(packed + (size_t)i * ROW, buffer + (size_t)i * 2 * ROW, ROW);
        else
            pack_box(array, CUBE, face, (double *)packed);
    }
}

/* MPI_Pack's time by the loop's: the median of several ratios, the two in turn. */
static double ratio(double milliseconds)
{
    enum { PAIRS = 5 };
    double ratios[PAIRS];
    int i;
    for (i = 0; i < PAIRS; i++) {
        double pack = microseconds(packs, milliseconds / (2 * PAIRS));
        ratios[i] = pack / microseconds(loops, milliseconds / (2 * PAIRS));
    }
    qsort(ratios, PAIRS, sizeof *ratios, by_value);
    return ratios[PAIRS / 2];
}

/* Both must give the same bytes, or the ratio is of no interest. */
static void check(size_t bytes)
{
    int size;
    char *expected;
    MPI_Type_size(type, &size);
    expected = buffer_of((size_t)size * count);
    for (; bytes > 0; bytes--)
        buffer[bytes - 1] = (char)(bytes * 37 >> 4);
    packs(1);
    memcpy(expected, packed, (size_t)size * count);
    memset(packed, 0, (size_t)size * count);
    loops(1);
    if (memcmp(expected, packed, (size_t)size * count) != 0) {
        fprintf(stderr, "layouts: MPI_Pack of %s is wrong\n", kind);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(expected);
}

int main(int argc, char **argv)
{
    int i, packing;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    packing = argc > 1 && strcmp(argv[1], "pack") == 0;
    for (i = 3; i < argc; i++) {
        double result;
        size_t bytes;
        int room;
        kind = argv[i];
        bytes = layout();
        buffer = buffer_of(bytes);
        if (packing) {
            MPI_Pack_size(count, type, MPI_COMM_WORLD, &room);
            packed = buffer_of(room);
            check(bytes);
            result = ratio(atof(argv[2]));
            free(packed);
        } else {
            result = microseconds(exchange, atof(argv[2])) / 2;
        }
        if (rank == 0)
            print("layouts", kind, result);
        MPI_Type_free(&type);
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
