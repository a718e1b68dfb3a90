/* How jobs end that are connected, and that were. `spawn_ends MODE`:
 *   abort-apart, kill-apart    a child that is disconnected aborts, or is killed: its parent goes on
 *   abort                      a child aborts: its parent is ended, too
 *   kill                       a child is killed: an error for its parent, which goes on
 *   parent-first               the parent finalizes, and ends, before its disconnected children
 *   abort-parent               the parent aborts: its child is ended, and one that was disconnected is not
 * Files in $TMPDIR tell others how far somebody has come. */
#include "jobs.h"
#include <signal.h>
#include <sys/stat.h>

static const char *path_of(const char *name)
{
    static char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/%s", folder == NULL ? "/tmp" : folder, name);
    return path;
}

static void say(const char *name)
{
    FILE *file = fopen(path_of(name), "w");
    CHECK(file != NULL && fclose(file) == 0, "%s can't be written", path_of(name));
}

static void wait_for(const char *name)
{
    struct stat status;
    while (stat(path_of(name), &status) != 0)
        usleep(1000);
}

static MPI_Comm spawned(char *program, char *what, int count)
{
    char *arguments[] = {what, NULL};
    MPI_Comm children;
    OK(MPI_Comm_spawn(program, arguments, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    gather_across(children, 1);
    return children;
}

/* Ends when the other job is gone, which is an error for those that are connected with it. */
static void until_lost(MPI_Comm inter, int polls)
{
    int value, flag = 0, code;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    if (polls) {
        MPI_Request request;
        code = MPI_Irecv(&value, 1, MPI_INT, 0, 99, inter, &request);
        while (code == MPI_SUCCESS && !flag)
            code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    } else {
        code = MPI_Recv(&value, 1, MPI_INT, 0, 99, inter, MPI_STATUS_IGNORE);
    }
    SAME(class_of(code), MPI_ERR_PROC_ABORTED, "class of the error after the end of the other job");
}

static void be_child(MPI_Comm parent, const char *what)
{
    gather_across(parent, 0);
    if (strcmp(what, "leaves") == 0) {
        OK(MPI_Comm_disconnect(&parent));
    } else if (strcmp(what, "abort-apart") == 0 || strcmp(what, "kill-apart") == 0) {
        OK(MPI_Comm_disconnect(&parent));
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0 && what[0] == 'a')
            MPI_Abort(MPI_COMM_WORLD, 7);
        if (me == 0)
            raise(SIGKILL);
        for (;;)
            pause();
    } else if (strcmp(what, "abort") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == ranks - 1)
            MPI_Abort(MPI_COMM_WORLD, 7);
        for (;;)
            pause();
    } else if (strcmp(what, "kill") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == ranks - 1)
            raise(SIGKILL);
        for (;;)
            pause();
    } else if (strcmp(what, "parent-first") == 0) {
        OK(MPI_Comm_disconnect(&parent));
        wait_for("parent-ended");
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0)
            printf("the child ends well\n");
    } else if (strcmp(what, "stays") == 0) {
        OK(MPI_Comm_disconnect(&parent));
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0)
            wait_for("parent-aborts");
        if (me == 0)
            printf("the disconnected child ends well\n");
    } else if (strcmp(what, "goes") == 0) {
        until_lost(parent, 0);
        FAIL("the child lives on after its parent has aborted");
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    CHECK(argc == 2, "which mode?");
    char *mode = argv[1];
    if (parent != MPI_COMM_NULL) {
        be_child(parent, mode);
        MPI_Finalize();
        return 0;
    }
    /* What an earlier run has left. */
    if (me == 0) {
        unlink(path_of("parent-ended"));
        unlink(path_of("parent-aborts"));
    }
    if (strcmp(mode, "abort-apart") == 0 || strcmp(mode, "kill-apart") == 0) {
        children = spawned(argv[0], mode, 2);
        OK(MPI_Comm_disconnect(&children));
        /* Nothing that comes of it is seen here. */
        children = spawned(argv[0], "leaves", 1);
        OK(MPI_Comm_disconnect(&children));
    } else if (strcmp(mode, "abort") == 0) {
        children = spawned(argv[0], mode, 2);
        until_lost(children, 0);
        FAIL("the parent lives on after its child has aborted");
    } else if (strcmp(mode, "kill") == 0) {
        for (int polls = 0; polls < 2; polls++) {
            children = spawned(argv[0], mode, 2);
            until_lost(children, polls);
            MPI_Comm other = spawned(argv[0], "leaves", 1);
            OK(MPI_Comm_disconnect(&other));
            gather_within(MPI_COMM_WORLD);
        }
    } else if (strcmp(mode, "parent-first") == 0) {
        children = spawned(argv[0], mode, 2);
        OK(MPI_Comm_disconnect(&children));
        MPI_Finalize();
        if (me == 0) {
            say("parent-ended");
            printf("spawn_ends: ok with %d ranks\n", ranks);
        }
        return 0;
    } else if (strcmp(mode, "abort-parent") == 0) {
        children = spawned(argv[0], "stays", 2);
        OK(MPI_Comm_disconnect(&children));
        children = spawned(argv[0], "goes", 2);
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == ranks - 1) {
            say("parent-aborts");
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
        for (;;)
            pause();
    }
    return end("spawn_ends");
}
