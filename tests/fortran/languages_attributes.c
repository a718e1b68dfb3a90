/* C's part of languages_attributes.F90. */
#include <mpi.h>
#include <stdint.h>

static int variable = 3, deletions;
static struct { double x; int y; } structure;

static int counted(MPI_Comm comm, int key, void *value, void *extra_state)
{
    (void)comm, (void)key, (void)value;
    if (extra_state != &variable)
        return MPI_ERR_OTHER;
    deletions++;
    return MPI_SUCCESS;
}

int c_keyval(void)
{
    int key;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, counted, &key, &variable);
    return key;
}

intptr_t c_put(int comm, int key, int which)
{
    void *value = which == 1 ? (void *)&variable : which == 2 ? (void *)&structure : (void *)(intptr_t)17;
    MPI_Comm_set_attr(MPI_Comm_fromint(comm), key, value);
    return (intptr_t)value;
}

intptr_t c_pointer(int comm, int key)
{
    void *value;
    int flag;
    MPI_Comm_get_attr(MPI_Comm_fromint(comm), key, &value, &flag);
    return flag ? (intptr_t)value : -1;
}

int c_int_there(int comm, int key)
{
    int *value, flag;
    MPI_Comm_get_attr(MPI_Comm_fromint(comm), key, &value, &flag);
    return flag ? *value : -12345;
}

intptr_t c_aint_there(int comm, int key)
{
    MPI_Aint *value;
    int flag;
    MPI_Comm_get_attr(MPI_Comm_fromint(comm), key, &value, &flag);
    return flag ? (intptr_t)*value : -12345;
}

int c_dup(int comm)
{
    MPI_Comm dup;
    MPI_Comm_dup(MPI_Comm_fromint(comm), &dup);
    return MPI_Comm_toint(dup);
}

void c_free(int comm)
{
    MPI_Comm handle = MPI_Comm_fromint(comm);
    MPI_Comm_free(&handle);
}

int c_deletions(void)
{
    return deletions;
}

void c_free_keyval(int key)
{
    MPI_Comm_free_keyval(&key);
}
