#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
static volatile char sink;
int main(void) {
    char *m = mmap(0, 66 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    mprotect(m, 64 * 4096, PROT_READ | PROT_WRITE);
    madvise(m, 64 * 4096, MADV_NOHUGEPAGE);
    memset(m, 1, 40 * 4096);
    if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
    memset(m, 2, 8 * 4096);
    printf("shared %p\n", m);
    char *n = mmap(0, 18 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    mprotect(n, 16 * 4096, PROT_READ | PROT_WRITE);
    memset(n, 1, 8 * 4096);
    if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
    for (int i = 8; i < 16; i++) sink = n[i * 4096];
    printf("mixed %p\nready 0\n", n); fflush(stdout);
    for (;;) pause();
}
