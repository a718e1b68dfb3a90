/* What a C programmer writes to pack and unpack the layouts of benches/datatype.rs and of benches/programs/layouts.c by hand. */
#include <stdint.h>
#include <string.h>

void pack_strided(const double *array, long count, long stride, double *packed)
{
    for (long i = 0; i < count; i++)
        packed[i] = array[i * stride];
}

void unpack_strided(double *array, long count, long stride, const double *packed)
{
    for (long i = 0; i < count; i++)
        array[i * stride] = packed[i];
}

/* A box of an n^3 array, from (1, 1, 1) on. */
void pack_box(const double *array, long n, const long *sizes, double *packed)
{
    for (long i = 1; i <= sizes[0]; i++)
        for (long j = 1; j <= sizes[1]; j++)
            for (long k = 1; k <= sizes[2]; k++)
                *packed++ = array[(i * n + j) * n + k];
}

void unpack_box(double *array, long n, const long *sizes, const double *packed)
{
    for (long i = 1; i <= sizes[0]; i++)
        for (long j = 1; j <= sizes[1]; j++)
            for (long k = 1; k <= sizes[2]; k++)
                array[(i * n + j) * n + k] = *packed++;
}

void pack_indexed(const double *array, long count, const int64_t *lengths, const int64_t *places, double *packed)
{
    for (long i = 0; i < count; i++) {
        const double *from = array + places[i];
        for (long j = 0; j < lengths[i]; j++)
            *packed++ = from[j];
    }
}

void unpack_indexed(double *array, long count, const int64_t *lengths, const int64_t *places, const double *packed)
{
    for (long i = 0; i < count; i++) {
        double *to = array + places[i];
        for (long j = 0; j < lengths[i]; j++)
            to[j] = *packed++;
    }
}

void pack_gather(const double *array, long count, const int64_t *places, double *packed)
{
    for (long i = 0; i < count; i++)
        packed[i] = array[places[i]];
}

void unpack_gather(double *array, long count, const int64_t *places, const double *packed)
{
    for (long i = 0; i < count; i++)
        array[places[i]] = packed[i];
}

struct record {
    char tag;
    double value;
    int id[3];
};

enum { TAG = 1, VALUE = sizeof(double), ID = 3 * sizeof(int) };

void pack_records(const struct record *records, long count, char *packed)
{
    for (long i = 0; i < count; i++) {
        *packed = records[i].tag;
        memcpy(packed + TAG, &records[i].value, VALUE);
        memcpy(packed + TAG + VALUE, records[i].id, ID);
        packed += TAG + VALUE + ID;
    }
}

void unpack_records(struct record *records, long count, const char *packed)
{
    for (long i = 0; i < count; i++) {
        records[i].tag = *packed;
        memcpy(&records[i].value, packed + TAG, VALUE);
        memcpy(records[i].id, packed + TAG + VALUE, ID);
        packed += TAG + VALUE + ID;
    }
}
