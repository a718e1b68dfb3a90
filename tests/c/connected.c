/* Two jobs that meet only through a third one, which then leaves: how one of them ends is told to the other, which only tests a request.
 * `connected ROLE FOLDER WAY END`. ROLE: `middle`, `first`, `last`. WAY: `accept`, or `create` for MPI_Intercomm_create. END: how `last` ends:
 * `abort`, `die` or `finalize`. */
#include "check.h"

#include <signal.h>

static const char *folder;

static void path_of(const char *name, char path[4096])
{
    snprintf(path, 4096, "%s/%s", folder, name);
}

static void put(const char *name, const char *text)
{
    char path[4096], before[4096];
    path_of("part", before);
    path_of(name, path);
    FILE *file = fopen(before, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 && rename(before, path) == 0, "%s can't be written",
          path);
}

static void wait_for(const char *name, char text[MPI_MAX_PORT_NAME])
{
    char path[4096];
    path_of(name, path);
    FILE *file;
    while ((file = fopen(path, "r")) == NULL)
        usleep(1000);
    CHECK(fgets(text, MPI_MAX_PORT_NAME, file) != NULL, "%s is empty", path);
    fclose(file);
}

/* With the job at the other end of a port; it is merged, those that accept first. */
static MPI_Comm meet(MPI_Comm comm, const char *accepts, const char *connects, MPI_Comm *inter)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm merged;
    if (accepts != NULL) {
        int rank;
        OK(MPI_Comm_rank(comm, &rank));
        if (rank == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            put(accepts, port);
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, comm, inter));
        if (rank == 0)
            OK(MPI_Close_port(port));
    } else {
        if (me == 0)
            wait_for(connects, port);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, comm, inter));
    }
    OK(MPI_Intercomm_merge(*inter, accepts == NULL, &merged));
    return merged;
}

static void until_it_ends(MPI_Comm comm, int from)
{
    int flag = 0, nothing, code, length;
    MPI_Request request;
    OK(MPI_Irecv(&nothing, 1, MPI_INT, from, 99, comm, &request));
    /* The others have left the last barrier, too. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0)
        put("waits", "so");
    while ((code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !flag)
        usleep(200);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_PROC_ABORTED && strstr(text, "a process of another job is gone") != NULL,
          "the other job has ended: code %d: %s", code, text);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 5, "connected ROLE FOLDER WAY END");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const char *role = argv[1], *end_by = argv[4];
    folder = argv[2];
    int creates = strcmp(argv[3], "create") == 0, first = strcmp(role, "first") == 0, last = strcmp(role, "last") == 0;
    char text[MPI_MAX_PORT_NAME];

    /* The first and the middle, then those and the last. */
    MPI_Comm inter = MPI_COMM_NULL, one = MPI_COMM_NULL, other_inter, other = MPI_COMM_NULL, all_inter, all, pair;
    if (!last)
        one = meet(MPI_COMM_WORLD, first ? NULL : "one", "one", &inter);
    if (!creates) {
        all = meet(last ? MPI_COMM_WORLD : one, last ? NULL : "other", "other", &other_inter);
        all_inter = other_inter;
    } else {
        if (!first)
            other = meet(MPI_COMM_WORLD, last ? NULL : "other", "other", &other_inter);
        /* The middle's rank 0 is that of `one` and of `other`; the last job's leader comes after the middle's processes. */
        int size = 0, remote = 0;
        if (!first) {
            OK(MPI_Comm_size(other, &size));
            OK(MPI_Comm_remote_size(other_inter, &remote));
        }
        OK(MPI_Intercomm_create(last ? MPI_COMM_WORLD : one, 0, other, last ? 0 : size - remote, 5, &all_inter));
        OK(MPI_Intercomm_merge(all_inter, last, &all));
        if (!first) {
            OK(MPI_Comm_disconnect(&other_inter));
            OK(MPI_Comm_disconnect(&other));
        }
    }
    OK(MPI_Comm_split(all, first || last ? 1 : MPI_UNDEFINED, 0, &pair));
    OK(MPI_Comm_disconnect(&all));
    OK(MPI_Comm_disconnect(&all_inter));
    if (!last) {
        OK(MPI_Comm_disconnect(&one));
        OK(MPI_Comm_disconnect(&inter));
    }
    if (pair != MPI_COMM_NULL) {
        int rank, size;
        MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
        OK(MPI_Comm_rank(pair, &rank));
        OK(MPI_Comm_size(pair, &size));
        OK(MPI_Barrier(pair));
        if (last && strcmp(end_by, "finalize") != 0) {
            /* The middle has ended by then. */
            wait_for("go", text);
            if (rank == size - 1 && strcmp(end_by, "abort") == 0)
                MPI_Abort(MPI_COMM_WORLD, 7);
            if (rank == size - 1)
                raise(SIGKILL);
            pause();
        }
        if (first && strcmp(end_by, "finalize") != 0)
            until_it_ends(pair, size - 1);
    }
    return end("connected");
}
