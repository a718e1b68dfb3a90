/* C's part of threads_callbacks.F90: threads. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

void work(int number);

static void *start(void *number)
{
    work((int)(intptr_t)number);
    return NULL;
}

void in_threads(int threads)
{
    pthread_t all[16];
    if (threads > 16)
        abort();
    for (int i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, start, (void *)(intptr_t)i))
            abort();
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
}
