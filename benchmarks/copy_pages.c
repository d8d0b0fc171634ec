/* The least time in which all processors copy memory of another process: first that of making room for it.
 *
 *     copy_pages PID FILE
 *
 * FILE has pairs of words of 64 bits: an address, and how many bytes from there. The room is anonymous memory, of huge
 * pages where the kernel has any, and made as the copy is: a step at a time from as many threads as there are
 * processors. Prints the seconds for the room, and those for the copy. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { STEP = 8 << 20, HUGE = 2 << 20 };

struct part {
    char *ours, *theirs;
    size_t bytes;
};

static struct part *parts;
static size_t part_count;
static atomic_size_t next_part;
static atomic_int failed;
static pid_t pid;

static void *make_room(void *unused) {
    size_t each;
    (void)unused;
    while ((each = atomic_fetch_add(&next_part, 1)) < part_count)
        if (madvise(parts[each].ours, parts[each].bytes, MADV_POPULATE_WRITE)) failed = 1;
    return NULL;
}

static void *copy(void *unused) {
    size_t each;
    (void)unused;
    while ((each = atomic_fetch_add(&next_part, 1)) < part_count) {
        struct iovec ours = {parts[each].ours, parts[each].bytes}, theirs = {parts[each].theirs, parts[each].bytes};
        if (process_vm_readv(pid, &ours, 1, &theirs, 1, 0) != (ssize_t)parts[each].bytes) failed = 1;
    }
    return NULL;
}

static double seconds_for(void *(*work)(void *)) {
    long threads = sysconf(_SC_NPROCESSORS_ONLN), each;
    pthread_t *others = malloc((size_t)threads * sizeof *others);
    struct timespec start, end;
    if (!others) exit(2);
    next_part = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (each = 1; each < threads; each++)
        if (pthread_create(&others[each], NULL, work, NULL)) exit(2);
    work(NULL);
    for (each = 1; each < threads; each++) pthread_join(others[each], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    free(others);
    return (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
}

int main(int argc, char **argv) {
    uint64_t span[2];
    size_t all = 0, most = 0;
    double room;
    char *at;
    FILE *file;
    if (argc != 3 || !(file = fopen(argv[2], "rb"))) return 2;
    pid = (pid_t)atoi(argv[1]);
    while (fread(span, sizeof span, 1, file) == 1) {
        all += span[1] + HUGE;
        most += span[1] / STEP + 1;
    }
    rewind(file);
    parts = malloc(most * sizeof *parts);
    at = mmap(NULL, all + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!parts || at == MAP_FAILED) return 2;
    madvise(at, all + HUGE, MADV_HUGEPAGE);
    while (fread(span, sizeof span, 1, file) == 1) {
        /* what is large begins with a huge page */
        if (span[1] >= HUGE) at += -(uintptr_t)at % HUGE;
        while (span[1]) {
            size_t bytes = span[1] < STEP ? span[1] : STEP;
            parts[part_count++] = (struct part){at, (char *)(uintptr_t)span[0], bytes};
            at += bytes;
            span[0] += bytes;
            span[1] -= bytes;
        }
    }
    room = seconds_for(make_room);
    printf("%.6f ", room);
    printf("%.6f\n", seconds_for(copy));
    return failed;
}
