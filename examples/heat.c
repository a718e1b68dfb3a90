/* How heat spreads in a plate: the heat equation in two dimensions, from a picture to a picture.
 *
 *     mpicc -O2 heat.c -o heat -lm
 *     mpiexec -n 4 ./heat data/plate.pgm heat.ppm [steps]
 *
 * The input is a grey picture (PGM, P2 or P5): each pixel is a cell of the plate, its value the temperature at the
 * start. In each step a cell moves towards the mean of its four neighbours; nothing passes the plate's edge. The
 * output is a picture (PPM) in the colours of glowing metal.
 *
 * The plate is cut into blocks, one per process, in a grid of rows and columns of processes. Around its block each
 * process keeps a halo, one cell wide, with what its neighbours last had there. In each step the halo's messages are
 * under way while the cells inside are computed, and those next to the halo come last. Each cell is computed by the
 * same operations in the same order whoever owns it, so the result is the same, bit by bit, for any number of
 * processes; the checksum shows it.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Part of the difference to its neighbours that a cell takes over in a step; stable up to 0.25. */
#define RATE 0.2
/* The residual is asked for every so many steps. */
#define CHECK_EVERY 10
/* The plate is at rest once no cell changes by more than this in a step. */
#define AT_REST 1e-6

enum { NORTH, SOUTH, WEST, EAST };

/* A block of the plate, without halo. */
struct block {
    int top, left, height, width;
};

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "heat: %s: %s\n", name, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        fail("no memory", "plate");
    return memory;
}

/* ---- pictures ---- */

/* The next number of a PGM header or of a P2 picture; # starts a comment. */
static int next_number(FILE *file, const char *name)
{
    int c = getc(file), value;
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
        if (c == '#')
            while (c != '\n' && c != EOF)
                c = getc(file);
        else
            c = getc(file);
    }
    ungetc(c, file);
    if (fscanf(file, "%d", &value) != 1 || value < 0)
        fail("not a PGM picture, or cut short", name);
    return value;
}

/* Temperatures from 0 to 1. */
static double *read_picture(const char *name, int *height, int *width)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        fail("can't be opened", name);
    int format = getc(file) == 'P' ? getc(file) : 0;
    if (format != '2' && format != '5')
        fail("not a PGM picture", name);
    *width = next_number(file, name);
    *height = next_number(file, name);
    int most = next_number(file, name);
    if (*width < 1 || *height < 1 || *width > 1 << 14 || *height > 1 << 14 || most < 1 || most > 255)
        fail("has a size, or a number of greys, that this program does not take", name);
    if (format == '5')
        getc(file); /* the one blank in front of the bytes */

    size_t cells = (size_t)*height * (size_t)*width;
    double *plate = allocate(cells * sizeof *plate);
    for (size_t i = 0; i < cells; i++) {
        int grey = format == '2' ? next_number(file, name) : getc(file);
        if (grey == EOF || grey > most)
            fail("cut short, or a grey above the largest", name);
        plate[i] = (double)grey / most;
    }
    fclose(file);
    return plate;
}

/* Black, red, yellow, white. */
static void write_picture(const char *name, const double *plate, int height, int width)
{
    FILE *file = fopen(name, "wb");
    if (file == NULL)
        fail("can't be written", name);
    fprintf(file, "P6\n%d %d\n255\n", width, height);
    for (size_t i = 0; i < (size_t)height * (size_t)width; i++) {
        for (int colour = 0; colour < 3; colour++) {
            double part = plate[i] * 3 - colour;
            putc((int)(255 * (part < 0 ? 0 : part > 1 ? 1 : part) + 0.5), file);
        }
    }
    if (ferror(file) || fclose(file) != 0)
        fail("can't be written in full", name);
}

/* ---- who has which block ---- */

/* Rows of the grid of processes: the divisor nearest to the square root, from below. */
static int grid_rows(int processes)
{
    int rows = 1;
    for (int i = 1; i * i <= processes; i++)
        if (processes % i == 0)
            rows = i;
    return rows;
}

/* Where part `index` of `parts` of `cells` begins. */
static int part_start(int cells, int parts, int index)
{
    return (int)((long)cells * index / parts);
}

static struct block block_of(int rank, int processes, int height, int width)
{
    int rows = grid_rows(processes), columns = processes / rows;
    int row = rank / columns, column = rank % columns;
    struct block block;
    block.top = part_start(height, rows, row);
    block.left = part_start(width, columns, column);
    block.height = part_start(height, rows, row + 1) - block.top;
    block.width = part_start(width, columns, column + 1) - block.left;
    return block;
}

