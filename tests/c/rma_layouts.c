/* One-sided operations between memories of different layouts: what each leaves is compared with packing here, and the bytes between a
 * layout's elements stay as they were. */
#include "rma.h"

/* Elements of each layout, and room for it; layouts reach to both sides of the middle. */
enum { K = 24, ROOM = 4096, MIDDLE = 2048, MOST = 24 };

static const struct base {
    MPI_Datatype type;
    const char *name;
    int size;
    MPI_Op op;
} bases[] = {
    {MPI_CHAR, "MPI_CHAR", 1, MPI_REPLACE},
    {MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR", 1, MPI_BXOR},
    {MPI_SHORT, "MPI_SHORT", 2, MPI_SUM},
    {MPI_INT, "MPI_INT", 4, MPI_SUM},
    {MPI_DOUBLE, "MPI_DOUBLE", 8, MPI_MAX},
    {MPI_2INT, "MPI_2INT", 8, MPI_MINLOC},
    {MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", 16, MPI_SUM},
};
enum { BASES = sizeof bases / sizeof *bases };

struct layout {
    MPI_Datatype type;
    const char *name;
    int count;
};

static void committed(MPI_Datatype *type, MPI_Datatype *used)
{
    OK(MPI_Type_commit(type));
    if (used != NULL)
        OK(MPI_Type_free(used));
}

/* All have K elements of the base, each in another order or at other places. */
static int make(const struct base *base, struct layout *layouts)
{
    MPI_Datatype old = base->type, inner, other;
    int n = 0, size = base->size;
    layouts[n++] = (struct layout){old, "elements", K};
#define LAYOUT(text, many, call)                                                                                       \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        committed(&layouts[n].type, NULL);                                                                             \
        layouts[n].name = text;                                                                                        \
        layouts[n++].count = many;                                                                                     \
    } while (0)
#define INTO &layouts[n].type
    LAYOUT("contiguous", 1, MPI_Type_contiguous(K, old, INTO));
    LAYOUT("contiguous, twice", 2, MPI_Type_contiguous(K / 2, old, INTO));
    LAYOUT("vector", 1, MPI_Type_vector(K / 3, 3, 5, old, INTO));
    LAYOUT("vector of single elements", 1, MPI_Type_vector(K, 1, 2, old, INTO));
    LAYOUT("vector backwards", 1, MPI_Type_vector(K / 2, 2, -3, old, INTO));
    LAYOUT("vectors after each other", 3, MPI_Type_vector(4, 2, 4, old, INTO));
    LAYOUT("hvector that is aligned to nothing", 1, MPI_Type_create_hvector(K / 4, 4, 5 * size + 1, old, INTO));
    LAYOUT("indexed", 1, MPI_Type_indexed(4, (int[]){1, 4, 12, 7}, (int[]){2, 20, 40, -9}, old, INTO));
    LAYOUT("indexed, with empty blocks", 1, MPI_Type_indexed(5, (int[]){0, 4, 0, 20, 0}, (int[]){90, 30, 1, 3, -9}, old, INTO));
    LAYOUT("hindexed, before and behind", 1,
           MPI_Type_create_hindexed(3, (int[]){8, 8, 8}, (MPI_Aint[]){-20 * size, 0, 30 * size}, old, INTO));
    LAYOUT("indexed_block out of order", 2,
           MPI_Type_create_indexed_block(4, 3, (int[]){9, 0, 18, 5}, old, INTO));
    LAYOUT("hindexed_block", 1,
           MPI_Type_create_hindexed_block(6, 4, (MPI_Aint[]){0, 8 * size, 4 * size, 20 * size, -4 * size, 40 * size}, old, INTO));
    LAYOUT("subarray in C's order", 1,
           MPI_Type_create_subarray(2, (int[]){7, 9}, (int[]){4, 6}, (int[]){2, 1}, MPI_ORDER_C, old, INTO));
    LAYOUT("subarray in Fortran's order", 1,
           MPI_Type_create_subarray(3, (int[]){4, 5, 3}, (int[]){3, 4, 2}, (int[]){1, 0, 1}, MPI_ORDER_FORTRAN, old, INTO));
    LAYOUT("struct of one type", 1,
           MPI_Type_create_struct(3, (int[]){5, 9, 10}, (MPI_Aint[]){3 * size, -12 * size, 20 * size},
                                  (MPI_Datatype[]){old, old, old}, INTO));
    OK(MPI_Type_contiguous(2, old, &inner));
    LAYOUT("resized, apart", K / 2, MPI_Type_create_resized(inner, -size, 4 * size, INTO));
    LAYOUT("resized, towards lower addresses", K / 2, MPI_Type_create_resized(inner, 0, -3 * size, INTO));
    OK(MPI_Type_create_resized(inner, 0, 3 * size, &other));
    LAYOUT("vector of resized", 1, MPI_Type_vector(4, 3, 4, other, INTO));
    OK(MPI_Type_free(&other));
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_indexed(2, (int[]){1, 3}, (int[]){5, 0}, old, &inner));
    LAYOUT("struct of indexed and elements", 1,
           MPI_Type_create_struct(2, (int[]){5, 4}, (MPI_Aint[]){0, 60 * size}, (MPI_Datatype[]){inner, old}, INTO));
    LAYOUT("hvector of indexed", 2, MPI_Type_create_hvector(3, 1, 10 * size, inner, INTO));
    LAYOUT("a copy", 6, MPI_Type_dup(inner, INTO));
    OK(MPI_Type_free(&inner));
    CHECK(n <= MOST, "too many layouts");
    return n;
}

