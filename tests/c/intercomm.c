/* Intercommunicators: made of communicators and of groups, in several splits of the ranks; their messages, every
 * collective operation both ways, what is made of them, and wrong arguments. */
#include "check.h"

enum { MOST = 64, LONG = 5000 };

/* How the ranks are split: who is on which side, by rank there. */
static struct {
    int size[2], ranks[2][MOST];
    int side; /* of this process */
} split;

/* Facts of the intercommunicator that is being tested. */
static MPI_Comm inter = MPI_COMM_NULL;
static int rank, here, there; /* this process's rank, and how many there are on each side */

/* The value `index` of a process of the world. */
static int value(int process, int index)
{
    return process * 100003 + index * 7 + 1;
}

static int remote(int at)
{
    return split.ranks[!split.side][at];
}

/* How many of a side share memory with this process. */
static int on_my_node(int side)
{
    int count = 0;
    for (int i = 0; i < split.size[side]; i++)
        count += node_of(split.ranks[side][i]) == node_of(me);
    return count;
}

static void put(int process, int on)
{
    if (process == me)
        split.side = on;
    split.ranks[on][split.size[on]++] = process;
}

/* Splits the ranks in one of several ways, both sides with somebody; 0: there is no such way. */
static int divide(int way)
{
    split.size[0] = split.size[1] = 0;
    switch (way) {
    case 0: /* halves, the first one shorter */
        for (int i = 0; i < ranks; i++)
            put(i, i >= ranks / 2);
        return 1;
    case 1: /* by parity, one side backwards: the side with rank 0 is the second one */
        for (int i = 0; i < ranks; i += 2)
            put(i, 1);
        for (int i = ranks - 1; i >= 0; i--)
            if (i % 2)
                put(i, 0);
        return 1;
    case 2: /* the last one against all others, these backwards */
        put(ranks - 1, 0);
        for (int i = ranks - 2; i >= 0; i--)
            put(i, 1);
        return ranks > 2;
    default:
        return 0;
    }
}

static void facts_of(MPI_Comm comm)
{
    inter = comm;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &here);
    MPI_Comm_remote_size(inter, &there);
}

/* The intercommunicator of the split; leaders are in the middle of their groups. */
static MPI_Comm make(int tag)
{
    MPI_Comm local, made;
    int at = 0;
    while (split.ranks[split.side][at] != me)
        at++;
    MPI_Comm_split(MPI_COMM_WORLD, split.side, at, &local);
    int other = !split.side;
    /* What is not the leader's matters to nobody. */
    int leader = split.size[split.side] / 2;
    if (at == leader)
        MPI_Intercomm_create(local, leader, MPI_COMM_WORLD, split.ranks[other][split.size[other] / 2], tag, &made);
    else
        MPI_Intercomm_create(local, leader, MPI_COMM_NULL, -1000, tag, &made);
    MPI_Comm_free(&local);
    return made;
}

static void same_group(MPI_Group got, int side, const char *what)
{
    MPI_Group world, expected;
    int result;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, split.size[side], split.ranks[side], &expected);
    MPI_Group_compare(got, expected, &result);
    SAME(result, MPI_IDENT, "%s compared", what);
    MPI_Group_free(&expected);
    MPI_Group_free(&world);
    MPI_Group_free(&got);
}

static void inquiries(void)
{
    int flag;
    MPI_Group group;
    MPI_Comm_test_inter(inter, &flag);
    SAME(flag, 1, "MPI_Comm_test_inter of an intercommunicator");
    SAME(here, split.size[split.side], "MPI_Comm_size");
    SAME(there, split.size[!split.side], "MPI_Comm_remote_size");
    SAME(split.ranks[split.side][rank], me, "the process of this rank");
    MPI_Comm_group(inter, &group);
    same_group(group, split.side, "the local group");
    MPI_Comm_remote_group(inter, &group);
    same_group(group, !split.side, "the remote group");
}

