/* Random matching against a model that every rank has of all messages: wildcards, probes, matched probes, persistent requests, all
 * modes, and cancels. Of a round each rank receives its messages by one kind of pattern, so that no receive can take what another one
 * must have; then the standard's order says which message each gets, or, with MPI_ANY_SOURCE, which of each source.
 * usage: random [SEED]   (a failure names the seed) */
#include "check.h"

enum { MESSAGES = 40, TAGS = 3, LONG = 200000, MIDDLE = 20000 };

struct message {
    int source, destination, tag, bytes, mode;
};

static uint32_t seed, shared, own;
static struct message all[MESSAGES];
static MPI_Comm control, race;

static uint32_t draw(uint32_t *state, uint32_t end)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * end >> 24);
}

/* All ranks draw the same messages. */
static void draw_messages(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        uint32_t kind = draw(&shared, 20);
        uint32_t most = kind == 0 ? LONG : kind < 4 ? MIDDLE : 64;
        all[i] = (struct message){(int)draw(&shared, ranks), (int)draw(&shared, ranks), (int)draw(&shared, TAGS),
                                  (int)(sizeof(int) + draw(&shared, most)), (int)draw(&shared, 5)};
    }
}

static uint32_t pattern_of(int number)
{
    return seed * 1000 + (uint32_t)number;
}

/* The first bytes of a message are its number. */
static void send(int number, char *buffer, MPI_Request *request, int ready)
{
    const struct message *it = &all[number];
    fill(buffer, it->bytes, pattern_of(number));
    memcpy(buffer, &number, sizeof number);
    if (ready && it->mode < 3)
        MPI_Irsend(buffer, it->bytes, MPI_BYTE, it->destination, it->tag, MPI_COMM_WORLD, request);
    else if (it->mode == 0)
        MPI_Issend(buffer, it->bytes, MPI_BYTE, it->destination, it->tag, MPI_COMM_WORLD, request);
    else if (it->mode == 1)
        MPI_Ibsend(buffer, it->bytes, MPI_BYTE, it->destination, it->tag, MPI_COMM_WORLD, request);
    else if (it->mode == 2) {
        MPI_Send_init(buffer, it->bytes, MPI_BYTE, it->destination, it->tag, MPI_COMM_WORLD, request);
        MPI_Start(request);
    } else
        MPI_Isend(buffer, it->bytes, MPI_BYTE, it->destination, it->tag, MPI_COMM_WORLD, request);
}

/* Whether the model allows that the receive that stands for message `expected` got this one: `taken` are those before it. */
static void check_order(const int *mine, int count, int expected, int got, int by_source, int by_tag, const char *taken)
{
    CHECK(got >= 0 && got < MESSAGES && all[got].destination == me && !taken[got], "seed %u: message %d came, or came again",
          seed, got);
    CHECK(!by_source || all[got].source == all[expected].source, "seed %u: message %d has another source", seed, got);
    CHECK(!by_tag || all[got].tag == all[expected].tag, "seed %u: message %d has another tag", seed, got);
    for (int i = 0; i < count; i++) {
        int other = mine[i];
        int before = other < got && !taken[other] && all[other].source == all[got].source;
        CHECK(!before || (by_tag && all[other].tag != all[got].tag), "seed %u: message %d overtook message %d", seed, got,
              other);
    }
}

