/* Blocking and nonblocking collective operations that ranks start in different orders relative to each other complete, for each kind is
 * numbered by itself. With an argument: ranks call different operations, which is an error with words on each of them, and no hang:
 * "apart" where no rank has sent anything to another, "third" the same in the operation in which they come to share memory, "passed" where one has left its operation already, "roots" where only the roots
 * differ, "objects" where they make different communicators, "crossed" where one is in a blocking operation and the others wait for
 * a nonblocking one, "crossed_all" where they do so in MPI_Waitall, "swapped" where one is in another communicator's operation, "gone"
 * where one is in MPI_Finalize. "late" is right, but slow: what is looked into is no error. */
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

static void apart(MPI_Comm comm)
{
    int value = 0;
    /* The root waits for the others, and they for the root. */
    if (me == 0)
        told(MPI_Reduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, 0, comm), "MPI_Reduce", "MPI_Bcast");
    else
        told(MPI_Bcast(&value, 1, MPI_INT, 0, comm), "MPI_Bcast", "MPI_Reduce");
}

static void third(void)
{
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Barrier(copy));
    OK(MPI_Barrier(copy));
    apart(copy);
    OK(MPI_Comm_free(&copy));
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

static void roots(void)
{
    int value = me, all[64];
    /* Two processes want to be the root; what the others send goes to one of them. */
    int code = MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, me == 1, MPI_COMM_WORLD);
    if (me < 2)
        told(code, me == 0 ? "MPI_Gather with root 0" : "MPI_Gather with root 1", me == 0 ? "MPI_Gather with root 1" : "MPI_Gather with root 0");
    else
        OK(code);
}

static void objects(void)
{
    MPI_Comm made;
    if (me == 0)
        told(MPI_Comm_dup(MPI_COMM_WORLD, &made), "MPI_Comm_dup", "MPI_Comm_split");
    else
        told(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made), "MPI_Comm_split", "MPI_Comm_dup");
}

static void crossed(int all)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int code;
    if (me == 0) {
        told(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", "MPI_Ibarrier");
        return;
    }
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request[1]));
    if (all) {
        MPI_Status status[2];
        code = MPI_Waitall(2, request, status);
        if (code != MPI_SUCCESS)
            code = status[1].MPI_ERROR;
    } else {
        code = MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    }
    /* Who waited for none but others that failed may have got their messages. */
    if (code != MPI_SUCCESS || ranks == 2)
        told(code, "MPI_Ibarrier", "process 0 in MPI_Barrier");
}

static void swapped(void)
{
    MPI_Comm one, other;
    int code;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &one));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    code = MPI_Barrier(me == 0 ? one : other);
    if (me == 0 || code != MPI_SUCCESS || ranks == 2)
        told(code, "MPI_Barrier", "MPI_Barrier of another communicator");
}

static void gone(void)
{
    /* Rank 0 is in MPI_Finalize. */
    if (me != 0) {
        int code = MPI_Barrier(MPI_COMM_WORLD);
        if (code != MPI_SUCCESS || ranks < 4)
            told(code, "MPI_Barrier", "process 0 in MPI_Finalize");
    }
}

static void late(void)
{
    MPI_Request request, second;
    if (me == 0) {
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
        usleep(1300000);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me != 0)
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    /* Each waits in the operation of the other kind, which the other one has begun. */
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &second));
    if (me == 0)
        usleep(1300000);
    if (me % 2)
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 20; turn++)
        both_orders(turn);
    if (strcmp(what, "apart") == 0)
        apart(MPI_COMM_WORLD);
    else if (strcmp(what, "third") == 0)
        third();
    else if (strcmp(what, "passed") == 0)
        passed();
    else if (strcmp(what, "roots") == 0)
        roots();
    else if (strcmp(what, "objects") == 0)
        objects();
    else if (strncmp(what, "crossed", 7) == 0)
        crossed(what[7] != 0);
    else if (strcmp(what, "swapped") == 0)
        swapped();
    else if (strcmp(what, "gone") == 0)
        gone();
    else if (strcmp(what, "late") == 0)
        late();
    else
        CHECK(*what == 0, "no such case: %s", what);
    /* Who is in MPI_Finalize is told of, too: nobody is before all have been told what they are to be told. */
    if (strcmp(what, "gone") != 0)
        together(MPI_COMM_WORLD);
    return end("mixed");
}
