/* The least that any tool can do for a histogram of a heap: map the core and follow its size headers.
 *
 *     follow CORE OFFSET FIRST END [OFFSET FIRST END]...
 *
 * Each heap is told by the file offset of its segment's address 0 (an unsigned difference), its first chunk and its
 * end; nothing is looked for, and nothing is checked but that the chunks end where they should. Prints the chunks,
 * their bytes and those that are free (the successor's PREV_INUSE is clear). */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
    struct stat info;
    uint64_t chunks = 0, bytes = 0, free_chunks = 0, free_bytes = 0;
    int file, i;
    const char *map;
    if (argc < 5 || (file = open(argv[1], O_RDONLY)) < 0 || fstat(file, &info)) return 2;
    map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (map == MAP_FAILED) return 2;
    for (i = 2; i + 2 < argc; i += 3) {
        uint64_t shift = strtoull(argv[i], NULL, 0), chunk = strtoull(argv[i + 1], NULL, 0);
        uint64_t end = strtoull(argv[i + 2], NULL, 0), last = 0;
        while (chunk < end) {
            uint64_t word = *(const uint64_t *)(map + (chunk + 8 + shift)), size = word & ~(uint64_t)7;
            if (last && !(word & 1)) free_chunks++, free_bytes += last;
            if (size < 32) break;
            chunks++;
            bytes += size;
            last = size;
            chunk += size;
        }
    }
    printf("%llu %llu %llu %llu\n", (unsigned long long)chunks, (unsigned long long)bytes,
           (unsigned long long)free_chunks, (unsigned long long)free_bytes);
    return 0;
}
