/* Every argument of every procedure of point-to-point and partitioned communication, of datatypes and of the manipulation of
 * files, wrong one at a time: each gives its class and a text that names the procedure and the argument, and leaves nothing
 * behind. */
#include "check.h"

/* The arguments: variables with values that are right. A procedure is called with all of them right but one. */
static int numbers[64], other[64], number;
static MPI_Count large_number;
static MPI_Aint address_number;
static char text[MPI_MAX_OBJECT_NAME];
static MPI_Status a_status;

static void *buf = numbers, *sendbuf = numbers, *recvbuf = other, *inbuf = numbers, *outbuf = other, *buffer = numbers;
static int count = 1, sendcount = 1, recvcount = 1, incount = 1, outcount_ = 1, partitions = 2;
static MPI_Datatype datatype, sendtype, recvtype, oldtype, described, named, value_type, index_type;
static int dest, source, tag, sendtag, recvtag, psource, ptag;
static MPI_Comm comm;
static MPI_Session session;
static MPI_Info info;
static MPI_Request made, *request_out = &made, *wait_for, *start_this, free_this, cancel_this, queried;
static MPI_Request *request_free = &free_this, *request_cancel = &cancel_this, to_complete, psending, preceiving;
static MPI_Request list[2], *requests = list, idle[2], *startable = idle;
static MPI_Message taken_message, *message_out = &taken_message, *message = &taken_message;
static int *flag = &number, *indx = &number, *outcount = &number, *size = &number, *elements = &number;
static int index_numbers[2], *indices = index_numbers;
static MPI_Count *large_size = &large_number, *elements_large = &large_number;
static MPI_Aint *address_size = &address_number;
static MPI_Status *status = &a_status;
static void *buffer_addr = numbers;
static int bytes = 8, partition = 0, low = 0, high = 1, length = 2;
static const int partition_numbers[] = {0, 1}, *partition_list = partition_numbers;
static MPI_Grequest_query_function *query_fn;
static MPI_Grequest_free_function *free_fn;
static MPI_Grequest_cancel_function *cancel_fn;

static MPI_Datatype made_type, *newtype = &made_type, commit_this, *type_commit = &commit_this, *type_free = &commit_this;
static int blocklength = 1, ndims = 2, dsize = 4, drank = 0, order = MPI_ORDER_C, f90_p = 6, f90_r = 30, f90_digits = 9;
static int typeclass = MPI_TYPECLASS_INTEGER, typesize = 4;
static const int ones[] = {1, 1}, *blocklengths = ones, *displacements = ones, *sizes, *subsizes = ones, *starts = ones;
static const MPI_Count large_ones[] = {1, 1}, *blocklengths_c = large_ones, *displacements_c = large_ones;
static const MPI_Count *sizes_c, *subsizes_c = large_ones, *starts_c = large_ones;
static const MPI_Aint address_ones[] = {1, 1}, *displacements_a = address_ones;
static MPI_Datatype old_types[2], *types = old_types;
static const int *gsizes, *distribs, *dargs, *psizes;
static const MPI_Count *gsizes_c;
static int max_integers = 1, max_addresses = 0, max_datatypes = 1, max_large = 1;
static int *integers = other;
static MPI_Aint *addresses = &address_number;
static MPI_Count *large_counts = &large_number;
static MPI_Datatype got_types[2], *datatypes = got_types;
static int *num_integers = &number, *num_addresses = &number, *num_datatypes = &number, *combiner = &number;
static MPI_Count *num_integers_c = &large_number, *num_addresses_c = &large_number, *num_large = &large_number;
static MPI_Count *num_datatypes_c = &large_number, *lb_c = &large_number, *extent_c = &large_number;
static MPI_Aint *lb = &address_number, *extent = &address_number;
static char *type_name = text;
static const char *given_name = "name", *datarep = "external32";
static int *resultlen = &number;
static int insize = 64, outsize = 64, at, *position = &at;
static MPI_Count at_large, *position_c = &at_large;
static MPI_Aint at_address, *position_a = &at_address;

static MPI_File fh, file_or_null, opened = MPI_FILE_NULL, *file_out = &opened, *file_close;
static char file_path[300];
static const char *filename = file_path;
static int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
static int *amode_out = &number;
static MPI_Offset file_size = 8, file_number, *file_size_out = &file_number;
static MPI_Group made_group, *group_out = &made_group;
static MPI_Info file_info, made_info, *info_used = &made_info;
static MPI_Errhandler errhandler = MPI_ERRORS_RETURN, made_errhandler, *errhandler_out = &made_errhandler;

/* What has no wrong value. */
static MPI_Status *const ignored = MPI_STATUS_IGNORE;
static const int stride = 1;
static const MPI_Aint any_lb = 0, any_extent = 4;
static void *const extra = NULL;

