/* Random programs of one-sided communication: rma_random [SEED [SEEDS [THREADS]]]. All ranks draw the same plan, and so know what must be in each memory
 * and in each result: operations of different processes that meet in one place only read, or commute; those of one process that meet are
 * accumulates, which have an order. Threads have windows of their own. */
#include "rma.h"
#include <pthread.h>

enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP };
static const char *const kinds[] = {"put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"};
enum { FENCE, GROUPS, LOCK, LOCKS, LOCK_ALL, MODES };
static const char *const modes[] = {"fence", "groups", "lock", "locks", "lock_all"};
enum { SUM, BXOR, MAX, BOR, PROD, REPLACE, NO_OP, REDUCTIONS };
static MPI_Op reductions[REDUCTIONS];
enum { NOTHING, FLUSH_LOCAL, FLUSH, FLUSH_ALL, FLUSH_LOCAL_ALL, THEN };
enum { WINDOWS = 3, OPERATIONS = 400 };

/* A window, what its elements are, and how many of them there are in each process. */
struct subject {
    struct window w;
    MPI_Datatype type;
    int size, *counts;
    uint64_t mask;
    /* All are locked from the beginning to the end. */
    int open;
    /* What must be in each process, after what is planned. */
    uint64_t **model;
};

struct operation {
    int origin, target, kind, reduction;
    /* The elements at the target: `blocks` of `length`, each `stride` after the one before; without a stride at places of their own. */
    int count, start, length, stride;
    int *places;
    /* How the elements lie at the origin. */
    int apart;
    int request, then;
    uint64_t values, compare;
    /* This process's. */
    void *from, *into, *compared;
    uint64_t *expected;
    int checked, issued;
};

static _Thread_local uint64_t state, seed;
/* This process in the windows' communicator. */
static _Thread_local int self;
static _Thread_local int round_, phase;
static _Thread_local struct operation plan[OPERATIONS];
static _Thread_local int planned;

static uint32_t below(uint32_t limit)
{
    return draw(&state) % limit;
}

