/* Cartesian topologies: sizes, grids, coordinates, shifts, parts, duplicates, errors. */
#include "check.h"

static void dims(int nodes, int number, const int *given, const int *expected)
{
    int got[8];
    for (int i = 0; i < number; i++)
        got[i] = given[i];
    OK(MPI_Dims_create(nodes, number, got));
    for (int i = 0; i < number; i++)
        SAME(got[i], expected[i], "size %d of a grid of %d nodes in %d dimensions", i, nodes, number);
}

#define DIMS(nodes, number, ...) dims(nodes, number, ((const int[][8])__VA_ARGS__)[0], ((const int[][8])__VA_ARGS__)[1])

static void sizes(void)
{
    /* The standard's examples. */
    DIMS(6, 2, {{0, 0}, {3, 2}});
    DIMS(7, 2, {{0, 0}, {7, 1}});
    DIMS(6, 3, {{0, 3, 0}, {2, 3, 1}});
    OK(MPI_Dims_create(1, 0, NULL));

    DIMS(1, 3, {{0, 0, 0}, {1, 1, 1}});
    DIMS(24, 3, {{0, 0, 0}, {4, 3, 2}});
    DIMS(36, 3, {{0, 0, 0}, {4, 3, 3}});
    DIMS(1080, 3, {{0, 0, 0}, {12, 10, 9}});
    DIMS(1 << 30, 3, {{0, 0, 0}, {1024, 1024, 1024}});
    DIMS(2147483647, 2, {{0, 0}, {2147483647, 1}});
    DIMS(12, 2, {{0, 12}, {1, 12}});
    DIMS(12, 2, {{3, 4}, {3, 4}});
    DIMS(48, 5, {{0, 2, 0, 2, 0}, {3, 2, 2, 2, 2}});
}

static void errors(void)
{
    int sizes[3] = {0, 3, 0};
    ERROR(MPI_ERR_DIMS, MPI_Dims_create(7, 3, sizes), "nnodes", "7", "dims");
    SAME(sizes[0], 0, "a size that was not to be had");
    sizes[2] = -2;
    ERROR(MPI_ERR_DIMS, MPI_Dims_create(6, 3, sizes), "dims[2]", "-2");
    sizes[0] = 1, sizes[2] = 1;
    ERROR(MPI_ERR_DIMS, MPI_Dims_create(6, 3, sizes), "nnodes", "6", "3");
    ERROR(MPI_ERR_DIMS, MPI_Dims_create(2, 0, sizes), "nnodes", "2");
    ERROR(MPI_ERR_DIMS, MPI_Dims_create(2, -1, sizes), "ndims", "-1");
    ERROR(MPI_ERR_ARG, MPI_Dims_create(2, 1, NULL), "dims");
    ERROR(MPI_ERR_ARG, MPI_Dims_create(0, 1, sizes), "nnodes", "0");
    ERROR(MPI_ERR_ARG, MPI_Dims_create(-4, 1, sizes), "nnodes", "-4");
}

static MPI_Comm grid(MPI_Comm old, int number, const int *dims, const int *periods, int reorder)
{
    MPI_Comm comm;
    OK(MPI_Cart_create(old, number, dims, periods, reorder, &comm));
    if (comm != MPI_COMM_NULL)
        OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return comm;
}

static int kind(MPI_Comm comm)
{
    int status = 0;
    OK(MPI_Topo_test(comm, &status));
    return status;
}

