/* MPI_Comm_split_type and MPI_Get_hw_resource_info, on whatever machine this is: what the library says is held against
 * what the kernel says.
 *
 * With arguments: `sets NAME SIZE` divides by a process set of the launcher's; `say` tells of each kind of hardware. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

#define KINDS_MAX 32
#define KIND "mpi_hw_resource_type"
#define SET "mpi_pset_name"

/* Processors that each rank may use, and its node. */
static cpu_set_t *masks;
static int *nodes;

static MPI_Info info_of(const char *key, const char *value)
{
    MPI_Info info;
    MPI_Info_create(&info);
    if (key)
        MPI_Info_set(info, key, value);
    return info;
}

/* Divides a communicator as an info object with one key says; without a key, with an empty one. */
static MPI_Comm split(MPI_Comm comm, int type, const char *key, const char *value)
{
    MPI_Comm part;
    MPI_Info info = info_of(key, value);
    MPI_Comm_split_type(comm, type, 0, info, &part);
    MPI_Info_free(&info);
    return part;
}

/* The communicator holds those ranks of the world, in their order, and works. It is freed. */
static void holds(MPI_Comm comm, const int *inside, const char *what)
{
    int size, rank, expected = 0, before = 0, sum;
    for (int i = 0; i < ranks; i++) {
        expected += inside[i] != 0;
        before += inside[i] && i < me;
    }
    CHECK(comm != MPI_COMM_NULL, "%s: got MPI_COMM_NULL, expected a communicator of %d", what, expected);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    SAME(size, expected, "%s: size", what);
    SAME(rank, before, "%s: rank", what);
    int bit = 1 << me;
    MPI_Allreduce(&bit, &sum, 1, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < ranks; i++)
        SAME(sum >> i & 1, inside[i] != 0, "%s: whether rank %d is inside", what, i);
    MPI_Comm_free(&comm);
}

static void is_null(MPI_Comm comm, const char *what)
{
    CHECK(comm == MPI_COMM_NULL, "%s: expected MPI_COMM_NULL", what);
}

static void shared(void)
{
    int *beside = calloc(ranks, sizeof *beside);
    for (int i = 0; i < ranks; i++)
        beside[i] = nodes[i] == nodes[me];
    MPI_Comm part;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    holds(part, beside, "MPI_COMM_TYPE_SHARED");
    holds(split(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, KIND, "mpi_shared_memory"), beside,
          "guided by mpi_shared_memory");
    holds(split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, KIND, "mpi_shared_memory"), beside,
          "resource-guided by mpi_shared_memory");
    holds(split(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, KIND, "hwloc://Machine"), beside, "guided by machine");

    /* Ranks by key; and who says MPI_UNDEFINED takes part and gets nothing. */
    int type = me % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, rank, size, after = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, type, -me, MPI_INFO_NULL, &part);
    CHECK((part == MPI_COMM_NULL) == (me % 2), "MPI_UNDEFINED of odd ranks");
    if (part != MPI_COMM_NULL) {
        for (int i = me + 1; i < ranks; i++)
            after += beside[i] && i % 2 == 0;
        MPI_Comm_rank(part, &rank);
        MPI_Comm_size(part, &size);
        SAME(rank, after, "rank by descending key among %d", size);
        MPI_Comm_free(&part);
    }
    free(beside);
}

/* Section 7.4.2 lists where MPI_COMM_NULL comes back. */
static void nothing(void)
{
    MPI_Comm part, quiet;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &part);
    is_null(part, "guided without info");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, MPI_INFO_NULL, &part);
    is_null(part, "resource-guided without info");
    is_null(split(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, NULL, NULL), "guided by no key");
    is_null(split(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, SET, "mpi://WORLD"), "guided by a process set");
    is_null(split(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, KIND, "hwloc://Abacus"), "guided by an unknown kind");
    is_null(split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, NULL, NULL), "resource-guided by no key");
    is_null(split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, KIND, "abacus://Bead"),
            "resource-guided by an unknown kind");
    is_null(split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, SET, "app://nobody"),
            "resource-guided by an unknown process set");
    MPI_Comm_dup(MPI_COMM_WORLD, &quiet);
    MPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
    MPI_Info both = info_of(KIND, "hwloc://Machine");
    MPI_Info_set(both, SET, "mpi://WORLD");
    int code = MPI_Comm_split_type(quiet, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, both, &part);
    SAME(class_of(code), MPI_ERR_INFO, "class of the error for both info keys");
    code = MPI_Comm_split_type(quiet, 12345, 0, MPI_INFO_NULL, &part);
    SAME(class_of(code), MPI_ERR_ARG, "class of the error for an unknown split_type");
    MPI_Info_free(&both);
    MPI_Comm_free(&quiet);
}

