#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t done;
static void *kept[8][200];
static void *work(void *number) {
    void **mine = kept[(size_t)number];
    for (int i = 0; i < 200; i++) mine[i] = memset(malloc(20000 + i), 1, 20000);
    for (int i = 0; i < 200; i += 2) free(mine[i]);
    pthread_barrier_wait(&done);
    for (;;) pause();
}
int main(int argc, char **argv) {
    size_t threads = atol(argv[1]);
    pthread_barrier_init(&done, NULL, threads + 1);
    for (size_t i = 0; i < threads; i++) { pthread_t thread; pthread_create(&thread, NULL, work, (void *)i); }
    pthread_barrier_wait(&done);
    struct mallinfo2 info = mallinfo2();
    printf("arena %zx\nready 0\n", info.arena); fflush(stdout);
    for (;;) pause();
}