/* What a grid of these sizes says. */
static void says(MPI_Comm comm, int number, const int *dims, const int *periods)
{
    int rank, found = -1, sizes[8], wraps[8], coords[8], places = 1;
    OK(MPI_Comm_rank(comm, &rank));
    SAME(kind(comm), MPI_CART, "MPI_Topo_test");
    OK(MPI_Cartdim_get(comm, &found));
    SAME(found, number, "dimensions");
    OK(MPI_Cart_get(comm, 8, sizes, wraps, coords));
    int expected = 0;
    for (int i = 0; i < number; i++) {
        SAME(sizes[i], dims[i], "size %d", i);
        SAME(wraps[i], periods[i] != 0, "period %d", i);
        expected = expected * dims[i] + coords[i];
        places *= dims[i];
    }
    SAME(rank, expected, "rank in row-major order");
    for (int other = 0; other < places; other++) {
        OK(MPI_Cart_coords(comm, other, number, coords));
        expected = 0;
        for (int i = 0; i < number; i++)
            expected = expected * dims[i] + coords[i];
        SAME(expected, other, "coordinates of rank %d", other);
        for (int i = 0; i < number; i++)
            if (periods[i])
                coords[i] += dims[i] * (other % 5 - 2);
        OK(MPI_Cart_rank(comm, coords, &found));
        SAME(found, other, "rank of coordinates");
    }
    for (int i = 0; i < number; i++)
        for (int by = -4; by <= 4; by++) {
            int source, dest;
            OK(MPI_Cart_shift(comm, i, by, &source, &dest));
            for (int side = -1; side <= 1; side += 2) {
                OK(MPI_Cart_coords(comm, rank, number, coords));
                coords[i] += side * by;
                int wanted = MPI_PROC_NULL;
                if (periods[i] || (coords[i] >= 0 && coords[i] < dims[i]))
                    OK(MPI_Cart_rank(comm, coords, &wanted));
                SAME(side < 0 ? source : dest, wanted, "shift of dimension %d by %d", i, side * by);
            }
        }
}

/* A message to the next process of each dimension arrives from the one before. */
static void shifted_messages(MPI_Comm comm, int number)
{
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    for (int i = 0; i < number; i++) {
        int source, dest, got = -1;
        OK(MPI_Cart_shift(comm, i, 1, &source, &dest));
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, dest, i, &got, 1, MPI_INT, source, i, comm, MPI_STATUS_IGNORE));
        SAME(got, source == MPI_PROC_NULL ? -1 : source, "from the one before in dimension %d", i);
    }
}

static void grids(void)
{
    for (int number = 1; number <= 3; number++)
        for (int which = 0; which < 1 << number; which++) {
            int dims[3] = {0, 0, 0}, periods[3];
            OK(MPI_Dims_create(ranks, number, dims));
            for (int i = 0; i < number; i++)
                periods[i] = which >> i & 1 ? 7 : 0;
            MPI_Comm comm = grid(MPI_COMM_WORLD, number, dims, periods, 0), twin;
            CHECK(comm != MPI_COMM_NULL, "all have a place");
            int result;
            OK(MPI_Comm_compare(MPI_COMM_WORLD, comm, &result));
            SAME(result, MPI_CONGRUENT, "without reordering");
            says(comm, number, dims, periods);
            shifted_messages(comm, number);
            OK(MPI_Comm_dup(comm, &twin));
            says(twin, number, dims, periods);
            OK(MPI_Comm_compare(comm, twin, &result));
            SAME(result, MPI_CONGRUENT, "a duplicate");
            OK(MPI_Comm_free(&twin));
            MPI_Request request;
            OK(MPI_Comm_idup(comm, &twin, &request));
            says(twin, number, dims, periods);
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            shifted_messages(twin, number);
            OK(MPI_Comm_free(&twin));
            OK(MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &twin));
            says(twin, number, dims, periods);
            OK(MPI_Comm_free(&twin));
            OK(MPI_Comm_split(comm, 0, 0, &twin));
            SAME(kind(twin), MPI_UNDEFINED, "MPI_Comm_split");
            OK(MPI_Comm_free(&twin));
            OK(MPI_Comm_free(&comm));
        }
    SAME(kind(MPI_COMM_WORLD), MPI_UNDEFINED, "of the world");
}

/* A grid of no place. rsmpi's example of MPI_Cart_map asks for 2 x 0 places where there are fewer than 4 processes. */
static void grids_of_nobody(void)
{
    for (int which = 0; which < 3; which++)
        for (int reorder = 0; reorder < 2; reorder++) {
            int dims[3] = {2, ranks + 1, 3}, periods[3] = {1, 0, 1}, place = -1;
            dims[which] = 0;
            MPI_Comm comm = grid(MPI_COMM_WORLD, 3, dims, periods, reorder);
            CHECK(comm == MPI_COMM_NULL, "nobody has a place");
            OK(MPI_Cart_map(MPI_COMM_WORLD, 3, dims, periods, &place));
            SAME(place, MPI_UNDEFINED, "no place");
        }
}