static void sets(void)
{
    int *inside = calloc(ranks, sizeof *inside);
    inside[me] = 1;
    holds(split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, SET, "mpi://SELF"), inside, "mpi://SELF");
    for (int i = 0; i < ranks; i++)
        inside[i] = 1;
    holds(split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, SET, "mpi://WORLD"), inside, "mpi://WORLD");
    free(inside);
}

/* The kernel's list of processors in a file below a processor's folder. 0: it does not tell. */
static int kernels(int processor, const char *file, cpu_set_t *set)
{
    char path[128], text[4096];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", processor, file);
    FILE *from = fopen(path, "r");
    if (!from)
        return 0;
    int told = fgets(text, sizeof text, from) != NULL;
    fclose(from);
    CPU_ZERO(set);
    for (char *at = text; told && *at >= '0' && *at <= '9';) {
        long first = strtol(at, &at, 10), last = *at == '-' ? strtol(at + 1, &at, 10) : first;
        for (; first <= last; first++)
            CPU_SET(first, set);
        at += *at == ',';
    }
    return told && CPU_ISSET(processor, set);
}

/* The first processor of the one thing that has all processors of a rank, as the kernel tells; -1: there are several such
 * things; -2: it does not tell. */
static int kernels_number(int rank, const char *file)
{
    int first = 0;
    cpu_set_t set, both;
    while (first < CPU_SETSIZE && !CPU_ISSET(first, &masks[rank]))
        first++;
    if (first == CPU_SETSIZE || !kernels(first, file, &set))
        return -2;
    CPU_AND(&both, &masks[rank], &set);
    if (!CPU_EQUAL(&both, &masks[rank]))
        return -1;
    for (first = 0; !CPU_ISSET(first, &set);)
        first++;
    return first;
}

/* What is said of a kind is what the kernel says of it, where it does. */
static void agrees_with_kernel(const char *kind, MPI_Comm part)
{
    const char *file = strcmp(kind, "hwloc://Core") == 0      ? "thread_siblings_list"
                       : strcmp(kind, "hwloc://Package") == 0 ? "core_siblings_list"
                                                              : NULL;
    if (!file || getenv("HWLOC_SYNTHETIC") || getenv("HWLOC_XMLFILE"))
        return;
    int mine = kernels_number(me, file), inside = 0, size;
    if (mine == -2)
        return;
    CHECK((part != MPI_COMM_NULL) == (mine >= 0), "%s: whether this process is in a single one: the kernel says %d", kind,
          mine);
    if (part == MPI_COMM_NULL)
        return;
    for (int i = 0; i < ranks; i++)
        inside += nodes[i] == nodes[me] && kernels_number(i, file) == mine;
    MPI_Comm_size(part, &size);
    SAME(size, inside, "%s: processes in the same one as this", kind);
}

/* The kinds of rank 0's, which everybody has: all hosts are of one kind. Returns how many. */
static int kinds_of_all(char (*kinds)[MPI_MAX_INFO_KEY])
{
    MPI_Info known;
    int count;
    MPI_Get_hw_resource_info(&known);
    MPI_Info_get_nkeys(known, &count);
    CHECK(count > 0 && count <= KINDS_MAX, "%d kinds of hardware", count);
    memset(kinds, 0, KINDS_MAX * sizeof *kinds);
    for (int i = 0; i < count; i++)
        MPI_Info_get_nthkey(known, i, kinds[i]);
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(kinds, KINDS_MAX * sizeof *kinds, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Info_free(&known);
    return count;
}

/* Whether this process is confined to one of a kind. */
static int confined(const char *kind)
{
    MPI_Info known;
    char value[6];
    int flag, length = sizeof value;
    MPI_Get_hw_resource_info(&known);
    MPI_Info_get_string(known, kind, &length, value, &flag);
    CHECK(flag, "the kind %s of rank 0's is not known here", kind);
    CHECK(strcmp(value, "true") == 0 || strcmp(value, "false") == 0, "%s has the value '%s'", kind, value);
    MPI_Info_free(&known);
    return value[0] == 't';
}

static void guided(int says)
{
    char kinds[KINDS_MAX][MPI_MAX_INFO_KEY];
    int count = kinds_of_all(kinds), machine = 0;
    for (int i = 0; i < count; i++) {
        CHECK(strncmp(kinds[i], "hwloc://", 8) == 0, "'%s' is no URI of hwloc's", kinds[i]);
        machine |= strcmp(kinds[i], "hwloc://Machine") == 0;
        int alone = confined(kinds[i]), size = 0, result;
        MPI_Comm part = split(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, KIND, kinds[i]), again;
        CHECK((part != MPI_COMM_NULL) == alone, "split by %s, which says '%s'", kinds[i], alone ? "true" : "false");
        again = split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, KIND, kinds[i]);
        CHECK((again != MPI_COMM_NULL) == alone, "resource-guided split by %s", kinds[i]);
        agrees_with_kernel(kinds[i], part);
        if (part != MPI_COMM_NULL) {
            MPI_Comm_size(part, &size);
            MPI_Comm_compare(part, again, &result);
            SAME(result, MPI_CONGRUENT, "guided and resource-guided split by %s", kinds[i]);
            MPI_Comm_free(&part);
            MPI_Comm_free(&again);
        }
        if (says)
            printf("rank %d: %s %s %d\n", me, kinds[i], alone ? "true" : "false", size);
    }
    CHECK(machine, "hwloc://Machine is not among the kinds");
    SAME(confined("hwloc://Machine"), 1, "whether the process is on a single machine");
}

