/* What the test programs share: a start, an end, checks that say where and what, and bytes that know their place.
 *
 * A program ends with one line of rank 0 and status 0, or with a line of the rank that found something wrong, which
 * ends the job. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* This process in MPI_COMM_WORLD, and how many there are. */
static int me UNUSED = -1, ranks UNUSED = 0;

__attribute__((format(printf, 3, 4), noreturn)) static UNUSED void fail(const char *file, int line,
                                                                        const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: rank %d of %d: %s\n", file, line, me, ranks, text);
    int initialized, finalized;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized && !finalized)
        MPI_Abort(MPI_COMM_WORLD, 99);
    _exit(99);
}

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)
/* A condition, and in words what holds otherwise. */
#define CHECK(condition, ...) ((condition) ? (void)0 : FAIL(__VA_ARGS__))

__attribute__((format(printf, 5, 6))) static UNUSED void same(const char *file, int line, long long got,
                                                              long long expected, const char *format, ...)
{
    if (got == expected)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail(file, line, "%s: expected %lld, got %lld", text, expected, got);
}

/* Two integers are equal; what they are follows as for printf. */
#define SAME(got, expected, ...) same(__FILE__, __LINE__, (long long)(got), (long long)(expected), __VA_ARGS__)

static UNUSED void succeeded(const char *file, int line, int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    fail(file, line, "%.100s: expected MPI_SUCCESS, got %d: %s", call, code, text);
}

/* The call succeeds (for communicators whose errors return). */
#define OK(call) succeeded(__FILE__, __LINE__, (call), #call)

static UNUSED int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* The call fails (for objects whose errors return) with the class, and the text of its code names the procedure and
 * has all of the words. */
static UNUSED void expect(const char *file, int line, int code, int class, const char *call, const char *const *words)
{
    char text[MPI_MAX_ERROR_STRING], procedure[64];
    int length, got = class_of(code);
    if (got != class)
        fail(file, line, "%.100s: expected class %d, got %d", call, class, got);
    snprintf(procedure, sizeof procedure, "%.*s", (int)strcspn(call, "("), call);
    MPI_Error_string(code, text, &length);
    if (strncmp(call, "MPI_", 4) == 0 && strncmp(text, procedure, strlen(procedure)) != 0)
        fail(file, line, "%.100s: the text does not name the procedure: %s", call, text);
    for (; *words != NULL; words++)
        if (strstr(text, *words) == NULL)
            fail(file, line, "%.100s: the text has no '%s': %s", call, *words, text);
    if ((int)strlen(text) != length)
        fail(file, line, "%.100s: expected length %d, got %d", call, (int)strlen(text), length);
}

/* See `expect`. */
#define ERROR(class, call, ...)                                                                                        \
    expect(__FILE__, __LINE__, (call), class, #call, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* A handle as messages tell it. */
static UNUSED const char *hex(uintptr_t handle)
{
    static char texts[8][32];
    static int next;
    char *text = texts[next++ % 8];
    snprintf(text, 32, "%#lx", (unsigned long)handle);
    return text;
}

static UNUSED void begin_with(int *argc, char ***argv, int level)
{
    int provided;
    MPI_Init_thread(argc, argv, level, &provided);
    CHECK(provided >= level, "thread level: expected at least %d, got %d", level, provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

static UNUSED void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Whether to do less of the same: the matrix asks for it where a transport is slow. */
static UNUSED int brief(void)
{
    return getenv("WEFT_TEST_BRIEF") != NULL;
}

/* Finalize brings all ranks together, so the line means that each is content. */
static UNUSED int end(const char *what)
{
    MPI_Finalize();
    if (me == 0)
        printf("%s: ok with %d ranks\n", what, ranks);
    return 0;
}

/* A barrier made of messages, for programs that are not about collective operations. */
static UNUSED void together(MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int distance = 1; distance < size; distance *= 2)
        MPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + distance) % size, 30000, NULL, 0, MPI_BYTE,
                     (rank - distance + size) % size, 30000, comm, MPI_STATUS_IGNORE);
}

