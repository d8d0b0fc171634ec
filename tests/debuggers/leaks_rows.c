#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { ROWS = 200, INSIDE = 24 };
struct __attribute__((packed)) row { char kind; char *text; } *table;
static __attribute__((noinline)) void fill(void) {
    table = calloc(ROWS, sizeof *table);
    for (int at = 0; at < ROWS; at++) table[at].text = (char *)malloc(90 + at) + INSIDE;
}
static __attribute__((noinline)) void forget(void) {
    volatile char here[1 << 15];
    for (size_t at = 0; at < sizeof here; at++) here[at] = 0;
}
int main(void) {
    fill();
    forget();
    printf("ready\n");
    fflush(stdout);
    pause();
}
