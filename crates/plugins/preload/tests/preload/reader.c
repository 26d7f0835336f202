/* Reads a file once for every line of its standard input and prints length and checksum; opened anew each time or kept open. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned char memory[65536];

int main(int count, char **arguments) {
    int is_kept = strcmp(arguments[2], "keep") == 0, fd = -1;
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        if (fd < 0) fd = open(arguments[1], O_RDONLY);
        uint64_t hash = 14695981039346656037ull;
        off_t at = 0;
        ssize_t len;
        while ((len = is_kept ? pread(fd, memory, sizeof memory, at) : read(fd, memory, sizeof memory)) > 0) {
            for (ssize_t index = 0; index < len; index++) hash = (hash ^ memory[index]) * 1099511628211ull;
            at += len;
        }
        printf("%ld %016llx\n", (long)at, (unsigned long long)hash);
        fflush(stdout);
        if (!is_kept) close(fd), fd = -1;
    }
    return 0;
}