/* Everybody sends everybody on the other side a message; receives name their source, or don't. */
static void messages(void)
{
    MPI_Request sends[MOST];
    MPI_Status status;
    MPI_Message message;
    int got, flag;
    for (int to = 0; to < there; to++)
        MPI_Isend(&me, 1, MPI_INT, to, rank, inter, &sends[to]);
    for (int from = 0; from < there; from++) {
        if (from % 3 == 0) {
            MPI_Recv(&got, 1, MPI_INT, from, MPI_ANY_TAG, inter, &status);
            SAME(got, remote(from), "who sent from remote rank %d", from);
            STATUS(status, from, from, 4);
        } else if (from % 3 == 1) {
            MPI_Probe(from, from, inter, &status);
            STATUS(status, from, from, 4);
            MPI_Mprobe(from, MPI_ANY_TAG, inter, &message, &status);
            STATUS(status, from, from, 4);
            MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
            SAME(got, remote(from), "who sent from remote rank %d", from);
            STATUS(status, from, from, 4);
        } else {
            do
                MPI_Iprobe(from, from, inter, &flag, &status);
            while (!flag);
            STATUS(status, from, from, 4);
            MPI_Recv(&got, 1, MPI_INT, from, from, inter, &status);
            SAME(got, remote(from), "who sent from remote rank %d", from);
        }
    }
    MPI_Waitall(there, sends, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Any source: each rank of the other side once. */
    for (int to = 0; to < there; to++)
        MPI_Issend(&me, 1, MPI_INT, to, 77, inter, &sends[to]);
    int seen[MOST] = {0};
    for (int i = 0; i < there; i++) {
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 77, inter, &status);
        CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < there, "a message from rank %d of %d", status.MPI_SOURCE,
              there);
        SAME(got, remote(status.MPI_SOURCE), "who sent from any source");
        SAME(seen[status.MPI_SOURCE]++, 0, "messages before from rank %d", status.MPI_SOURCE);
    }
    MPI_Waitall(there, sends, MPI_STATUSES_IGNORE);
    /* Pairs, as far as there are such. */
    int partner = rank < there ? rank : MPI_PROC_NULL;
    got = -1;
    MPI_Sendrecv(&me, 1, MPI_INT, partner, 5, &got, 1, MPI_INT, partner, 5, inter, &status);
    if (partner == MPI_PROC_NULL)
        SAME(status.MPI_SOURCE, MPI_PROC_NULL, "the source of nothing");
    else
        SAME(got, remote(partner), "from the partner");
}

/* Each operation is run as a blocking and as a nonblocking call, and as the start of a persistent request. */
static enum { NOW, LATER, PERSISTENT, WAYS } way;
#define RUN(blocking, starting, ...)                                                                                   \
    do {                                                                                                               \
        MPI_Request running_;                                                                                          \
        if (way == LATER) {                                                                                            \
            starting(__VA_ARGS__, &running_);                                                                          \
            MPI_Wait(&running_, MPI_STATUS_IGNORE);                                                                    \
        } else if (way == PERSISTENT) {                                                                                \
            blocking##_init(__VA_ARGS__, MPI_INFO_NULL, &running_);                                                    \
            MPI_Start(&running_);                                                                                      \
            MPI_Wait(&running_, MPI_STATUS_IGNORE);                                                                    \
            MPI_Request_free(&running_);                                                                               \
        } else                                                                                                         \
            blocking(__VA_ARGS__);                                                                                     \
    } while (0)

/* The root argument, where rank `at` of side `on` is the root. */
static int root_of(int on, int at)
{
    if (on != split.side)
        return at;
    return at == rank ? MPI_ROOT : MPI_PROC_NULL;
}

static void barrier(void)
{
    int64_t times[2], all[2 * MOST];
    /* Somebody is late. */
    if (rank == here - 1)
        usleep(2000);
    times[0] = now_ns();
    RUN(MPI_Barrier, MPI_Ibarrier, inter);
    times[1] = now_ns();
    MPI_Allgather(times, 2, MPI_INT64_T, all, 2, MPI_INT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < there; i++)
        CHECK(all[2 * remote(i)] <= times[1], "rank %d of the other group was not there", i);
}

/* A buffer of ints that holds rubbish, with a guard behind it. */
static int *blank(int count)
{
    int *buffer = allocate((count + 1) * sizeof(int));
    for (int i = 0; i <= count; i++)
        buffer[i] = -12345;
    return buffer;
}

static int *mine(int count)
{
    int *buffer = blank(count);
    for (int i = 0; i < count; i++)
        buffer[i] = value(me, i);
    return buffer;
}

static void done(int *buffer, int count)
{
    SAME(buffer[count], -12345, "what follows the buffer");
    free(buffer);
}