static uint64_t value(const struct operation *o, int i)
{
    uint64_t x = (o->values + i) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

static uint64_t load_element(const struct subject *s, const void *memory, int i)
{
    switch (s->size) {
    case 1: return ((const uint8_t *)memory)[i];
    case 4: return ((const uint32_t *)memory)[i];
    default: return ((const uint64_t *)memory)[i];
    }
}

static void store_element(const struct subject *s, void *memory, int i, uint64_t x)
{
    switch (s->size) {
    case 1: ((uint8_t *)memory)[i] = x; break;
    case 4: ((uint32_t *)memory)[i] = x; break;
    default: ((uint64_t *)memory)[i] = x;
    }
}

static uint64_t reduced(const struct subject *s, int reduction, uint64_t there, uint64_t x)
{
    switch (reduction) {
    case SUM: return (there + x) & s->mask;
    case BXOR: return there ^ x;
    case MAX: return there > x ? there : x;
    case BOR: return there | x;
    case PROD: return (there * x) & s->mask;
    case REPLACE: return x;
    default: return there;
    }
}

static int index_of(const struct operation *o, int i)
{
    if (o->places)
        return o->start + o->places[i];
    return o->start + i / o->length * o->stride + i % o->length;
}

/* Some elements of those from `begin` to `end`. */
static void shape(struct operation *o, int begin, int end)
{
    int room = end - begin, how = below(5);
    o->apart = 1 + (below(4) == 0);
    if (o->kind == FETCH_AND_OP || o->kind == COMPARE_AND_SWAP) {
        o->count = o->length = o->stride = o->apart = 1;
        o->start = begin + below(room);
        return;
    }
    if (how == 0 && room >= 4) {
        /* A vector. */
        o->length = 1 + below(room < 40 ? 2 : room / 16);
        o->stride = o->length + 1 + below(o->length * 2);
        int most = (room - o->length) / o->stride + 1;
        if (most > 3000)
            most = 3000;
        o->count = (1 + below(most)) * o->length;
        o->start = begin;
        return;
    }
    if (how == 1 && room >= 4) {
        o->places = malloc(room * sizeof *o->places);
        int step = 1 + below(room / 2 > 30 ? 30 : room / 2), most = 1 + below(3000);
        for (int at = below(step); at < room && o->count < most; at += 1 + below(step))
            o->places[o->count++] = at;
        o->start = begin;
        return;
    }
    o->start = begin + (below(2) ? 0 : below(room));
    o->count = below(2) ? end - o->start : (int)below(end - o->start + 1);
    o->length = o->stride = o->count;
}

/* Draws an operation, and does it in the model. */
static void add(struct subject *s, int origin, int target, int kind, int reduction, int begin, int end)
{
    if (planned == OPERATIONS)
        return;
    struct operation *o = &plan[planned++];
    *o = (struct operation){.origin = origin, .target = target, .kind = kind, .reduction = reduction};
    shape(o, begin, end);
    o->request = below(4) == 0;
    o->then = below(4) == 0 ? (int)below(THEN) : NOTHING;
    o->values = draw(&state);
    uint64_t *there = s->model[target];
    /* Half of them are equal. */
    if (kind == COMPARE_AND_SWAP)
        o->compare = (there[o->start] + below(2)) & s->mask;
    int fetches = kind != PUT && kind != ACCUMULATE;
    if (origin == self && fetches)
        o->expected = malloc(o->count * sizeof *o->expected);
    for (int i = 0; i < o->count; i++) {
        uint64_t *element = &there[index_of(o, i)], x = value(o, i) & s->mask;
        if (o->expected)
            o->expected[i] = *element;
        switch (kind) {
        case PUT: *element = x; break;
        case GET: break;
        case COMPARE_AND_SWAP:
            if (*element == o->compare)
                *element = x;
            break;
        default: *element = reduced(s, reduction, *element, x);
        }
    }
}

/* What a phase does: each part of each memory has a use. `may` says which process accesses which one's memory. */
static void make_plan(struct subject *s, const char *may)
{
    planned = 0;
    for (int target = 0; target < ranks; target++) {
        int parts = 1 + below(6), begin = 0, count = s->counts[target];
        for (int part = 0; part < parts && begin < count; part++) {
            int end = part == parts - 1 ? count : begin + 1 + (int)below(count - begin);
            int use = below(10), origin = below(ranks), many = 1 + below(3);
            int reduction = below(REPLACE);
            if (use == 1 || use == 2) {
                if (may[origin * ranks + target])
                    add(s, origin, target, PUT, 0, begin, end);
            } else if (use <= 4) {
                /* Gets and accumulates do not go together, even if these change nothing. */
                int kind = below(3) ? GET : GET_ACCUMULATE;
                for (int i = 0; i < many; i++, origin = below(ranks))
                    if (may[origin * ranks + target])
                        add(s, origin, target, kind, NO_OP, begin, end);
            } else if (use <= 6) {
                for (int i = 0; i < 3 * many; i++, origin = below(ranks))
                    if (may[origin * ranks + target])
                        add(s, origin, target, ACCUMULATE, reduction, begin, end);
            } else if (use <= 9 && may[origin * ranks + target]) {
                for (int i = 0; i < 2 * many; i++) {
                    int kind = ACCUMULATE + below(4), any = below(kind == ACCUMULATE ? NO_OP : REDUCTIONS);
                    add(s, origin, target, kind, any, begin, end);
                }
            }
            begin = end;
        }
    }
}

static MPI_Datatype spread(const struct subject *s, int count, int apart)
{
    MPI_Datatype type;
    OK(MPI_Type_vector(count, 1, apart, s->type, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

static void check_result(const struct subject *s, struct operation *o, int mode)
{
    if (!o->expected || o->checked)
        return;
    o->checked = 1;
    for (int i = 0; i < o->count; i++) {
        uint64_t got = load_element(s, o->into, i * o->apart);
        CHECK(got == o->expected[i],
              "seed %llu, round %d, phase %d, %s, window of %s, %d elements of %d B: %s of %d elements from %d on at %d: "
              "element %d is %llx, not %llx",
              (unsigned long long)seed, round_, phase, modes[mode], flavors[s->w.flavor], s->counts[o->target], s->size, kinds[o->kind], o->count, o->start,
              o->target, i, (unsigned long long)got, (unsigned long long)o->expected[i]);
    }
}

static void issue(const struct subject *s, struct operation *o, MPI_Request *request)
{
    int room = o->count * o->apart, rank = o->target;
    MPI_Win win = s->w.win;
    MPI_Aint at = place(&s->w, rank, (size_t)o->start * s->size);
    MPI_Op op = reductions[o->reduction];
    MPI_Datatype mine = s->type, there = s->type;
    int many = o->count, targets = o->count;
    o->issued = 1;
    o->from = allocate((size_t)room * s->size);
    for (int i = 0; i < o->count; i++)
        store_element(s, o->from, i * o->apart, value(o, i));
    if (o->expected) {
        o->into = allocate((size_t)room * s->size);
        memset(o->into, 0x5a, (size_t)room * s->size);
    }
    if (o->kind == FETCH_AND_OP) {
        OK(MPI_Fetch_and_op(o->from, o->into, s->type, rank, at, op, win));
        return;
    }
    if (o->kind == COMPARE_AND_SWAP) {
        o->compared = allocate(s->size);
        store_element(s, o->compared, 0, o->compare);
        OK(MPI_Compare_and_swap(o->from, o->compared, o->into, s->type, rank, at, win));
        return;
    }
    if (o->apart > 1) {
        mine = spread(s, o->count, o->apart);
        many = 1;
    }
    if (o->places) {
        OK(MPI_Type_create_indexed_block(o->count, 1, o->places, s->type, &there));
        OK(MPI_Type_commit(&there));
        targets = 1;
    } else if (o->stride != o->length) {
        OK(MPI_Type_vector(o->count / o->length, o->length, o->stride, s->type, &there));
        OK(MPI_Type_commit(&there));
        targets = 1;
    }
    int asks = request && o->request;
    switch (o->kind) {
    case PUT:
        OK(asks ? MPI_Rput(o->from, many, mine, rank, at, targets, there, win, request)
                : MPI_Put(o->from, many, mine, rank, at, targets, there, win));
        break;
    case GET:
        OK(asks ? MPI_Rget(o->into, many, mine, rank, at, targets, there, win, request)
                : MPI_Get(o->into, many, mine, rank, at, targets, there, win));
        break;
    case ACCUMULATE:
        OK(asks ? MPI_Raccumulate(o->from, many, mine, rank, at, targets, there, op, win, request)
                : MPI_Accumulate(o->from, many, mine, rank, at, targets, there, op, win));
        break;
    default:
        OK(asks ? MPI_Rget_accumulate(o->from, many, mine, o->into, many, mine, rank, at, targets, there, op, win, request)
                : MPI_Get_accumulate(o->from, many, mine, o->into, many, mine, rank, at, targets, there, op, win));
    }
    if (mine != s->type)
        OK(MPI_Type_free(&mine));
    if (there != s->type)
        OK(MPI_Type_free(&there));
}

/* The buffers are this process's again: of all operations so far to a target, or to all (-1). */
static void ended(const struct subject *s, int target, int mode)
{
    for (struct operation *o = plan; o < plan + planned; o++) {
        if (o->origin != self || !o->issued || (target >= 0 && o->target != target))
            continue;
        check_result(s, o, mode);
        if (o->from)
            memset(o->from, 0xff, (size_t)o->count * o->apart * s->size);
    }
}

/* Does what the plan has for this process; only for one target, unless that is -1. */
static void do_plan(const struct subject *s, int target, int mode)
{
    static _Thread_local MPI_Request requests[OPERATIONS];
    int pending = 0, passive = mode >= LOCK;
    for (struct operation *o = plan; o < plan + planned; o++) {
        if (o->origin != self || (target >= 0 && o->target != target))
            continue;
        issue(s, o, passive ? &requests[pending] : NULL);
        if (passive && o->request && o->kind < FETCH_AND_OP)
            pending++;
        if (!passive)
            continue;
        switch (o->then) {
        case FLUSH_LOCAL: OK(MPI_Win_flush_local(o->target, s->w.win)); ended(s, o->target, mode); break;
        case FLUSH: OK(MPI_Win_flush(o->target, s->w.win)); ended(s, o->target, mode); break;
        case FLUSH_ALL: OK(MPI_Win_flush_all(s->w.win)); ended(s, -1, mode); break;
        case FLUSH_LOCAL_ALL: OK(MPI_Win_flush_local_all(s->w.win)); ended(s, -1, mode); break;
        default: break;
        }
    }
    OK(MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE));
}

static void forget_plan(void)
{
    for (struct operation *o = plan; o < plan + planned; o++) {
        free(o->places);
        free(o->from);
        free(o->into);
        free(o->compared);
        free(o->expected);
    }
    planned = 0;
}

static MPI_Group of_those(MPI_Win win, const char *may, int first, int step)
{
    int members[64], many = 0;
    for (int rank = 0; rank < ranks; rank++)
        if (may[first + rank * step])
            members[many++] = rank;
    MPI_Group all, some;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, many, members, &some));
    OK(MPI_Group_free(&all));
    return some;
}

static void one_round(struct subject *s)
{
    static _Thread_local char may[64 * 64];
    MPI_Win win = s->w.win;
    int mode = s->open ? LOCK_ALL : (int)below(MODES), phases = mode == FENCE || mode == LOCK_ALL ? 1 + below(3) : 1;
    for (int i = 0; i < ranks * ranks; i++)
        may[i] = mode != GROUPS || below(3) > 0;
    uint32_t how = below(4);
    /* Messages meanwhile. */
    MPI_Request messages[2];
    int talk = below(3) == 0, bytes = below(2) ? below(64) : below(200000);
    char *sent = allocate(bytes), *received = allocate(bytes);
    if (talk) {
        memset(sent, round_, bytes);
        OK(MPI_Irecv(received, bytes, MPI_BYTE, (self + ranks - 1) % ranks, 5, s->w.comm, &messages[0]));
        OK(MPI_Isend(sent, bytes, MPI_BYTE, (self + 1) % ranks, 5, s->w.comm, &messages[1]));
    }
    if (mode == FENCE)
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    if (mode == LOCK_ALL && !s->open)
        OK(MPI_Win_lock_all(how == 0 ? MPI_MODE_NOCHECK : 0, win));
    for (phase = 0; phase < phases; phase++) {
        make_plan(s, may);
        switch (mode) {
        case FENCE:
            do_plan(s, -1, mode);
            OK(MPI_Win_fence(phase == phases - 1 ? MPI_MODE_NOSUCCEED : 0, win));
            break;
        case GROUPS: {
            MPI_Group from = of_those(win, may, self, ranks), to = of_those(win, may, self * ranks, 1);
            OK(MPI_Win_post(from, 0, win));
            OK(MPI_Win_start(to, 0, win));
            do_plan(s, -1, mode);
            OK(MPI_Win_complete(win));
            ended(s, -1, mode);
            int over = how < 2;
            if (over)
                OK(MPI_Win_wait(win));
            while (!over)
                OK(MPI_Win_test(win, &over));
            OK(MPI_Group_free(&from));
            OK(MPI_Group_free(&to));
            break;
        }
        case LOCK:
            for (int i = 0; i < ranks; i++) {
                int target = (self + i) % ranks;
                OK(MPI_Win_lock((how + self + i) % 3 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win));
                do_plan(s, target, mode);
                OK(MPI_Win_unlock(target, win));
                ended(s, target, mode);
            }
            break;
        case LOCKS:
            /* By rising ranks, so nobody waits for itself. */
            for (int target = 0; target < ranks; target++)
                OK(MPI_Win_lock((how + self + target) % 3 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win));
            do_plan(s, -1, mode);
            for (int target = 0; target < ranks; target++)
                OK(MPI_Win_unlock(how % 2 ? target : ranks - 1 - target, win));
            break;
        default:
            do_plan(s, -1, mode);
            OK(MPI_Win_flush_all(win));
            OK(MPI_Barrier(s->w.comm));
        }
        ended(s, -1, mode);
        forget_plan();
    }
    if (mode == LOCK_ALL && !s->open)
        OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(s->w.comm));
    OK(s->open ? MPI_Win_sync(win) : MPI_Win_lock(MPI_LOCK_SHARED, self, 0, win));
    for (int i = 0; i < s->counts[self]; i++) {
        uint64_t is = load_element(s, s->w.mine, i), should = s->model[self][i];
        CHECK(is == should, "seed %llu, round %d, %s, %d phases, window of %s, %d elements of %d B: element %d is %llx, not %llx",
              (unsigned long long)seed, round_, modes[mode], phases, flavors[s->w.flavor], s->counts[self], s->size, i, (unsigned long long)is,
              (unsigned long long)should);
    }
    if (!s->open)
        OK(MPI_Win_unlock(self, win));
    if (talk) {
        OK(MPI_Waitall(2, messages, MPI_STATUSES_IGNORE));
        for (int i = 0; i < bytes; i++)
            SAME(received[i], (char)round_, "byte %d of a message in round %d, seed %llu", i, round_, (unsigned long long)seed);
    }
    free(sent);
    free(received);
    OK(MPI_Barrier(s->w.comm));
}

