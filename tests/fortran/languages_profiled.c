/* C's part of languages_profiled.F90: a profiler. */
#include <mpi.h>
#include <stddef.h>

static int seen, without_copies;

int calls(void)
{
    int since = seen;
    seen = 0;
    return since;
}

int no_copy(void)
{
    return without_copies;
}

int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete_fn, int *keyval,
                           void *extra_state)
{
    seen++;
    without_copies = copy == MPI_COMM_NULL_COPY_FN;
    return PMPI_Comm_create_keyval(copy, delete_fn, keyval, extra_state);
}

static MPI_Type_copy_attr_function *type_copy;
static void *type_state;

int copies_pointer(void)
{
    void *copy = NULL;
    int flag = 0;
    return type_copy(MPI_INT, 1, type_state, &seen, &copy, &flag) == MPI_SUCCESS && flag && copy == &seen;
}

int MPI_Type_create_keyval(MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *delete_fn, int *keyval,
                           void *extra_state)
{
    seen++;
    without_copies = copy == MPI_TYPE_NULL_COPY_FN;
    type_copy = copy, type_state = extra_state;
    return PMPI_Type_create_keyval(copy, delete_fn, keyval, extra_state);
}

int MPI_Win_create_keyval(MPI_Win_copy_attr_function *copy, MPI_Win_delete_attr_function *delete_fn, int *keyval,
                          void *extra_state)
{
    seen++;
    without_copies = copy == MPI_WIN_NULL_COPY_FN;
    return PMPI_Win_create_keyval(copy, delete_fn, keyval, extra_state);
}

int MPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *delete_fn, int *keyval, void *extra_state)
{
    seen++;
    without_copies = copy == MPI_NULL_COPY_FN;
    return PMPI_Keyval_create(copy, delete_fn, keyval, extra_state);
}

int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
    seen++;
    return PMPI_Comm_set_attr(comm, keyval, value);
}

int MPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    seen++;
    return PMPI_Comm_get_attr(comm, keyval, value, flag);
}

int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler)
{
    seen++;
    return PMPI_Comm_create_errhandler(function, errhandler);
}

int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    seen++;
    return PMPI_Op_create(function, commute, op);
}

int MPI_Get_address(const void *location, MPI_Aint *address)
{
    seen++;
    return PMPI_Get_address(location, address);
}

int MPI_Comm_call_errhandler(MPI_Comm comm, int code)
{
    seen++;
    return PMPI_Comm_call_errhandler(comm, code);
}

int MPI_Add_error_code(int class, int *code)
{
    seen++;
    return PMPI_Add_error_code(class, code);
}