static void rooted(int count, int on, int at)
{
    int root = root_of(on, at), process = split.ranks[on][at];
    int from_here = root == MPI_ROOT, beside = root >= 0;

    int *buffer = from_here ? mine(count) : blank(count);
    RUN(MPI_Bcast, MPI_Ibcast, buffer, count, MPI_INT, root, inter);
    for (int i = 0; i < count; i++)
        SAME(buffer[i], root == MPI_PROC_NULL ? -12345 : value(process, i), "MPI_Bcast, value %d", i);
    done(buffer, count);

    int *send = mine(count), *receive = blank(count * there);
    RUN(MPI_Gather, MPI_Igather, send, count, MPI_INT, receive, count, MPI_INT, root, inter);
    for (int r = 0; from_here && r < there; r++)
        for (int i = 0; i < count; i++)
            SAME(receive[r * count + i], value(remote(r), i), "MPI_Gather from %d, value %d", r, i);
    SAME(receive[0] == -12345, !from_here || count == 0, "whether MPI_Gather wrote");
    done(receive, count * there);
    done(send, count);

    send = mine(count * there), receive = blank(count);
    RUN(MPI_Scatter, MPI_Iscatter, send, count, MPI_INT, receive, count, MPI_INT, root, inter);
    for (int i = 0; beside && i < count; i++)
        SAME(receive[i], value(process, rank * count + i), "MPI_Scatter, value %d", i);
    done(receive, count);
    done(send, count * there);

    /* Rank r has r % 3 times as many, and gaps lie between the blocks. */
    int counts[MOST], displs[MOST], total = 1, own = count * (rank % 3);
    for (int r = there - 1; r >= 0; r--) {
        counts[r] = count * (r % 3);
        displs[r] = total;
        total += counts[r] + 2;
    }
    send = mine(own), receive = blank(total);
    RUN(MPI_Gatherv, MPI_Igatherv, send, own, MPI_INT, receive, counts, displs, MPI_INT, root, inter);
    for (int r = 0; from_here && r < there; r++) {
        for (int i = 0; i < counts[r]; i++)
            SAME(receive[displs[r] + i], value(remote(r), i), "MPI_Gatherv from %d, value %d", r, i);
        SAME(receive[displs[r] + counts[r]], -12345, "the gap behind block %d", r);
    }
    done(receive, total);
    done(send, own);
    send = mine(total), receive = blank(own);
    RUN(MPI_Scatterv, MPI_Iscatterv, send, counts, displs, MPI_INT, receive, own, MPI_INT, root, inter);
    if (beside) {
        /* Where the root has this process's block. */
        int offset = 1;
        for (int r = here - 1; r > rank; r--)
            offset += count * (r % 3) + 2;
        for (int i = 0; i < own; i++)
            SAME(receive[i], value(process, offset + i), "MPI_Scatterv, value %d", i);
    }
    done(receive, own);
    done(send, total);

    send = mine(count), receive = blank(count);
    RUN(MPI_Reduce, MPI_Ireduce, send, receive, count, MPI_INT, MPI_SUM, root, inter);
    for (int i = 0; from_here && i < count; i++) {
        int sum = 0;
        for (int r = 0; r < there; r++)
            sum += value(remote(r), i);
        SAME(receive[i], sum, "MPI_Reduce, value %d", i);
    }
    done(receive, count);
    done(send, count);
}

