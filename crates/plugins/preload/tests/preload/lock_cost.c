/* Locks many files in a folder, and prints how many seconds of a processor the first and the last of them took. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    enum { ALL = 800, PART = 100 };
    static int files[ALL];
    static double after[ALL];
    char name[4096];
    close(open(arguments[1], O_RDONLY));
    for (int index = 0; index < ALL; index++) {
        snprintf(name, sizeof name, "%s/%d", arguments[2], index);
        files[index] = open(name, O_RDWR | O_CREAT, 0600);
    }
    double begin = now();
    for (int index = 0; index < ALL; index++) {
        struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(files[index], F_SETLK, &range) != 0) return 1;
        after[index] = now();
    }
    printf("%f %f\n", after[PART - 1] - begin, after[ALL - 1] - after[ALL - PART - 1]);
    return 0;
}
