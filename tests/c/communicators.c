/* Communicators and groups: made, compared, used, freed. */
#include "check.h"

static int rank_in(MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

static int size_of(MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

/* A message goes around: the communicator works, and its ranks are whom one expects. */
static void use(MPI_Comm comm, int value)
{
    int rank = rank_in(comm), size = size_of(comm), got = -1;
    MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT, (rank + size - 1) % size, 1, comm,
                 MPI_STATUS_IGNORE);
    SAME(got, value, "value around the ring");
}

static void compared(MPI_Comm a, MPI_Comm b, int expected)
{
    int result;
    MPI_Comm_compare(a, b, &result);
    SAME(result, expected, "MPI_Comm_compare");
}

static void duplicates(void)
{
    MPI_Comm copies[20];
    for (int i = 0; i < 20; i++) {
        MPI_Comm_dup(i % 3 ? copies[i - 1] : MPI_COMM_WORLD, &copies[i]);
        use(copies[i], i);
        compared(MPI_COMM_WORLD, copies[i], MPI_CONGRUENT);
    }
    compared(copies[0], copies[0], MPI_IDENT);
    compared(copies[0], copies[1], MPI_CONGRUENT);
    compared(MPI_COMM_WORLD, MPI_COMM_SELF, ranks == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    for (int i = 0; i < 20; i++) {
        MPI_Comm_free(&copies[i]);
        CHECK(copies[i] == MPI_COMM_NULL, "MPI_Comm_free left the handle");
    }
    MPI_Comm alone;
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    use(alone, 5);
    MPI_Comm_free(&alone);
    /* More than 2048 over time: nothing is used up. */
    for (int i = 0; i < 3000; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &alone);
        MPI_Comm_free(&alone);
    }
}

static void split(void)
{
    MPI_Comm half, backwards, none;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
    SAME(rank_in(half), me / 2, "rank among those of the same parity");
    SAME(size_of(half), (ranks + 1 - me % 2) / 2, "size of those of the same parity");
    use(half, me % 2);
    /* Both halves use their communicators at once, and further ones made of them. */
    MPI_Comm quarter;
    MPI_Comm_split(half, rank_in(half) % 2, 0, &quarter);
    use(quarter, me % 4);
    MPI_Comm_free(&quarter);
    MPI_Comm_split(MPI_COMM_WORLD, 7, -me, &backwards);
    SAME(rank_in(backwards), ranks - 1 - me, "rank with keys backwards");
    use(backwards, 3);
    compared(MPI_COMM_WORLD, backwards, ranks == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    /* Equal keys keep the order. */
    MPI_Comm same_keys;
    MPI_Comm_split(backwards, 0, 42, &same_keys);
    SAME(rank_in(same_keys), ranks - 1 - me, "rank with equal keys");
    compared(backwards, same_keys, MPI_CONGRUENT);
    MPI_Comm_split(MPI_COMM_WORLD, me == 0 ? 1 : MPI_UNDEFINED, 0, &none);
    if (me == 0) {
        SAME(size_of(none), 1, "size of a split of one");
        use(none, 1);
        MPI_Comm_free(&none);
    } else
        CHECK(none == MPI_COMM_NULL, "MPI_UNDEFINED gave a communicator");
    MPI_Comm_free(&same_keys);
    MPI_Comm_free(&backwards);
    MPI_Comm_free(&half);
}

static void groups(void)
{
    MPI_Group world, low, high, both, none, result, reversed;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int size, rank, compare;
    MPI_Group_size(world, &size);
    SAME(size, ranks, "size of the group");
    MPI_Group_rank(world, &rank);
    SAME(rank, me, "rank in the group");
    int middle = ranks / 2;
    int first[1][3] = {{0, middle, 1}}, second[1][3] = {{middle, ranks - 1, 1}}, back[1][3] = {{ranks - 1, 0, -1}};
    MPI_Group_range_incl(world, 1, first, &low);
    MPI_Group_range_incl(world, 1, second, &high);
    MPI_Group_range_incl(world, 1, back, &reversed);
    MPI_Group_intersection(low, high, &both);
    MPI_Group_size(both, &size);
    SAME(size, 1, "size of the intersection");
    int zero = 0, there;
    MPI_Group_translate_ranks(both, 1, &zero, world, &there);
    SAME(there, middle, "the one in both");
    MPI_Group_translate_ranks(world, 1, &zero, reversed, &there);
    SAME(there, ranks - 1, "rank 0 in the reversed group");
    int nobody = MPI_PROC_NULL;
    MPI_Group_translate_ranks(world, 1, &nobody, reversed, &there);
    SAME(there, MPI_PROC_NULL, "MPI_PROC_NULL translated");
    if (ranks > 1) {
        int outside = ranks - 1;
        MPI_Group_difference(low, high, &result);
        MPI_Group_translate_ranks(world, 1, &outside, result, &there);
        SAME(there, MPI_UNDEFINED, "a rank that is not in the group");
        MPI_Group_free(&result);
    }
    MPI_Group_union(low, high, &result);
    MPI_Group_compare(world, result, &compare);
    SAME(compare, MPI_IDENT, "low and high together");
    MPI_Group_free(&result);
    MPI_Group_compare(world, reversed, &compare);
    SAME(compare, ranks == 1 ? MPI_IDENT : MPI_SIMILAR, "reversed group");
    MPI_Group_compare(world, both, &compare);
    SAME(compare, ranks == 1 ? MPI_IDENT : MPI_UNEQUAL, "a group of one");
    MPI_Group_excl(world, 0, NULL, &result);
    MPI_Group_compare(world, result, &compare);
    SAME(compare, MPI_IDENT, "nobody left out");
    MPI_Group_free(&result);
    MPI_Group_range_excl(world, 1, back, &none);
    MPI_Group_size(none, &size);
    SAME(size, 0, "everybody left out");
    CHECK(none == MPI_GROUP_EMPTY, "an empty group is not MPI_GROUP_EMPTY");
    MPI_Group_incl(world, 0, NULL, &none);
    CHECK(none == MPI_GROUP_EMPTY, "MPI_Group_incl of none is not MPI_GROUP_EMPTY");
    MPI_Group_rank(MPI_GROUP_EMPTY, &rank);
    SAME(rank, MPI_UNDEFINED, "rank in the empty group");

    MPI_Comm comm;
    MPI_Comm_create(MPI_COMM_WORLD, reversed, &comm);
    SAME(rank_in(comm), ranks - 1 - me, "rank in MPI_Comm_create of the reversed group");
    use(comm, 8);
    MPI_Group again;
    MPI_Comm_group(comm, &again);
    MPI_Group_compare(again, reversed, &compare);
    SAME(compare, MPI_IDENT, "group of the communicator");
    MPI_Group_free(&again);
    MPI_Comm_free(&comm);
    MPI_Comm_create(MPI_COMM_WORLD, low, &comm);
    if (me <= middle) {
        SAME(size_of(comm), middle + 1, "size of MPI_Comm_create of the lower half");
        use(comm, 9);
        MPI_Comm_free(&comm);
    } else
        CHECK(comm == MPI_COMM_NULL, "MPI_Comm_create gave a communicator to an outsider");
    /* Groups that have nothing in common, in one call. */
    MPI_Comm_create(MPI_COMM_WORLD, me <= middle ? low : high, &comm);
    SAME(size_of(comm), me <= middle ? middle + 1 : ranks - middle - 1, "size of MPI_Comm_create of one's own half");
    use(comm, 10);
    MPI_Comm_free(&comm);
    MPI_Group_free(&world);
    MPI_Group_free(&low);
    MPI_Group_free(&high);
    MPI_Group_free(&both);
    MPI_Group_free(&reversed);
    CHECK(world == MPI_GROUP_NULL, "MPI_Group_free left the handle");
}

/* Who asks for a group again and again does not run out of handles, and what was freed once is valid as long as it was given out more often. */
static void groups_again(void)
{
    MPI_Comm comm, copy;
    MPI_Group group, kept, stale;
    int size, rank, is_one = ranks == 2 && me == 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_split(comm, 0, -me, &copy);
    MPI_Comm_free(&comm);
    MPI_Comm_group(copy, &kept);
    for (int i = 0; is_one && i < 1100000; i++) {
        MPI_Comm_group(copy, &group);
        if (i % 100000 == 0) {
            MPI_Group_size(group, &size);
            SAME(size, ranks, "size of the group, time %d", i);
        }
    }
    for (int i = 0; i < 10; i++) {
        MPI_Comm_group(copy, &group);
        MPI_Group_free(&group);
        CHECK(group == MPI_GROUP_NULL, "MPI_Group_free left the handle");
        MPI_Group_rank(kept, &rank);
        SAME(rank, ranks - 1 - me, "rank in the group, time %d", i);
    }
    MPI_Comm_free(&copy);
    MPI_Group_rank(kept, &rank);
    SAME(rank, ranks - 1 - me, "rank in the group of a freed communicator");
    for (int i = 0; is_one && i < 1100000; i++) {
        group = kept;
        MPI_Group_free(&group);
    }
    MPI_Group_size(kept, &size);
    SAME(size, ranks, "size of the group at last");
    stale = kept;
    MPI_Group_free(&kept);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Group_size(stale, &size), class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    SAME(class, MPI_ERR_GROUP, "class of the error where the group is freed");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* A communicator that is freed while a message is under way still brings it. */
static void freed_early(void)
{
    MPI_Comm comm;
    MPI_Request request;
    int got = -1, rank = me;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Irecv(&got, 1, MPI_INT, (me + ranks - 1) % ranks, 1, comm, &request);
    MPI_Request send;
    MPI_Isend(&rank, 1, MPI_INT, (me + 1) % ranks, 1, comm, &send);
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    SAME(got, (me + ranks - 1) % ranks, "message on a freed communicator");
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0, "name of MPI_COMM_WORLD: got '%s'", name);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_name(comm, name, &length);
    SAME(length, 0, "length of the name of a new communicator ('%s')", name);
    MPI_Comm_set_name(comm, "the weavers");
    MPI_Comm_get_name(comm, name, &length);
    CHECK(strcmp(name, "the weavers") == 0 && length == 11, "name: got '%s', %d", name, length);
    MPI_Comm_test_inter(comm, &flag);
    SAME(flag, 0, "MPI_Comm_test_inter");
    MPI_Comm_free(&comm);
}

/* Those of one node share memory. Each kind of hardware that the library names can be asked for. */
static void by_hardware(void)
{
    MPI_Comm comm;
    MPI_Info known, wanted;
    int kinds, flag, length = 6, near = 0, after = 0;
    char kind[MPI_MAX_INFO_KEY], here[6];
    gather_hosts();
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &comm);
    for (int rank = 0; rank < ranks; rank++)
        if (node_of(rank) == node_of(me)) {
            near++;
            after += rank > me;
        }
    SAME(size_of(comm), near, "processes that share memory");
    SAME(rank_in(comm), after, "rank among them, backwards");
    MPI_Comm_free(&comm);
    MPI_Get_hw_resource_info(&known);
    MPI_Info_get_nkeys(known, &kinds);
    CHECK(kinds > 0, "no kind of hardware is known");
    for (int i = 0; i < kinds; i++) {
        MPI_Info_get_nthkey(known, i, kind);
        length = sizeof here;
        MPI_Info_get_string(known, kind, &length, here, &flag);
        CHECK(flag && (strcmp(here, "true") == 0 || strcmp(here, "false") == 0), "%s has the value '%s'", kind, here);
        MPI_Info_create(&wanted);
        MPI_Info_set(wanted, "mpi_hw_resource_type", kind);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, wanted, &comm);
        CHECK((comm != MPI_COMM_NULL) == (strcmp(here, "true") == 0), "split by %s does not say the same", kind);
        if (comm != MPI_COMM_NULL) {
            use(comm, 7);
            MPI_Comm_free(&comm);
        }
        MPI_Info_free(&wanted);
    }
    MPI_Info_free(&known);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm);
    CHECK(comm == MPI_COMM_NULL, "MPI_UNDEFINED gave a communicator");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    duplicates();
    split();
    by_hardware();
    groups();
    groups_again();
    freed_early();
    names();
    return end("communicators");
}
