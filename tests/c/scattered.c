/* Large messages between memory that is not one run on either side or on one: long rows, a sub-array, blocks of uneven lengths, types
 * with a negative lower bound; of exactly the length, truncated, and shorter. What is not data is not touched. */
#include "check.h"

enum { KINDS = 7, MOST = 6 << 20 };

static MPI_Datatype types[KINDS];
static int counts[KINDS];
/* Where in the buffers their address is. */
static MPI_Aint origins[KINDS];
static const char *const names[KINDS] = {
    "one run", "long rows", "short rows", "a sub-array", "uneven blocks", "rows backwards", "resized rows",
};

static void add(int kind, int count, MPI_Datatype type)
{
    MPI_Aint lower, extent;
    types[kind] = type;
    counts[kind] = count;
    MPI_Type_commit(&types[kind]);
    MPI_Type_get_true_extent(type, &lower, &extent);
    MPI_Aint lb, step;
    MPI_Type_get_extent(type, &lb, &step);
    /* The first byte of data of all elements stands 64 bytes from the beginning. */
    MPI_Aint last = lower + (count - 1) * step;
    origins[kind] = 64 - (last < lower ? last : lower);
    MPI_Aint end = (last < lower ? lower : last) + extent + origins[kind];
    CHECK(end + 64 <= MOST, "%s takes %ld bytes", names[kind], (long)end);
}

static void make(void)
{
    MPI_Datatype type, rows;
    add(0, 2000000, MPI_BYTE);
    /* 40 rows of 48 KiB. */
    MPI_Type_vector(40, 48 << 10, 100 << 10, MPI_BYTE, &type);
    add(1, 1, type);
    /* 1500 rows of 1 KiB, more than are read at a time. */
    MPI_Type_vector(1500, 128, 200, MPI_DOUBLE, &type);
    add(2, 1, type);
    int sizes[3] = {60, 50, 1800}, subsizes[3] = {30, 40, 1000}, starts[3] = {20, 5, 700};
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_BYTE, &type);
    add(3, 1, type);
    /* From nothing to 60000 bytes, many short ones among them, in no order. */
    static int lengths[400], places[400];
    int at = 0;
    for (int i = 0; i < 400; i++) {
        int block = i * 151 % 400;
        lengths[block] = block % 10 == 0 ? 900 * block / 6 : block % 7;
        places[block] = at;
        at += lengths[block] + 1 + block % 5;
    }
    MPI_Type_indexed(400, lengths, places, MPI_BYTE, &type);
    add(4, 1, type);
    /* The first row is the last in memory. */
    MPI_Type_create_hvector(50, 30000, -50000, MPI_BYTE, &type);
    add(5, 1, type);
    /* Elements that lie before one another: the lower bound is above the data, and the next element below. */
    MPI_Type_vector(10, 20000, 30000, MPI_BYTE, &rows);
    MPI_Type_create_resized(rows, 310000, -310000, &type);
    add(6, 6, type);
    MPI_Type_free(&rows);
}

/* `theirs` is what the process before has in its `out`. */
static unsigned char *out, *theirs, *in, *copy;

static int size_of(int kind)
{
    int size;
    MPI_Type_size(types[kind], &size);
    return size * counts[kind];
}

/* One message to the next rank, out of memory of the kind `from` into that of the kind `to`; `late`: received once it has come. */
static void exchange(int from, int to, int late)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    int sent = size_of(from), room = size_of(to), fits = sent < room ? sent : room;
    MPI_Request requests[2];
    MPI_Status status;
    memset(in, 0xcc, MOST);
    if (!late)
        MPI_Irecv(in + origins[to], counts[to], types[to], before, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out + origins[from], counts[from], types[from], next, 5, MPI_COMM_WORLD, &requests[0]);
    int code;
    if (late) {
        MPI_Probe(before, 5, MPI_COMM_WORLD, &status);
        STATUS(status, before, 5, sent);
        code = MPI_Recv(in + origins[to], counts[to], types[to], before, 5, MPI_COMM_WORLD, &status);
    } else {
        code = MPI_Wait(&requests[1], &status);
    }
    SAME(class_of(code), sent > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS, "class of a receive of %d bytes into %d, %s into %s", sent,
         room, names[from], names[to]);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    /* What the sender's data is, packed, and then where the receiver should have it. */
    static unsigned char packed[MOST], expected[MOST];
    int position = 0;
    OK(MPI_Pack(theirs + origins[from], counts[from], types[from], packed, MOST, &position, MPI_COMM_WORLD));
    SAME(position, sent, "packed bytes of %s", names[from]);
    memset(copy, 0xcc, MOST);
    /* What did not come is as it was. */
    memset(expected, 0xcc, (size_t)room);
    memcpy(expected, packed, (size_t)fits);
    position = 0;
    OK(MPI_Unpack(expected, room, &position, copy + origins[to], counts[to], types[to], MPI_COMM_WORLD));
    if (memcmp(in, copy, MOST) == 0)
        return;
    for (int i = 0; i < MOST; i++)
        SAME(in[i], copy[i], "byte %d of %s into %s%s", i, names[from], names[to], late ? ", late" : "");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    out = malloc(MOST), theirs = malloc(MOST), in = malloc(MOST), copy = malloc(MOST);
    make();
    for (int from = 0; from < KINDS; from++) {
        int before = (me + ranks - 1) % ranks;
        for (int i = 0; i < MOST; i++) {
            out[i] = pattern((unsigned)(me * 100 + from), (size_t)i);
            theirs[i] = pattern((unsigned)(before * 100 + from), (size_t)i);
        }
        for (int to = 0; to < KINDS; to++) {
            if (brief() && (from + to) % 3 != 0)
                continue;
            exchange(from, to, (from + to) % 2);
        }
    }
    for (int kind = 1; kind < KINDS; kind++)
        MPI_Type_free(&types[kind]);
    free(out), free(theirs), free(in), free(copy);
    return end("scattered");
}
