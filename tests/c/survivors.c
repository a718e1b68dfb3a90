/* A job that goes on after that of its children is gone. `survivors exit`: a child exits; `survivors wait [HOSTS]`: the children, on these hosts, wait
 * for what happens to them. */
#include "jobs.h"

static void be_child(MPI_Comm parent, const char *mode)
{
    int word;
    work(parent, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == ranks - 1 && strcmp(mode, "exit") == 0)
        _exit(3);
    MPI_Recv(&word, 1, MPI_INT, 0, 99, parent, MPI_STATUS_IGNORE);
    FAIL("nobody has sent this");
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    MPI_Info info;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        be_child(parent, argv[1]);
    OK(MPI_Info_create(&info));
    if (argc > 2)
        OK(MPI_Info_set(info, "host", argv[2]));
    OK(MPI_Comm_spawn(argv[0], argv + 1, 4, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN));
    work(children, 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0)
        printf("survivors: under way\n");
    /* All of them are gone, not only the one that has exited. */
    int word = 0, sum;
    ERROR(MPI_ERR_PROC_ABORTED, MPI_Recv(&word, 1, MPI_INT, 0, 7, children, MPI_STATUS_IGNORE), "gone");
    for (int child = 0; child < 4; child++)
        ERROR(MPI_ERR_PROC_ABORTED, MPI_Send(&word, 1, MPI_INT, child, 7, children), "gone");
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, ranks * (ranks - 1) / 2, "sum of the ranks");
    ERROR(MPI_ERR_PROC_ABORTED, MPI_Comm_disconnect(&children), "gone");
    return end("survivors");
}