static void all_to_all(int count)
{
    /* One side sends more than the other. */
    int out = count + 2 * split.side, in = count + 2 * !split.side;
    int *send = mine(out), *receive = blank(in * there);
    RUN(MPI_Allgather, MPI_Iallgather, send, out, MPI_INT, receive, in, MPI_INT, inter);
    for (int r = 0; r < there; r++)
        for (int i = 0; i < in; i++)
            SAME(receive[r * in + i], value(remote(r), i), "MPI_Allgather from %d, value %d", r, i);
    done(receive, in * there);
    done(send, out);

    int counts[MOST], displs[MOST], total = 1, own = count * (rank % 3);
    for (int r = there - 1; r >= 0; r--) {
        counts[r] = count * (r % 3);
        displs[r] = total;
        total += counts[r] + 2;
    }
    send = mine(own), receive = blank(total);
    RUN(MPI_Allgatherv, MPI_Iallgatherv, send, own, MPI_INT, receive, counts, displs, MPI_INT, inter);
    for (int r = 0; r < there; r++) {
        for (int i = 0; i < counts[r]; i++)
            SAME(receive[displs[r] + i], value(remote(r), i), "MPI_Allgatherv from %d, value %d", r, i);
        SAME(receive[displs[r] + counts[r]], -12345, "the gap behind block %d", r);
    }
    done(receive, total);
    done(send, own);

    send = mine(out * there), receive = blank(in * there);
    RUN(MPI_Alltoall, MPI_Ialltoall, send, out, MPI_INT, receive, in, MPI_INT, inter);
    for (int r = 0; r < there; r++)
        for (int i = 0; i < in; i++)
            SAME(receive[r * in + i], value(remote(r), rank * in + i), "MPI_Alltoall from %d, value %d", r, i);
    done(receive, in * there);
    done(send, out * there);

    /* From rank s to rank r of the other side: (s + r) % 3 times as many. */
    int sdispls[MOST], bytes[MOST], sizes[MOST];
    MPI_Datatype ints[MOST], chars[MOST];
    total = 0;
    for (int r = 0; r < there; r++) {
        counts[r] = count * ((rank + r) % 3);
        displs[r] = total;
        sdispls[r] = total * (int)sizeof(int);
        bytes[r] = counts[r] * (int)sizeof(int);
        sizes[r] = sdispls[r];
        ints[r] = MPI_INT;
        chars[r] = MPI_BYTE;
        total += counts[r];
    }
    for (int w = 0; w < 2; w++) {
        send = mine(total), receive = blank(total);
        if (w)
            RUN(MPI_Alltoallw, MPI_Ialltoallw, send, counts, sdispls, ints, receive, bytes, sizes, chars, inter);
        else
            RUN(MPI_Alltoallv, MPI_Ialltoallv, send, counts, displs, MPI_INT, receive, counts, displs, MPI_INT, inter);
        for (int r = 0; r < there; r++) {
            int offset = 0;
            for (int before = 0; before < rank; before++)
                offset += count * ((r + before) % 3);
            for (int i = 0; i < counts[r]; i++)
                SAME(receive[displs[r] + i], value(remote(r), offset + i), "MPI_Alltoall%c from %d, value %d",
                     w ? 'w' : 'v', r, i);
        }
        done(receive, total);
        done(send, total);
    }
}

/* Puts two runs of numbers one behind the other: what does not fit gives -1. */
static void joined(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int (*a)[2] = in, (*b)[2] = inout;
    (void)type;
    for (int i = 0; i < *length; i++) {
        if (a[i][0] >= 0 && b[i][0] >= 0 && a[i][1] + 1 == b[i][0])
            b[i][0] = a[i][0];
        else
            b[i][0] = b[i][1] = -1;
    }
}

static void reductions(int count)
{
    int *send = mine(count), *receive = blank(count);
    RUN(MPI_Allreduce, MPI_Iallreduce, send, receive, count, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int r = 0; r < there; r++)
            sum += value(remote(r), i);
        SAME(receive[i], sum, "MPI_Allreduce, value %d", i);
    }
    done(receive, count);
    done(send, count);

    int block = count * there, total = block * here, counts[MOST], offset = 0;
    send = mine(total), receive = blank(block);
    RUN(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, send, receive, block, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < block; i++) {
        int sum = 0;
        for (int r = 0; r < there; r++)
            sum += value(remote(r), rank * block + i);
        SAME(receive[i], sum, "MPI_Reduce_scatter_block, value %d", i);
    }
    done(receive, block);
    /* All to the last one but one for each other. */
    for (int r = 0; r < here; r++)
        counts[r] = r == here - 1 ? total - (here - 1) * (count > 0) : count > 0;
    for (int r = 0; r < rank; r++)
        offset += counts[r];
    receive = blank(counts[rank]);
    RUN(MPI_Reduce_scatter, MPI_Ireduce_scatter, send, receive, counts, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < counts[rank]; i++) {
        int sum = 0;
        for (int r = 0; r < there; r++)
            sum += value(remote(r), offset + i);
        SAME(receive[i], sum, "MPI_Reduce_scatter, value %d", i);
    }
    done(receive, counts[rank]);
    done(send, total);

    /* An operation that does not commute: operands come by rank. */
    MPI_Op op;
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(joined, 0, &op);
    int (*own)[2] = allocate((count + 1) * sizeof *own), (*all)[2] = allocate((count + 1) * sizeof *all);
    for (int i = 0; i < count; i++)
        own[i][0] = own[i][1] = rank;
    RUN(MPI_Allreduce, MPI_Iallreduce, own, all, count, pair, op, inter);
    for (int i = 0; i < count; i++) {
        SAME(all[i][0], 0, "the first one of run %d", i);
        SAME(all[i][1], there - 1, "the last one of run %d", i);
    }
    free(own);
    free(all);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
}

