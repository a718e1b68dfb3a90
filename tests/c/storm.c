/* Checked traffic of mixed sizes among all ranks, in the midst of which one rank is killed: storm SEED LOG.
 *
 * The seed says which rank, when (while it starts, in which round, or as it ends), and how much later: a timer of the kernel's
 * then kills it at whatever instruction it is. Whoever sees a wrong byte says so in the file LOG, since what a rank says at the
 * end of its job may be lost. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>

enum { ROUNDS = 40, WINDOW = 6, MOST = 300000, GUARD = 64 };

static int log_file = -1;
static uint64_t state;

static uint64_t next(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static uint64_t below(uint64_t end)
{
    return next() % end;
}

/* Of any magnitude below 2 to the power of bits with equal chance. */
static uint64_t skewed(int bits)
{
    return below((uint64_t)1 << below(bits + 1));
}

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(text, sizeof text, "rank %d: ", me);
    length += vsnprintf(text + length, sizeof text - length - 1, format, arguments);
    va_end(arguments);
    text[length] = '\n';
    if (write(log_file, text, length + 1) < 0)
        perror("write");
    FAIL("%s", text);
}

static void die_after(uint64_t nanoseconds)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value = {nanoseconds / 1000000000, nanoseconds % 1000000000 + 1}};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &when, NULL) == 0,
          "no timer can be had");
}

static int size_of_message(void)
{
    switch (below(8)) {
    case 0:
        return below(17);
    case 1:
    case 2:
        return below(200);
    case 3:
        return below(5000);
    case 4:
        return 32768 - 2 + below(5);
    case 5:
        return below(MOST);
    default:
        return skewed(18);
    }
}

/* The content of a message follows from who sends it, the round and the number. */
static uint32_t name(int source, int round, int number)
{
    return (uint32_t)source * 1000003u + (uint32_t)round * 1009u + (uint32_t)number;
}

static void check_message(const unsigned char *in, int bytes, const MPI_Status *status, int source, int round, int number)
{
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count != bytes || status->MPI_SOURCE != source)
        wrong("round %d, message %d: %d bytes of rank %d, expected %d of rank %d", round, number, count,
              status->MPI_SOURCE, bytes, source);
    uint32_t seed = name(source, round, number);
    unsigned char differs = 0;
    for (int i = 0; i < bytes; i++)
        differs |= in[i] ^ pattern(seed, i);
    for (int i = bytes; i < bytes + GUARD; i++)
        differs |= in[i] ^ 0xa5;
    for (int i = 0; differs != 0 && i < bytes + GUARD; i++)
        if (in[i] != (i < bytes ? pattern(seed, i) : 0xa5))
            wrong("round %d, message %d of rank %d: byte %d of %d is %u", round, number, source, i, bytes, in[i]);
}

/* Everybody to the neighbour at some distance. All ranks draw the same numbers. */
static void exchange(int round, unsigned char *out[WINDOW], unsigned char *in[WINDOW])
{
    int distance = ranks > 1 ? 1 + below(ranks - 1) : 0, count = 1 + below(WINDOW), way = below(4), sizes[WINDOW];
    int to = (me + distance) % ranks, from = (me + ranks - distance) % ranks;
    MPI_Request sends[WINDOW], receives[WINDOW];
    MPI_Status status;
    for (int i = 0; i < count; i++) {
        sizes[i] = size_of_message();
        fill(out[i], sizes[i], name(me, round, i));
        memset(in[i], 0xa5, sizes[i] + GUARD);
    }
    int source = way == 1 ? MPI_ANY_SOURCE : from;
    /* Posted before, or found unexpected; received, or probed for. */
    for (int i = 0; i < count && way < 2; i++)
        MPI_Irecv(in[i], sizes[i], MPI_BYTE, source, round, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < count; i++)
        if (i % 3 == 1)
            MPI_Issend(out[i], sizes[i], MPI_BYTE, to, round, MPI_COMM_WORLD, &sends[i]);
        else
            MPI_Isend(out[i], sizes[i], MPI_BYTE, to, round, MPI_COMM_WORLD, &sends[i]);
    for (int i = 0; i < count; i++) {
        if (way < 2) {
            MPI_Wait(&receives[i], &status);
        } else if (way == 2) {
            MPI_Recv(in[i], sizes[i], MPI_BYTE, from, round, MPI_COMM_WORLD, &status);
        } else {
            MPI_Message message;
            MPI_Mprobe(MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(in[i], sizes[i], MPI_BYTE, &message, &status);
        }
        check_message(in[i], sizes[i], &status, from, round, i);
    }
    MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
}

/* Blocks that are read from the memory of whoever sends them, where that is possible. */
static void read_each_other(int round)
{
    enum { NUMBERS = 20000 };
    static int numbers[64 * NUMBERS], got[64 * NUMBERS];
    for (int at = 0; at < ranks * NUMBERS; at++)
        numbers[at] = me * 1000003 + at + round;
    MPI_Alltoall(numbers, NUMBERS, MPI_INT, got, NUMBERS, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        for (int at = 0; at < NUMBERS; at++)
            if (got[from * NUMBERS + at] != from * 1000003 + me * NUMBERS + at + round) {
                wrong("round %d: element %d from rank %d is %d", round, at, from, got[from * NUMBERS + at]);
                return;
            }
    MPI_Allreduce(numbers, got, 3 * NUMBERS, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (got[NUMBERS] != (ranks - 1) * 1000003 + NUMBERS + round)
        wrong("round %d: the greatest is %d", round, got[NUMBERS]);
}

/* Whatever had a name could be left behind. */
static void nothing_is_mapped_that_has_a_name(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, " /dev/shm/") != NULL)
            wrong("mapped: %s", line);
    if (maps != NULL)
        fclose(maps);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: storm SEED LOG");
    log_file = open(argv[2], O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(log_file >= 0, "%s can't be opened", argv[2]);
    const char *own = getenv("PMI_RANK"), *all = getenv("PMI_SIZE");
    CHECK(own != NULL && all != NULL, "no launcher has started this");
    state = strtoull(argv[1], NULL, 10);
    int doomed = atoi(own) == (int)below(atoi(all));
    /* While it starts, in a round, or as it ends. */
    int place = below(10), last = place == 0 ? -1 : place == 1 ? ROUNDS : (int)below(ROUNDS);
    uint64_t delay = skewed(place == 0 ? 25 : 22);
    if (doomed && last < 0)
        die_after(delay);
    begin(&argc, &argv);
    unsigned char *out[WINDOW], *in[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        out[i] = allocate(MOST);
        in[i] = allocate(MOST + GUARD);
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (doomed && round == last)
            die_after(delay);
        exchange(round, out, in);
        if (round == ranks)
            nothing_is_mapped_that_has_a_name();
        if (round % 8 == 7) {
            int sum = -1, mine = me + round;
            MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (sum != ranks * round + ranks * (ranks - 1) / 2)
                wrong("round %d: the sum is %d", round, sum);
        }
        if (round % 4 == 1)
            read_each_other(round);
    }
    if (doomed && last == ROUNDS)
        die_after(delay);
    for (int i = 0; i < WINDOW; i++) {
        free(out[i]);
        free(in[i]);
    }
    return end("storm");
}
