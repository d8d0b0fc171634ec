#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
char *pool, *large[4], *block;
int main(int argc, char **argv) {
    size_t bytes = atol(argv[2]), i;
    if (!strcmp(argv[1], "library")) {
        char *room = mmap(0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
        /* no hole above has room for a library: it goes right below */
        do at = mmap(0, 512 << 10, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); while (at > room);
        munmap(at, 512 << 10);
        if (!dlopen("libm.so.6", RTLD_NOW)) return 1;
        pool = mmap(room, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    } else {
        pool = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (i = 0; i < 4; i++) memset(large[i] = malloc(1 << 20), 1, 1 << 20);
    }
    memset(pool, 1, bytes);
    for (i = 0; i < BLOCKS; i++) ((void **) pool)[512 * i] = memset(malloc(EACH), 1, EACH);
    printf("pool %zx\nready 0\n", (size_t) pool);
    fflush(stdout);
    for (;;) pause();
}
