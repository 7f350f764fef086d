/* Starts a program again and again and says how long each run took.
 *
 * usage: spawn COUNT exit PROGRAM ARG...         until it ended
 *        spawn COUNT fed PROGRAM ARG... <ASK     until it ended, having been given ASK, which it need not read
 *        spawn COUNT line PROGRAM ARG... <ASK    until the first line of its output, having been given ASK
 * One line a run: wall ns, CPU us of the whole run, peak resident KiB, exit status.
 * A program in mode `line` must end once its input is closed. This one is small because a child's
 * peak memory starts from its parent's.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void first_line(int from) {
    char got[1 << 16];
    ssize_t r;
    while ((r = read(from, got, sizeof got)) > 0)
        if (memchr(got, '\n', r)) return;
    fputs("the program ended without a line\n", stderr);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int by_line = !strcmp(argv[2], "line"), fed = by_line || !strcmp(argv[2], "fed");
    char ask[1 << 16];
    ssize_t ask_len = fed ? read(0, ask, sizeof ask) : 0;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    for (int i = atoi(argv[1]); i > 0; i--) {
        int in[2] = {null, -1}, out[2] = {-1, null}, status;
        if (fed && pipe2(in, O_CLOEXEC)) return 1;
        if (by_line && pipe2(out, O_CLOEXEC)) return 1;
        struct rusage used;
        long long start = now();
        pid_t pid = vfork();
        if (pid == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            execvp(argv[3], argv + 3);
            _exit(127);
        }
        long long took = 0;
        if (fed) {
            close(in[0]);
            if (write(in[1], ask, ask_len) != ask_len && by_line) return 1;
            if (!by_line) close(in[1]);
        }
        if (by_line) {
            close(out[1]);
            first_line(out[0]);
            took = now() - start;
            close(in[1]);
            char rest[4096];
            while (read(out[0], rest, sizeof rest) > 0) {}
            close(out[0]);
        }
        wait4(pid, &status, 0, &used);
        if (!by_line) took = now() - start;
        printf("%lld %ld %ld %d\n", took,
               (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000l + used.ru_utime.tv_usec + used.ru_stime.tv_usec,
               used.ru_maxrss, status);
    }
    return 0;
}