/* Grids with fewer places than processes, and without dimensions. */
static void small_grids(void)
{
    for (int size = 1; size <= ranks; size++)
        for (int reorder = 0; reorder < 2; reorder++) {
            int period = 1;
            MPI_Comm comm = grid(MPI_COMM_WORLD, 1, &size, &period, reorder);
            SAME(comm != MPI_COMM_NULL, me < size, "a place for the first %d", size);
            if (comm != MPI_COMM_NULL) {
                says(comm, 1, &size, &period);
                OK(MPI_Comm_free(&comm));
            }
        }
    MPI_Comm comm = grid(MPI_COMM_WORLD, 0, NULL, NULL, 1);
    SAME(comm != MPI_COMM_NULL, me == 0, "a grid of one place");
    if (comm == MPI_COMM_NULL)
        return;
    int number = -1, other = -1, untouched[1] = {77};
    SAME(kind(comm), MPI_CART, "without dimensions");
    OK(MPI_Cartdim_get(comm, &number));
    SAME(number, 0, "dimensions");
    OK(MPI_Cart_get(comm, 1, untouched, untouched, untouched));
    OK(MPI_Cart_coords(comm, 0, 1, untouched));
    SAME(untouched[0], 77, "nothing is written");
    OK(MPI_Cart_rank(comm, NULL, &other));
    SAME(other, 0, "the only rank");
    ERROR(MPI_ERR_DIMS, MPI_Cart_shift(comm, 0, 1, &number, &other), "direction", "0");
    MPI_Comm part;
    OK(MPI_Cart_sub(comm, NULL, &part));
    OK(MPI_Cartdim_get(part, &number));
    SAME(number, 0, "a part of it");
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_free(&comm));
}

static void parts(void)
{
    int dims[3] = {0, 0, 0}, periods[3] = {1, 0, 1}, coords[3];
    OK(MPI_Dims_create(ranks, 3, dims));
    MPI_Comm comm = grid(MPI_COMM_WORLD, 3, dims, periods, 0);
    OK(MPI_Cart_get(comm, 3, dims, periods, coords));
    for (int which = 0; which < 8; which++) {
        int remain[3], number = 0, kept[3], wraps[3], size, expected = 1;
        for (int i = 0; i < 3; i++)
            if ((remain[i] = which >> i & 1) != 0) {
                kept[number] = dims[i];
                wraps[number++] = periods[i];
                expected *= dims[i];
            }
        MPI_Comm part;
        OK(MPI_Cart_sub(comm, remain, &part));
        OK(MPI_Comm_size(part, &size));
        SAME(size, expected, "size of a part");
        says(part, number, kept, wraps);
        int sum = 0;
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, part));
        for (int rank = 0; rank < size; rank++) {
            int inside[3], at[3], of_world;
            OK(MPI_Cart_coords(part, rank, 3, inside));
            for (int i = 0, k = 0; i < 3; i++)
                at[i] = remain[i] ? inside[k++] : coords[i];
            OK(MPI_Cart_rank(comm, at, &of_world));
            sum -= of_world;
        }
        SAME(sum, 0, "its members");
        shifted_messages(part, number);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Comm_free(&comm));
}