static void round_of_messages(int number)
{
    int mine[MESSAGES], count = 0, sends = 0;
    MPI_Request sending[MESSAGES], receiving[MESSAGES];
    MPI_Status statuses[MESSAGES];
    char *out[MESSAGES], *in[MESSAGES], taken[MESSAGES] = {0};
    int by_source = draw(&own, 2), by_tag = draw(&own, 2), ready = number % 3 == 2;

    draw_messages();
    for (int i = 0; i < MESSAGES; i++) {
        if (all[i].destination == me)
            mine[count++] = i;
        out[i] = all[i].source == me ? allocate(all[i].bytes) : NULL;
    }
    for (int i = 0; !ready && i < MESSAGES; i++)
        if (out[i] != NULL)
            send(i, out[i], &sending[sends++], 0);
    for (int i = 0; i < count; i++) {
        int source = by_source ? all[mine[i]].source : MPI_ANY_SOURCE, tag = by_tag ? all[mine[i]].tag : MPI_ANY_TAG;
        int how = ready ? (int)draw(&own, 2) : (int)draw(&own, 5), bytes;
        MPI_Message message;
        in[i] = allocate(sizeof(int) + LONG);
        receiving[i] = MPI_REQUEST_NULL;
        switch (how) {
        case 0:
            MPI_Irecv(in[i], sizeof(int) + LONG, MPI_BYTE, source, tag, MPI_COMM_WORLD, &receiving[i]);
            break;
        case 1:
            MPI_Recv_init(in[i], sizeof(int) + LONG, MPI_BYTE, source, tag, MPI_COMM_WORLD, &receiving[i]);
            MPI_Start(&receiving[i]);
            break;
        case 2:
            MPI_Probe(source, tag, MPI_COMM_WORLD, &statuses[i]);
            MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
            MPI_Recv(in[i], bytes, MPI_BYTE, statuses[i].MPI_SOURCE, statuses[i].MPI_TAG, MPI_COMM_WORLD, &statuses[i]);
            break;
        case 3:
            MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &statuses[i]);
            MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
            MPI_Mrecv(in[i], bytes, MPI_BYTE, &message, &statuses[i]);
            break;
        default:
            MPI_Recv(in[i], sizeof(int) + LONG, MPI_BYTE, source, tag, MPI_COMM_WORLD, &statuses[i]);
        }
    }
    if (ready) {
        together(control);
        for (int i = 0; i < MESSAGES; i++)
            if (out[i] != NULL)
                send(i, out[i], &sending[sends++], 1);
    }
    for (int i = 0; i < count; i++) {
        int got, persistent = receiving[i] != MPI_REQUEST_NULL;
        if (persistent)
            MPI_Wait(&receiving[i], &statuses[i]);
        if (receiving[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&receiving[i]);
        memcpy(&got, in[i], sizeof got);
        check_order(mine, count, mine[i], got, by_source, by_tag, taken);
        taken[got] = 1;
        STATUS(statuses[i], all[got].source, all[got].tag, all[got].bytes);
        fill(in[i], sizeof got, pattern_of(got));
        FILLED(in[i], all[got].bytes, pattern_of(got), "a message");
        free(in[i]);
    }
    MPI_Waitall(sends, sending, MPI_STATUSES_IGNORE);
    for (int i = 0; i < sends; i++)
        if (sending[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&sending[i]);
    for (int i = 0; i < MESSAGES; i++)
        free(out[i]);
}

/* Each rank sends to the next one and takes it back, while that may receive it: one of the two happens, and not both. */
static void round_of_cancels(int number)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    int bytes = draw(&own, 4) == 0 ? LONG : 8, posts = draw(&own, 2), cancelled, theirs, received, got;
    char *out = allocate(bytes), *in = allocate(LONG);
    MPI_Request sending, receiving = MPI_REQUEST_NULL;
    MPI_Status status;

    fill(out, (size_t)bytes, number);
    if (posts)
        MPI_Irecv(in, LONG, MPI_BYTE, before, 1, race, &receiving);
    MPI_Isend(out, bytes, MPI_BYTE, next, 1, race, &sending);
    MPI_Cancel(&sending);
    if (!posts)
        MPI_Irecv(in, LONG, MPI_BYTE, before, 1, race, &receiving);
    MPI_Wait(&sending, &status);
    MPI_Test_cancelled(&status, &cancelled);
    MPI_Sendrecv(&cancelled, 1, MPI_INT, next, 2, &theirs, 1, MPI_INT, before, 2, control, MPI_STATUS_IGNORE);
    if (theirs)
        MPI_Cancel(&receiving);
    MPI_Wait(&receiving, &status);
    MPI_Test_cancelled(&status, &received);
    SAME(received, theirs, "seed %u: the receive was cancelled, as its message was", seed);
    if (!theirs) {
        MPI_Get_count(&status, MPI_BYTE, &got);
        CHECK(got == 8 || got == LONG, "seed %u: a message has %d bytes", seed, got);
        FILLED(in, (size_t)got, number, "a message that was not cancelled");
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (me == 0)
        seed = argc > 1 ? (uint32_t)atoi(argv[1]) : (uint32_t)(now_ns() / 1000 % 1000000);
    MPI_Bcast(&seed, 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
    shared = seed;
    own = seed * 31 + (uint32_t)me;
    MPI_Comm_dup(MPI_COMM_WORLD, &control);
    MPI_Comm_dup(MPI_COMM_WORLD, &race);
    size_t room = (size_t)MESSAGES * (LONG + 64 + MPI_BSEND_OVERHEAD);
    void *buffer = allocate(room);
    MPI_Buffer_attach(buffer, (int)room);
    for (int i = 0; i < (brief() ? 10 : 30); i++) {
        round_of_messages(i);
        round_of_cancels(i);
        together(control);
    }
    MPI_Buffer_detach(&buffer, &(int){0});
    free(buffer);
    MPI_Comm_free(&race);
    MPI_Comm_free(&control);
    return end("random");
}
