/* Long one-way streams: rank 0 of each pair sends as fast as it can, of each size more than any queue or set of
 * buffers holds, and nothing goes back but a word at the end. */
#include "check.h"

enum { MOST = 60000 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const int sizes[] = {0, 40, 900, 3000, 8000, 14000, MOST};
    const size_t total = argc > 1 ? strtoull(argv[1], NULL, 10) : 64 << 20;
    int other = me ^ 1;
    unsigned char *buffer = allocate(MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && other < ranks; i++) {
        int bytes = sizes[i], count = bytes < 3000 ? 20000 : (int)(total / bytes);
        if (me < other) {
            fill(buffer, bytes, bytes);
            for (int message = 0; message < count; message++) {
                memcpy(buffer, &message, bytes < 4 ? 0 : 4);
                MPI_Send(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
            }
            MPI_Recv(NULL, 0, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int message = 0; message < count; message++) {
                int number = message;
                MPI_Recv(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                memcpy(&number, buffer, bytes < 4 ? 0 : 4);
                SAME(number, message, "number of a message of %d bytes", bytes);
                for (int at = 4; at < bytes; at += 997)
                    SAME(buffer[at], pattern(bytes, at), "byte %d of message %d of %d bytes", at, message, bytes);
            }
            MPI_Send(NULL, 0, MPI_BYTE, other, 2, MPI_COMM_WORLD);
        }
    }
    free(buffer);
    return end("stream");
}
