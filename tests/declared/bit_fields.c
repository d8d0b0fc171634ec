/* Bit-fields of each kind in one block: signed, wide, over a unit's end, of enumerators, within a struct. What the program
 * itself reads of them is printed, as conditions of --where. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum mode { IDLE, BUSY, DONE = 5 };

struct flags {
    unsigned low : 3;
    int small : 5;
    unsigned : 0;
    unsigned long wide : 40;
    long negative : 20;
    bool on : 1, off : 1;
    enum mode mode : 4;
    uint8_t byte : 7;
    unsigned short plain;
    struct {
        unsigned a : 1, b : 6;
        int c : 9;
    } inner;
    unsigned last : 32;
};

struct flags *kept[2];

int main(void) {
    struct flags *f = kept[0] = calloc(1, sizeof *f);
    kept[1] = calloc(1, sizeof *f);
    f->low = 5;
    f->small = -11;
    f->wide = 0xABCDEF1234ul;
    f->negative = -345678;
    f->on = true;
    f->mode = DONE;
    f->byte = 99;
    f->plain = 54321;
    f->inner.a = 1;
    f->inner.b = 42;
    f->inner.c = -200;
    f->last = 4000000000u;
    printf("low == %lld;small == %lld;wide == %lld;negative == %lld;on == %lld;mode == %lld;byte == %lld;plain == %lld;"
           "inner.a == %lld;inner.b == %lld;inner.c == %lld;last == %lld\n",
           (long long)f->low, (long long)f->small, (long long)f->wide, (long long)f->negative, (long long)f->on,
           (long long)f->mode, (long long)f->byte, (long long)f->plain, (long long)f->inner.a, (long long)f->inner.b,
           (long long)f->inner.c, (long long)f->last);
    fflush(stdout);
    return getchar();
}