static void discard(struct layout *layouts, int n)
{
    for (int i = 1; i < n; i++)
        OK(MPI_Type_free(&layouts[i].type));
}

/* The elements of a layout, one after the other. */
static void gathered(const char *memory, const struct layout *layout, char *elements, int bytes)
{
    int position = 0;
    OK(MPI_Pack(memory + MIDDLE, layout->count, layout->type, elements, bytes, &position, MPI_COMM_SELF));
    SAME(position, bytes, "bytes of %s", layout->name);
}

static void scattered(char *memory, const struct layout *layout, const char *elements, int bytes)
{
    int position = 0;
    OK(MPI_Unpack(elements, bytes, &position, memory + MIDDLE, layout->count, layout->type, MPI_COMM_SELF));
}

/* Small whole numbers in any type. */
static void numbers(char *memory, const struct base *base, int seed)
{
    for (int i = 0; i < ROOM / base->size; i++) {
        int value = (i * 7 + seed * 3) % 100;
        double twice = value;
        char *at = memory + i * base->size;
        if (base->type == MPI_DOUBLE || base->type == MPI_C_DOUBLE_COMPLEX)
            for (int part = 0; part < base->size; part += 8)
                memcpy(at + part, &twice, 8);
        else if (base->type == MPI_2INT)
            memcpy(at, (int[]){value, i}, 8);
        else
            memcpy(at, &value, base->size);
    }
}

static void compared(const char *got, const char *expected, const struct base *base, const struct layout *origin,
                     const struct layout *target, const char *what)
{
    for (int i = 0; i < ROOM; i++)
        if (got[i] != expected[i])
            FAIL("%s of %s from '%s' to '%s': byte %d: expected %d, got %d", what, base->name, origin->name, target->name,
                 i - MIDDLE, expected[i], got[i]);
}

enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FORMS };

