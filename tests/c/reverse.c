/* So many small messages (the argument; else 1,000,000), all sent before one is received, and received in reverse
 * order of their tags: matching must not cost more because the queue is long. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int count = argc > 1 ? atoi(argv[1]) : 1000000;
    int64_t start = now_ns();
    if (me == 0) {
        for (int i = 0; i < count; i++) {
            int64_t value = 3 * (int64_t)i + 1;
            MPI_Send(&value, 1, MPI_INT64_T, ranks - 1, i, MPI_COMM_WORLD);
        }
    }
    if (me == ranks - 1) {
        for (int i = count - 1; i >= 0; i--) {
            int64_t value = -1;
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT64_T, 0, i, MPI_COMM_WORLD, &status);
            SAME(value, 3 * (int64_t)i + 1, "value of the message with tag %d", i);
            SAME(status.MPI_TAG, i, "tag");
        }
        fprintf(stderr, "reverse: %d messages took %.0f ns each\n", count,
                (double)(now_ns() - start) / (count > 0 ? count : 1));
    }
    /* The same with the receives posted first, each with a tag of its own. */
    int posted = count / 4;
    MPI_Request *requests = allocate(sizeof *requests * (posted + 1));
    int64_t *values = allocate(sizeof *values * (posted + 1));
    start = now_ns();
    if (me == ranks - 1)
        for (int i = 0; i < posted; i++)
            MPI_Irecv(&values[i], 1, MPI_INT64_T, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        for (int i = posted - 1; i >= 0; i--) {
            int64_t value = 5 * (int64_t)i + 2;
            MPI_Send(&value, 1, MPI_INT64_T, ranks - 1, i, MPI_COMM_WORLD);
        }
    if (me == ranks - 1) {
        MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < posted; i++)
            SAME(values[i], 5 * (int64_t)i + 2, "value of posted receive %d", i);
        fprintf(stderr, "reverse: %d posted receives took %.0f ns each\n", posted,
                (double)(now_ns() - start) / (posted > 0 ? posted : 1));
    }
    free(requests);
    free(values);
    return end("reverse");
}