/* Errors that all processes make. */
static void grid_errors(void)
{
    int dims[2] = {ranks, 2}, periods[2] = {1, 0}, number;
    MPI_Comm comm, none, inter;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    ERROR(MPI_ERR_DIMS, MPI_Cart_create(comm, 2, dims, periods, 0, &none), "dims", "places");
    ERROR(MPI_ERR_DIMS, MPI_Cart_create(comm, -1, dims, periods, 0, &none), "ndims", "-1");
    ERROR(MPI_ERR_ARG, MPI_Cart_create(comm, 2, NULL, periods, 0, &none), "dims");
    ERROR(MPI_ERR_ARG, MPI_Cart_create(comm, 2, dims, NULL, 0, &none), "periods");
    dims[1] = 1;
    ERROR(MPI_ERR_ARG, MPI_Cart_create(comm, 2, dims, periods, 0, NULL), "comm_cart");
    dims[1] = -1;
    ERROR(MPI_ERR_DIMS, MPI_Cart_create(comm, 2, dims, periods, 0, &none), "dims[1]", "-1");
    ERROR(MPI_ERR_DIMS, MPI_Cart_map(comm, 2, dims, periods, &number), "dims[1]", "-1");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(comm, &number), "no topology");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Cart_sub(comm, dims, &none), "no topology");
    /* Errors that one process makes. */
    dims[0] = me == ranks - 1 ? ranks + 1 : ranks;
    int code = MPI_Cart_create(comm, 1, dims, periods, 0, &none);
    SAME(class_of(code), me == ranks - 1 ? MPI_ERR_DIMS : MPI_ERR_OTHER, "an error at all");
    dims[0] = 1 + (me == 0);
    if (ranks > 1)
        ERROR(MPI_ERR_TOPOLOGY, MPI_Cart_create(comm, 1, dims, periods, 0, &none), "different");
    OK(MPI_Comm_free(&comm));

    dims[0] = ranks, dims[1] = 1;
    comm = grid(MPI_COMM_WORLD, 2, dims, periods, 0);
    int coords[2] = {0, 1};
    ERROR(MPI_ERR_ARG, MPI_Cart_rank(comm, coords, &number), "coords[1]", "1");
    coords[1] = -1;
    ERROR(MPI_ERR_ARG, MPI_Cart_rank(comm, coords, &number), "coords[1]", "-1");
    ERROR(MPI_ERR_ARG, MPI_Cart_rank(comm, NULL, &number), "coords");
    ERROR(MPI_ERR_RANK, MPI_Cart_coords(comm, ranks, 2, coords), "rank");
    ERROR(MPI_ERR_RANK, MPI_Cart_coords(comm, -1, 2, coords), "rank", "-1");
    ERROR(MPI_ERR_DIMS, MPI_Cart_coords(comm, 0, 1, coords), "maxdims", "1");
    ERROR(MPI_ERR_DIMS, MPI_Cart_get(comm, 1, dims, periods, coords), "maxdims", "1");
    ERROR(MPI_ERR_DIMS, MPI_Cart_shift(comm, 2, 1, &number, &number), "direction", "2");
    ERROR(MPI_ERR_DIMS, MPI_Cart_shift(comm, -1, 1, &number, &number), "direction", "-1");
    ERROR(MPI_ERR_ARG, MPI_Cart_sub(comm, NULL, &none), "remain_dims");
    ERROR(MPI_ERR_ARG, MPI_Cart_sub(comm, dims, NULL), "newcomm");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(comm, &number, &number), "Cartesian", "graph");
    int counts[3];
    ERROR(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors_count(comm, counts, counts + 1, counts + 2), "Cartesian",
          "distributed graph");
    OK(MPI_Comm_free(&comm));

    if (ranks == 1)
        return;
    MPI_Comm half;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - me % 2, 5, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    dims[0] = 1;
    ERROR(MPI_ERR_COMM, MPI_Cart_create(inter, 1, dims, periods, 0, &none), "comm_old", "intercommunicator");
    ERROR(MPI_ERR_COMM, MPI_Cart_map(inter, 1, dims, periods, &number), "intercommunicator");
    SAME(kind(inter), MPI_UNDEFINED, "of an intercommunicator");
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

static int deleted;

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* A new communicator has the error handler of the old one, and none of its attributes. */
static void inherits(void)
{
    int key, flag, dims[1] = {ranks}, remain[1] = {1}, wrong = -1;
    void *value;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete, &key, NULL));
    MPI_Comm old, comm, part;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &old));
    OK(MPI_Comm_set_errhandler(old, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_attr(old, key, dims));
    OK(MPI_Cart_create(old, 1, dims, remain, 1, &comm));
    ERROR(MPI_ERR_RANK, MPI_Send(NULL, 0, MPI_BYTE, ranks, 0, comm), "destination");
    OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    SAME(flag, 0, "an attribute of a grid");
    OK(MPI_Comm_set_attr(comm, key, dims));
    OK(MPI_Cart_sub(comm, remain, &part));
    ERROR(MPI_ERR_ARG, MPI_Cart_rank(part, NULL, &wrong), "coords");
    OK(MPI_Comm_get_attr(part, key, &value, &flag));
    SAME(flag, 0, "an attribute of a part");
    OK(MPI_Comm_free(&part));
    SAME(deleted, 0, "no attribute yet");
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&old));
    SAME(deleted, 2, "deleted attributes");
    OK(MPI_Comm_free_keyval(&key));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    sizes();
    errors();
    grids();
    grids_of_nobody();
    small_grids();
    parts();
    grid_errors();
    inherits();
    return end("topologies");
}