#define SENDS(X, name)                                                                                                 \
    X(MPI_##name, buf, count, datatype, dest, tag, comm)                                                               \
    X(MPI_##name##_c, buf, count, datatype, dest, tag, comm)
#define STARTS(X, name)                                                                                                \
    X(MPI_##name, buf, count, datatype, dest, tag, comm, request_out)                                                  \
    X(MPI_##name##_c, buf, count, datatype, dest, tag, comm, request_out)
#define RECEIVES(X, name, ...)                                                                                         \
    X(MPI_##name, buf, count, datatype, source, recvtag, comm, __VA_ARGS__)                                            \
    X(MPI_##name##_c, buf, count, datatype, source, recvtag, comm, __VA_ARGS__)
#define EXCHANGES(X, name, ...)                                                                                        \
    X(MPI_##name, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm,    \
      __VA_ARGS__)                                                                                                     \
    X(MPI_##name##_c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,      \
      comm, __VA_ARGS__)                                                                                               \
    X(MPI_##name##_replace, buf, count, datatype, dest, sendtag, source, recvtag, comm, __VA_ARGS__)                   \
    X(MPI_##name##_replace_c, buf, count, datatype, dest, sendtag, source, recvtag, comm, __VA_ARGS__)

#define POINT_TO_POINT(X)                                                                                              \
    SENDS(X, Send)                                                                                                     \
    SENDS(X, Bsend)                                                                                                    \
    SENDS(X, Ssend)                                                                                                    \
    SENDS(X, Rsend)                                                                                                    \
    STARTS(X, Isend)                                                                                                   \
    STARTS(X, Ibsend)                                                                                                  \
    STARTS(X, Issend)                                                                                                  \
    STARTS(X, Irsend)                                                                                                  \
    STARTS(X, Send_init)                                                                                               \
    STARTS(X, Bsend_init)                                                                                              \
    STARTS(X, Ssend_init)                                                                                              \
    STARTS(X, Rsend_init)                                                                                              \
    RECEIVES(X, Recv, ignored)                                                                                         \
    RECEIVES(X, Irecv, request_out)                                                                                    \
    RECEIVES(X, Recv_init, request_out)                                                                                \
    EXCHANGES(X, Sendrecv, ignored)                                                                                    \
    EXCHANGES(X, Isendrecv, request_out)                                                                               \
    X(MPI_Probe, source, recvtag, comm, ignored)                                                                       \
    X(MPI_Iprobe, source, recvtag, comm, flag, ignored)                                                                \
    X(MPI_Mprobe, source, recvtag, comm, message_out, ignored)                                                         \
    X(MPI_Improbe, source, recvtag, comm, flag, message_out, ignored)                                                  \
    X(MPI_Mrecv, buf, count, datatype, message, ignored)                                                               \
    X(MPI_Mrecv_c, buf, count, datatype, message, ignored)                                                             \
    X(MPI_Imrecv, buf, count, datatype, message, request_out)                                                          \
    X(MPI_Imrecv_c, buf, count, datatype, message, request_out)                                                        \
    X(MPI_Buffer_attach, buffer, bytes)                                                                                \
    X(MPI_Buffer_attach_c, buffer, bytes)                                                                              \
    X(MPI_Buffer_detach, buffer_addr, size)                                                                            \
    X(MPI_Buffer_detach_c, buffer_addr, large_size)                                                                    \
    X(MPI_Buffer_iflush, request_out)                                                                                  \
    X(MPI_Comm_attach_buffer, comm, buffer, bytes)                                                                     \
    X(MPI_Comm_attach_buffer_c, comm, buffer, bytes)                                                                   \
    X(MPI_Comm_detach_buffer, comm, buffer_addr, size)                                                                 \
    X(MPI_Comm_detach_buffer_c, comm, buffer_addr, large_size)                                                         \
    X(MPI_Comm_flush_buffer, comm)                                                                                     \
    X(MPI_Comm_iflush_buffer, comm, request_out)                                                                       \
    X(MPI_Session_attach_buffer, session, buffer, bytes)                                                               \
    X(MPI_Session_attach_buffer_c, session, buffer, bytes)                                                             \
    X(MPI_Session_detach_buffer, session, buffer_addr, size)                                                           \
    X(MPI_Session_detach_buffer_c, session, buffer_addr, large_size)                                                   \
    X(MPI_Session_flush_buffer, session)                                                                               \
    X(MPI_Session_iflush_buffer, session, request_out)                                                                 \
    X(MPI_Wait, wait_for, ignored)                                                                                     \
    X(MPI_Test, wait_for, flag, ignored)                                                                               \
    X(MPI_Waitall, count, requests, ignored)                                                                           \
    X(MPI_Waitany, count, requests, indx, ignored)                                                                     \
    X(MPI_Waitsome, incount, requests, outcount, indices, ignored)                                                     \
    X(MPI_Testall, count, requests, flag, ignored)                                                                     \
    X(MPI_Testany, count, requests, indx, flag, ignored)                                                               \
    X(MPI_Testsome, incount, requests, outcount, indices, ignored)                                                     \
    X(MPI_Request_get_status, queried, flag, ignored)                                                                  \
    X(MPI_Request_get_status_all, count, requests, flag, ignored)                                                      \
    X(MPI_Request_get_status_any, count, requests, indx, flag, ignored)                                                \
    X(MPI_Request_get_status_some, incount, requests, outcount, indices, ignored)                                      \
    X(MPI_Request_free, request_free)                                                                                  \
    X(MPI_Cancel, request_cancel)                                                                                      \
    X(MPI_Start, start_this)                                                                                           \
    X(MPI_Startall, count, startable)                                                                                  \
    X(MPI_Grequest_start, query_fn, free_fn, cancel_fn, extra, request_out)                                            \
    X(MPI_Grequest_complete, to_complete)                                                                              \
    X(MPI_Test_cancelled, status, flag)                                                                                \
    X(MPI_Status_set_cancelled, status, stride)                                                                        \
    X(MPI_Status_set_elements, status, described, count)                                                               \
    X(MPI_Status_set_elements_c, status, described, count)                                                             \
    X(MPI_Status_set_elements_x, status, described, count)                                                             \
    X(MPI_Get_count, status, described, elements)                                                                      \
    X(MPI_Get_count_c, status, described, elements_large)                                                              \
    X(MPI_Get_elements, status, described, elements)                                                                   \
    X(MPI_Get_elements_c, status, described, elements_large)                                                           \
    X(MPI_Get_elements_x, status, described, elements_large)

#define PARTITIONED(X)                                                                                                 \
    X(MPI_Psend_init, buf, partitions, count, datatype, dest, tag, comm, info, request_out)                            \
    X(MPI_Psend_init_c, buf, partitions, count, datatype, dest, tag, comm, info, request_out)                          \
    X(MPI_Precv_init, buf, partitions, count, datatype, psource, ptag, comm, info, request_out)                        \
    X(MPI_Precv_init_c, buf, partitions, count, datatype, psource, ptag, comm, info, request_out)                      \
    X(MPI_Pready, partition, psending)                                                                                 \
    X(MPI_Pready_range, low, high, psending)                                                                           \
    X(MPI_Pready_list, length, partition_list, psending)                                                               \
    X(MPI_Parrived, preceiving, partition, flag)

#define DATATYPES(X)                                                                                                   \
    X(MPI_Type_contiguous, count, oldtype, newtype)                                                                    \
    X(MPI_Type_contiguous_c, count, oldtype, newtype)                                                                  \
    X(MPI_Type_vector, count, blocklength, stride, oldtype, newtype)                                                   \
    X(MPI_Type_vector_c, count, blocklength, stride, oldtype, newtype)                                                 \
    X(MPI_Type_create_hvector, count, blocklength, stride, oldtype, newtype)                                           \
    X(MPI_Type_create_hvector_c, count, blocklength, stride, oldtype, newtype)                                         \
    X(MPI_Type_indexed, count, blocklengths, displacements, oldtype, newtype)                                          \
    X(MPI_Type_indexed_c, count, blocklengths_c, displacements_c, oldtype, newtype)                                    \
    X(MPI_Type_create_hindexed, count, blocklengths, displacements_a, oldtype, newtype)                                \
    X(MPI_Type_create_hindexed_c, count, blocklengths_c, displacements_c, oldtype, newtype)                            \
    X(MPI_Type_create_indexed_block, count, blocklength, displacements, oldtype, newtype)                              \
    X(MPI_Type_create_indexed_block_c, count, blocklength, displacements_c, oldtype, newtype)                          \
    X(MPI_Type_create_hindexed_block, count, blocklength, displacements_a, oldtype, newtype)                           \
    X(MPI_Type_create_hindexed_block_c, count, blocklength, displacements_c, oldtype, newtype)                         \
    X(MPI_Type_create_struct, count, blocklengths, displacements_a, types, newtype)                                    \
    X(MPI_Type_create_struct_c, count, blocklengths_c, displacements_c, types, newtype)                                \
    X(MPI_Type_create_subarray, ndims, sizes, subsizes, starts, order, oldtype, newtype)                               \
    X(MPI_Type_create_subarray_c, ndims, sizes_c, subsizes_c, starts_c, order, oldtype, newtype)                       \
    X(MPI_Type_create_darray, dsize, drank, ndims, gsizes, distribs, dargs, psizes, order, oldtype, newtype)           \
    X(MPI_Type_create_darray_c, dsize, drank, ndims, gsizes_c, distribs, dargs, psizes, order, oldtype, newtype)       \
    X(MPI_Type_create_resized, oldtype, any_lb, any_extent, newtype)                                                   \
    X(MPI_Type_create_resized_c, oldtype, any_lb, any_extent, newtype)                                                 \
    X(MPI_Type_dup, oldtype, newtype)                                                                                  \
    X(MPI_Type_get_value_index, value_type, index_type, newtype)                                                       \
    X(MPI_Type_match_size, typeclass, typesize, newtype)                                                               \
    X(MPI_Type_create_f90_real, f90_p, f90_r, newtype)                                                                 \
    X(MPI_Type_create_f90_complex, f90_p, f90_r, newtype)                                                              \
    X(MPI_Type_create_f90_integer, f90_digits, newtype)                                                                \
    X(MPI_Type_commit, type_commit)                                                                                    \
    X(MPI_Type_free, type_free)                                                                                        \
    X(MPI_Type_size, described, size)                                                                                  \
    X(MPI_Type_size_c, described, large_size)                                                                          \
    X(MPI_Type_size_x, described, large_size)                                                                          \
    X(MPI_Type_get_extent, described, lb, extent)                                                                      \
    X(MPI_Type_get_extent_c, described, lb_c, extent_c)                                                                \
    X(MPI_Type_get_extent_x, described, lb_c, extent_c)                                                                \
    X(MPI_Type_get_true_extent, described, lb, extent)                                                                 \
    X(MPI_Type_get_true_extent_c, described, lb_c, extent_c)                                                           \
    X(MPI_Type_get_true_extent_x, described, lb_c, extent_c)                                                           \
    X(MPI_Type_get_envelope, described, num_integers, num_addresses, num_datatypes, combiner)                          \
    X(MPI_Type_get_envelope_c, described, num_integers_c, num_addresses_c, num_large, num_datatypes_c, combiner)       \
    X(MPI_Type_get_contents, described, max_integers, max_addresses, max_datatypes, integers, addresses, datatypes)    \
    X(MPI_Type_get_contents_c, described, max_integers, max_addresses, max_large, max_datatypes, integers, addresses,  \
      large_counts, datatypes)                                                                                         \
    X(MPI_Type_get_name, named, type_name, resultlen)                                                                  \
    X(MPI_Type_set_name, described, given_name)                                                                        \
    X(MPI_Pack, inbuf, incount, datatype, outbuf, outsize, position, comm)                                             \
    X(MPI_Pack_c, inbuf, incount, datatype, outbuf, outsize, position_c, comm)                                         \
    X(MPI_Unpack, inbuf, insize, position, outbuf, outcount_, datatype, comm)                                          \
    X(MPI_Unpack_c, inbuf, insize, position_c, outbuf, outcount_, datatype, comm)                                      \
    X(MPI_Pack_size, incount, described, comm, size)                                                                   \
    X(MPI_Pack_size_c, incount, described, comm, large_size)                                                           \
    X(MPI_Pack_external, datarep, inbuf, incount, datatype, outbuf, outsize, position_a)                               \
    X(MPI_Pack_external_c, datarep, inbuf, incount, datatype, outbuf, outsize, position_c)                             \
    X(MPI_Unpack_external, datarep, inbuf, insize, position_a, outbuf, outcount_, datatype)                            \
    X(MPI_Unpack_external_c, datarep, inbuf, insize, position_c, outbuf, outcount_, datatype)                          \
    X(MPI_Pack_external_size, datarep, incount, described, address_size)                                               \
    X(MPI_Pack_external_size_c, datarep, incount, described, large_size)

#define FILES(X)                                                                                                       \
    X(MPI_File_open, comm, filename, amode, info, file_out)                                                            \
    X(MPI_File_close, file_close)                                                                                      \
    X(MPI_File_delete, filename, info)                                                                                 \
    X(MPI_File_set_size, fh, file_size)                                                                                \
    X(MPI_File_preallocate, fh, file_size)                                                                             \
    X(MPI_File_get_size, fh, file_size_out)                                                                            \
    X(MPI_File_get_group, fh, group_out)                                                                               \
    X(MPI_File_get_amode, fh, amode_out)                                                                               \
    X(MPI_File_set_info, fh, file_info)                                                                                \
    X(MPI_File_get_info, fh, info_used)                                                                                \
    X(MPI_File_get_type_extent, fh, described, extent)                                                                 \
    X(MPI_File_get_type_extent_c, fh, described, extent_c)                                                             \
    X(MPI_File_set_atomicity, fh, stride)                                                                              \
    X(MPI_File_get_atomicity, fh, flag)                                                                                \
    X(MPI_File_sync, fh)                                                                                               \
    X(MPI_File_set_errhandler, file_or_null, errhandler)                                                               \
    X(MPI_File_get_errhandler, file_or_null, errhandler_out)                                                           \
    X(MPI_File_call_errhandler, file_or_null, stride)

#define ALL(X) POINT_TO_POINT(X) PARTITIONED(X) DATATYPES(X) FILES(X)

#define DEFINE(name, ...)                                                                                              \
    static int call_##name(void)                                                                                       \
    {                                                                                                                  \
        return name(__VA_ARGS__);                                                                                      \
    }
ALL(DEFINE)

static const struct procedure {
    const char *name;
    int (*call)(void);
    const char *arguments;
} procedures[] = {
#define ROW(name, ...) {#name, call_##name, #__VA_ARGS__},
    ALL(ROW)};

/* A wrong value of an argument, and what is to be said of it. */
struct wrong {
    const char *argument;
    void *variable;
    const void *value;
    size_t bytes;
    int class;
    const char *words[2];
};

#define WRONG(variable, value, class, ...)                                                                             \
    {#variable, (void *)&variable, &(typeof(variable)){value}, sizeof variable, class, {__VA_ARGS__}}
#define NULL_POINTER(variable, name) WRONG(variable, NULL, MPI_ERR_ARG, name, "null pointer")

static int query(void *state, MPI_Status *to)
{
    (void)state;
    MPI_Status_set_elements(to, MPI_BYTE, 0);
    MPI_Status_set_cancelled(to, 0);
    to->MPI_SOURCE = MPI_UNDEFINED;
    to->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

/* As `hex`, for as long as the program runs. */
static const char *handle(uintptr_t value)
{
    return strdup(hex(value));
}

static int tried;

/* Calls all procedures that have the argument with its wrong value. */
static void try(const struct wrong *wrong)
{
    unsigned char right[sizeof(void *)];
    size_t length = strlen(wrong->argument);
    int used = 0;
    CHECK(wrong->bytes <= sizeof right, "%s is too large", wrong->argument);
    for (size_t i = 0; i < sizeof procedures / sizeof *procedures; i++) {
        const struct procedure *procedure = &procedures[i];
        const char *found = procedure->arguments;
        /* The argument by its whole name. */
        while ((found = strstr(found, wrong->argument)) != NULL &&
               ((found != procedure->arguments && found[-1] != ' ') || (found[length] != ',' && found[length] != '\0')))
            found++;
        if (found == NULL)
            continue;
        memcpy(right, wrong->variable, wrong->bytes);
        memcpy(wrong->variable, wrong->value, wrong->bytes);
        int code = procedure->call();
        memcpy(wrong->variable, right, wrong->bytes);
        char call[300];
        snprintf(call, sizeof call, "%s(%s), a wrong %s", procedure->name, procedure->arguments, wrong->argument);
        char message[MPI_MAX_ERROR_STRING];
        int got = class_of(code), len;
        MPI_Error_string(code, message, &len);
        CHECK(got == wrong->class, "%s: expected class %d, got %d: %s", call, wrong->class, got, message);
        CHECK(strncmp(message, procedure->name, strlen(procedure->name)) == 0 && message[strlen(procedure->name)] == ':',
              "%s: the text does not name the procedure: %s", call, message);
        for (int word = 0; word < 2 && wrong->words[word] != NULL; word++)
            CHECK(strstr(message, wrong->words[word]) != NULL, "%s: the text has no '%s': %s", call, wrong->words[word],
                  message);
        used++;
        tried++;
    }
    CHECK(used > 0, "no procedure has an argument %s", wrong->argument);
}

static void try_all(void)
{
    char beyond[32];
    snprintf(beyond, sizeof beyond, "%d", ranks);
    MPI_Datatype fresh, freed_type, freed_copy;
    OK(MPI_Type_contiguous(2, MPI_INT, &fresh));
    OK(MPI_Type_dup(fresh, &freed_type));
    freed_copy = freed_type;
    OK(MPI_Type_free(&freed_type));
    MPI_File closed, closed_copy, null_file = MPI_FILE_NULL;
    OK(MPI_File_open(MPI_COMM_SELF, filename, amode, MPI_INFO_NULL, &closed));
    closed_copy = closed;
    OK(MPI_File_close(&closed));
    char long_path[5000];
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    MPI_Request done, done_copy, null_request = MPI_REQUEST_NULL;
    OK(MPI_Isend(numbers, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &done));
    done_copy = done;
    OK(MPI_Wait(&done, MPI_STATUS_IGNORE));
    MPI_Request wrong_list[2] = {done_copy, done_copy};
    MPI_Message no_message = MPI_MESSAGE_NULL, false_message = (MPI_Message)MPI_COMM_WORLD;
    MPI_Datatype null_type = MPI_DATATYPE_NULL, predefined = MPI_INT;
    MPI_Datatype wrong_types[] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    static const int negative[] = {-5, -5}, large[] = {9, 9};
    static const MPI_Count negative_c[] = {-5, -5}, large_c[] = {9, 9};
    int at_beyond = 65, at_negative = -1;
    MPI_Count at_beyond_c = 65, at_negative_c = -1;
    MPI_Aint at_beyond_a = 65, at_negative_a = -1;
    char long_name[MPI_MAX_OBJECT_NAME + 1];
    memset(long_name, 'x', sizeof long_name);
    long_name[MPI_MAX_OBJECT_NAME] = '\0';

#define A_TYPE(variable, word)                                                                                         \
    WRONG(variable, MPI_DATATYPE_NULL, MPI_ERR_TYPE, word, "MPI_DATATYPE_NULL"),                                       \
        WRONG(variable, freed_copy, MPI_ERR_TYPE, word, handle((uintptr_t)freed_copy)),                                \
        WRONG(variable, (MPI_Datatype)MPI_COMM_WORLD, MPI_ERR_TYPE, word, handle((uintptr_t)MPI_COMM_WORLD)),          \
        WRONG(variable, (MPI_Datatype)(uintptr_t)0xdeadbeefcafe, MPI_ERR_TYPE, word, "0xdeadbeefcafe")
#define A_COMMITTED_TYPE(variable)                                                                                     \
    A_TYPE(variable, "datatype"), WRONG(variable, fresh, MPI_ERR_TYPE, "commit", handle((uintptr_t)fresh))
#define A_COUNT(variable, name) WRONG(variable, -3, MPI_ERR_COUNT, name, "-3")
#define A_BUFFER(variable, name) WRONG(variable, NULL, MPI_ERR_BUFFER, name, "null pointer")
#define A_RANK(variable, name)                                                                                         \
    WRONG(variable, ranks, MPI_ERR_RANK, name, beyond), WRONG(variable, -77, MPI_ERR_RANK, name, "-77")
#define A_TAG(variable) WRONG(variable, -9, MPI_ERR_TAG, "tag", "-9")
#define A_REQUEST(variable)                                                                                            \
    WRONG(variable, done_copy, MPI_ERR_REQUEST, "request", handle((uintptr_t)done_copy)),                              \
        WRONG(variable, (MPI_Request)MPI_COMM_WORLD, MPI_ERR_REQUEST, "request", handle((uintptr_t)MPI_COMM_WORLD))
#define A_REQUEST_NOT_NULL(variable)                                                                                   \
    A_REQUEST(variable), WRONG(variable, MPI_REQUEST_NULL, MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL")
#define A_FILE(variable)                                                                                               \
    WRONG(variable, closed_copy, MPI_ERR_FILE, "file", handle((uintptr_t)closed_copy)),                                \
        WRONG(variable, (MPI_File)MPI_COMM_WORLD, MPI_ERR_FILE, "file", handle((uintptr_t)MPI_COMM_WORLD)),            \
        WRONG(variable, (MPI_File)(uintptr_t)0xdeadbeefcafe, MPI_ERR_FILE, "file", "0xdeadbeefcafe")
#define A_POINTER_TO_REQUEST(variable)                                                                                 \
    NULL_POINTER(variable, "request"),                                                                                 \
        WRONG(variable, &done_copy, MPI_ERR_REQUEST, "request", handle((uintptr_t)done_copy))

    const struct wrong all[] = {
        A_BUFFER(buf, "buf"),
        A_BUFFER(sendbuf, "sendbuf"),
        A_BUFFER(recvbuf, "recvbuf"),
        A_BUFFER(inbuf, "inbuf"),
        A_BUFFER(outbuf, "outbuf"),
        A_BUFFER(buffer, "buffer"),
        A_COUNT(count, "count"),
        A_COUNT(sendcount, "sendcount"),
        A_COUNT(recvcount, "recvcount"),
        A_COUNT(incount, "incount"),
        A_COUNT(outcount_, "outcount"),
        A_COUNT(partitions, "partitions"),
        A_COMMITTED_TYPE(datatype),
        A_COMMITTED_TYPE(sendtype),
        A_COMMITTED_TYPE(recvtype),
        A_TYPE(oldtype, "datatype"),
        A_TYPE(described, "datatype"),
        /* The null handle has a name of its own. */
        WRONG(named, freed_copy, MPI_ERR_TYPE, "datatype", handle((uintptr_t)freed_copy)),
        A_TYPE(value_type, "datatype"),
        A_TYPE(index_type, "datatype"),
        A_RANK(dest, "destination"),
        WRONG(dest, MPI_ANY_SOURCE, MPI_ERR_RANK, "destination"),
        A_RANK(source, "source"),
        A_RANK(psource, "source"),
        WRONG(psource, MPI_ANY_SOURCE, MPI_ERR_RANK, "source"),
        A_TAG(tag),
        A_TAG(sendtag),
        A_TAG(recvtag),
        A_TAG(ptag),
        WRONG(tag, MPI_ANY_TAG, MPI_ERR_TAG, "tag"),
        WRONG(sendtag, MPI_ANY_TAG, MPI_ERR_TAG, "tag"),
        WRONG(ptag, MPI_ANY_TAG, MPI_ERR_TAG, "tag"),
        WRONG(comm, MPI_COMM_NULL, MPI_ERR_COMM, "communicator", "MPI_COMM_NULL"),
        WRONG(comm, (MPI_Comm)MPI_INT, MPI_ERR_COMM, "communicator", handle((uintptr_t)MPI_INT)),
        WRONG(session, MPI_SESSION_NULL, MPI_ERR_SESSION, "session", "MPI_SESSION_NULL"),
        WRONG(session, (MPI_Session)MPI_COMM_WORLD, MPI_ERR_SESSION, "session", handle((uintptr_t)MPI_COMM_WORLD)),
        WRONG(info, (MPI_Info)MPI_COMM_WORLD, MPI_ERR_INFO, "info", handle((uintptr_t)MPI_COMM_WORLD)),
        NULL_POINTER(request_out, "request"),
        A_POINTER_TO_REQUEST(wait_for),
        A_POINTER_TO_REQUEST(request_free),
        WRONG(request_free, &null_request, MPI_ERR_REQUEST, "MPI_REQUEST_NULL"),
        A_POINTER_TO_REQUEST(request_cancel),
        WRONG(request_cancel, &null_request, MPI_ERR_REQUEST, "MPI_REQUEST_NULL"),
        A_POINTER_TO_REQUEST(start_this),
        WRONG(start_this, &null_request, MPI_ERR_REQUEST, "MPI_REQUEST_NULL"),
        A_REQUEST(queried),
        A_REQUEST_NOT_NULL(to_complete),
        A_REQUEST_NOT_NULL(psending),
        WRONG(psending, preceiving, MPI_ERR_REQUEST, "request"),
        /* All of a null or inactive request has arrived. */
        A_REQUEST(preceiving),
        WRONG(preceiving, psending, MPI_ERR_REQUEST, "request"),
        NULL_POINTER(requests, "array_of_requests"),
        WRONG(requests, wrong_list, MPI_ERR_REQUEST, "array_of_requests[0]", handle((uintptr_t)done_copy)),
        NULL_POINTER(startable, "array_of_requests"),
        WRONG(startable, wrong_list, MPI_ERR_REQUEST, "array_of_requests[0]", handle((uintptr_t)done_copy)),
        NULL_POINTER(message_out, "message"),
        NULL_POINTER(message, "message"),
        WRONG(message, &no_message, MPI_ERR_REQUEST, "message", "MPI_MESSAGE_NULL"),
        WRONG(message, &false_message, MPI_ERR_REQUEST, "message", handle((uintptr_t)false_message)),
        NULL_POINTER(flag, "flag"),
        NULL_POINTER(indx, "index"),
        NULL_POINTER(outcount, "outcount"),
        NULL_POINTER(indices, "array_of_indices"),
        NULL_POINTER(size, "size"),
        NULL_POINTER(elements, "count"),
        NULL_POINTER(large_size, "size"),
        NULL_POINTER(elements_large, "count"),
        NULL_POINTER(address_size, "size"),
        NULL_POINTER(status, "status"),
        NULL_POINTER(buffer_addr, "buffer_addr"),
        WRONG(bytes, -8, MPI_ERR_ARG, "size", "-8"),
        WRONG(partition, 2, MPI_ERR_ARG, "partition", "2"),
        WRONG(partition, -1, MPI_ERR_ARG, "partition", "-1"),
        WRONG(low, -1, MPI_ERR_ARG, "partition", "-1"),
        WRONG(high, 2, MPI_ERR_ARG, "partition", "2"),
        WRONG(length, -1, MPI_ERR_COUNT, "length", "-1"),
        NULL_POINTER(partition_list, "array_of_partitions"),
        WRONG(partition_list, negative, MPI_ERR_ARG, "partition", "-5"),
        NULL_POINTER(query_fn, "query_fn"),
        NULL_POINTER(free_fn, "free_fn"),
        NULL_POINTER(cancel_fn, "cancel_fn"),

        NULL_POINTER(newtype, "type"),
        NULL_POINTER(type_commit, "datatype"),
        WRONG(type_commit, &null_type, MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL"),
        WRONG(type_commit, &freed_copy, MPI_ERR_TYPE, "datatype", handle((uintptr_t)freed_copy)),
        NULL_POINTER(type_free, "datatype"),
        WRONG(type_free, &null_type, MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL"),
        WRONG(type_free, &freed_copy, MPI_ERR_TYPE, "datatype", handle((uintptr_t)freed_copy)),
        WRONG(type_free, &predefined, MPI_ERR_TYPE, "MPI_INT", "predefined"),
        WRONG(blocklength, -3, MPI_ERR_COUNT, "blocklength", "-3"),
        NULL_POINTER(blocklengths, "array_of_blocklengths"),
        WRONG(blocklengths, negative, MPI_ERR_COUNT, "array_of_blocklengths[0]", "-5"),
        NULL_POINTER(blocklengths_c, "array_of_blocklengths"),
        WRONG(blocklengths_c, negative_c, MPI_ERR_COUNT, "array_of_blocklengths[0]", "-5"),
        NULL_POINTER(displacements, "array_of_displacements"),
        NULL_POINTER(displacements_c, "array_of_displacements"),
        NULL_POINTER(displacements_a, "array_of_displacements"),
        NULL_POINTER(types, "array_of_types"),
        WRONG(types, wrong_types, MPI_ERR_TYPE, "array_of_types[0]", "MPI_DATATYPE_NULL"),
        WRONG(ndims, 0, MPI_ERR_ARG, "ndims", "0"),
        WRONG(ndims, -2, MPI_ERR_ARG, "ndims", "-2"),
        NULL_POINTER(sizes, "array_of_sizes"),
        WRONG(sizes, negative, MPI_ERR_ARG, "array_of_sizes[0]", "-5"),
        NULL_POINTER(sizes_c, "array_of_sizes"),
        WRONG(sizes_c, negative_c, MPI_ERR_ARG, "array_of_sizes[0]", "-5"),
        NULL_POINTER(subsizes, "array_of_subsizes"),
        WRONG(subsizes, large, MPI_ERR_ARG, "array_of_subsizes[0]", "9"),
        WRONG(subsizes, negative, MPI_ERR_ARG, "array_of_subsizes[0]", "-5"),
        NULL_POINTER(subsizes_c, "array_of_subsizes"),
        WRONG(subsizes_c, large_c, MPI_ERR_ARG, "array_of_subsizes[0]", "9"),
        NULL_POINTER(starts, "array_of_starts"),
        WRONG(starts, large, MPI_ERR_ARG, "array_of_starts[0]", "9"),
        WRONG(starts, negative, MPI_ERR_ARG, "array_of_starts[0]", "-5"),
        NULL_POINTER(starts_c, "array_of_starts"),
        WRONG(starts_c, negative_c, MPI_ERR_ARG, "array_of_starts[0]", "-5"),
        WRONG(order, 7, MPI_ERR_ARG, "order", "7"),
        WRONG(dsize, 0, MPI_ERR_ARG, "size", "0"),
        WRONG(dsize, 3, MPI_ERR_ARG, "size", "3"),
        WRONG(drank, 4, MPI_ERR_ARG, "rank", "4"),
        WRONG(drank, -1, MPI_ERR_ARG, "rank", "-1"),
        NULL_POINTER(gsizes, "array_of_gsizes"),
        WRONG(gsizes, negative, MPI_ERR_ARG, "array_of_gsizes[0]", "-5"),
        NULL_POINTER(gsizes_c, "array_of_gsizes"),
        WRONG(gsizes_c, negative_c, MPI_ERR_ARG, "array_of_gsizes[0]", "-5"),
        NULL_POINTER(distribs, "array_of_distribs"),
        WRONG(distribs, negative, MPI_ERR_ARG, "array_of_distribs[0]", "-5"),
        NULL_POINTER(dargs, "array_of_dargs"),
        WRONG(dargs, negative, MPI_ERR_ARG, "array_of_dargs[0]", "-5"),
        NULL_POINTER(psizes, "array_of_psizes"),
        WRONG(psizes, negative, MPI_ERR_ARG, "array_of_psizes[0]", "-5"),
        WRONG(typeclass, 12345, MPI_ERR_ARG, "typeclass", "12345"),
        WRONG(typesize, 3, MPI_ERR_ARG, "3"),
        WRONG(f90_p, 1000, MPI_ERR_ARG, "1000"),
        WRONG(f90_r, 100000, MPI_ERR_ARG, "100000"),
        WRONG(f90_digits, 99, MPI_ERR_ARG, "99"),
        WRONG(max_integers, -3, MPI_ERR_ARG, "max_integers", "-3"),
        WRONG(max_addresses, -3, MPI_ERR_ARG, "max_addresses", "-3"),
        WRONG(max_datatypes, -3, MPI_ERR_ARG, "max_datatypes", "-3"),
        WRONG(max_large, -3, MPI_ERR_ARG, "max_large_counts", "-3"),
        NULL_POINTER(integers, "array_of_integers"),
        NULL_POINTER(datatypes, "array_of_datatypes"),
        NULL_POINTER(num_integers, "num_integers"),
        NULL_POINTER(num_addresses, "num_addresses"),
        NULL_POINTER(num_datatypes, "num_datatypes"),
        NULL_POINTER(num_integers_c, "num_integers"),
        NULL_POINTER(num_addresses_c, "num_addresses"),
        NULL_POINTER(num_large, "num_large_counts"),
        NULL_POINTER(num_datatypes_c, "num_datatypes"),
        NULL_POINTER(combiner, "combiner"),
        NULL_POINTER(lb, "lb"),
        NULL_POINTER(extent, "extent"),
        NULL_POINTER(lb_c, "lb"),
        NULL_POINTER(extent_c, "extent"),
        NULL_POINTER(type_name, "type_name"),
        NULL_POINTER(resultlen, "resultlen"),
        NULL_POINTER(given_name, "type_name"),
        WRONG(given_name, long_name, MPI_ERR_ARG, "type_name", "MPI_MAX_OBJECT_NAME"),
        WRONG(given_name, "\xff", MPI_ERR_ARG, "type_name", "UTF-8"),
        NULL_POINTER(datarep, "datarep"),
        WRONG(datarep, "native", MPI_ERR_ARG, "datarep", "native"),
        WRONG(insize, -2, MPI_ERR_ARG, "insize", "-2"),
        WRONG(insize, 3, MPI_ERR_TRUNCATE, "inbuf", "3"),
        WRONG(outsize, -2, MPI_ERR_ARG, "outsize", "-2"),
        WRONG(outsize, 3, MPI_ERR_TRUNCATE, "outbuf", "3"),
        NULL_POINTER(position, "position"),
        WRONG(position, &at_beyond, MPI_ERR_ARG, "position", "65"),
        WRONG(position, &at_negative, MPI_ERR_ARG, "position", "-1"),
        NULL_POINTER(position_c, "position"),
        WRONG(position_c, &at_beyond_c, MPI_ERR_ARG, "position", "65"),
        WRONG(position_c, &at_negative_c, MPI_ERR_ARG, "position", "-1"),
        NULL_POINTER(position_a, "position"),
        WRONG(position_a, &at_beyond_a, MPI_ERR_ARG, "position", "65"),
        WRONG(position_a, &at_negative_a, MPI_ERR_ARG, "position", "-1"),

        A_FILE(fh),
        WRONG(fh, MPI_FILE_NULL, MPI_ERR_FILE, "file", "MPI_FILE_NULL"),
        A_FILE(file_or_null),
        NULL_POINTER(file_out, "fh"),
        NULL_POINTER(file_close, "fh"),
        WRONG(file_close, &closed_copy, MPI_ERR_FILE, "file", handle((uintptr_t)closed_copy)),
        WRONG(file_close, &null_file, MPI_ERR_FILE, "file", "MPI_FILE_NULL"),
        NULL_POINTER(filename, "filename"),
        WRONG(filename, "", MPI_ERR_BAD_FILE, "filename", "empty"),
        WRONG(filename, long_path, MPI_ERR_BAD_FILE),
        WRONG(amode, 0, MPI_ERR_AMODE, "amode", "exactly one"),
        WRONG(amode, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_ERR_AMODE, "amode", "MPI_MODE_CREATE"),
        WRONG(amode, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_ERR_AMODE, "amode", "MPI_MODE_SEQUENTIAL"),
        WRONG(file_size, -8, MPI_ERR_ARG, "size", "-8"),
        NULL_POINTER(file_size_out, "size"),
        NULL_POINTER(group_out, "group"),
        NULL_POINTER(amode_out, "amode"),
        WRONG(file_info, MPI_INFO_NULL, MPI_ERR_INFO, "info", "MPI_INFO_NULL"),
        WRONG(file_info, (MPI_Info)MPI_COMM_WORLD, MPI_ERR_INFO, "info", handle((uintptr_t)MPI_COMM_WORLD)),
        NULL_POINTER(info_used, "info_used"),
        WRONG(errhandler, MPI_ERRHANDLER_NULL, MPI_ERR_ERRHANDLER, "MPI_ERRHANDLER_NULL"),
        WRONG(errhandler, (MPI_Errhandler)MPI_COMM_WORLD, MPI_ERR_ERRHANDLER, handle((uintptr_t)MPI_COMM_WORLD)),
        NULL_POINTER(errhandler_out, "errhandler"),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        try(&all[i]);
    /* Not at its beginning either is a buffer a null pointer. */
    at = 4, at_large = 4, at_address = 4;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].variable == &inbuf || all[i].variable == &outbuf)
            try(&all[i]);
    OK(MPI_Type_free(&fresh));
}

/* Those that need no library, and so have no error handler and no text: the class alone. */
static void without_library(void)
{
    MPI_Status *none = MPI_STATUS_IGNORE;
    SAME(MPI_Status_get_source(none, &number), MPI_ERR_ARG, "MPI_Status_get_source of no status");
    SAME(MPI_Status_get_source(status, NULL), MPI_ERR_ARG, "MPI_Status_get_source to nowhere");
    SAME(MPI_Status_get_tag(none, &number), MPI_ERR_ARG, "MPI_Status_get_tag of no status");
    SAME(MPI_Status_get_tag(status, NULL), MPI_ERR_ARG, "MPI_Status_get_tag to nowhere");
    SAME(MPI_Status_get_error(none, &number), MPI_ERR_ARG, "MPI_Status_get_error of no status");
    SAME(MPI_Status_get_error(status, NULL), MPI_ERR_ARG, "MPI_Status_get_error to nowhere");
    SAME(MPI_Status_set_source(none, 1), MPI_ERR_ARG, "MPI_Status_set_source of no status");
    SAME(MPI_Status_set_tag(none, 1), MPI_ERR_ARG, "MPI_Status_set_tag of no status");
    SAME(MPI_Status_set_error(none, 1), MPI_ERR_ARG, "MPI_Status_set_error of no status");
    SAME(MPI_Get_address(numbers, NULL), MPI_ERR_ARG, "MPI_Get_address to nowhere");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    info = MPI_INFO_NULL;
    datatype = sendtype = recvtype = value_type = index_type = MPI_INT;
    oldtype = old_types[0] = old_types[1] = MPI_INT;
    OK(MPI_Type_contiguous(1, MPI_INT, &described));
    commit_this = named = described;
    dest = source = psource = me;
    static const int extents[] = {4, 4}, distributions[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
    static const int defaults[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 2};
    static const MPI_Count large_extents[] = {4, 4};
    sizes = gsizes = extents;
    sizes_c = gsizes_c = large_extents;
    distribs = distributions;
    dargs = defaults;
    psizes = grid;
    query_fn = query;
    free_fn = release;
    cancel_fn = cancel;
    /* Requests that are there all the time. */
    int in = -1;
    MPI_Request receiving, generalized;
    OK(MPI_Irecv(&in, 1, MPI_INT, me, 4711, comm, &receiving));
    wait_for = &receiving;
    free_this = cancel_this = queried = requests[0] = requests[1] = receiving;
    OK(MPI_Recv_init(other, 1, MPI_INT, me, 4712, comm, &idle[0]));
    start_this = &idle[0];
    OK(MPI_Grequest_start(query, release, cancel, NULL, &generalized));
    to_complete = generalized;
    OK(MPI_Precv_init(other, 2, 1, MPI_INT, me, 1, comm, MPI_INFO_NULL, &preceiving));
    OK(MPI_Psend_init(numbers, 2, 1, MPI_INT, me, 1, comm, MPI_INFO_NULL, &psending));
    OK(MPI_Start(&preceiving));
    OK(MPI_Start(&psending));
    OK(MPI_Send(numbers, 1, MPI_INT, me, 4713, comm));
    OK(MPI_Mprobe(me, 4713, comm, &taken_message, MPI_STATUS_IGNORE));
    MPI_Message taken = taken_message;

    /* A file of this rank's own. */
    const char *folder = getenv("TMPDIR");
    snprintf(file_path, sizeof file_path, "%s/weft-arguments.%d", folder == NULL ? "/tmp" : folder, (int)getpid());
    OK(MPI_File_open(MPI_COMM_SELF, filename, amode | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &fh));
    OK(MPI_File_set_size(fh, 5));
    OK(MPI_Info_create(&file_info));
    file_or_null = fh;
    file_close = &fh;

    try_all();
    without_library();

    /* None of the wrong calls has started, ended or taken anything. */
    taken_message = taken;
    OK(MPI_Mrecv(other, 1, MPI_INT, &taken_message, MPI_STATUS_IGNORE));
    OK(MPI_Pready(0, psending));
    ERROR(MPI_ERR_ARG, MPI_Pready(0, psending), "partition", "0");
    OK(MPI_Pready(1, psending));
    OK(MPI_Wait(&psending, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&preceiving, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&psending));
    OK(MPI_Request_free(&preceiving));
    OK(MPI_Grequest_complete(generalized));
    OK(MPI_Wait(&generalized, MPI_STATUS_IGNORE));
    OK(MPI_Start(&idle[0]));
    ERROR(MPI_ERR_REQUEST, MPI_Start(&idle[0]), "active");
    OK(MPI_Cancel(&idle[0]));
    OK(MPI_Wait(&idle[0], MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&idle[0]));
    int arrived = 1;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &arrived, MPI_STATUS_IGNORE));
    SAME(arrived, 0, "a message of a call that failed is there");
    OK(MPI_Test(&receiving, &arrived, MPI_STATUS_IGNORE));
    SAME(arrived, 0, "a receive has ended by a call that failed");
    OK(MPI_Send(&me, 1, MPI_INT, me, 4711, comm));
    OK(MPI_Wait(&receiving, MPI_STATUS_IGNORE));
    SAME(in, me, "the message of the receive");
    OK(MPI_File_get_size(fh, &file_number));
    SAME(file_number, 5, "size of the file");
    OK(MPI_File_close(&fh));
    OK(MPI_Info_free(&file_info));
    OK(MPI_Type_free(&described));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
    CHECK(tried > 1000, "only %d wrong calls were made", tried);
    return end("arguments");
}