static void exchange(const struct window *w, int rank, const struct base *base, const struct layout *from,
                     const struct layout *to, int form)
{
    static char origin[ROOM], target[ROOM], result[ROOM], expected[ROOM], after[ROOM], elements[K * 16], others[K * 16];
    int bytes = K * base->size, seed = form;
    MPI_Aint slot = place(w, rank, (size_t)me * ROOM), disp = place(w, rank, (size_t)me * ROOM + MIDDLE);
    numbers(origin, base, seed);
    numbers(target, base, seed + 1);
    memset(result, 0x55, sizeof result);
    OK(MPI_Put(target, ROOM, MPI_BYTE, rank, slot, ROOM, MPI_BYTE, w->win));
    OK(MPI_Win_flush(rank, w->win));
    switch (form) {
    case PUT:
        memcpy(expected, target, ROOM);
        gathered(origin, from, elements, bytes);
        scattered(expected, to, elements, bytes);
        OK(MPI_Put(origin + MIDDLE, from->count, from->type, rank, disp, to->count, to->type, w->win));
        break;
    case GET:
        memcpy(expected, result, ROOM);
        gathered(target, to, elements, bytes);
        scattered(expected, from, elements, bytes);
        OK(MPI_Get(result + MIDDLE, from->count, from->type, rank, disp, to->count, to->type, w->win));
        break;
    default:
        memcpy(expected, target, ROOM);
        gathered(origin, from, elements, bytes);
        gathered(target, to, others, bytes);
        if (base->op != MPI_REPLACE)
            OK(MPI_Reduce_local(elements, others, K, base->type, base->op));
        scattered(expected, to, base->op != MPI_REPLACE ? others : elements, bytes);
        if (form == ACCUMULATE)
            OK(MPI_Accumulate(origin + MIDDLE, from->count, from->type, rank, disp, to->count, to->type, base->op, w->win));
        else
            /* The result has the origin's layout here, elsewhere its own. */
            OK(MPI_Get_accumulate(origin + MIDDLE, from->count, from->type, result + MIDDLE, from->count, from->type, rank,
                                  disp, to->count, to->type, base->op, w->win));
    }
    OK(MPI_Win_flush(rank, w->win));
    if (form == GET) {
        compared(result, expected, base, from, to, "MPI_Get");
        memcpy(expected, target, ROOM);
    }
    if (form == GET_ACCUMULATE) {
        static char there[ROOM];
        memset(there, 0x55, sizeof there);
        gathered(target, to, elements, bytes);
        scattered(there, from, elements, bytes);
        compared(result, there, base, from, to, "the result of MPI_Get_accumulate");
    }
    OK(MPI_Get(after, ROOM, MPI_BYTE, rank, slot, ROOM, MPI_BYTE, w->win));
    OK(MPI_Win_flush(rank, w->win));
    static const char *const names[] = {"MPI_Put", "MPI_Get", "MPI_Accumulate", "MPI_Get_accumulate"};
    compared(after, expected, base, from, to, names[form]);
}

