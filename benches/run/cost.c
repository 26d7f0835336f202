/* Nanoseconds of a processor that each read or open of a file takes, one number for each round: cost read|lock|open PATH COUNT ROUNDS
   "read" reads 4 KiB at random places by pread, "lock" the same after flock, "open" opens and closes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEN = 4096 };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 5) return fprintf(stderr, "cost read|lock|open PATH COUNT ROUNDS\n"), 2;
    const char *what = arguments[1], *path = arguments[2];
    int calls = atoi(arguments[3]), rounds = atoi(arguments[4]), fd = open(path, O_RDONLY);
    unsigned int state = 1;
    char bytes[LEN];
    struct stat s;
    if (fd < 0 || fstat(fd, &s) != 0 || s.st_size < 2 * LEN) return perror(path), 1;
    if (strcmp(what, "lock") == 0 && (flock(fd, LOCK_SH) || flock(fd, LOCK_UN))) return perror("flock"), 1;
    for (int round = 0; round <= rounds; round++) {
        double begin = now();
        for (int call = 0; call < calls; call++) {
            if (strcmp(what, "open") == 0) {
                close(open(path, O_RDONLY));
            } else {
                off_t at = (off_t)(rand_r(&state) % (s.st_size / LEN - 1)) * LEN;
                if (pread(fd, bytes, LEN, at) != LEN) return perror("pread"), 1;
            }
        }
        // The first round is for the caches.
        if (round) printf("%.1f\n", (now() - begin) / calls);
    }
    return 0;
}
