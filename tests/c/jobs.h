/* Traffic between two jobs, for programs about processes that come and go. */
#ifndef JOBS_H
#define JOBS_H

#include "check.h"

/* Messages of many sizes from each process of one group to each of the other, both ways. */
static UNUSED void talk(MPI_Comm inter, int low)
{
    static const int sizes[] = {0, 8, 100, 5000, 70000, 400000};
    int remote, rank, most = brief() ? 4 : 6;
    OK(MPI_Comm_remote_size(inter, &remote));
    OK(MPI_Comm_rank(inter, &rank));
    for (int nth = 0; nth < most; nth++) {
        int bytes = sizes[nth];
        unsigned char *in = allocate(bytes), *out = allocate((size_t)bytes * remote);
        MPI_Request *requests = allocate(remote * sizeof *requests);
        for (int to = 0; to < remote; to++) {
            unsigned char *at = out + (size_t)bytes * to;
            fill(at, bytes, 1000 * low + 100 * rank + to);
            OK(MPI_Isend(at, bytes, MPI_BYTE, to, nth, inter, &requests[to]));
        }
        for (int from = 0; from < remote; from++) {
            MPI_Status status;
            OK(MPI_Recv(in, bytes, MPI_BYTE, from, nth, inter, &status));
            STATUS(status, from, nth, bytes);
            FILLED(in, bytes, 1000 * !low + 100 * from + rank, "a message of the other job");
        }
        OK(MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE));
        free(in);
        free(out);
        free(requests);
    }
}

/* Collective operations across an intercommunicator. */
static UNUSED void gather_across(MPI_Comm inter, int low)
{
    int remote, rank, size;
    OK(MPI_Comm_remote_size(inter, &remote));
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_size(inter, &size));
    OK(MPI_Barrier(inter));
    int mine = 10000 * low + rank, *theirs = allocate(remote * sizeof(int));
    OK(MPI_Allgather(&mine, 1, MPI_INT, theirs, 1, MPI_INT, inter));
    for (int from = 0; from < remote; from++)
        SAME(theirs[from], 10000 * !low + from, "MPI_Allgather across, of %d", from);
    int sum = -1, one = rank + 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    SAME(sum, remote * (remote + 1) / 2, "MPI_Allreduce across");
    int text[3000] = {0}, root = low ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    if (root == MPI_ROOT)
        for (int i = 0; i < 3000; i++)
            text[i] = 7 * i;
    OK(MPI_Bcast(text, 3000, MPI_INT, root, inter));
    if (!low)
        SAME(text[2999], 7 * 2999, "MPI_Bcast across");
    free(theirs);
}

/* Collective operations of an intracommunicator whose processes are of several jobs, and of communicators made from it. */
static UNUSED void gather_within(MPI_Comm comm)
{
    int rank, size, sum = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Barrier(comm));
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        SAME(sum, size * (size - 1) / 2, "MPI_Allreduce within");
    }
    enum { LONG = 40000 };
    double *long_ones = allocate(LONG * sizeof(double)), *sums = allocate(LONG * sizeof(double));
    for (int i = 0; i < LONG; i++)
        long_ones[i] = rank + i;
    OK(MPI_Allreduce(long_ones, sums, LONG, MPI_DOUBLE, MPI_SUM, comm));
    for (int i = 0; i < LONG; i += 997)
        CHECK(sums[i] == size * (size - 1) / 2 + (double)size * i, "element %d of a long sum: %g", i, sums[i]);
    OK(MPI_Bcast(long_ones, LONG, MPI_DOUBLE, size - 1, comm));
    CHECK(long_ones[5] == size - 1 + 5, "MPI_Bcast within: %g", long_ones[5]);
    free(long_ones);
    free(sums);
    int *all = allocate(2 * size * sizeof(int));
    for (int to = 0; to < size; to++)
        all[to] = 100 * rank + to;
    OK(MPI_Alltoall(all, 1, MPI_INT, all + size, 1, MPI_INT, comm));
    for (int from = 0; from < size; from++)
        SAME(all[size + from], 100 * from + rank, "MPI_Alltoall within, of %d", from);
    OK(MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_MAX, size - 1, comm));
    if (rank == size - 1)
        SAME(sum, size - 1, "MPI_Reduce within");
    free(all);
    MPI_Comm part, twin;
    OK(MPI_Comm_split(comm, rank % 2, -rank, &part));
    OK(MPI_Comm_rank(part, &sum));
    SAME(sum, (size - 1 - rank) / 2, "rank in a part");
    OK(MPI_Comm_dup(part, &twin));
    OK(MPI_Barrier(twin));
    OK(MPI_Comm_disconnect(&twin));
    OK(MPI_Comm_disconnect(&part));
    OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part));
    OK(MPI_Barrier(part));
    OK(MPI_Comm_disconnect(&part));
}

/* All of these, and a merged communicator. `low`: whether this group comes first. */
static UNUSED void work(MPI_Comm inter, int low)
{
    MPI_Comm merged;
    talk(inter, low);
    gather_across(inter, low);
    OK(MPI_Intercomm_merge(inter, !low, &merged));
    int rank, size, local, remote, merged_rank;
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_size(inter, &local));
    OK(MPI_Comm_remote_size(inter, &remote));
    OK(MPI_Comm_size(merged, &size));
    SAME(size, local + remote, "size of the merged communicator");
    OK(MPI_Comm_rank(merged, &merged_rank));
    SAME(merged_rank, low ? rank : remote + rank, "rank in the merged communicator");
    gather_within(merged);
    OK(MPI_Comm_disconnect(&merged));
}

#endif