/* Each layout with those next in the list, on both sides. */
static void layouts(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * ROOM, 1, MPI_COMM_WORLD);
    struct layout list[MOST];
    OK(MPI_Win_lock_all(0, w.win));
    for (int b = 0; b < BASES; b++) {
        int n = make(&bases[b], list);
        for (int i = 0; i < n; i++)
            for (int form = 0; form < FORMS; form++) {
                int other = (i * 5 + form + b + flavor) % n;
                if (brief() && (i + form + b) % 3 != 0)
                    continue;
                exchange(&w, (me + i % 2) % ranks, &bases[b], &list[i], &list[other], form);
            }
        discard(list, n);
    }
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* Put and Get take types of several basic types, and of as many elements in other pieces on the other side. */
static void mixed(int flavor)
{
    struct mixed {
        char letter;
        double number;
        int32_t more[3];
        int16_t less;
    } mine[4], got[4], *there;
    struct window w = open_window(flavor, sizeof mine, 1, MPI_COMM_WORLD);
    MPI_Datatype type, one, two;
    MPI_Request request;
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    OK(MPI_Type_create_struct(4, (int[]){1, 1, 3, 1},
                              (MPI_Aint[]){offsetof(struct mixed, letter), offsetof(struct mixed, number),
                                           offsetof(struct mixed, more), offsetof(struct mixed, less)},
                              (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_INT32_T, MPI_INT16_T}, &type));
    OK(MPI_Type_create_resized(type, 0, sizeof(struct mixed), &one));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_vector(2, 1, 2, one, &two));
    committed(&one, NULL);
    committed(&two, NULL);
    memset(mine, 0x77, sizeof mine);
    for (int i = 0; i < 4; i++)
        mine[i] = (struct mixed){'a' + me % 20, me + 0.5 * i, {me, i, -me}, me * i};
    there = (struct mixed *)w.mine;
    OK(MPI_Win_fence(0, w.win));
    /* 0 and 2 of mine become 1 and 2 of theirs. */
    OK(MPI_Put(mine, 1, two, target, place(&w, target, sizeof(struct mixed)), 2, one, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 2; i++) {
        struct mixed *at = &there[1 + i];
        CHECK(at->letter == 'a' + from % 20 && at->number == from + 0.5 * 2 * i && at->more[0] == from && at->more[1] == 2 * i &&
                  at->more[2] == -from && at->less == from * 2 * i,
              "element %d of a structure", i);
    }
    memset(got, 0, sizeof got);
    OK(MPI_Get(got, 2, one, target, place(&w, target, sizeof(struct mixed)), 2, one, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    CHECK(got[0].number == me && got[1].number == me + 1 && got[1].more[1] == 2, "structures that were got");
    OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    memset(got, 0, sizeof got);
    OK(MPI_Rget(got, 1, two, target, place(&w, target, sizeof(struct mixed)), 2, one, w.win, &request));
    /* A datatype may go while it is still used. */
    OK(MPI_Type_free(&two));
    OK(MPI_Type_free(&one));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock(target, w.win));
    CHECK(got[0].number == me && got[2].number == me + 1 && got[1].number == 0, "structures that were got by a request");
    close_window(&w);
}

/* Fewer elements than the receiving side has room for, as in a message (12.3.1): the others stay. */
static void fewer(int flavor)
{
    struct window w = open_window(flavor, 40, 4, MPI_COMM_WORLD);
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks, values[4] = {me, me + 1, me + 2, me + 3}, got[6], *mine = (int *)w.mine;
    MPI_Datatype apart;
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &apart));
    committed(&apart, NULL);
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(values, 3, MPI_INT, target, place(&w, target, 0), 1, apart, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 8; i++)
        SAME(mine[i], i % 2 || i > 4 ? 0 : from + i / 2, "element %d", i);
    memset(got, 0xff, sizeof got);
    OK(MPI_Get(got, 6, MPI_INT, target, place(&w, target, 0), 5, MPI_INT, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    for (int i = 0; i < 6; i++)
        SAME(got[i], i == 5 ? -1 : i % 2 ? 0 : me + i / 2, "element %d that was got", i);
    OK(MPI_Type_free(&apart));
    close_window(&w);
}

/* Datatypes that are freed right after the call. */
static void freed_types(void)
{
    struct window w = open_window(CREATED, 1000 * sizeof(int), sizeof(int), MPI_COMM_WORLD);
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks, values[100], *mine = (int *)w.mine;
    for (int i = 0; i < 100; i++)
        values[i] = 1000 * me + i;
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 10; i++) {
        MPI_Datatype type;
        OK(MPI_Type_vector(10, 1, 10, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        /* The matrix becomes its transpose. */
        OK(MPI_Accumulate(values + 10 * i, 10, MPI_INT, target, place(&w, target, i * sizeof(int)), 1, type, MPI_SUM, w.win));
        OK(MPI_Type_free(&type));
    }
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 100; i++)
        SAME(mine[i], 1000 * from + i % 10 * 10 + i / 10, "element %d", i);
    close_window(&w);
}

/* Addresses of MPI_Get_address in the type, and MPI_BOTTOM as the origin. */
static void from_the_bottom(void)
{
    struct window w = open_window(ALLOCATED, 64, 4, MPI_COMM_WORLD);
    static int one = 0, two[2];
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks, *mine = (int *)w.mine;
    MPI_Aint addresses[2];
    MPI_Datatype type;
    one = 1 + me;
    two[0] = two[1] = 100 + me;
    OK(MPI_Get_address(&one, &addresses[0]));
    OK(MPI_Get_address(two, &addresses[1]));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 2}, addresses, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(MPI_BOTTOM, 1, type, target, 2, 3, MPI_INT, w.win));
    OK(MPI_Win_fence(0, w.win));
    CHECK(mine[2] == 1 + from && mine[3] == 100 + from && mine[4] == 100 + from, "what was put from absolute addresses");
    one = two[0] = two[1] = -1;
    OK(MPI_Get(MPI_BOTTOM, 1, type, target, 2, 3, MPI_INT, w.win));
    OK(MPI_Win_fence(0, w.win));
    CHECK(one == 1 + me && two[0] == 100 + me && two[1] == 100 + me, "what was got to absolute addresses");
    OK(MPI_Type_free(&type));
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        layouts(flavor);
        mixed(flavor);
        fewer(flavor);
    }
    freed_types();
    from_the_bottom();
    return end("rma_layouts");
}