static void one_seed(MPI_Comm parent, int rounds)
{
    static const int counts[] = {16, 300, 5000, 40000, 150000}, sizes[] = {1, 4, 8};
    struct subject subjects[WINDOWS] = {0};
    const MPI_Datatype types[] = {MPI_UINT8_T, MPI_UINT32_T, MPI_UINT64_T};
    state = seed * 0x9e3779b97f4a7c15u + 1;
    /* The ranks of the windows' communicator are not always those of MPI_COMM_WORLD. */
    MPI_Comm comm;
    OK(MPI_Comm_rank(parent, &self));
    OK(MPI_Comm_split(parent, 0, below(2) ? self : ranks - self, &comm));
    OK(MPI_Comm_rank(comm, &self));
    int many = 1 + below(WINDOWS);
    for (int i = 0; i < many; i++) {
        struct subject *s = &subjects[i];
        int type = below(3), flavor = below(FLAVORS);
        s->type = types[type];
        s->size = sizes[type];
        s->mask = s->size == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * s->size) - 1;
        int count = counts[below(brief() ? 4 : 5)], equal = below(2), unit = 1;
        s->open = below(4) == 0;
        s->counts = malloc(ranks * sizeof *s->counts);
        s->model = malloc(ranks * sizeof *s->model);
        for (int rank = 0; rank < ranks; rank++) {
            s->counts[rank] = equal ? count : (int)below(count + 1);
            s->model[rank] = calloc(s->counts[rank] + 1, sizeof **s->model);
            uint32_t byte = below(3) == 0;
            if (rank == self)
                unit = byte ? 1 : s->size;
        }
        s->w = open_window(has_flavor(flavor) ? flavor : ALLOCATED, (size_t)s->counts[self] * s->size, unit, comm);
        if (s->open)
            OK(MPI_Win_lock_all(0, s->w.win));
    }
    OK(MPI_Barrier(comm));
    for (round_ = 0; round_ < rounds; round_++)
        one_round(&subjects[below(many)]);
    for (int i = 0; i < many; i++) {
        if (subjects[i].open)
            OK(MPI_Win_unlock_all(subjects[i].w.win));
        close_window(&subjects[i].w);
        for (int rank = 0; rank < ranks; rank++)
            free(subjects[i].model[rank]);
        free(subjects[i].model);
        free(subjects[i].counts);
    }
    OK(MPI_Comm_free(&comm));
}

