/* A job spawns others and works with them. `spawn N MODE`: N processes; MODE: `disconnect` (the children are disconnected before the end),
 * `finalize` (they are not), `free` (their communicator is freed), `grand` (children have children), `several` (of three commands, of which one has
 * no processes), `refused` (what can't be spawned is an error). */
#include "jobs.h"

/* Any bytes; other launchers take text only. */
static char *argument(void)
{
    return getenv("WEFT_TEST_TEXT") == NULL ? "an argument with blanks and \xff" : "an argument with blanks";
}

static void be_child(MPI_Comm parent, char **argv)
{
    int remote;
    OK(MPI_Comm_remote_size(parent, &remote));
    CHECK(strcmp(argv[1], "child") == 0 && strcmp(argv[2], argument()) == 0, "arguments: '%s', '%s'",
          argv[1], argv[2]);
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, *number;
    OK(MPI_Comm_get_name(parent, name, &length));
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0, "the name of the parents' communicator is '%s'", name);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
    CHECK(flag && *number == (strcmp(argv[3], "last") == 0 ? 2 : 0), "MPI_APPNUM");
    MPI_Comm again;
    OK(MPI_Comm_get_parent(&again));
    SAME(again, parent, "the parents' communicator, once more");
    work(parent, 0);
    if (strcmp(argv[3], "grand") == 0) {
        MPI_Comm children;
        char *arguments[] = {"child", argument(), "finalize", NULL};
        OK(MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        work(children, 1);
        /* They finalize together: the grandparents wait for them, too. */
    } else if (strcmp(argv[3], "disconnect") == 0 || strcmp(argv[3], "several") == 0 || strcmp(argv[3], "last") == 0) {
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Comm_get_parent(&again));
        SAME(again, MPI_COMM_NULL, "the parents' communicator after its end");
    } else if (strcmp(argv[3], "free") == 0) {
        OK(MPI_Comm_free(&parent));
    }
}

/* Of the second command there are none, and the third one has its number all the same. */
static void several(char *program, int root)
{
    char *programs[] = {program, program, program}, *first[] = {"child", argument(), "several", NULL},
         *last[] = {"child", argument(), "last", NULL}, **arguments[] = {first, first, last};
    int counts[] = {1, 0, 2}, codes[3] = {-1, -1, -1}, size;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;
    OK(MPI_Comm_spawn_multiple(3, programs, arguments, counts, infos, root, MPI_COMM_WORLD, &children, codes));
    for (int nth = 0; nth < 3; nth++)
        SAME(codes[nth], MPI_SUCCESS, "code of process %d", nth);
    OK(MPI_Comm_remote_size(children, &size));
    SAME(size, 3, "number of children");
    work(children, 1);
    OK(MPI_Comm_disconnect(&children));
}

static void refused(char *program, int root)
{
    MPI_Comm children;
    int codes[2] = {MPI_SUCCESS, MPI_SUCCESS}, class;
    ERROR(MPI_ERR_SPAWN,
          MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, root, MPI_COMM_WORLD, &children, codes),
          "/no/such/program");
    for (int nth = 0; nth < 2; nth++) {
        OK(MPI_Error_class(codes[nth], &class));
        SAME(class, MPI_ERR_SPAWN, "code of process %d", nth);
    }
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "wdir", "/no/such"));
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, root, MPI_COMM_WORLD, &children, codes), "/no/such");
    OK(MPI_Info_set(info, "wdir", "/"));
    OK(MPI_Info_set(info, "soft", "x"));
    ERROR(MPI_ERR_INFO_VALUE, MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, info, root, MPI_COMM_WORLD, &children, codes), "soft");
    OK(MPI_Info_delete(info, "soft"));
    /* It ends without MPI. Where the launcher does not say so, the time is over some time. */
    OK(MPI_Info_set(info, "timeout", "1.5"));
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, info, root, MPI_COMM_WORLD, &children, codes), "did not connect");
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_spawn(program, MPI_ARGV_NULL, 0, MPI_INFO_NULL, root, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    SAME(children, MPI_COMM_NULL, "communicator with no processes");
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
    char *arguments[] = {"child", argument(), mode, NULL};
    if (strcmp(mode, "several") == 0 || strcmp(mode, "refused") == 0) {
        (strcmp(mode, "several") == 0 ? several : refused)(argv[0], root);
        return end("spawn");
    }
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