static void collectives(int count)
{
    for (way = NOW; way < WAYS; way++) {
        barrier();
        /* Every root of the shorter messages, two of the longer. */
        for (int on = 0; on < 2; on++)
            for (int at = 0; at < split.size[on]; at += count < LONG || split.size[on] < 3 ? 1 : split.size[on] - 1)
                rooted(count, on, at);
        all_to_all(count);
        reductions(count);
    }
}

/* Several at once, ended in the reverse order; those with a root go both ways. */
static void at_once(void)
{
    enum { OPERATIONS = 5 };
    MPI_Request requests[OPERATIONS];
    int first = split.side == 0 ? me : -1, second = split.side == 1 ? me : -1, sum = 0, all[MOST];
    MPI_Ibcast(&first, 1, MPI_INT, root_of(0, 0), inter, &requests[0]);
    MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, inter, &requests[1]);
    MPI_Ibcast(&second, 1, MPI_INT, root_of(1, 0), inter, &requests[2]);
    MPI_Iallgather(&me, 1, MPI_INT, all, 1, MPI_INT, inter, &requests[3]);
    MPI_Ibarrier(inter, &requests[4]);
    int expected = 0;
    for (int i = 0; i < there; i++)
        expected += remote(i);
    for (int i = OPERATIONS - 1; i >= 0; i--)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    SAME(split.side == 1 ? first : second, remote(0), "the other root's value");
    SAME(sum, expected, "the sum of the other side");
    for (int i = 0; i < there; i++)
        SAME(all[i], remote(i), "what rank %d has", i);
}

static void compared(MPI_Comm a, MPI_Comm b, int expected)
{
    int result;
    MPI_Comm_compare(a, b, &result);
    SAME(result, expected, "MPI_Comm_compare");
}

/* A communicator carries messages of its own: the sum of the other side's ranks. */
static void use(MPI_Comm comm)
{
    int size, got, remotes, own, sum = 0;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &size);
    MPI_Comm_remote_size(comm, &remotes);
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm);
    SAME(sum, remotes * (remotes - 1) / 2, "the sum of the remote ranks");
    got = -1;
    int partner = own < remotes ? own : MPI_PROC_NULL;
    MPI_Sendrecv(&own, 1, MPI_INT, partner, 9, &got, 1, MPI_INT, partner, 9, comm, MPI_STATUS_IGNORE);
    SAME(got, partner == MPI_PROC_NULL ? -1 : own, "from the partner");
}

static void merged(void)
{
    for (int high = 0; high < 3; high++) {
        /* 2: both sides say the same; then any order will do. */
        MPI_Comm all;
        int flag, size, at, order[MOST];
        MPI_Intercomm_merge(inter, high == 2 ? 1 : split.side == high, &all);
        MPI_Comm_test_inter(all, &flag);
        SAME(flag, 0, "MPI_Comm_test_inter of what was merged");
        MPI_Comm_size(all, &size);
        SAME(size, ranks, "the size of what was merged");
        MPI_Comm_rank(all, &at);
        MPI_Allgather(&me, 1, MPI_INT, order, 1, MPI_INT, all);
        SAME(order[at], me, "this process's place");
        int low = high == 2 ? order[0] == split.ranks[1][0] : !high;
        for (int i = 0; i < split.size[low]; i++)
            SAME(order[i], split.ranks[low][i], "place %d of the low group", i);
        for (int i = 0; i < split.size[!low]; i++)
            SAME(order[split.size[low] + i], split.ranks[!low][i], "place %d of the high group", i);
        MPI_Comm_free(&all);
    }
}