/* Copies between the whole plate and the blocks in rank order, as Scatterv and Gatherv want them. */
static void copy_blocks(double *plate, double *blocks, int to_blocks, int processes, int height, int width)
{
    for (int rank = 0; rank < processes; rank++) {
        struct block block = block_of(rank, processes, height, width);
        for (int y = 0; y < block.height; y++) {
            double *line = plate + (size_t)(block.top + y) * (size_t)width + block.left;
            size_t bytes = (size_t)block.width * sizeof *line;
            memcpy(to_blocks ? blocks : line, to_blocks ? line : blocks, bytes);
            blocks += block.width;
        }
    }
}

/* ---- a step ---- */

/* One step of the cells from (top, left) up to, not including, (bottom, right); gives the largest change. */
static double step(const double *old, double *new, size_t stride, int top, int bottom, int left, int right)
{
    double largest = 0;
    for (int y = top; y < bottom; y++) {
        for (int x = left; x < right; x++) {
            size_t i = (size_t)y * stride + (size_t)x;
            double vertical = old[i - stride] + old[i + stride];
            double horizontal = old[i - 1] + old[i + 1];
            new[i] = old[i] + RATE * ((vertical + horizontal) - 4 * old[i]);
            double change = fabs(new[i] - old[i]);
            if (change > largest)
                largest = change;
        }
    }
    return largest;
}

/* At the plate's edge the halo mirrors the block, so that no heat passes. */
static void mirror(double *field, size_t stride, int height, int width, const int neighbour[4])
{
    double *last = field + (size_t)height * stride;
    if (neighbour[NORTH] == MPI_PROC_NULL)
        memcpy(field, field + stride, stride * sizeof *field);
    if (neighbour[SOUTH] == MPI_PROC_NULL)
        memcpy(last + stride, last, stride * sizeof *field);
    for (int y = 1; y <= height; y++) {
        double *line = field + (size_t)y * stride;
        if (neighbour[WEST] == MPI_PROC_NULL)
            line[0] = line[1];
        if (neighbour[EAST] == MPI_PROC_NULL)
            line[width + 1] = line[width];
    }
}

