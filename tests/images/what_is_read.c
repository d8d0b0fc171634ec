#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
static pthread_barrier_t all;
static void *run(void *n) {
    char *volatile block = malloc(100);
    free(block); pthread_barrier_wait(&all);
    for (;;) pause();
}
int main(int argc, char **argv) {
    size_t pool = atol(argv[1]); char *at = malloc(100), *got = MAP_FAILED; int threads = atoi(argv[3]);
    if (atoi(argv[2])) memset(at = malloc(1 << 20), 1, 1 << 20); else at = (char *) ((size_t) &pool & ~0xffffffful);
    /* above the block: what is looked through in the order of addresses meets the block first */
    for (size_t gap = 16 << 20; got == MAP_FAILED && gap < 1ul << 44; gap *= 2)
        got = mmap((char *) (((size_t) at + gap) & -4096ul), pool, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) got = mmap(0, pool, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(got, 7, pool);
    pthread_barrier_init(&all, 0, threads + 1);
    for (int n = 0; n < threads; n++) { pthread_t t; pthread_create(&t, 0, run, 0); }
    pthread_barrier_wait(&all);
    printf("block %zx\npool %zx\nready 0\n", (size_t) at, (size_t) got); fflush(stdout);
    for (;;) pause();
}
