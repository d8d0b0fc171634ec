/* The least time in which all processors read small places of another process: three words at each.
 *
 *     read_places PID FILE [as-they-are]
 *
 * FILE has the addresses, as words of 64 bits in any order. They are read in the order of addresses, or as they are:
 * what lies in one page as one stretch, by process_vm_readv, from as many threads as there are processors. Iovecs and
 * pages of the destination are made before the time is taken. Prints the seconds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 24, MOST = 512, PAGE = 4096 };

struct call {
    struct iovec *ours, *theirs;
    int our_count, their_count;
    ssize_t bytes;
};

static struct call *calls;
static size_t call_count;
static atomic_size_t next_call;
static atomic_int failed;
static pid_t pid;
static pthread_barrier_t begun;

static int by_address(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void *read_calls(void *unused) {
    size_t each;
    (void)unused;
    pthread_barrier_wait(&begun);
    while ((each = atomic_fetch_add(&next_call, 1)) < call_count) {
        struct call *call = &calls[each];
        if (process_vm_readv(pid, call->ours, call->our_count, call->theirs, call->their_count, 0) != call->bytes)
            failed = 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    static char between[PAGE];
    long threads = sysconf(_SC_NPROCESSORS_ONLN), each;
    pthread_t *others;
    struct iovec *ours, *theirs;
    struct timespec start, end;
    uint64_t *places;
    size_t count, first, at;
    char *words;
    FILE *file;
    if (argc < 3 || !(file = fopen(argv[2], "rb"))) return 2;
    pid = (pid_t)atoi(argv[1]);
    fseek(file, 0, SEEK_END);
    count = (size_t)ftell(file) / sizeof *places;
    rewind(file);
    places = malloc((count + 1) * sizeof *places);
    words = malloc(count * SIZE + 1);
    ours = malloc((2 * count + 1) * sizeof *ours);
    theirs = malloc((count + 1) * sizeof *theirs);
    calls = malloc((count / MOST + 1) * sizeof *calls);
    others = malloc((size_t)threads * sizeof *others);
    if (!places || !words || !ours || !theirs || !calls || !others) return 2;
    if (fread(places, sizeof *places, count, file) != count) return 2;
    if (argc == 3) qsort(places, count, sizeof *places, by_address);
    memset(words, 1, count * SIZE);
    for (first = 0; first < count; first += MOST) {
        struct call *call = &calls[call_count++];
        uint64_t last = 0;
        *call = (struct call){ours, theirs, 0, 0, 0};
        for (at = first; at < count && at < first + MOST; at++) {
            uint64_t place = places[at], gap = place - last;
            if (call->their_count && place >= last && (place + SIZE - 1) / PAGE == (last - 1) / PAGE) {
                if (gap) *ours++ = (struct iovec){between, gap}, call->our_count++;
                theirs[-1].iov_len += gap + SIZE;
                call->bytes += (ssize_t)gap;
            } else {
                *theirs++ = (struct iovec){(void *)(uintptr_t)place, SIZE};
                call->their_count++;
            }
            *ours++ = (struct iovec){words + at * SIZE, SIZE};
            call->our_count++;
            call->bytes += SIZE;
            last = place + SIZE;
        }
    }
    pthread_barrier_init(&begun, NULL, (unsigned)threads);
    for (each = 1; each < threads; each++)
        if (pthread_create(&others[each], NULL, read_calls, NULL)) return 2;
    clock_gettime(CLOCK_MONOTONIC, &start);
    read_calls(NULL);
    for (each = 1; each < threads; each++) pthread_join(others[each], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.6f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
    return failed;
}
