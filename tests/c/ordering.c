/* Messages of one sender arrive in order, small and large mixed, however they are received: by tag, by any tag, from
 * any source. */
#include "check.h"

enum { ROUNDS = 200, LARGE = 100000 };

/* The number of the message is its first int; each third one is large. */
static int size_of(int number)
{
    return number % 3 == 2 ? LARGE + number : (int)sizeof(int) * (1 + number % 40);
}

static void send_all(int to, int tags)
{
    char *buffers = allocate((size_t)ROUNDS * 2 * LARGE);
    MPI_Request requests[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        char *buffer = buffers + (size_t)i * 2 * LARGE;
        memcpy(buffer, &i, sizeof i);
        MPI_Isend(buffer, size_of(i), MPI_CHAR, to, i % tags, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(ROUNDS, requests, MPI_STATUSES_IGNORE);
    free(buffers);
}

/* Rank 0 receives from all others; from each they come as they were sent. */
static void wildcards(int tags, int any_source, int any_tag)
{
    if (me != 0) {
        send_all(0, tags);
        return;
    }
    int *next = calloc((size_t)ranks * tags, sizeof *next), *all = calloc(ranks, sizeof *all);
    char *buffer = allocate(2 * LARGE);
    for (int i = 0; i < ROUNDS * (ranks - 1); i++) {
        MPI_Status status;
        int source = any_source ? MPI_ANY_SOURCE : 1 + i % (ranks - 1);
        int tag = any_tag ? MPI_ANY_TAG : i / (ranks - 1) % tags;
        MPI_Recv(buffer, 2 * LARGE, MPI_CHAR, source, tag, MPI_COMM_WORLD, &status);
        int from = status.MPI_SOURCE, number, count;
        memcpy(&number, buffer, sizeof number);
        MPI_Get_count(&status, MPI_CHAR, &count);
        CHECK(from > 0 && from < ranks, "source: expected 1 to %d, got %d", ranks - 1, from);
        if (any_tag) {
            SAME(number, all[from], "number of the next message of rank %d", from);
        } else {
            int *expected = &next[from * tags + tag];
            SAME(number, *expected * tags + tag, "number of the next message of rank %d with tag %d", from, tag);
            ++*expected;
        }
        all[from]++;
        SAME(status.MPI_TAG, number % tags, "tag of message %d", number);
        SAME(count, size_of(number), "size of message %d", number);
    }
    for (int i = 1; i < ranks; i++)
        SAME(all[i], ROUNDS, "messages from rank %d", i);
    free(next);
    free(all);
    free(buffer);
}

/* Receives posted first match in the order of their posting, wildcards and exact ones mixed. */
static void posted(void)
{
    const int tags[6] = {5, 6, 5, 5, 6, 5};
    int numbers[6] = {-1, -1, -1, -1, -1, -1};
    MPI_Request requests[6];
    MPI_Status statuses[6];
    if (me == 0) {
        MPI_Irecv(&numbers[0], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&numbers[1], 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&numbers[2], 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
        MPI_Irecv(&numbers[3], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]);
        MPI_Irecv(&numbers[4], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[4]);
        MPI_Irecv(&numbers[5], 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &requests[5]);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Waitall(6, requests, statuses);
        const int expected[6] = {0, 2, 1, 3, 5, 4};
        for (int i = 0; i < 6; i++) {
            SAME(numbers[i], expected[i], "message that posted receive %d got", i);
            STATUS(statuses[i], 1, tags[expected[i]], (int)sizeof(int));
        }
    } else if (me == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 6; i++)
            MPI_Send(&i, 1, MPI_INT, 0, tags[i], MPI_COMM_WORLD);
    }
}

/* The same communicator's ranks and tags in another context are another matter. */
static void contexts(void)
{
    MPI_Comm other;
    int value = 0;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Request first, second;
    int one = 1, two = 2;
    MPI_Isend(&one, 1, MPI_INT, next, 9, MPI_COMM_WORLD, &first);
    MPI_Isend(&two, 1, MPI_INT, next, 9, other, &second);
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(value, 2, "message in the duplicate");
    MPI_Recv(&value, 1, MPI_INT, before, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(value, 1, "message in MPI_COMM_WORLD");
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    MPI_Comm_free(&other);
}

int main(int argc, char **argv)
{
    /* Apart from the messages that wildcards would take. */
    MPI_Comm control;
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &control);
    if (ranks > 1) {
        wildcards(1, 0, 0);
        together(control);
        wildcards(1, 1, 0);
        together(control);
        wildcards(7, 0, 1);
        together(control);
        wildcards(7, 1, 1);
        together(control);
        wildcards(4, 0, 0);
        together(control);
        posted();
        together(control);
    }
    contexts();
    MPI_Comm_free(&control);
    return end("ordering");
}