int main(int argc, char **argv)
{
    int rank, processes, size[2], steps;
    double *plate = NULL, *blocks = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    steps = argc > 3 ? atoi(argv[3]) : 100;
    if (argc < 3 || argc > 4 || steps < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: %s INPUT.pgm OUTPUT.ppm [steps]\n", argv[0]);
        MPI_Finalize();
        return 2;
    }

    /* Rank 0 reads the picture and hands out the blocks. */
    if (rank == 0)
        plate = read_picture(argv[1], &size[0], &size[1]);
    MPI_Bcast(size, 2, MPI_INT, 0, MPI_COMM_WORLD);
    int rows = grid_rows(processes), columns = processes / rows;
    if (size[0] < rows || size[1] < columns) {
        if (rank == 0)
            fail("too small for this many processes", argv[1]);
        MPI_Barrier(MPI_COMM_WORLD); /* until rank 0 ends the job */
    }
    int *counts = allocate((size_t)processes * sizeof *counts);
    int *starts = allocate((size_t)processes * sizeof *starts);
    for (int i = 0, at = 0; i < processes; at += counts[i++]) {
        struct block block = block_of(i, processes, size[0], size[1]);
        counts[i] = block.height * block.width;
        starts[i] = at;
    }
    if (rank == 0) {
        blocks = allocate((size_t)size[0] * (size_t)size[1] * sizeof *blocks);
        copy_blocks(plate, blocks, 1, processes, size[0], size[1]);
    }
    struct block mine = block_of(rank, processes, size[0], size[1]);
    int height = mine.height, width = mine.width;
    double *inside = allocate((size_t)counts[rank] * sizeof *inside);
    MPI_Scatterv(blocks, counts, starts, MPI_DOUBLE, inside, counts[rank], MPI_DOUBLE, 0, MPI_COMM_WORLD);

    /* Two fields with a halo, taken in turn. */
    size_t stride = (size_t)width + 2, cells = stride * ((size_t)height + 2);
    double *old = allocate(cells * sizeof *old), *new = allocate(cells * sizeof *new);
    memset(old, 0, cells * sizeof *old);
    memset(new, 0, cells * sizeof *new);
    for (int y = 0; y < height; y++)
        memcpy(old + (size_t)(y + 1) * stride + 1, inside + (size_t)y * (size_t)width,
               (size_t)width * sizeof *old);

    /* A communicator for my row of processes, west to east, and one for my column, north to south. */
    MPI_Comm row, column;
    MPI_Comm_split(MPI_COMM_WORLD, rank / columns, rank % columns, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % columns, rank / columns, &column);
    int at_row, at_column;
    MPI_Comm_rank(column, &at_row);
    MPI_Comm_rank(row, &at_column);
    int neighbour[4] = {
        [NORTH] = at_row > 0 ? at_row - 1 : MPI_PROC_NULL,
        [SOUTH] = at_row < rows - 1 ? at_row + 1 : MPI_PROC_NULL,
        [WEST] = at_column > 0 ? at_column - 1 : MPI_PROC_NULL,
        [EAST] = at_column < columns - 1 ? at_column + 1 : MPI_PROC_NULL,
    };
    /* A column of the field: one double from each line. */
    MPI_Datatype line_of_cells, column_of_cells;
    MPI_Type_contiguous(width, MPI_DOUBLE, &line_of_cells);
    MPI_Type_vector(height, 1, (int)stride, MPI_DOUBLE, &column_of_cells);
    MPI_Type_commit(&line_of_cells);
    MPI_Type_commit(&column_of_cells);

    double start = MPI_Wtime(), residual = 1;
    int done = 0;
    while (done < steps && residual > AT_REST) {
        double *first = old + stride + 1;
        double *last = first + (size_t)(height - 1) * stride;
        MPI_Request requests[8];
        MPI_Irecv(first - stride, 1, line_of_cells, neighbour[NORTH], 0, column, &requests[0]);
        MPI_Irecv(last + stride, 1, line_of_cells, neighbour[SOUTH], 0, column, &requests[1]);
        MPI_Irecv(first - 1, 1, column_of_cells, neighbour[WEST], 0, row, &requests[2]);
        MPI_Irecv(first + width, 1, column_of_cells, neighbour[EAST], 0, row, &requests[3]);
        MPI_Isend(first, 1, line_of_cells, neighbour[NORTH], 0, column, &requests[4]);
        MPI_Isend(last, 1, line_of_cells, neighbour[SOUTH], 0, column, &requests[5]);
        MPI_Isend(first, 1, column_of_cells, neighbour[WEST], 0, row, &requests[6]);
        MPI_Isend(first + width - 1, 1, column_of_cells, neighbour[EAST], 0, row, &requests[7]);

        double largest = step(old, new, stride, 2, height, 2, width);
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
        mirror(old, stride, height, width, neighbour);

        double edges[4] = {
            step(old, new, stride, 1, 2, 1, width + 1),
            height > 1 ? step(old, new, stride, height, height + 1, 1, width + 1) : 0,
            step(old, new, stride, 2, height, 1, 2),
            width > 1 ? step(old, new, stride, 2, height, width, width + 1) : 0,
        };
        for (int i = 0; i < 4; i++)
            largest = fmax(largest, edges[i]);

        double *swap = old;
        old = new;
        new = swap;
        if (++done % CHECK_EVERY == 0 || done == steps)
            MPI_Allreduce(&largest, &residual, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    double seconds = MPI_Wtime() - start;

    /* Rank 0 collects the blocks. */
    for (int y = 0; y < height; y++)
        memcpy(inside + (size_t)y * (size_t)width, old + (size_t)(y + 1) * stride + 1,
               (size_t)width * sizeof *old);
    MPI_Gatherv(inside, counts[rank], MPI_DOUBLE, blocks, counts, starts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double before = 0, after = 0;
        uint64_t checksum = 0xcbf29ce484222325; /* FNV-1a */
        size_t all = (size_t)size[0] * (size_t)size[1];
        for (size_t i = 0; i < all; i++)
            before += plate[i];
        copy_blocks(plate, blocks, 0, processes, size[0], size[1]);
        for (size_t i = 0; i < all; i++) {
            unsigned char bytes[sizeof(double)];
            memcpy(bytes, &plate[i], sizeof bytes);
            for (size_t b = 0; b < sizeof bytes; b++)
                checksum = (checksum ^ bytes[b]) * 0x100000001b3;
            after += plate[i];
        }
        write_picture(argv[2], plate, size[0], size[1]);
        printf("plate: %d x %d cells\n", size[0], size[1]);
        printf("steps: %d, residual: %.3e\n", done, residual);
        printf("heat: %.6f before, %.6f after\n", before, after);
        printf("checksum: %016llx\n", (unsigned long long)checksum);
        fprintf(stderr, "%d processes in %d rows and %d columns: %.3f s\n", processes, rows, columns, seconds);
        /* Nothing passes the edge, so the heat is what it was, but for rounding. */
        if (!(fabs(after - before) <= 1e-9 * before))
            fail("heat was lost or made: this is an error", argv[2]);
    }

    MPI_Type_free(&line_of_cells);
    MPI_Type_free(&column_of_cells);
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    free(plate);
    free(blocks);
    free(inside);
    free(counts);
    free(starts);
    free(old);
    free(new);
    MPI_Finalize();
    return 0;
}
