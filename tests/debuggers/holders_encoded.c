#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define MOST 3000
uintptr_t tab[MOST], chain;
void *volatile plain;
static size_t sums[2];
static __attribute__((noinline)) void *block(size_t size, size_t *sum) {
    void *made = memset(malloc(size), 1, size);
    *sum += malloc_usable_size(made) + sizeof(size_t);
    return made;
}
static uintptr_t tagged(void *block, size_t count) { return (uintptr_t)block | (uintptr_t)(count % 1000 + 1) << 48; }
static __attribute__((noinline)) void fill(size_t held, size_t lost) {
    for (size_t i = 0; i < lost; i++) block(1000, &sums[1]);
    for (size_t i = 0; i < held; i++) {
        tab[i] = tagged(block(4000, &sums[0]), i);
        uintptr_t *node = block(500, &sums[0]);
        node[9] = chain;
        chain = tagged(node, i);
    }
}
/* What a tagged pointer and one plain one lead to, and a mapping as well. */
static __attribute__((noinline)) void *share(void) {
    void **known = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void **first = (void **)(tab[0] & ((uintptr_t)1 << 48) - 1);
    first[20] = known[20] = block(200, &sums[0]);
    return known[20];
}
static __attribute__((noinline)) void forget(void) {
    volatile char here[65536];
    for (size_t i = 0; i < sizeof here; i++) here[i] = 0;
}
int main(int count, char **words) {
    if (count < 4 || !(plain = calloc(1, strtoul(words[1], NULL, 10)))) return 1;
    fill(strtoul(words[2], NULL, 10), strtoul(words[3], NULL, 10));
    void *shared = count > 4 ? share() : NULL;
    uintptr_t hidden = ~(uintptr_t)shared;
    shared = NULL;
    forget();
    printf("%zu %zu %#zx\n", sums[0], sums[1], (size_t)~hidden);
    fflush(stdout);
    hidden = 0;
    forget();
    fflush(stdout);
    for (;;) pause();
}
