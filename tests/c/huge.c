/* One message above 2 GiB: by a count of more than an int, by a contiguous type, and by a vector type with holes. Left
 * out, saying so, where less than 12 GiB of memory are free. */
#include "check.h"

static const size_t BYTES = ((size_t)1 << 31) + 12345;

static size_t free_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    size_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

static void transfer(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Count elements)
{
    MPI_Status status;
    if (me == 0)
        MPI_Send_c(buffer, count, type, 1, 1, MPI_COMM_WORLD);
    else if (me == 1) {
        MPI_Count got;
        int small;
        MPI_Recv_c(buffer, count, type, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count_c(&status, type, &got);
        SAME(got, count, "MPI_Get_count_c in the type that was received");
        MPI_Get_count_c(&status, MPI_BYTE, &got);
        SAME(got, elements, "MPI_Get_count_c in bytes");
        MPI_Get_count(&status, MPI_BYTE, &small);
        SAME(small, MPI_UNDEFINED, "MPI_Get_count of more bytes than an int holds");
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int enough = free_bytes() >= (size_t)12 << 30;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!enough || ranks < 2) {
        int at_end = end("huge");
        if (me == 0)
            printf("skipped: %s\n", enough ? "needs 2 ranks" : "needs 12 GiB of free memory");
        return at_end;
    }
    if (me < 2) {
        unsigned char *buffer = allocate(BYTES + 4096);
        MPI_Datatype block, vector;
        if (me == 0)
            fill(buffer, BYTES, 1);
        transfer(buffer, (MPI_Count)BYTES, MPI_BYTE, (MPI_Count)BYTES);
        FILLED(buffer, BYTES, 1, "message by a large count");

        memset(buffer, 0, me == 1 ? BYTES : 0);
        MPI_Type_contiguous_c((MPI_Count)BYTES, MPI_BYTE, &block);
        MPI_Type_commit(&block);
        transfer(buffer, 1, block, (MPI_Count)BYTES);
        FILLED(buffer, BYTES, 1, "message of a contiguous type");
        MPI_Type_free(&block);

        /* Blocks of 1000 in steps of 1024: the message is 2 GiB and some, the extent more. */
        MPI_Count blocks = (MPI_Count)(((size_t)1 << 31) / 1000 + 2), step = 1024;
        free(buffer);
        buffer = allocate((size_t)(blocks * step));
        memset(buffer, 0x5a, (size_t)(blocks * step));
        for (MPI_Count i = 0; i < blocks && me == 0; i++)
            fill(buffer + i * step, 1000, (uint32_t)i);
        MPI_Type_vector_c(blocks, 1000, step, MPI_BYTE, &vector);
        MPI_Type_commit(&vector);
        transfer(buffer, 1, vector, blocks * 1000);
        for (MPI_Count i = 0; i < blocks && me == 1; i++) {
            FILLED(buffer + i * step, 1000, (uint32_t)i, "block of a vector");
            if (i + 1 < blocks)
                SAME(buffer[i * step + 1000], 0x5a, "hole behind block %lld", (long long)i);
        }
        MPI_Type_free(&vector);
        free(buffer);
    }
    return end("huge");
}
