#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>
int main(int argc, char **argv) {
    FILE *first = fopen("/dev/null", "r"), *stream;
    size_t i, size = malloc_usable_size(first);
    volatile char *again;
    fclose(first);
    again = malloc(size);
    for (i = 0; i < size; i++) again[i] = (char)0xA5;
    free((void *)again);
    stream = fopen("/dev/zero", "r");
    if (argc == 2) fgetwc(stream); else fgetc(stream);
    printf("%p %d %zu\n", (void *)stream, (void *)stream == (void *)again, size);
    fflush(stdout);
    return getchar() == EOF;
}
