/* Blocking and nonblocking collective operations that ranks start in different orders relative to each other complete, for each kind is
 * numbered by itself. With an argument: ranks call different operations, which is an error with words on each of them, and no hang:
 * "apart" where no rank has sent anything to another, "passed" where one has left its operation already. */
#include "check.h"

static void both_orders(int turn)
{
    MPI_Request request;
    int first = (me + turn) % 2, value = me == 0 ? 4711 + turn : -1, mine = me + 1, sum = 0;
    MPI_Comm copy;
    if (first)
        OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    SAME(value, 4711 + turn, "broadcast");
    if (!first)
        OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(sum, ranks * (ranks + 1) / 2, "sum");

    /* MPI_Comm_idup is one of the nonblocking ones, MPI_Comm_dup of the others. */
    if (first)
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request));
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    SAME(sum, ranks, "largest");
    if (!first)
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(copy));
    OK(MPI_Comm_free(&copy));
}

/* The code of an error that says what both processes are in. */
static void told(int code, const char *mine, const char *theirs)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    SAME(class_of(code), MPI_ERR_OTHER, "class of the error in %s", mine);
    OK(MPI_Error_string(code, text, &length));
    CHECK(strstr(text, "different collective operations") && strstr(text, mine) && strstr(text, theirs), "%s", text);
}

static void apart(void)
{
    int value = 0;
    /* The root waits for the others, and they for the root. */
    if (me == 0)
        told(MPI_Reduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce", "MPI_Bcast");
    else
        told(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast", "MPI_Reduce");
}

static void passed(void)
{
    int value = 0;
    /* Rank 0 leaves its broadcast, and stays away until the other has found out. */
    if (me == 0) {
        OK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        told(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", "MPI_Bcast");
        OK(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 20; turn++)
        both_orders(turn);
    if (argc > 1 && strcmp(argv[1], "apart") == 0)
        apart();
    else if (argc > 1)
        passed();
    return end("mixed");
}
