/* A job spawns others and works with them. `spawn N MODE`: N processes; MODE: `disconnect` (the children are disconnected before the end),
 * `finalize` (they are not), `free` (their communicator is freed), `grand` (children have children). */
#include "jobs.h"

static void be_child(MPI_Comm parent, char **argv)
{
    int remote;
    OK(MPI_Comm_remote_size(parent, &remote));
    CHECK(strcmp(argv[1], "child") == 0 && strcmp(argv[2], "an argument with blanks and \xff") == 0, "arguments: '%s', '%s'",
          argv[1], argv[2]);
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, *number;
    OK(MPI_Comm_get_name(parent, name, &length));
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0, "the name of the parents' communicator is '%s'", name);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
    CHECK(flag && *number == 0, "MPI_APPNUM");
    MPI_Comm again;
    OK(MPI_Comm_get_parent(&again));
    SAME(again, parent, "the parents' communicator, once more");
    work(parent, 0);
    if (strcmp(argv[3], "grand") == 0) {
        MPI_Comm children;
        char *arguments[] = {"child", "an argument with blanks and \xff", "finalize", NULL};
        OK(MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        work(children, 1);
        /* They finalize together: the grandparents wait for them, too. */
    } else if (strcmp(argv[3], "disconnect") == 0) {
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Comm_get_parent(&again));
        SAME(again, MPI_COMM_NULL, "the parents' communicator after its end");
    } else if (strcmp(argv[3], "free") == 0) {
        OK(MPI_Comm_free(&parent));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
        be_child(parent, argv);
        MPI_Finalize();
        return 0;
    }
    int count = argc > 1 ? atoi(argv[1]) : 2, codes[1000], size, root = ranks - 1;
    char *mode = argc > 2 ? argv[2] : "disconnect";
    char *arguments[] = {"child", "an argument with blanks and \xff", mode, NULL};
    memset(codes, 1, sizeof codes);
    OK(MPI_Comm_spawn(argv[0], me == root ? arguments : NULL, me == root ? count : -1, MPI_INFO_NULL, root, MPI_COMM_WORLD,
                      &children, codes));
    for (int nth = 0; nth < count; nth++)
        SAME(codes[nth], MPI_SUCCESS, "code of process %d", nth);
    OK(MPI_Comm_remote_size(children, &size));
    SAME(size, count, "number of children");
    work(children, 1);
    if (strcmp(mode, "disconnect") == 0)
        OK(MPI_Comm_disconnect(&children));
    else if (strcmp(mode, "free") == 0)
        OK(MPI_Comm_free(&children));
    return end("spawn");
}
