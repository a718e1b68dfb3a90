/* Virtual topologies: so far the sizes of Cartesian grids. */
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

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    sizes();
    errors();
    return end("topologies");
}
