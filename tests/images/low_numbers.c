#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry { const char *name; struct entry *next; unsigned long hash; };
struct link { char front[64]; void *inside; };

/* by one pointer into a block: nearer than `keeper` */
struct entry *hashes;
char *cursor;
struct link *keeper;

static void *made(size_t bytes) {
    void *block = malloc(bytes);
    return memset(block, 0, bytes);
}

static void put(unsigned long hash) {
    struct entry *entry = made(sizeof *entry);
    entry->next = hashes;
    entry->hash = hash;
    hashes = entry;
}

/* hidden, so that no word on the stack or in a register leads to a block */
static unsigned long hidden[4];

static __attribute__((noinline)) void allocate(void) {
    struct link *first = made(sizeof *first), *second = made(sizeof *second);
    char *shared = made(1000), *lonely = made(2000), *aligned = made(3000), *read = made(4000);
    keeper = first;
    first->inside = second->front + 40;
    second->inside = shared + 40;
    put((unsigned long)shared + 777);
    put((unsigned long)lonely + 777);
    put((unsigned long)aligned + 800);
    cursor = read + 777;
    hidden[0] = ~(unsigned long)shared;
    hidden[1] = ~(unsigned long)lonely;
    hidden[2] = ~(unsigned long)aligned;
    hidden[3] = ~(unsigned long)read;
}

static __attribute__((noinline)) void overwrite_the_stack(void) {
    volatile char frames[4096];
    for (size_t each = 0; each < sizeof frames; each++) frames[each] = 0;
}

int main(void) {
    allocate();
    overwrite_the_stack();
    printf("%lx %lx %lx %lx\n", hidden[0], hidden[1], hidden[2], hidden[3]);
    fflush(stdout);
    return getchar() == EOF;
}