struct thread {
    pthread_t thread;
    MPI_Comm comm;
    uint64_t first, seeds;
};

static void *all_seeds(void *thread)
{
    const struct thread *t = thread;
    for (seed = t->first; seed < t->first + t->seeds; seed++)
        one_seed(t->comm, 12);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS = 8 };
    struct thread threads[THREADS];
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : brief() ? 2 : 6;
    int many = argc > 3 ? atoi(argv[3]) : 1;
    CHECK(many >= 1 && many <= THREADS, "%s threads", argv[3]);
    begin_with(&argc, &argv, many > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    const MPI_Op all[] = {MPI_SUM, MPI_BXOR, MPI_MAX, MPI_BOR, MPI_PROD, MPI_REPLACE, MPI_NO_OP};
    memcpy(reductions, all, sizeof all);
    /* It asks all processes. */
    one_node();
    for (int i = 0; i < many; i++) {
        threads[i].first = first + i * seeds;
        threads[i].seeds = seeds;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm));
    }
    for (int i = 1; i < many; i++)
        CHECK(pthread_create(&threads[i].thread, NULL, all_seeds, &threads[i]) == 0, "no thread");
    all_seeds(&threads[0]);
    for (int i = 1; i < many; i++)
        pthread_join(threads[i].thread, NULL);
    for (int i = 0; i < many; i++)
        OK(MPI_Comm_free(&threads[i].comm));
    return end("rma_random");
}
