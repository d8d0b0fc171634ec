#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { PAIRS = 2000, NODES = 200, APART = 96 };
struct number { uint64_t unused[2], value, more[8]; } *kept[PAIRS];
struct node { uint64_t number; intptr_t next; char text[180]; };
intptr_t first;
static __attribute__((noinline)) void fill(void) {
    /* Each number leads into the heap; every fourth to a block that nothing else leads to. */
    for (int at = 0; at < PAIRS; at++) {
        kept[at] = memset(malloc(sizeof **kept), 0, sizeof **kept);
        kept[at]->value = 22 * 2 * APART + APART - 16 + 16 * (at % 4);
        memset(malloc(APART - 8), 0, APART - 8);
    }
    /* Of a list each node but the last has the distance to the next one. */
    struct node *made[NODES];
    for (int at = 0; at < NODES; at++) made[at] = memset(malloc(sizeof(struct node)), 0, sizeof(struct node));
    intptr_t *link = &first;
    for (int at = 0; at < NODES; at++) {
        struct node *next = made[at / 2 + at % 2 * (NODES / 2)];
        *link = (char *)next - (char *)link;
        link = &next->next;
    }
    memset(made, 0, sizeof made);
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
