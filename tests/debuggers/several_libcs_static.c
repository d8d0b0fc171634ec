#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char buffers[2][8192];

static void fill(void *(*take)(size_t), void (*give)(void *), int n) {
    void *block[500];
    int i;
    for (i = 0; i < n; i++) memset(block[i] = take(2000 + 10 * i), 0x55, 2000);
    for (i = 0; i < n; i += 2) give(block[i]);
}

int main(int argc, char **argv) {
    char name[4000];
    void *library = dlopen("libc.so.6", RTLD_NOW);
    FILE *mine, *(*open)(const char *, const char *), *theirs;
    int (*info)(int, FILE *), (*flush)(FILE *), (*set)(FILE *, char *, int, size_t);
    if (argc < 2 || !library) return fprintf(stderr, "%s\n", dlerror()), 1;
    mkdir(argv[1], 0755);
    open = (FILE * (*)(const char *, const char *)) dlsym(library, "fopen");
    info = (int (*)(int, FILE *))dlsym(library, "malloc_info");
    flush = (int (*)(FILE *))dlsym(library, "fflush");
    set = (int (*)(FILE *, char *, int, size_t))dlsym(library, "setvbuf");
    snprintf(name, sizeof name, "%s/info.xml", argv[1]);
    mine = fopen(name, "w");
    setvbuf(mine, buffers[0], _IOFBF, sizeof buffers[0]);
    snprintf(name, sizeof name, "%s/info2.xml", argv[1]);
    theirs = open(name, "w");
    set(theirs, buffers[1], _IOFBF, sizeof buffers[1]);
    setvbuf(stdout, NULL, _IONBF, 0);
    fill(malloc, free, 500);
    fill((void *(*)(size_t))dlsym(library, "malloc"), (void (*)(void *))dlsym(library, "free"), 300);
    if (malloc_info(0, mine) || info(0, theirs)) return 2;
    fflush(mine);
    flush(theirs);
    /* dprintf would call malloc */
    snprintf(name, sizeof name, "ready %d\n", (int)getpid());
    if (write(1, name, strlen(name)) < 0) return 3;
    return read(0, name, 1) == 1;
}
