/* What may still be under way when Finalize is called, by the examples of the standard (MPI-2.0 section 3.2.2): the
 * argument chooses one. */
#include "check.h"

enum { MOST = 1 << 20 };

static unsigned char buffer[MOST];

static int after_finalize(void)
{
    int flag;
    MPI_Finalized(&flag);
    SAME(flag, 1, "MPI_Finalized after MPI_Finalize");
    MPI_Initialized(&flag);
    SAME(flag, 1, "MPI_Initialized after MPI_Finalize");
    if (me == 0)
        printf("finalize: ok with %d ranks\n", ranks);
    return 0;
}

static int finished(void)
{
    MPI_Finalize();
    return after_finalize();
}

/* Sent and completed by the sender; received just before the receiver's Finalize, which may be much later. */
static void send_then_finalize(int bytes, int nonblocking)
{
    MPI_Request request;
    if (me == 0) {
        fill(buffer, bytes, 7);
        for (int i = 1; i < ranks; i++)
            if (nonblocking) {
                MPI_Isend(buffer, bytes, MPI_BYTE, i, 1, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else
                MPI_Send(buffer, bytes, MPI_BYTE, i, 1, MPI_COMM_WORLD);
        /* The buffer can be reused. */
        memset(buffer, 0xee, bytes);
    } else {
        usleep(20000 * me);
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        FILLED(buffer, bytes, 7, "message of a rank that is in MPI_Finalize");
    }
}

/* Freed, and known by the barrier to have been received. */
static void freed(int bytes)
{
    MPI_Request request;
    if (me == 0)
        for (int i = 1; i < ranks; i++) {
            fill(buffer, bytes, 8);
            MPI_Isend(buffer, bytes, MPI_BYTE, i, 1, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
            CHECK(request == MPI_REQUEST_NULL, "MPI_Request_free leaves the handle");
        }
    else {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        FILLED(buffer, bytes, 8, "message of a freed request");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The receiver is in Finalize, or past it, when the message is cancelled. */
static void cancelled(int bytes)
{
    MPI_Request request;
    MPI_Status status;
    int flag = -1;
    if (me == 0)
        MPI_Isend(buffer, bytes, MPI_BYTE, ranks - 1, 1, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == ranks - 1) {
        MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, &status);
        SAME(flag, 0, "MPI_Iprobe of another tag");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        usleep(50000);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        SAME(flag, 1, "MPI_Test_cancelled of a message of %d bytes that nobody receives", bytes);
    }
}

/* The example of the standard's clarification (MPI-2.0 section 3.2.2), as it stands there. */
static void example(int bytes)
{
    enum { TAG1 = 1, TAG2 = 2 };
    MPI_Request request;
    MPI_Status status;
    int flag = -1;
    if (me == 0) {
        MPI_Isend(buffer, bytes, MPI_BYTE, 1, TAG1, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        SAME(flag, 1, "MPI_Test_cancelled of a message of %d bytes that is at its destination", bytes);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iprobe(0, TAG2, MPI_COMM_WORLD, &flag, &status);
        SAME(flag, 0, "MPI_Iprobe of another tag");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* "The cancel operation must succeed, since the send cannot complete normally" (MPI 4.1 section 12.2.2): the others go to
 * Finalize at once. Each rank has many such sends, to all others. */
static void cannot_complete(int bytes)
{
    enum { EACH = 20 };
    MPI_Status status;
    int flag;
    if (me % 2 != 0)
        return;
    for (int i = 0; i < ranks; i++) {
        MPI_Request requests[EACH];
        for (int j = 0; j < EACH; j++)
            MPI_Issend(buffer, j % 2 ? bytes : 8, MPI_BYTE, i, j, MPI_COMM_WORLD, &requests[j]);
        for (int j = EACH - 1; j >= 0; j--) {
            MPI_Cancel(&requests[j]);
            MPI_Wait(&requests[j], &status);
            MPI_Test_cancelled(&status, &flag);
            SAME(flag, 1, "MPI_Test_cancelled of synchronous send %d to rank %d", j, i);
        }
    }
}

static unsigned char kept[3][MOST], *late_data[3];
static int kept_bytes;

/* Requests freed on both sides, and nothing but Finalize after that (MPI 3.0 and later ask for no more): short and long,
 * synchronous, to a receiver that is late, and into a receive whose request was freed before its message went. */
static void freed_only(int bytes)
{
    MPI_Request request;
    kept_bytes = bytes;
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    for (int i = 0; i < 3; i++)
        fill(kept[i], bytes, me * 3 + i);
    /* Ranks with an odd number come late. */
    usleep(me % 2 * 30000);
    for (int i = 0; i < 3; i++) {
        late_data[i] = allocate(bytes);
        memset(late_data[i], 0, bytes);
        if (i < 2) {
            MPI_Irecv(late_data[i], bytes, MPI_BYTE, before, i, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        }
    }
    MPI_Isend(kept[0], bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Issend(kept[1], bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Isend(kept[2], bytes, MPI_BYTE, next, 2, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(late_data[2], bytes, MPI_BYTE, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The same in both directions at once: only Finalize makes sure that what was freed arrives. */
static void exchanged(int bytes)
{
    MPI_Request request;
    kept_bytes = bytes;
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    for (int i = 0; i < 3; i++) {
        fill(kept[i], bytes, me * 3 + i);
        late_data[i] = allocate(bytes);
        memset(late_data[i], 0, bytes);
    }
    /* What is sent from here is overwritten by what comes. */
    memcpy(late_data[2], kept[2], bytes);
    /* Ranks with an odd number come late. */
    usleep(me % 2 * 30000);
    for (int i = 0; i < 2; i++) {
        MPI_Isendrecv(kept[i], bytes, MPI_BYTE, next, i, late_data[i], bytes, MPI_BYTE, before, i, MPI_COMM_WORLD,
                      &request);
        MPI_Request_free(&request);
    }
    MPI_Isendrecv_replace(late_data[2], bytes, MPI_BYTE, next, 2, before, 2, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
}

/* After Finalize all of it is there. */
static void freed_only_arrived(void)
{
    int before = (me + ranks - 1) % ranks;
    for (int i = 0; i < 3; i++)
        FILLED(late_data[i], kept_bytes, before * 3 + i, "message of a freed request");
}

/* A send of a session, freed, does not concern Finalize: its receive comes later. */
static MPI_Session session;
static MPI_Comm of_session;

static void session_goes_on(int bytes)
{
    MPI_Group group;
    MPI_Request request;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "finalize", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &of_session));
    MPI_Group_free(&group);
    fill(buffer, bytes, me);
    MPI_Isend(buffer, bytes, MPI_BYTE, (me + 1) % ranks, 1, of_session, &request);
    MPI_Request_free(&request);
}

static void session_ends(int bytes)
{
    int before = (me + ranks - 1) % ranks;
    unsigned char *in = allocate(bytes);
    MPI_Recv(in, bytes, MPI_BYTE, before, 1, of_session, MPI_STATUS_IGNORE);
    FILLED(in, bytes, before, "message of a session after MPI_Finalize");
    free(in);
    MPI_Comm_disconnect(&of_session);
    MPI_Session_finalize(&session);
}

/* MPI_Finalize inside a delete callback of MPI_Finalize is an error, and the outer one ends well. */
static int callbacks;

static int finalizing(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    int flag, sum = 0;
    callbacks++;
    MPI_Finalized(&flag);
    SAME(flag, 0, "MPI_Finalized in a callback");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    SAME(class_of(MPI_Finalize()), MPI_ERR_OTHER, "class of MPI_Finalize in a callback");
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    SAME(sum, ranks * (ranks - 1) / 2, "sum in a callback");
    return MPI_SUCCESS;
}

static void nested(void)
{
    int keyval;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalizing, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    MPI_Comm_free_keyval(&keyval);
}

/* Programs with errors, which Finalize has to end all the same. */
static void erroneous(const char *which, int bytes)
{
    MPI_Request request;
    static unsigned char in[8];
    if (me != 0)
        return;
    if (strcmp(which, "unmatched") == 0)
        MPI_Send(buffer, 8, MPI_BYTE, ranks - 1, 77, MPI_COMM_WORLD);
    else if (strcmp(which, "unmatched_freed") == 0) {
        MPI_Isend(buffer, bytes, MPI_BYTE, ranks - 1, 77, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Issend(buffer, 8, MPI_BYTE, ranks - 1, 78, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (strcmp(which, "unmatched_buffered") == 0) {
        MPI_Buffer_attach(kept[0], MOST);
        MPI_Bsend(buffer, MOST / 2, MPI_BYTE, ranks - 1, 77, MPI_COMM_WORLD);
    } else if (strcmp(which, "pending_send") == 0)
        MPI_Isend(buffer, bytes, MPI_BYTE, ranks - 1, 77, MPI_COMM_WORLD, &request);
    else if (strcmp(which, "pending_receive") == 0)
        MPI_Irecv(in, 8, MPI_BYTE, ranks - 1, 77, MPI_COMM_WORLD, &request);
    else
        FAIL("no such case: %s", which);
}

/* As in the standard's last example: a file that rank 0 writes after Finalize, and a status of its own for each rank. */
static void write_results(const char *path)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL, "can't write %s", path);
    fprintf(file, "results of %d ranks\n", ranks);
    CHECK(fclose(file) == 0, "can't close %s", path);
}

/* All ranks send to all, and the last to come to Finalize is another one each time. */
static void crossed(void)
{
    MPI_Request requests[64];
    static unsigned char in[64];
    for (int i = 0; i < ranks && i < 64; i++)
        MPI_Isend(buffer, 1, MPI_BYTE, i, 1, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE);
    usleep((me * 7919 % 5) * 10000);
    for (int i = 0; i < ranks && i < 64; i++)
        MPI_Recv(&in[i], 1, MPI_BYTE, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The last rank comes when there is such a file; without a name so late that the others would say so if they were to. */
static void come_later(const char *path)
{
    if (me != ranks - 1)
        return;
    if (path == NULL)
        usleep(1800000);
    while (path != NULL && access(path, F_OK) != 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *which = argc > 1 ? argv[1] : "nothing";
    int bytes = argc > 2 ? atoi(argv[2]) : 8;
    if (strcmp(which, "send") == 0)
        send_then_finalize(bytes, 0);
    else if (strcmp(which, "isend") == 0)
        send_then_finalize(bytes, 1);
    else if (strcmp(which, "freed") == 0)
        freed(bytes);
    else if (strcmp(which, "cancelled") == 0)
        cancelled(bytes);
    else if (strcmp(which, "crossed") == 0)
        crossed();
    else if (strcmp(which, "late") == 0)
        usleep(me == 0 ? 200000 : 0);
    else if (strcmp(which, "later") == 0)
        come_later(argc > 2 ? argv[2] : NULL);
    else if (strcmp(which, "example") == 0)
        example(bytes);
    else if (strcmp(which, "cannot_complete") == 0)
        cannot_complete(bytes);
    else if (strcmp(which, "freed_only") == 0) {
        freed_only(bytes);
        MPI_Finalize();
        freed_only_arrived();
        return after_finalize();
    } else if (strcmp(which, "exchanged") == 0) {
        exchanged(bytes);
        MPI_Finalize();
        freed_only_arrived();
        return after_finalize();
    } else if (strcmp(which, "session") == 0) {
        session_goes_on(bytes);
        MPI_Finalize();
        session_ends(bytes);
        return after_finalize();
    } else if (strcmp(which, "nested") == 0) {
        nested();
        MPI_Finalize();
        SAME(callbacks, 1, "callbacks at MPI_Finalize");
        return after_finalize();
    } else if (strcmp(which, "results") == 0) {
        MPI_Finalize();
        if (me == 0)
            write_results(argv[2]);
        return me == 0 ? after_finalize() : 20 + me;
    } else if (strcmp(which, "erroneous") == 0)
        erroneous(argv[2], 1000000);
    else
        CHECK(strcmp(which, "nothing") == 0, "no such case: %s", which);
    return finished();
}