/* Each division is by one kind, the one that is named, and makes strictly smaller parts. */
static void unguided(int says)
{
    MPI_Comm level = MPI_COMM_WORLD, part;
    for (int depth = 0; level != MPI_COMM_NULL; depth++) {
        char kind[MPI_MAX_INFO_VAL] = "", named[MPI_MAX_INFO_VAL] = "";
        int flag, length = sizeof kind, size, smaller, result;
        CHECK(depth < KINDS_MAX, "the communicator can be divided forever");
        MPI_Info info = info_of(NULL, NULL);
        MPI_Comm_split_type(level, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &part);
        MPI_Info_get_string(info, KIND, &length, kind, &flag);
        MPI_Info_free(&info);
        SAME(flag, part != MPI_COMM_NULL, "whether the kind is named (depth %d)", depth);
        MPI_Allreduce(kind, named, sizeof kind, MPI_UNSIGNED_CHAR, MPI_MAX, level);
        CHECK(!flag || strcmp(kind, named) == 0, "some are divided by '%s', this process by '%s'", named, kind);
        if (named[0]) {
            MPI_Comm same_kind = split(level, MPI_COMM_TYPE_HW_GUIDED, KIND, named);
            SAME(same_kind != MPI_COMM_NULL, flag, "whether %s gives what unguided division gave", named);
            if (flag) {
                MPI_Comm_compare(part, same_kind, &result);
                SAME(result, MPI_CONGRUENT, "parts by %s", named);
                MPI_Comm_free(&same_kind);
            }
        }
        if (part != MPI_COMM_NULL) {
            MPI_Comm_size(level, &size);
            MPI_Comm_size(part, &smaller);
            CHECK(smaller < size, "a part of %d by %s has %d processes", size, kind, smaller);
            if (says)
                printf("rank %d: divided by %s, %d of %d\n", me, kind, smaller, size);
        }
        if (level != MPI_COMM_WORLD)
            MPI_Comm_free(&level);
        level = part;
    }
}

static void gather_places(void)
{
    cpu_set_t own;
    masks = malloc(ranks * sizeof *masks);
    nodes = malloc(ranks * sizeof *nodes);
    SAME(sched_getaffinity(0, sizeof own, &own), 0, "sched_getaffinity");
    MPI_Allgather(&own, sizeof own, MPI_BYTE, masks, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    gather_hosts();
    for (int i = 0; i < ranks; i++)
        nodes[i] = node_of(i);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc == 4 && strcmp(argv[1], "sets") == 0) {
        int size = 0;
        MPI_Comm part = split(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, SET, argv[2]);
        if (part != MPI_COMM_NULL) {
            MPI_Comm_size(part, &size);
            MPI_Comm_free(&part);
        }
        SAME(size, atoi(argv[3]), "processes that are in %s, 0 if this one is not", argv[2]);
        return end("split_type");
    }
    int says = argc == 2 && strcmp(argv[1], "say") == 0;
    gather_places();
    if (!says) {
        shared();
        nothing();
        sets();
    }
    guided(says);
    unguided(says);
    free(masks);
    free(nodes);
    return end("split_type");
}