/* Byte `i` of the pattern `seed`. Neighbours, and places a page or a fragment apart, differ. */
static UNUSED inline unsigned char pattern(uint32_t seed, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(i >> 32) * 97u + seed * 40503u;
    return (unsigned char)(x >> 24 ^ x >> 13);
}

static UNUSED void fill(void *buffer, size_t bytes, uint32_t seed)
{
    unsigned char *at = buffer;
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern(seed, i);
}

static UNUSED void filled(const char *file, int line, const void *buffer, size_t bytes, uint32_t seed,
                          const char *what)
{
    const unsigned char *at = buffer;
    unsigned char wrong = 0;
    /* Without a branch first: this loop can use vectors. */
    for (size_t i = 0; i < bytes; i++)
        wrong |= at[i] ^ pattern(seed, i);
    for (size_t i = 0; wrong != 0 && i < bytes; i++)
        if (at[i] != pattern(seed, i))
            fail(file, line, "%s: byte %zu of %zu: expected %u, got %u", what, i, bytes, pattern(seed, i), at[i]);
}

/* The buffer holds the pattern. */
#define FILLED(buffer, bytes, seed, what) filled(__FILE__, __LINE__, buffer, bytes, seed, what)

static UNUSED void *allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    CHECK(memory != NULL, "no memory for %zu bytes", bytes);
    return memory;
}

/* The value of a key, or NULL: there is none. */
static UNUSED void info_says(MPI_Info info, const char *key, const char *expected)
{
    char value[MPI_MAX_INFO_VAL];
    int length = sizeof value, flag;
    OK(MPI_Info_get_string(info, key, &length, value, &flag));
    SAME(flag, expected != NULL, "flag of the key %s", key);
    if (flag)
        CHECK(strcmp(value, expected) == 0, "the key %s has the value '%s', not '%s'", key, value, expected);
}

/* Nanoseconds of a clock that all processes of a machine share. */
static UNUSED int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The host of each rank of MPI_COMM_WORLD. */
static char (*hosts)[64] UNUSED;

/* Collective, before node_of. */
static UNUSED void gather_hosts(void)
{
    char own[sizeof *hosts] = "";
    SAME(gethostname(own, sizeof own - 1), 0, "gethostname");
    hosts = malloc(ranks * sizeof *hosts);
    CHECK(hosts != NULL, "no memory");
    MPI_Allgather(own, sizeof own, MPI_CHAR, hosts, sizeof own, MPI_CHAR, MPI_COMM_WORLD);
}

/* The node of a rank of MPI_COMM_WORLD: the first rank of its host. WEFT_FAKE_NODES pretends that one host is several. */
static UNUSED int node_of(int rank)
{
    const char *pretended = getenv("WEFT_FAKE_NODES");
    int nodes = pretended != NULL ? atoi(pretended) : 0, first = 0;
    if (nodes > 0)
        return rank % nodes;
    while (strcmp(hosts[first], hosts[rank]) != 0)
        first++;
    return first;
}

static UNUSED void status_is(const char *file, int line, const MPI_Status *status, int source, int tag, int bytes)
{
    same(file, line, status->MPI_SOURCE, source, "status.MPI_SOURCE");
    same(file, line, status->MPI_TAG, tag, "status.MPI_TAG");
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    same(file, line, count, bytes, "MPI_Get_count of the status");
    int cancelled;
    MPI_Test_cancelled(status, &cancelled);
    same(file, line, cancelled, 0, "MPI_Test_cancelled of the status");
}

/* A status tells the source, the tag and the bytes of a message. */
#define STATUS(status, source, tag, bytes) status_is(__FILE__, __LINE__, &(status), source, tag, bytes)
#define STATUS_EMPTY(status) STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0)

#endif
