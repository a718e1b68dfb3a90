/* Messages of derived types: columns of a matrix, types that differ on both sides, and what Get_count tells of them. */
#include "check.h"

enum { ROWS = 300, COLUMNS = 40 };

static double matrix[ROWS][COLUMNS];

static void blank(void)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            matrix[i][j] = -1;
}

/* The last columns go to the next rank's first ones, as in a halo exchange. */
static void columns(int width, int large)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Datatype column;
    if (large)
        MPI_Type_vector_c(ROWS, width, COLUMNS, MPI_DOUBLE, &column);
    else
        MPI_Type_vector(ROWS, width, COLUMNS, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int size;
    MPI_Aint lower, extent;
    MPI_Type_size(column, &size);
    SAME(size, ROWS * width * (int)sizeof(double), "size of %d columns", width);
    MPI_Type_get_extent(column, &lower, &extent);
    SAME(extent, ((ROWS - 1) * COLUMNS + width) * (int)sizeof(double), "extent of %d columns", width);
    blank();
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < width; j++)
            matrix[i][COLUMNS - width + j] = me * 1e6 + i * 100 + j;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&matrix[0][0], 1, column, before, 1, MPI_COMM_WORLD, &request);
    MPI_Send(&matrix[0][COLUMNS - width], 1, column, next, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    int count;
    MPI_Get_count(&status, column, &count);
    SAME(count, 1, "MPI_Get_count in columns");
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    SAME(count, ROWS * width, "MPI_Get_count in doubles");
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            double expected = j < width              ? before * 1e6 + i * 100 + j
                              : j >= COLUMNS - width ? me * 1e6 + i * 100 + (j - COLUMNS + width)
                                                     : -1;
            CHECK(matrix[i][j] == expected, "element %d,%d: expected %g, got %g", i, j, expected, matrix[i][j]);
        }
    MPI_Type_free(&column);
    CHECK(column == MPI_DATATYPE_NULL, "MPI_Type_free left the handle");
}

/* A column sent as such arrives as a row of plain doubles, and the other way round: the matrix is transposed. */
static void transpose(void)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Datatype column, step;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
    /* Resized, so that the next element is the next column. */
    MPI_Type_create_resized(column, 0, sizeof(double), &step);
    MPI_Type_commit(&step);
    static double got[COLUMNS][ROWS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            matrix[i][j] = me * 1e6 + i * 1000 + j;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(got, ROWS * COLUMNS, MPI_DOUBLE, before, 2, MPI_COMM_WORLD, &request);
    MPI_Send(matrix, COLUMNS, step, next, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    STATUS(status, before, 2, ROWS * COLUMNS * (int)sizeof(double));
    for (int j = 0; j < COLUMNS; j++)
        for (int i = 0; i < ROWS; i++)
            CHECK(got[j][i] == before * 1e6 + i * 1000 + j, "transposed element %d,%d: got %g", i, j, got[j][i]);
    /* And back into columns. */
    blank();
    MPI_Irecv(matrix, COLUMNS, step, next, 3, MPI_COMM_WORLD, &request);
    MPI_Send(got, ROWS * COLUMNS, MPI_DOUBLE, before, 3, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            CHECK(matrix[i][j] == me * 1e6 + i * 1000 + j, "element %d,%d that went round: got %g", i, j, matrix[i][j]);
    MPI_Type_free(&step);
    MPI_Type_free(&column);
}

/* Records with holes: what lies in the holes is not touched. */
static void records(void)
{
    struct record {
        char tag;
        double value;
        int32_t id[3];
    };
    enum { N = 1000 };
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    int lengths[3] = {1, 1, 3};
    MPI_Aint places[3] = {offsetof(struct record, tag), offsetof(struct record, value), offsetof(struct record, id)};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT32_T}, packed, record;
    MPI_Type_create_struct(3, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct record), &record);
    MPI_Type_commit(&record);
    int size;
    MPI_Type_size(record, &size);
    SAME(size, 21, "size of a record");
    static struct record out[N], in[N];
    memset(out, 0x11, sizeof out);
    memset(in, 0x77, sizeof in);
    for (int i = 0; i < N; i++) {
        out[i].tag = (char)(i % 100);
        out[i].value = me + i / 8.0;
        for (int j = 0; j < 3; j++)
            out[i].id[j] = me * 100000 + i * 3 + j;
    }
    MPI_Request request;
    MPI_Status status;
    MPI_Isend(out, N, record, next, 4, MPI_COMM_WORLD, &request);
    MPI_Recv(in, N, record, before, 4, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int count;
    MPI_Get_count(&status, record, &count);
    SAME(count, N, "MPI_Get_count in records");
    for (int i = 0; i < N; i++) {
        SAME(in[i].tag, i % 100, "tag of record %d", i);
        CHECK(in[i].value == before + i / 8.0, "value of record %d: got %g", i, in[i].value);
        for (int j = 0; j < 3; j++)
            SAME(in[i].id[j], before * 100000 + i * 3 + j, "id %d of record %d", j, i);
        SAME(((char *)&in[i])[1], 0x77, "hole in record %d", i);
    }
    MPI_Type_free(&record);
    MPI_Type_free(&packed);
}

/* A message that is no whole number of elements has no count; in bytes, and in elements, it has. */
static void counts(void)
{
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    int values[12] = {0}, into[12], count;
    MPI_Count large;
    MPI_Request request;
    MPI_Status status;
    for (int sent = 0; sent <= 12; sent++) {
        MPI_Isend(values, sent, MPI_INT, me, 6, MPI_COMM_WORLD, &request);
        MPI_Recv(into, 4, three, me, 6, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Get_count(&status, three, &count);
        SAME(count, sent % 3 ? MPI_UNDEFINED : sent / 3, "MPI_Get_count of %d ints in threes", sent);
        MPI_Get_count_c(&status, three, &large);
        SAME(large, sent % 3 ? MPI_UNDEFINED : sent / 3, "MPI_Get_count_c of %d ints in threes", sent);
        MPI_Get_elements(&status, three, &count);
        SAME(count, sent, "MPI_Get_elements of %d ints", sent);
    }
    /* A type of no size. */
    MPI_Datatype none;
    MPI_Type_contiguous(0, MPI_INT, &none);
    MPI_Type_commit(&none);
    MPI_Isend(values, 2, none, me, 6, MPI_COMM_WORLD, &request);
    MPI_Recv(into, 2, none, me, 6, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Get_count(&status, none, &count);
    SAME(count, 0, "MPI_Get_count in elements of no size");
    MPI_Type_free(&none);
    /* A type that is freed while messages of it are under way. */
    MPI_Isend(values, 4, three, me, 7, MPI_COMM_WORLD, &request);
    MPI_Type_free(&three);
    MPI_Recv(into, 12, MPI_INT, me, 7, MPI_COMM_WORLD, &status);
    STATUS(status, me, 7, 48);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int width = 1; width <= 16; width *= 4) {
        columns(width, 0);
        columns(width, 1);
    }
    transpose();
    records();
    counts();
    return end("layouts");
}
