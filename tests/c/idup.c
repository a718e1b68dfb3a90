/* The handle that MPI_Comm_idup returns serves for local calls at once, before its request has completed (mpi4py sets an error
 * handler there); what is set stays, and what needs other processes is an error with words. */
#include "check.h"

static int deleted;

static int count_deletion(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void early(MPI_Comm parent, int with_info)
{
    MPI_Comm new;
    MPI_Request request;
    MPI_Errhandler handler;
    MPI_Group group, parents;
    MPI_Info info;
    char name[MPI_MAX_OBJECT_NAME];
    int key, size, parents_size, rank, parents_rank, result, length, inter, flag, *value;

    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &key, NULL));
    /* Nobody else has begun: they wait for this rank's message, so that rank 0's request can't complete. */
    if (me != 0)
        OK(MPI_Recv(&flag, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(with_info ? MPI_Comm_idup_with_info(parent, MPI_INFO_NULL, &new, &request) : MPI_Comm_idup(parent, &new, &request));
    OK(MPI_Comm_set_errhandler(new, MPI_ERRORS_RETURN));
    OK(MPI_Comm_get_errhandler(new, &handler));
    CHECK(handler == MPI_ERRORS_RETURN, "another error handler");
    OK(MPI_Comm_set_name(new, "early"));
    OK(MPI_Comm_get_info(new, &info));
    OK(MPI_Comm_set_info(new, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_set_attr(new, key, &key));
    OK(MPI_Comm_size(new, &size));
    OK(MPI_Comm_size(parent, &parents_size));
    OK(MPI_Comm_rank(new, &rank));
    OK(MPI_Comm_rank(parent, &parents_rank));
    SAME(size, parents_size, "size");
    SAME(rank, parents_rank, "rank");
    OK(MPI_Comm_group(new, &group));
    OK(MPI_Comm_group(parent, &parents));
    OK(MPI_Group_compare(group, parents, &result));
    SAME(result, MPI_IDENT, "groups");
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&parents));
    OK(MPI_Comm_compare(new, parent, &result));
    SAME(result, MPI_CONGRUENT, "communicators");
    OK(MPI_Comm_test_inter(new, &inter));
    SAME(inter, 0, "an intercommunicator");
    if (me == 0 && ranks > 1) {
        MPI_Comm copy = new;
        ERROR(MPI_ERR_COMM, MPI_Send(&flag, 1, MPI_INT, 0, 0, new), "MPI_Comm_idup", "local calls only");
        ERROR(MPI_ERR_COMM, MPI_Barrier(new), "local calls only");
        ERROR(MPI_ERR_COMM, MPI_Comm_free(&copy), "local calls only");
        for (int to = 1; to < ranks; to++)
            OK(MPI_Send(&flag, 1, MPI_INT, to, 1, MPI_COMM_WORLD));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    OK(MPI_Comm_get_name(new, name, &length));
    CHECK(strcmp(name, "early") == 0, "name: %s", name);
    OK(MPI_Comm_get_errhandler(new, &handler));
    CHECK(handler == MPI_ERRORS_RETURN, "another error handler afterwards");
    OK(MPI_Comm_get_attr(new, key, &value, &flag));
    CHECK(flag && value == &key, "the attribute has gone");
    OK(MPI_Comm_compare(new, parent, &result));
    SAME(result, MPI_CONGRUENT, "communicators afterwards");
    /* It has a context of its own that all know. */
    int next = (rank + 1) % size, sent = rank, got = -1;
    OK(MPI_Sendrecv(&sent, 1, MPI_INT, next, 0, &got, 1, MPI_INT, MPI_ANY_SOURCE, 0, new, MPI_STATUS_IGNORE));
    SAME(got, (rank + size - 1) % size, "message");
    OK(MPI_Barrier(new));
    deleted = 0;
    OK(MPI_Comm_free(&new));
    SAME(deleted, 1, "attributes deleted");
    OK(MPI_Comm_free_keyval(&key));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 2; turn++)
        early(MPI_COMM_WORLD, turn);
    return end("idup");
}
