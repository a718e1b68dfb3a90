/* C's part of languages_datareps.F90: it is called in place of the library. */
#include <mpi.h>
#include <stdint.h>
#include <string.h>

static MPI_Datarep_conversion_function *read_fn, *write_fn;
static MPI_Datarep_conversion_function_c *read_fn_c, *write_fn_c;
static MPI_Datarep_extent_function *extent_fn;
static void *state;

int MPI_Register_datarep(const char *name, MPI_Datarep_conversion_function *read, MPI_Datarep_conversion_function *write,
                         MPI_Datarep_extent_function *extent, void *extra_state)
{
    read_fn = read, write_fn = write, extent_fn = extent, state = extra_state;
    return strcmp(name, "turned") == 0 ? MPI_SUCCESS : MPI_ERR_ARG;
}

int MPI_Register_datarep_c(const char *name, MPI_Datarep_conversion_function_c *read,
                           MPI_Datarep_conversion_function_c *write, MPI_Datarep_extent_function *extent, void *extra_state)
{
    read_fn_c = read, write_fn_c = write, extent_fn = extent, state = extra_state;
    return strcmp(name, "turned") == 0 ? MPI_SUCCESS : MPI_ERR_ARG;
}

void call_them(int *values, int *write_is_null, int *write_error, intptr_t *extent)
{
    int user[3] = {0, 0, 0};
    read_fn(user, MPI_INTEGER, 3, values, (MPI_Offset)1 << 40, state);
    memcpy(values, user, sizeof user);
    *write_is_null = write_fn == MPI_CONVERSION_FN_NULL;
    if (!*write_is_null)
        *write_error = write_fn(user, MPI_INTEGER, 3, values, 0, state);
    MPI_Aint found;
    extent_fn(MPI_INTEGER, &found, state);
    *extent = found;
}

void call_them_c(int *write_is_null, intptr_t *extent)
{
    read_fn_c(NULL, MPI_INTEGER, (MPI_Count)1 << 33, NULL, (MPI_Offset)1 << 40, state);
    *write_is_null = write_fn_c == MPI_CONVERSION_FN_NULL_C;
    MPI_Aint found;
    extent_fn(MPI_INTEGER, &found, state);
    *extent = found;
}
