/* Memory in every state that residency knows, and two named threads; prints where each thing is, then parks.
   Each area lies between two PROT_NONE pages, so that it stays a mapping of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long page;
static volatile char sink;
static pthread_barrier_t started;

static char *area(const char *name, int pages) {
    char *memory = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + page, pages * page, PROT_READ | PROT_WRITE);
    madvise(memory + page, pages * page, MADV_NOHUGEPAGE);
    printf("%s %p\n", name, memory + page);
    return memory + page;
}

static void *run(void *name) {
    char here;
    prctl(PR_SET_NAME, name);
    printf("tid_%s %#lx\nsp_%s %p\ntp_%s %p\n", (char *)name, (long)syscall(SYS_gettid), (char *)name, &here,
           (char *)name, __builtin_thread_pointer());
    pthread_barrier_wait(&started);
    for (;;)
        pause();
}

int main(void) {
    page = sysconf(_SC_PAGESIZE);
    area("untouched", 64);
    char *touched = area("touched", 64);
    for (int i = 0; i < 64; i += 2)
        touched[i * page + 100] = 'x';
    char *looked_at = area("looked_at", 64);
    for (int i = 0; i < 64; i++)
        sink = looked_at[i * page];
    memset(area("zeroed", 16), 0, 16 * page);
    char *locked = area("locked", 8);
    mlock(locked, 8 * page);
    char *partly = area("partly", 48);
    memset(partly, 'p', 48 * page);
    madvise(partly + 16 * page, 16 * page, MADV_DONTDUMP);
    char *cleared = area("cleared", 32);
    memset(cleared, 'c', 32 * page);
    madvise(cleared + 8 * page, 8 * page, MADV_DONTNEED);
    char *shared = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 's', 2 * page);
    printf("shared %p\n", shared);
    char *block = malloc(100000);
    memset(block, 'm', 100000);
    printf("block %p\n", block);
    pthread_barrier_init(&started, NULL, 3);
    pthread_t thread;
    pthread_create(&thread, NULL, run, "first");
    pthread_create(&thread, NULL, run, "second");
    pthread_barrier_wait(&started);
    char *cliff = area("cliff", 3);
    munmap(cliff + page, 3 * page);
    printf("tp_main %p\nready 0\n", __builtin_thread_pointer());
    fflush(stdout);
    for (;;)
        pause();
}