static int copied;
static int copy_it(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static void derived(void)
{
    MPI_Comm copy, second, part;
    MPI_Request request;
    MPI_Group group, some;
    int keyval, flag, *found;
    MPI_Comm_create_keyval(copy_it, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(inter, keyval, &copied);
    copied = 0;
    MPI_Comm_dup(inter, &copy);
    SAME(copied, 1, "calls of the copy function");
    MPI_Comm_get_attr(copy, keyval, &found, &flag);
    CHECK(flag && found == &copied, "the attribute was not copied");
    compared(inter, copy, MPI_CONGRUENT);
    compared(inter, inter, MPI_IDENT);
    compared(inter, MPI_COMM_WORLD, MPI_UNEQUAL);
    use(copy);
    MPI_Comm_idup(copy, &second, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use(second);
    MPI_Comm_idup_with_info(copy, MPI_INFO_NULL, &part, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(copied, 3, "calls of the copy function");
    use(part);
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL, "MPI_Comm_free left the handle");
    MPI_Comm_disconnect(&part);
    CHECK(part == MPI_COMM_NULL, "MPI_Comm_disconnect left the handle");
    MPI_Comm_delete_attr(inter, keyval);
    MPI_Comm_free_keyval(&keyval);

    /* Backwards on both sides. */
    MPI_Comm_split(second, 3, -rank, &part);
    int at, size;
    MPI_Comm_rank(part, &at);
    SAME(at, here - 1 - rank, "rank in the split backwards");
    MPI_Comm_remote_size(part, &size);
    SAME(size, there, "remote size of the split backwards");
    compared(inter, part, here == 1 && there == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    use(part);
    MPI_Comm_free(&part);
    /* By parity of the rank; where one side has none of a color, there is no communicator. */
    int color = rank % 2, others = color ? there / 2 : (there + 1) / 2;
    MPI_Comm_split(second, color, 0, &part);
    if (others == 0)
        CHECK(part == MPI_COMM_NULL, "a communicator without a remote group");
    else {
        MPI_Comm_remote_size(part, &size);
        SAME(size, others, "remote size of a color");
        use(part);
        MPI_Comm_free(&part);
    }
    MPI_Comm_split(second, split.side == 0 ? MPI_UNDEFINED : 1, 0, &part);
    CHECK(part == MPI_COMM_NULL, "one side alone got a communicator");
    /* By node; where one side has nobody there, there is no communicator. */
    int near = on_my_node(split.side), near_there = on_my_node(!split.side);
    MPI_Comm_split_type(second, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    if (near_there == 0)
        CHECK(part == MPI_COMM_NULL, "a communicator of those who share memory without a remote group");
    else {
        MPI_Comm_size(part, &size);
        SAME(size, near, "processes of this side that share memory");
        MPI_Comm_remote_size(part, &size);
        SAME(size, near_there, "processes of the other side that share memory");
        if (near == here && near_there == there)
            compared(second, part, MPI_CONGRUENT);
        use(part);
        MPI_Comm_free(&part);
    }

    /* The last of one side, all but the last of the other, if there are such. */
    int last = here - 1;
    MPI_Comm_group(second, &group);
    if (split.side == 0)
        MPI_Group_incl(group, 1, &last, &some);
    else
        MPI_Group_excl(group, 1, &last, &some);
    MPI_Comm_create(second, some, &part);
    if (split.size[1] == 1 || (split.side == 0) != (rank == last))
        CHECK(part == MPI_COMM_NULL, "a process outside the group got a communicator");
    else {
        MPI_Comm_size(part, &size);
        SAME(size, split.side == 0 ? 1 : here - 1, "size of what was created");
        MPI_Comm_remote_size(part, &size);
        SAME(size, split.side == 0 ? there - 1 : 1, "remote size of what was created");
        use(part);
        MPI_Comm_free(&part);
    }
    if (some != MPI_GROUP_EMPTY)
        MPI_Group_free(&some);
    MPI_Group_free(&group);

    /* An intercommunicator as the leaders' way to each other. */
    MPI_Comm local;
    MPI_Comm_split(MPI_COMM_WORLD, split.side, rank, &local);
    MPI_Intercomm_create(local, 0, second, 0, 3, &part);
    compared(second, part, MPI_CONGRUENT);
    use(part);
    MPI_Comm_free(&part);
    MPI_Comm_free(&local);
    MPI_Comm_free(&second);
}

/* Of groups, in a session: disconnected, freed, or left to the session's end. */
static void from_groups(int how)
{
    MPI_Session session;
    MPI_Group world, groups[2];
    MPI_Comm comm, copy;
    int side = split.side, leaders[2] = {0, split.size[1] - 1};
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    for (int i = 0; i < 2; i++)
        MPI_Group_incl(world, split.size[i], split.ranks[i], &groups[i]);
    MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, groups[!side], 0, "nobody", MPI_INFO_NULL,
                                     MPI_ERRORS_ARE_FATAL, &comm);
    CHECK(comm == MPI_COMM_NULL, "an empty local group gave a communicator");
    MPI_Intercomm_create_from_groups(groups[side], 0, MPI_GROUP_EMPTY, 0, "nobody", MPI_INFO_NULL,
                                     MPI_ERRORS_ARE_FATAL, &comm);
    CHECK(comm == MPI_COMM_NULL, "an empty remote group gave a communicator");
    for (int again = 0; again < 2; again++) {
        MPI_Intercomm_create_from_groups(groups[side], leaders[side], groups[!side], leaders[!side],
                                         "weft.tests.intercomm", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        compared(comm, inter, MPI_CONGRUENT);
        use(comm);
        if (again == 0)
            MPI_Comm_disconnect(&comm);
    }
    MPI_Comm_dup(comm, &copy);
    use(copy);
    if (how == 0) {
        MPI_Comm_disconnect(&copy);
        MPI_Comm_disconnect(&comm);
    } else if (how == 1) {
        MPI_Comm_free(&copy);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&groups[0]);
    MPI_Group_free(&groups[1]);
    MPI_Session_finalize(&session);
}

/* Where both groups matter, the error comes to all of them: nobody waits. */
static void wrong(void)
{
    MPI_Comm made, world = MPI_COMM_WORLD;
    MPI_Group all, group;
    MPI_Request request;
    int number, values[4 * MOST] = {0}, more[4 * MOST];
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_group(world, &all);
    ERROR(MPI_ERR_COMM, MPI_Intercomm_create(MPI_COMM_NULL, 0, world, 0, 0, &made), "MPI_COMM_NULL");
    ERROR(MPI_ERR_RANK, MPI_Intercomm_create(world, ranks, world, 0, 0, &made), "local_leader");
    ERROR(MPI_ERR_RANK, MPI_Intercomm_create(world, -1, world, 0, 0, &made), "local_leader");
    ERROR(MPI_ERR_RANK, MPI_Intercomm_create(world, 0, world, ranks, 0, &made), "remote_leader");
    ERROR(MPI_ERR_RANK, MPI_Intercomm_create(world, 0, world, MPI_ANY_SOURCE, 0, &made), "remote_leader");
    ERROR(MPI_ERR_TAG, MPI_Intercomm_create(world, 0, world, 0, -5, &made), "tag");
    ERROR(MPI_ERR_COMM, MPI_Intercomm_create(world, 0, MPI_COMM_NULL, 0, 0, &made), "MPI_COMM_NULL");
    ERROR(MPI_ERR_COMM, MPI_Intercomm_create(world, ranks - 1, world, ranks - 1, 0, &made), "both groups");
    ERROR(MPI_ERR_COMM, MPI_Intercomm_merge(world, 0, &made), "intracommunicator");
    ERROR(MPI_ERR_COMM, MPI_Intercomm_merge(MPI_COMM_NULL, 0, &made), "MPI_COMM_NULL");
    ERROR(MPI_ERR_COMM, MPI_Comm_remote_size(world, &number), "intracommunicator");
    ERROR(MPI_ERR_COMM, MPI_Comm_remote_group(world, &group), "intracommunicator");
    ERROR(MPI_ERR_COMM, MPI_Comm_test_inter(MPI_COMM_NULL, &number), "MPI_COMM_NULL");
    ERROR(MPI_ERR_ROOT, MPI_Bcast(values, 1, MPI_INT, MPI_ROOT, world), "root");
    ERROR(MPI_ERR_ROOT, MPI_Bcast(values, 1, MPI_INT, MPI_PROC_NULL, world), "root");
#define FROM_GROUPS(local, leader, other, other_leader, tag)                                                           \
    MPI_Intercomm_create_from_groups(local, leader, other, other_leader, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made)
    ERROR(MPI_ERR_GROUP, FROM_GROUPS(all, 0, all, 0, "wrong"), "local_group and in remote_group");
    ERROR(MPI_ERR_RANK, FROM_GROUPS(all, ranks, all, 0, "wrong"), "local_leader");
    ERROR(MPI_ERR_RANK, FROM_GROUPS(all, 0, all, -1, "wrong"), "remote_leader");
    ERROR(MPI_ERR_GROUP, FROM_GROUPS(MPI_GROUP_NULL, 0, all, 0, "wrong"), "MPI_GROUP_NULL");
    ERROR(MPI_ERR_GROUP, FROM_GROUPS(all, 0, MPI_GROUP_NULL, 0, "wrong"), "MPI_GROUP_NULL");
    ERROR(MPI_ERR_ARG, FROM_GROUPS(all, 0, all, 0, ""), "stringtag");
    char too_long[MPI_MAX_STRINGTAG_LEN + 1];
    memset(too_long, 'x', MPI_MAX_STRINGTAG_LEN);
    too_long[MPI_MAX_STRINGTAG_LEN] = 0;
    ERROR(MPI_ERR_ARG, FROM_GROUPS(all, 0, all, 0, too_long), "stringtag", "MPI_MAX_STRINGTAG_LEN");
    if (inter != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        MPI_Comm_remote_group(inter, &group);
        ERROR(MPI_ERR_GROUP, FROM_GROUPS(group, 0, group, 0, "wrong"), "local_group");
        ERROR(MPI_ERR_GROUP, MPI_Comm_create(inter, group, &made), "not in this communicator");
        ERROR(MPI_ERR_COMM, MPI_Comm_create_group(inter, all, 0, &made), "intercommunicator");
        ERROR(MPI_ERR_COMM, MPI_Intercomm_create(inter, 0, world, 0, 0, &made), "intercommunicator");
        MPI_Group_free(&group);
        ERROR(MPI_ERR_RANK, MPI_Send(values, 1, MPI_INT, there, 0, inter), "remote group");
        ERROR(MPI_ERR_RANK, MPI_Recv(values, 1, MPI_INT, there, 0, inter, MPI_STATUS_IGNORE), "remote group");
        ERROR(MPI_ERR_ROOT, MPI_Bcast(values, 1, MPI_INT, there, inter), "root");
        ERROR(MPI_ERR_ROOT, MPI_Reduce(values, more, 1, MPI_INT, MPI_SUM, -9, inter), "root");
        ERROR(MPI_ERR_COMM, MPI_Scan(values, more, 1, MPI_INT, MPI_SUM, inter), "intercommunicator");
        ERROR(MPI_ERR_COMM, MPI_Exscan(values, more, 1, MPI_INT, MPI_SUM, inter), "intercommunicator");
        ERROR(MPI_ERR_COMM, MPI_Iscan(values, more, 1, MPI_INT, MPI_SUM, inter, &request), "intercommunicator");
        ERROR(MPI_ERR_COMM, MPI_Iexscan(values, more, 1, MPI_INT, MPI_SUM, inter, &request), "intercommunicator");
        ERROR(MPI_ERR_BUFFER, MPI_Allreduce(MPI_IN_PLACE, more, 1, MPI_INT, MPI_SUM, inter), "IN_PLACE");
        ERROR(MPI_ERR_BUFFER, MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, more, 1, MPI_INT, inter),
              "IN_PLACE");
        ERROR(MPI_ERR_BUFFER, MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, more, 1, MPI_INT, inter), "IN_PLACE");
        ERROR(MPI_ERR_BUFFER, MPI_Reduce_scatter_block(MPI_IN_PLACE, more, 1, MPI_INT, MPI_SUM, inter),
              "IN_PLACE");
        /* A group whose processes do not say the same. */
        if (here > 1 || there > 1)
            ERROR(MPI_ERR_ARG, MPI_Intercomm_merge(inter, rank == 0, &made), "high");
        /* One process whose attribute can't be copied is enough. */
        int keyval;
        MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
        if (me == 0)
            MPI_Comm_set_attr(inter, keyval, &number);
        ERROR(MPI_ERR_OTHER, MPI_Comm_dup(inter, &made), me == 0 ? "" : "process 0");
        if (me == 0)
            MPI_Comm_delete_attr(inter, keyval);
        MPI_Comm_free_keyval(&keyval);
        use(inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL);
    }
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(ranks <= MOST, "at most %d ranks", MOST);
    gather_hosts();
    for (int way = 0; ranks > 1 && divide(way) && (way == 0 || !brief()); way++) {
        facts_of(make(way));
        inquiries();
        messages();
        collectives(way == 1 ? 1 : 3);
        if (way == 0 && !brief()) {
            collectives(0);
            collectives(LONG);
        }
        at_once();
        merged();
        derived();
        from_groups(way);
        if (way == 0)
            wrong();
        if (way == 2)
            MPI_Comm_disconnect(&inter);
        else
            MPI_Comm_free(&inter);
        CHECK(inter == MPI_COMM_NULL, "the handle was left");
    }
    if (ranks == 1)
        wrong();
    return end("intercomm");
}
